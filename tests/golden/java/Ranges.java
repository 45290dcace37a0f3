package org.apache.iceberg.golden;

import java.util.List;

/** Positions as ranges: the first and the one after the last. */
public final class Ranges {
  private Ranges() {}

  /** Takes one more position into the last range, or else into a new one. */
  public static void extend(List<long[]> ranges, long pos) {
    long[] last = ranges.isEmpty() ? null : ranges.get(ranges.size() - 1);
    if (last != null && last[1] == pos) {
      last[1] = pos + 1;
    } else {
      ranges.add(new long[] {pos, pos + 1});
    }
  }
}
