package org.apache.iceberg;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.iceberg.golden.GoldenDirectory;

/** Manifests, and the manifest lists that name them, with one index for both. */
public final class GoldenManifestFiles {
  private GoldenManifestFiles() {}

  public static void write(GoldenDirectory directory) {
    List<Map<String, Object>> index = new ArrayList<>();
    List<ManifestFile> manifests = GoldenManifests.write(directory, index);
    GoldenManifestLists.write(directory, index, manifests);
    directory.writeIndex(index);
  }
}
