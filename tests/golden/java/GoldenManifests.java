package org.apache.iceberg;

import static org.apache.iceberg.ManifestFixtures.ALL_VOID;
import static org.apache.iceberg.ManifestFixtures.CATEGORY_BUCKET_DAY;
import static org.apache.iceberg.ManifestFixtures.FIXED;
import static org.apache.iceberg.ManifestFixtures.IDENTITIES;
import static org.apache.iceberg.ManifestFixtures.NANOS;
import static org.apache.iceberg.ManifestFixtures.SPECS;
import static org.apache.iceberg.ManifestFixtures.TRANSFORMS;
import static org.apache.iceberg.ManifestFixtures.UNPARTITIONED;
import static org.apache.iceberg.ManifestFixtures.bytes;
import static org.apache.iceberg.ManifestFixtures.category;
import static org.apache.iceberg.ManifestFixtures.dataFile;
import static org.apache.iceberg.ManifestFixtures.date;
import static org.apache.iceberg.ManifestFixtures.deletionVector;
import static org.apache.iceberg.ManifestFixtures.equalityDeletes;
import static org.apache.iceberg.ManifestFixtures.extremeIdentities;
import static org.apache.iceberg.ManifestFixtures.fileScopedDeletes;
import static org.apache.iceberg.ManifestFixtures.fullDataFile;
import static org.apache.iceberg.ManifestFixtures.manyFileDeletes;
import static org.apache.iceberg.ManifestFixtures.ordinaryIdentities;
import static org.apache.iceberg.ManifestFixtures.partition;
import static org.apache.iceberg.ManifestFixtures.referencingDeletes;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.math.BigDecimal;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import org.apache.iceberg.golden.AvroFile;
import org.apache.iceberg.golden.GoldenDirectory;
import org.apache.iceberg.inmemory.InMemoryFileIO;
import org.apache.iceberg.inmemory.InMemoryOutputFile;
import org.apache.iceberg.io.CloseableIterable;

/** Manifests as Iceberg writes them, with their entries as stored and as ManifestReader gives them. */
final class GoldenManifests {
  static final long SNAPSHOT = 3051729675574597004L;
  static final long OLD_SNAPSHOT = 1L;
  static final long SEQUENCE_NUMBER = 9L;

  private static final PartitionData NO_PARTITION = partition(UNPARTITIONED);
  private static final Read V1_TABLE = new Read(0L, null);
  private static final Read COMMITTED = new Read(SEQUENCE_NUMBER, null);
  private static final Read WITH_ROW_IDS = new Read(SEQUENCE_NUMBER, 1000L);

  private final GoldenDirectory directory;
  private final List<Map<String, Object>> index;
  private final List<ManifestFile> written = new ArrayList<>();

  private GoldenManifests(GoldenDirectory directory, List<Map<String, Object>> index) {
    this.directory = directory;
    this.index = index;
  }

  /** Writes the manifests, adds them to the index, and returns what their writers say of them, in order. */
  static List<ManifestFile> write(GoldenDirectory directory, List<Map<String, Object>> index) {
    GoldenManifests golden = new GoldenManifests(directory, index);
    golden.writeV1();
    golden.writeV2Data();
    golden.writeV2Deletes();
    golden.writeV3Data();
    golden.writeV3Deletes();
    golden.writePartitionTypes();
    golden.writeCodecs();
    return golden.written;
  }

  private void writeV1() {
    data("v1_unpartitioned", "every status; v1 stores no sequence number", 1, UNPARTITIONED, GoldenManifests::statuses,
        V1_TABLE);
    data("v1_partitioned", "identity, bucket and day; one null in each field", 1, CATEGORY_BUCKET_DAY,
        GoldenManifests::partitioned, V1_TABLE);
  }

  private void writeV2Data() {
    data("v2_unpartitioned", "every status, inherited and explicit sequence numbers", 2, UNPARTITIONED,
        GoldenManifests::statuses, COMMITTED, WITH_ROW_IDS);
    data("v2_partitioned", "identity, bucket and day; one null in each field", 2, CATEGORY_BUCKET_DAY,
        GoldenManifests::partitioned, COMMITTED);
    data("v2_all_void", "a spec whose only field is void", 2, ALL_VOID,
        writer -> writer.add(dataFile("a", ALL_VOID, partition(ALL_VOID), 5)), COMMITTED);
    data("v2_no_entries", "a manifest without an entry", 2, UNPARTITIONED, writer -> {}, COMMITTED);
    DataManifest inherited = new DataManifest("v2_inherited_snapshot_id", 2, UNPARTITIONED, null, Map.of());
    data(inherited, "entries without snapshot_id, for a manifest appended as a file",
        writer -> writer.add(dataFile("a", UNPARTITIONED, NO_PARTITION, 5)), COMMITTED);
    data("v2_file_sequence_number_null", "an EXISTING entry without file_sequence_number: nothing to inherit", 2,
        UNPARTITIONED,
        writer -> writer.existing(dataFile("a", UNPARTITIONED, NO_PARTITION, 5), OLD_SNAPSHOT, 2, null), COMMITTED);
  }

  private void writeV2Deletes() {
    deletes("v2_position_deletes", "file scope by bounds, by referenced_data_file, and none", 2, UNPARTITIONED,
        writer -> positionDeletes(writer, UNPARTITIONED, NO_PARTITION));
    deletes("v2_position_deletes_partitioned", "position deletes of one partition", 2, CATEGORY_BUCKET_DAY,
        writer -> positionDeletes(writer, CATEGORY_BUCKET_DAY, category("a", 3, "2024-01-02")));
    deletes("v2_equality_deletes_global", "equality deletes of an unpartitioned spec", 2, UNPARTITIONED,
        writer -> equality(writer, UNPARTITIONED, NO_PARTITION));
    deletes("v2_equality_deletes_partitioned", "equality deletes of one partition", 2, CATEGORY_BUCKET_DAY,
        writer -> equality(writer, CATEGORY_BUCKET_DAY, category("a", 3, "2024-01-02")));
    deletes("v2_all_delete_kinds", "position and equality deletes in one manifest, every status", 2, UNPARTITIONED,
        writer -> {
          positionDeletes(writer, UNPARTITIONED, NO_PARTITION);
          equality(writer, UNPARTITIONED, NO_PARTITION);
        });
  }

  private void writeV3Data() {
    data("v3_unpartitioned", "every status; read with and without a first_row_id of the manifest", 3, UNPARTITIONED,
        GoldenManifests::statuses, COMMITTED, WITH_ROW_IDS);
    data("v3_partitioned", "identity, bucket and day; one null in each field", 3, CATEGORY_BUCKET_DAY,
        GoldenManifests::partitioned, WITH_ROW_IDS);
    data("v3_first_row_ids", "assigned and explicit first_row_id; a DELETED entry takes no part in the sum", 3,
        UNPARTITIONED, GoldenManifests::firstRowIds, WITH_ROW_IDS, COMMITTED);
    data("v3_many_blocks", "entries of 2 KB, so that the Avro file has more than one block", 3, UNPARTITIONED,
        GoldenManifests::longPaths, WITH_ROW_IDS);
    data("v3_no_entries", "a manifest without an entry", 3, CATEGORY_BUCKET_DAY, writer -> {}, WITH_ROW_IDS);
  }

  private void writeV3Deletes() {
    deletes("v3_deletion_vectors", "two DVs of one Puffin file, one replaced DV, one carried over", 3, UNPARTITIONED,
        writer -> deletionVectors(writer, UNPARTITIONED, NO_PARTITION));
    deletes("v3_deletion_vectors_partitioned", "DVs of one partition", 3, CATEGORY_BUCKET_DAY,
        writer -> deletionVectors(writer, CATEGORY_BUCKET_DAY, category(null, 3, "2024-01-02")));
    deletes("v3_equality_deletes", "equality deletes are allowed in v3", 3, CATEGORY_BUCKET_DAY,
        writer -> equality(writer, CATEGORY_BUCKET_DAY, category("a", 3, "2024-01-02")));
    deletes("v3_all_delete_kinds", "v2 position deletes carried into v3 beside equality deletes and DVs", 3,
        UNPARTITIONED,
        writer -> {
          DeleteFile carried = fileScopedDeletes("carried", UNPARTITIONED, NO_PARTITION, "a.parquet");
          writer.existing(carried, OLD_SNAPSHOT, 2, 2L);
          equality(writer, UNPARTITIONED, NO_PARTITION);
          deletionVectors(writer, UNPARTITIONED, NO_PARTITION);
        });
  }

  private void writePartitionTypes() {
    for (int version = 1; version <= 3; version++) {
      Read read = version == 1 ? V1_TABLE : version == 2 ? COMMITTED : WITH_ROW_IDS;
      data("v" + version + "_identity_types", "identity of every type but fixed: ordinary, extreme, all null", version,
          IDENTITIES, GoldenManifests::identities, read);
      data("v" + version + "_transforms", "year, month, hour, truncate, bucket and void", version, TRANSFORMS,
          GoldenManifests::transforms, read);
    }
    data("v2_identity_fixed", "Java writes and reads a length before a fixed value; an Avro library reads nonsense", 2,
        FIXED,
        writer -> {
          writer.add(dataFile("a", FIXED, partition(FIXED, bytes(0x00, 0x01, 0x7f, 0xff)), 5));
          writer.add(dataFile("b", FIXED, partition(FIXED, bytes(0xff, 0xff, 0xff, 0xff)), 6));
          writer.add(dataFile("c", FIXED, partition(FIXED), 7));
        }, COMMITTED);
    data("v3_timestamp_nanos", "identity and day of timestamp_ns and timestamptz_ns", 3, NANOS,
        writer -> {
          writer.add(dataFile("a", NANOS, partition(NANOS, 1_700_000_000_123_456_789L, date("2024-01-02")), 5));
          writer.add(dataFile("b", NANOS, partition(NANOS, -1L, null), 6));
        }, WITH_ROW_IDS);
  }

  private void writeCodecs() {
    for (String codec : List.of("uncompressed", "snappy", "zstd", "gzip")) {
      Map<String, String> properties = Map.of(TableProperties.AVRO_COMPRESSION, codec);
      data(new DataManifest("v2_codec_" + codec, 2, CATEGORY_BUCKET_DAY, SNAPSHOT, properties),
          "write.manifest.compression-codec=" + codec, GoldenManifests::partitioned, COMMITTED);
      data(new DataManifest("v3_codec_" + codec, 3, UNPARTITIONED, SNAPSHOT, properties),
          "write.manifest.compression-codec=" + codec, GoldenManifests::statuses, WITH_ROW_IDS);
    }
  }

  private static void statuses(ManifestWriter<DataFile> writer) {
    writer.add(dataFile("added", UNPARTITIONED, NO_PARTITION, 10));
    writer.add(fullDataFile("added-full", UNPARTITIONED, NO_PARTITION, null));
    writer.add(dataFile("added-by-rewrite", UNPARTITIONED, NO_PARTITION, 20), 3L);
    writer.existing(fullDataFile("existing-full", UNPARTITIONED, NO_PARTITION, 77L), OLD_SNAPSHOT, 2, 2L);
    writer.existing(dataFile("existing-rewritten", UNPARTITIONED, NO_PARTITION, 30), OLD_SNAPSHOT, 1, 4L);
    writer.delete(dataFile("deleted", UNPARTITIONED, NO_PARTITION, 40), 2, 2L);
  }

  private static void partitioned(ManifestWriter<DataFile> writer) {
    PartitionSpec spec = CATEGORY_BUCKET_DAY;
    writer.add(dataFile("a", spec, category("a", 3, "2024-01-02"), 10));
    writer.add(dataFile("b", spec, category("größe", 15, "1969-12-31"), 20));
    writer.add(fullDataFile("c", spec, category("", 0, null), null));
    writer.existing(dataFile("d", spec, category(null, 7, "2024-01-03"), 30), OLD_SNAPSHOT, 2, 2L);
    writer.delete(dataFile("e", spec, category("e", null, "2024-01-04"), 40), 2, 2L);
  }

  private static void firstRowIds(ManifestWriter<DataFile> writer) {
    writer.add(dataFile("a", UNPARTITIONED, NO_PARTITION, 10));
    writer.existing(dataFile("b", UNPARTITIONED, NO_PARTITION, 20, 500L), OLD_SNAPSHOT, 2, 2L);
    writer.delete(dataFile("c", UNPARTITIONED, NO_PARTITION, 40), 2, 2L);
    writer.delete(dataFile("d", UNPARTITIONED, NO_PARTITION, 80, 600L), 2, 2L);
    writer.existing(dataFile("e", UNPARTITIONED, NO_PARTITION, 160), OLD_SNAPSHOT, 1, 1L);
    writer.add(dataFile("f", UNPARTITIONED, NO_PARTITION, 320));
    writer.existing(dataFile("g", UNPARTITIONED, NO_PARTITION, 0, 0L), OLD_SNAPSHOT, 1, 1L);
    writer.add(dataFile("h", UNPARTITIONED, NO_PARTITION, 640));
  }

  private static void longPaths(ManifestWriter<DataFile> writer) {
    for (int i = 0; i < 40; i++) {
      writer.add(dataFile("nested/".repeat(280) + i, UNPARTITIONED, NO_PARTITION, i));
    }
  }

  private static void positionDeletes(ManifestWriter<DeleteFile> writer, PartitionSpec spec, PartitionData partition) {
    writer.add(fileScopedDeletes("by-bounds", spec, partition, "a.parquet"));
    writer.add(referencingDeletes("by-reference", spec, partition, "b.parquet"));
    writer.add(manyFileDeletes("many-files", spec, partition));
    writer.existing(fileScopedDeletes("existing", spec, partition, "c.parquet"), OLD_SNAPSHOT, 2, 2L);
    writer.delete(fileScopedDeletes("deleted", spec, partition, "d.parquet"), 2, 2L);
  }

  private static void equality(ManifestWriter<DeleteFile> writer, PartitionSpec spec, PartitionData partition) {
    writer.add(equalityDeletes("one-column", spec, partition, 1));
    writer.add(equalityDeletes("three-columns", spec, partition, 13, 2, 18));
    writer.existing(equalityDeletes("existing", spec, partition, 1), OLD_SNAPSHOT, 2, 2L);
    writer.delete(equalityDeletes("deleted", spec, partition, 2), 2, 2L);
  }

  private static void deletionVectors(ManifestWriter<DeleteFile> writer, PartitionSpec spec, PartitionData partition) {
    writer.add(deletionVector(spec, partition, "a.parquet", 4));
    writer.add(deletionVector(spec, partition, "b.parquet", 48));
    writer.existing(deletionVector(spec, partition, "c.parquet", 92), OLD_SNAPSHOT, 2, 2L);
    writer.delete(deletionVector(spec, partition, "a.parquet", 5_000_000_000L), 3, 3L);
  }

  private static void identities(ManifestWriter<DataFile> writer) {
    writer.add(dataFile("ordinary", IDENTITIES, ordinaryIdentities(), 1));
    writer.add(dataFile("extreme", IDENTITIES, extremeIdentities(), 2));
    writer.add(dataFile("null", IDENTITIES, partition(IDENTITIES), 3));
  }

  private static void transforms(ManifestWriter<DataFile> writer) {
    PartitionData ordinary =
        partition(TRANSFORMS, 54, 649, 474_756, "grö", new BigDecimal("14.00"), bytes(0xca, 0xfe), 5, null);
    PartitionData early = partition(TRANSFORMS, -1, -1, -1, "", new BigDecimal("-0.50"), bytes(), 0, null);
    writer.add(dataFile("ordinary", TRANSFORMS, ordinary, 1));
    writer.add(dataFile("before-1970", TRANSFORMS, early, 2));
    writer.add(dataFile("null", TRANSFORMS, partition(TRANSFORMS), 3));
  }

  private void data(
      String name, String note, int version, PartitionSpec spec, Consumer<ManifestWriter<DataFile>> entries,
      Read... reads) {
    data(new DataManifest(name, version, spec, SNAPSHOT, Map.of()), note, entries, reads);
  }

  private void data(DataManifest manifest, String note, Consumer<ManifestWriter<DataFile>> entries, Read... reads) {
    InMemoryOutputFile output = output(manifest.name());
    ManifestWriter<DataFile> writer =
        ManifestFiles.write(
            manifest.version(), manifest.spec(), output, manifest.snapshotId(), manifest.properties());
    entries.accept(writer);
    add(manifest.name(), note, manifest.version(), manifest.spec(), writer, output, reads);
  }

  private void deletes(
      String name, String note, int version, PartitionSpec spec, Consumer<ManifestWriter<DeleteFile>> entries) {
    InMemoryOutputFile output = output(name);
    ManifestWriter<DeleteFile> writer = ManifestFiles.writeDeleteManifest(version, spec, output, SNAPSHOT);
    entries.accept(writer);
    add(name, note, version, spec, writer, output, COMMITTED);
  }

  private static InMemoryOutputFile output(String name) {
    return new InMemoryOutputFile("s3://bucket/db/t/metadata/" + name + ".avro");
  }

  private void add(
      String name, String note, int version, PartitionSpec spec, ManifestWriter<?> writer, InMemoryOutputFile output,
      Read... reads) {
    close(writer);
    ManifestFile manifest = writer.toManifestFile();
    written.add(manifest);
    AvroFile avro = new AvroFile(output.toByteArray());
    Map<String, Object> entry = new LinkedHashMap<>();
    entry.put("file", name + ".avro");
    entry.put("kind", "manifest");
    entry.put("note", note);
    entry.put("written_by", writer.getClass().getName());
    entry.put("format_version", version);
    entry.put("avro_metadata", avro.metadata());
    entry.put("partition_spec", GoldenDirectory.parseJson(PartitionSpecParser.toJson(spec)));
    entry.put("manifest_file", Describe.manifestFile(manifest));
    entry.put("raw_entries", avro.records());
    entry.put("reads", read(manifest, output.toByteArray(), reads));
    index.add(entry);
    directory.write(name + ".avro", output.toByteArray());
  }

  private static List<Object> read(ManifestFile manifest, byte[] content, Read... reads) {
    InMemoryFileIO io = new InMemoryFileIO();
    io.addFile(manifest.path(), content);
    List<Object> results = new ArrayList<>();
    for (Read read : reads) {
      ManifestFile listed = read.listed(manifest);
      Map<String, Object> result = new LinkedHashMap<>();
      result.put("snapshot_id", listed.snapshotId());
      result.put("sequence_number", listed.sequenceNumber());
      result.put("first_row_id", listed.firstRowId());
      result.put("entries", entries(listed, io));
      results.add(result);
    }
    return results;
  }

  private static List<Object> entries(ManifestFile manifest, InMemoryFileIO io) {
    ManifestReader<?> reader =
        manifest.content() == ManifestContent.DATA
            ? ManifestFiles.read(manifest, io, SPECS)
            : ManifestFiles.readDeleteManifest(manifest, io, SPECS);
    return describe(reader, SPECS.get(manifest.partitionSpecId()));
  }

  private static <F extends ContentFile<F>> List<Object> describe(ManifestReader<F> reader, PartitionSpec spec) {
    List<Object> descriptions = new ArrayList<>();
    try (CloseableIterable<ManifestEntry<F>> entries = reader.entries()) {
      entries.forEach(entry -> descriptions.add(Describe.entry(entry, spec)));
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    return descriptions;
  }

  private static void close(ManifestWriter<?> writer) {
    try {
      writer.close();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private record DataManifest(
      String name, int version, PartitionSpec spec, Long snapshotId, Map<String, String> properties) {}

  /** What a manifest list says of the manifest that is read. */
  private record Read(long sequenceNumber, Long firstRowId) {
    ManifestFile listed(ManifestFile manifest) {
      return new GenericManifestFile(
          manifest.path(),
          manifest.length(),
          manifest.partitionSpecId(),
          manifest.content(),
          sequenceNumber,
          Math.min(sequenceNumber, Math.max(0, manifest.minSequenceNumber())),
          manifest.snapshotId() == null ? Long.valueOf(SNAPSHOT) : manifest.snapshotId(),
          manifest.partitions(),
          manifest.keyMetadata(),
          manifest.addedFilesCount(),
          manifest.addedRowsCount(),
          manifest.existingFilesCount(),
          manifest.existingRowsCount(),
          manifest.deletedFilesCount(),
          manifest.deletedRowsCount(),
          firstRowId);
    }
  }
}
