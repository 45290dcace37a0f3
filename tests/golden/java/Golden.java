package org.apache.iceberg.golden;

import java.nio.file.Path;
import org.apache.iceberg.GoldenManifestFiles;
import org.apache.iceberg.GoldenMetadata;
import org.apache.iceberg.deletes.GoldenDeletionVectors;
import org.apache.iceberg.deletes.GoldenPuffin;

/** Writes every golden file that Iceberg Java makes under the directory given. */
public final class Golden {
  private Golden() {}

  public static void main(String[] args) {
    Path root = Path.of(args[0]);
    GoldenDeletionVectors.write(new GoldenDirectory(root, "deletion_vectors"));
    GoldenPuffin.write(new GoldenDirectory(root, "puffin"));
    GoldenManifestFiles.write(new GoldenDirectory(root, "manifests"));
    GoldenDeleteFiles.write(new GoldenDirectory(root, "delete_files"));
    GoldenMetadata.write(new GoldenDirectory(root, "metadata"));
  }
}
