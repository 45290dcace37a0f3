package org.apache.iceberg.deletes;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.stream.LongStream;
import java.util.stream.Stream;
import java.util.zip.CRC32;
import org.apache.iceberg.DeleteFile;
import org.apache.iceberg.FileFormat;
import org.apache.iceberg.FileMetadata;
import org.apache.iceberg.PartitionSpec;
import org.apache.iceberg.golden.GoldenDirectory;
import org.apache.iceberg.golden.Ranges;
import org.apache.iceberg.shaded.com.fasterxml.jackson.databind.PropertyNamingStrategies;
import org.apache.iceberg.shaded.com.fasterxml.jackson.databind.annotation.JsonNaming;

/** Deletion-vector-v1 blobs, each as the DV writer serialises a data file's positions. */
public final class GoldenDeletionVectors {
  private static final long CONTAINER = 1L << 16;
  private static final long BITMAP = 1L << 32;
  private static final int MAGIC_NUMBER = 1681511377;
  private static final String SERIALIZE = "BitmapPositionDeleteIndex.serialize";

  private final GoldenDirectory directory;
  private final List<Map<String, Object>> index = new ArrayList<>();

  private GoldenDeletionVectors(GoldenDirectory directory) {
    this.directory = directory;
  }

  public static void write(GoldenDirectory directory) {
    GoldenDeletionVectors golden = new GoldenDeletionVectors(directory);
    golden.writeSmall();
    golden.writeContainerChoices();
    golden.writeManyContainers();
    golden.writeLargePositions();
    golden.writeRandom();
    golden.writeMerged();
    golden.writeRangeDeletes();
    golden.writeNotRunEncoded();
    directory.writeIndex(golden.index);
  }

  private void writeSmall() {
    fresh("empty", "no position, no bitmap");
    fresh("single_zero", "the first row", 0);
    fresh("zero_and_two", "two positions with a gap", 0, 2);
    fresh("one_and_three", "two positions with a gap, not the first row", 1, 3);
    fresh("hundreds", "three positions", 100, 150, 200);
    fresh("java_small_alternating", "TestBitmapPositionDeleteIndex, small alternating values", 1, 3, 5, 7, 9);
    fresh("java_small_and_large", "TestBitmapPositionDeleteIndex, small and large values: the upper two are"
        + " negative as Java ints", 100, 101, Integer.MAX_VALUE + 100L, Integer.MAX_VALUE + 101L);
    fresh("run_of_two", "a run would take 6 bytes, the array takes 4: array", 0, 1);
    fresh("run_of_three", "a run and the array both take 6 bytes: array", 0, 1, 2);
    fresh("run_of_four", "a run takes 6 bytes, the array 8: run", 0, 1, 2, 3);
    freshRange("dense_run", "one run", 0, 1000);
    freshRange("last_rows_of_a_file", "one run that starts late", 999_900, 1_000_000);
  }

  private void writeContainerChoices() {
    freshRange("full_container", "every position of a container: one run", 0, CONTAINER);
    fresh("full_container_without_one", "two runs",
        LongStream.range(0, CONTAINER).filter(pos -> pos != 32_768).toArray());
    formula("array_4095", "one below the array limit", new Formula(2, 0, BITMAP, 4095, 1));
    formula("array_4096", "the largest array container", new Formula(2, 0, BITMAP, 4096, 1));
    formula("bitmap_4097", "the smallest bitmap container", new Formula(2, 0, BITMAP, 4097, 1));
    formula("alternating_evens", "half of two containers", new Formula(2, 0, BITMAP, 65_536, 1));
    formula("alternating_odds", "half of a container", new Formula(2, 1, BITMAP, 32_768, 1));
    formula("runs_of_two", "runs as large as the array: array", new Formula(10, 0, BITMAP, 1000, 2));
    formula("runs_of_three", "runs smaller than the array: run", new Formula(10, 0, BITMAP, 1000, 3));
    formula("runs_2047", "8190 bytes as runs, 8192 as a bitmap: run", new Formula(16, 0, BITMAP, 2047, 8));
    formula("runs_2048", "8194 bytes as runs, 8192 as a bitmap: bitmap", new Formula(16, 0, BITMAP, 2048, 8));
  }

  private void writeManyContainers() {
    fresh("container_border", "the last position of a container and the first of the next", 65_535, 65_536);
    freshRange("run_over_container_border", "one range, one run in each of two containers", 65_000, 66_000);
    fresh("two_array_containers", "no run container: the other cookie", 3, 65_540);
    freshRange("three_run_containers", "fewer than 4 containers: no offset header", 60_000, 140_000);
    freshRange("four_run_containers", "4 containers: offset header beside the run flags", 60_000, 250_000);
    freshRange("nine_run_containers", "two bytes of run flags", 60_000, 550_000);
    formula("three_hundred_containers", "one position in each", new Formula(CONTAINER, 7, BITMAP, 300, 1));
    freshRange("sixteen_million", "256 full containers", 0, 1L << 24);
    rangeCalls("java_all_container_types", "TestBitmapPositionDeleteIndex: arrays and runs in two bitmaps",
        new long[][] {
          {5, 6}, {7, 8}, {CONTAINER + 1, CONTAINER + 1000}, {2 * CONTAINER + 1, 3 * CONTAINER - 1},
          {BITMAP + 10, BITMAP + 11}, {BITMAP + 20, BITMAP + 21},
          {BITMAP + CONTAINER + 10, BITMAP + CONTAINER + 500},
          {BITMAP + 2 * CONTAINER + 1, BITMAP + 3 * CONTAINER - 1}
        });
    formula("mixed_containers", "array, bitmap and run container in one bitmap, one container left out",
        new Formula(4999, 1, BITMAP, 3, 1),
        new Formula(3, CONTAINER, BITMAP, 20_000, 1),
        new Formula(1, 4 * CONTAINER, BITMAP, 1, 30_000));
  }

  private void writeLargePositions() {
    fresh("int_sign_border", "positions 2^31-1 and 2^31", Integer.MAX_VALUE, 1L << 31);
    fresh("last_of_first_bitmap", "position 2^32-1", BITMAP - 1);
    fresh("bitmap_border", "the last position of bitmap 0 and the first of bitmap 1", BITMAP - 1, BITMAP);
    freshRange("run_over_bitmap_border", "a range in two bitmaps", BITMAP - 10, BITMAP + 10);
    fresh("key_one_only", "bitmap 0 is written although it is empty", BITMAP);
    fresh("keys_zero_and_three", "empty bitmaps 1 and 2 between", 5, 3 * BITMAP + 6);
    freshRange("key_five_run", "five empty bitmaps before a run", 5 * BITMAP + 100, 5 * BITMAP + 5000);
    fresh("key_hundred", "a hundred empty bitmaps before one position", 100 * BITMAP + 42);
    fresh("key_thousand", "a thousand empty bitmaps",
        1000 * BITMAP + CONTAINER + 1);
  }

  private void writeRandom() {
    fresh("random_sparse_32", "java.util.Random(1), 100 draws below 2^31", random(1, 100, 1L << 31));
    fresh("random_sparse_34", "java.util.Random(2), 400 draws below 2^34", random(2, 400, 1L << 34));
    fresh("random_sparse_file", "java.util.Random(3), 1000 draws below 10^6", random(3, 1000, 1_000_000));
    fresh("random_half", "java.util.Random(4), 4000 draws below 5000", random(4, 4000, 5000));
    fresh("random_dense", "java.util.Random(5), 20000 draws below 8000", random(5, 20_000, 8000));
    fresh("random_clusters", "java.util.Random(6), runs of up to 200 below 2^20", randomClusters(6, 200, 1L << 20));
    fresh("random_clusters_34", "java.util.Random(7), runs of up to 3000 below 2^34",
        randomClusters(7, 300, 1L << 34));
    formula("scattered_arrays", "multiples of a prime: array containers", new Formula(7919, 11, 6_000_011, 20_000, 1));
    formula("scattered_bitmaps", "multiples of a prime: bitmap containers",
        new Formula(104_729, 5, 500_009, 60_000, 1));
  }

  private void writeMerged() {
    merged("merged_disjoint", "two arrays", Positions.of(7, 9), Positions.of(1, 3));
    merged("merged_overlapping", "positions in both count once", Positions.of(1, 2, 3), Positions.of(3, 4, 5));
    merged("merged_into_run", "two halves become one run", Positions.of(range(0, 500)), Positions.of(range(500, 1000)));
    merged("merged_run_tie", "the previous run container stays one; a fresh one is an array (cardinality = 2 x runs)",
        Positions.of(149, 185), Positions.of(0, 1, 2, 3, 4, 60));
    merged("merged_over_array_limit", "two arrays become a bitmap",
        Positions.ofFormulas(new Formula(2, 6000, BITMAP, 3000, 1)),
        Positions.ofFormulas(new Formula(2, 0, BITMAP, 3000, 1)));
    merged("merged_to_full_container", "evens and odds become one run",
        Positions.ofFormulas(new Formula(2, 0, BITMAP, 32_768, 1)),
        Positions.ofFormulas(new Formula(2, 1, BITMAP, 32_768, 1)));
    merged("merged_previous_has_higher_key", "the new positions end before the previous ones",
        Positions.of(1), Positions.of(2 * BITMAP + 5));
    merged("merged_previous_has_lower_key", "the new positions end after the previous ones",
        Positions.of(2 * BITMAP + 5), Positions.of(1));
    merged("merged_previous_empty", "an empty DV is legal to read", Positions.of(4, 6), Positions.of());
    merged("merged_random", "java.util.Random(8) and (9), 600 draws below 200000",
        Positions.of(random(8, 600, 200_000)), Positions.of(random(9, 600, 200_000)));
  }

  private void writeRangeDeletes() {
    rangeCalls("range_call_of_two", "PositionDeleteIndex.delete(start, end) of two positions", new long[][] {{0, 2}});
    rangeCalls("range_calls", "delete(start, end) three times, touching and apart",
        new long[][] {{10, 20}, {20, 30}, {1000, 1500}});
    rangeCalls("range_calls_of_two", "delete(start, end): runs of two, cardinality = 2 x runs",
        new long[][] {{0, 2}, {10, 12}, {20, 22}, {30, 32}});
    rangeCalls("range_call_over_bitmaps", "delete(start, end) over a bitmap border",
        new long[][] {{BITMAP - 70_000, BITMAP + 70_000}});
  }

  /** Legal bytes that Java's DV writer does not produce: RoaringPositionBitmap without runLengthEncode. */
  private void writeNotRunEncoded() {
    notRunEncoded("not_run_encoded_array", "array container of one run", range(0, 3000));
    notRunEncoded("not_run_encoded_bitmap", "bitmap container of one run", range(0, 60_000));
  }

  private void fresh(String name, String note, long... positions) {
    write(name, note, Positions.of(positions), Map.of());
  }

  private void freshRange(String name, String note, long start, long end) {
    fresh(name, note, range(start, end));
  }

  private void formula(String name, String note, Formula... formulas) {
    write(name, note, Positions.ofFormulas(formulas), Map.of());
  }

  private void write(String name, String note, Positions positions, Map<String, Object> history) {
    add(name, note, SERIALIZE, positions, indexOf(positions).serialize().array(), history);
  }

  /** What BaseDVFileWriter does: new positions take in those loaded from the previous DV. */
  private void merged(String name, String note, Positions added, Positions previous) {
    BitmapPositionDeleteIndex index = indexOf(added);
    index.merge(read(indexOf(previous).serialize().array(), indexOf(previous).cardinality()));
    Map<String, Object> history = new LinkedHashMap<>();
    history.put("previous", previous.describe());
    history.put("added", added.describe());
    byte[] blob = index.serialize().array();
    add(name, note, SERIALIZE, previous.and(added), blob, Map.of("merged_from", history));
  }

  private void rangeCalls(String name, String note, long[][] calls) {
    BitmapPositionDeleteIndex index = new BitmapPositionDeleteIndex();
    Arrays.stream(calls).forEach(call -> index.delete(call[0], call[1]));
    Positions positions = Positions.of(index);
    add(name, note, SERIALIZE, positions, index.serialize().array(), Map.of("delete_range_calls", calls));
  }

  private void notRunEncoded(String name, String note, long... values) {
    RoaringPositionBitmap bitmap = new RoaringPositionBitmap();
    LongStream.of(values).forEach(bitmap::set);
    String writtenBy = "RoaringPositionBitmap.serialize without runLengthEncode";
    add(name, note, writtenBy, Positions.of(values), frame(bitmap), Map.of());
  }

  private void add(
      String name, String note, String writtenBy, Positions positions, byte[] blob, Map<String, Object> history) {
    PositionDeleteIndex expected = indexOf(positions);
    PositionDeleteIndex readBack = read(blob, expected.cardinality());
    readBack.forEach(pos -> checkDeleted(expected, pos));
    Map<String, Object> entry = new LinkedHashMap<>();
    entry.put("file", name + ".bin");
    entry.put("note", note);
    entry.put("written_by", writtenBy);
    entry.put("cardinality", readBack.cardinality());
    entry.put("canonical", Arrays.equals(blob, expected.serialize().array()));
    entry.putAll(positions.describe());
    entry.putAll(history);
    index.add(entry);
    directory.write(name + ".bin", blob);
  }

  private static void checkDeleted(PositionDeleteIndex expected, long pos) {
    if (!expected.isDeleted(pos)) {
      throw new IllegalStateException("Position " + pos + " was read back but not written");
    }
  }

  private static byte[] frame(RoaringPositionBitmap bitmap) {
    int length = Integer.BYTES + Math.toIntExact(bitmap.serializedSizeInBytes());
    ByteBuffer blob = ByteBuffer.allocate(length + 2 * Integer.BYTES);
    blob.putInt(length);
    ByteBuffer data = blob.slice().order(ByteOrder.LITTLE_ENDIAN);
    data.putInt(MAGIC_NUMBER);
    bitmap.serialize(data);
    CRC32 crc = new CRC32();
    crc.update(blob.array(), Integer.BYTES, length);
    blob.putInt(Integer.BYTES + length, (int) crc.getValue());
    return blob.array();
  }

  private static PositionDeleteIndex read(byte[] blob, long cardinality) {
    DeleteFile deleteFile =
        FileMetadata.deleteFileBuilder(PartitionSpec.unpartitioned())
            .ofPositionDeletes()
            .withFormat(FileFormat.PUFFIN)
            .withPath("s3://bucket/db/t/data/dv.puffin")
            .withReferencedDataFile("s3://bucket/db/t/data/a.parquet")
            .withFileSizeInBytes(blob.length)
            .withContentOffset(0)
            .withContentSizeInBytes(blob.length)
            .withRecordCount(cardinality)
            .build();
    return PositionDeleteIndex.deserialize(blob, deleteFile);
  }

  private static BitmapPositionDeleteIndex indexOf(Positions positions) {
    BitmapPositionDeleteIndex index = new BitmapPositionDeleteIndex();
    LongStream.of(positions.values()).forEach(index::delete);
    return index;
  }

  private static List<long[]> ranges(PositionDeleteIndex index) {
    List<long[]> ranges = new ArrayList<>();
    index.forEach(pos -> Ranges.extend(ranges, pos));
    return ranges;
  }

  private static long[] range(long start, long end) {
    return LongStream.range(start, end).toArray();
  }

  private static long[] random(long seed, int draws, long bound) {
    Random random = new Random(seed);
    return LongStream.generate(() -> Math.floorMod(random.nextLong(), bound)).limit(draws).toArray();
  }

  private static long[] randomClusters(long seed, int clusters, long bound) {
    Random random = new Random(seed);
    int maxLength = (int) Math.min(3000, bound / 5000);
    return LongStream.range(0, clusters)
        .flatMap(
            i -> {
              long start = Math.floorMod(random.nextLong(), bound);
              return LongStream.rangeClosed(start, start + random.nextInt(maxLength));
            })
        .toArray();
  }

  /** A set of positions, described by its ranges or, where those would be many, by the formulas that made it. */
  private record Positions(long[] values, List<Formula> formulas) {
    static Positions of(long... values) {
      return new Positions(values, List.of());
    }

    static Positions ofFormulas(Formula... formulas) {
      return new Positions(valuesOf(List.of(formulas)), List.of(formulas));
    }

    static Positions of(PositionDeleteIndex index) {
      LongStream.Builder values = LongStream.builder();
      index.forEach(values::add);
      return of(values.build().toArray());
    }

    Positions and(Positions that) {
      long[] union = LongStream.concat(LongStream.of(values), LongStream.of(that.values)).toArray();
      List<Formula> both = Stream.concat(formulas.stream(), that.formulas.stream()).toList();
      return new Positions(union, both);
    }

    Map<String, Object> describe() {
      return formulas.isEmpty() ? Map.of("positions", ranges(indexOf(this))) : Map.of("formulas", formulas);
    }

    private static long[] valuesOf(List<Formula> formulas) {
      return formulas.stream().flatMapToLong(Formula::positions).toArray();
    }
  }

  /** The positions s, s+1, ... s+run_length-1 for each s = (multiplier * i + increment) % modulus, i below count. */
  @JsonNaming(PropertyNamingStrategies.SnakeCaseStrategy.class)
  private record Formula(long multiplier, long increment, long modulus, int count, int runLength) {
    LongStream positions() {
      return LongStream.range(0, count)
          .map(i -> (multiplier * i + increment) % modulus)
          .flatMap(start -> LongStream.range(start, start + runLength));
    }
  }
}
