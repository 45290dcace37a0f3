package org.apache.iceberg;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.iceberg.encryption.PlaintextEncryptionManager;
import org.apache.iceberg.golden.AvroFile;
import org.apache.iceberg.golden.GoldenDirectory;
import org.apache.iceberg.inmemory.InMemoryFileIO;
import org.apache.iceberg.inmemory.InMemoryOutputFile;
import org.apache.iceberg.io.FileAppender;

/** Manifest lists as Iceberg writes them, with their rows as stored and as ManifestLists.read gives them. */
final class GoldenManifestLists {
  private static final long SNAPSHOT = GoldenManifests.SNAPSHOT;
  private static final long SEQUENCE_NUMBER = GoldenManifests.SEQUENCE_NUMBER;
  private static final long FIRST_ROW_ID = 10_000L;

  private final GoldenDirectory directory;
  private final List<Map<String, Object>> index;
  private final List<ManifestFile> manifests;

  private GoldenManifestLists(
      GoldenDirectory directory, List<Map<String, Object>> index, List<ManifestFile> manifests) {
    this.directory = directory;
    this.index = index;
    this.manifests = manifests;
  }

  static void write(GoldenDirectory directory, List<Map<String, Object>> index, List<ManifestFile> manifests) {
    GoldenManifestLists golden = new GoldenManifestLists(directory, index, manifests);
    golden.writeV1();
    golden.writeV2();
    golden.writeV3();
    golden.writeCodecs();
  }

  private void writeV1() {
    list("v1_list", "data manifests with partition summaries", 1, null,
        find("v1_unpartitioned"), find("v1_partitioned"), find("v1_identity_types"));
    list("v1_list_without_counts", "a v1 manifest whose counts and summaries nobody knows", 1, 1L,
        new GenericManifestFile(new InMemoryFileIO().newInputFile(find("v1_unpartitioned").path()), 0, SNAPSHOT));
  }

  private void writeV2() {
    list("v2_list", "new and carried manifests, data and deletes", 2, 1L,
        find("v2_unpartitioned"), find("v2_partitioned"), carried("v2_identity_types", 4L, 2L, null),
        find("v2_position_deletes"), find("v2_equality_deletes_partitioned"),
        carried("v2_equality_deletes_global", 3L, 3L, null));
    list("v2_list_no_parent", "the first snapshot: parent-snapshot-id is the word null", 2, null,
        find("v2_unpartitioned"));
    list("v2_list_of_v1_manifests", "after an upgrade: manifests of sequence number 0", 2, 1L,
        carried("v1_unpartitioned", 0L, 0L, null), find("v2_no_entries"));
    list("v2_list_empty", "a snapshot without manifests", 2, 1L);
    list("v2_list_without_nan", "partition summaries without contains_nan, as written before Iceberg 0.12", 2, 1L,
        withSummaries(find("v2_partitioned")));
  }

  private void writeV3() {
    list("v3_list", "first_row_id assigned to new data manifests, kept for carried ones, never for deletes", 3, 1L,
        find("v3_unpartitioned"), find("v3_first_row_ids"), carried("v3_partitioned", 4L, 2L, 55L),
        find("v3_identity_types"), find("v3_deletion_vectors"), find("v3_equality_deletes"),
        carried("v3_deletion_vectors_partitioned", 5L, 5L, null));
    list("v3_list_of_v2_manifests", "the first v3 commit after an upgrade gives first_row_id to old manifests", 3, 1L,
        find("v3_unpartitioned"), carried("v2_unpartitioned", 4L, 2L, null), carried("v1_unpartitioned", 0L, 0L, null),
        carried("v2_position_deletes", 3L, 3L, null));
  }

  private void writeCodecs() {
    for (String codec : List.of("uncompressed", "snappy", "zstd", "gzip")) {
      writeV3List("v3_list_codec_" + codec, "the rows of V3Writer through its appender with the codec", codec);
    }
  }

  private ManifestFile find(String name) {
    return manifests.stream().filter(manifest -> manifest.path().endsWith("/" + name + ".avro")).findFirst().get();
  }

  /** A manifest that an older snapshot added. */
  private ManifestFile carried(String name, long sequenceNumber, long minSequenceNumber, Long firstRowId) {
    ManifestFile manifest = find(name);
    return copy(manifest, sequenceNumber, minSequenceNumber, 1L, firstRowId, manifest.partitions());
  }

  private static ManifestFile withSummaries(ManifestFile manifest) {
    List<ManifestFile.PartitionFieldSummary> summaries = new ArrayList<>();
    for (ManifestFile.PartitionFieldSummary summary : manifest.partitions()) {
      summaries.add(
          new GenericPartitionFieldSummary(summary.containsNull(), summary.lowerBound(), summary.upperBound()));
    }
    return copy(manifest, 2, 1, 1L, null, summaries);
  }

  private static ManifestFile copy(
      ManifestFile manifest, long sequenceNumber, long minSequenceNumber, long snapshotId, Long firstRowId,
      List<ManifestFile.PartitionFieldSummary> summaries) {
    return new GenericManifestFile(
        manifest.path(),
        manifest.length(),
        manifest.partitionSpecId(),
        manifest.content(),
        sequenceNumber,
        minSequenceNumber,
        snapshotId,
        summaries,
        ManifestFixtures.bytes(0x0b, 0xad),
        manifest.addedFilesCount(),
        manifest.addedRowsCount(),
        manifest.existingFilesCount(),
        manifest.existingRowsCount(),
        manifest.deletedFilesCount(),
        manifest.deletedRowsCount(),
        firstRowId);
  }

  private void list(String name, String note, int version, Long parentSnapshotId, ManifestFile... rows) {
    InMemoryOutputFile output = output(name);
    ManifestListWriter writer =
        ManifestLists.write(
            version,
            output,
            PlaintextEncryptionManager.instance(),
            SNAPSHOT,
            parentSnapshotId,
            version == 1 ? 0 : SEQUENCE_NUMBER,
            version == 3 ? FIRST_ROW_ID : null);
    writer.addAll(List.of(rows));
    close(writer);
    add(name, note, writer.getClass().getName(), version, writer.nextRowId(), output);
  }

  /** ManifestListWriter takes no codec, so this does what its V3Writer does with the property set. */
  private void writeV3List(String name, String note, String codec) {
    InMemoryOutputFile output = output(name);
    FileAppender<ManifestFile> appender = appender(output, codec);
    V3Metadata.ManifestFileWrapper wrapper = new V3Metadata.ManifestFileWrapper(SNAPSHOT, SEQUENCE_NUMBER);
    appender.add(wrapper.wrap(find("v3_partitioned"), FIRST_ROW_ID));
    appender.add(wrapper.wrap(find("v3_deletion_vectors"), null));
    close(appender);
    add(name, note, "InternalData.write with V3Metadata.ManifestFileWrapper", 3, null, output);
  }

  private static FileAppender<ManifestFile> appender(InMemoryOutputFile output, String codec) {
    try {
      return InternalData.write(FileFormat.AVRO, output)
          .schema(V3Metadata.MANIFEST_LIST_SCHEMA)
          .named("manifest_file")
          .meta("snapshot-id", String.valueOf(SNAPSHOT))
          .meta("parent-snapshot-id", "null")
          .meta("sequence-number", String.valueOf(SEQUENCE_NUMBER))
          .meta("first-row-id", String.valueOf(FIRST_ROW_ID))
          .meta("format-version", "3")
          .set(TableProperties.AVRO_COMPRESSION, codec)
          .overwrite()
          .build();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private static InMemoryOutputFile output(String name) {
    return new InMemoryOutputFile("s3://bucket/db/t/metadata/" + name + ".avro", new InMemoryFileIO());
  }

  private void add(
      String name, String note, String writtenBy, int version, Long nextRowId, InMemoryOutputFile output) {
    AvroFile avro = new AvroFile(output.toByteArray());
    Map<String, Object> entry = new LinkedHashMap<>();
    entry.put("file", name + ".avro");
    entry.put("kind", "manifest_list");
    entry.put("note", note);
    entry.put("written_by", writtenBy);
    entry.put("format_version", version);
    entry.put("avro_metadata", avro.metadata());
    entry.put("next_row_id", nextRowId);
    entry.put("raw_manifests", avro.records());
    entry.put("manifests", ManifestLists.read(output.toInputFile()).stream().map(Describe::manifestFile).toList());
    index.add(entry);
    directory.write(name + ".avro", output.toByteArray());
  }

  private static void close(FileAppender<?> appender) {
    try {
      appender.close();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
