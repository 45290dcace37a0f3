package org.apache.iceberg;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.apache.iceberg.encryption.BaseEncryptedKey;
import org.apache.iceberg.expressions.Expressions;
import org.apache.iceberg.golden.GoldenDirectory;
import org.apache.iceberg.inmemory.InMemoryFileIO;
import org.apache.iceberg.shaded.com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.iceberg.types.Types;

/** Table metadata files of v1, v2 and v3 tables, plain and compressed. */
public final class GoldenMetadata {
  private static final String LOCATION = "s3://bucket/db/t";
  private static final String UUID = "fb072c92-a02b-11e9-ae9c-1bb7bc9eca94";
  private static final long CREATED = 1_700_000_000_000L;
  private static final long FIRST_SNAPSHOT = 3051729675574597004L;
  private static final long SECOND_SNAPSHOT = 3055729675574597004L;
  private static final long THIRD_SNAPSHOT = 3059729675574597004L;

  private static final Schema FIRST_SCHEMA =
      new Schema(
          List.of(
              Types.NestedField.required(1, "id", Types.LongType.get(), "the key, with \"quotes\" and größe"),
              Types.NestedField.optional(2, "category", Types.StringType.get()),
              Types.NestedField.optional(3, "ts", Types.TimestampType.withZone()),
              Types.NestedField.optional(4, "tags", Types.ListType.ofRequired(5, Types.StringType.get())),
              Types.NestedField.optional(
                  6, "counts", Types.MapType.ofOptional(7, 8, Types.StringType.get(), Types.IntegerType.get())),
              Types.NestedField.optional(
                  9, "person", Types.StructType.of(
                      Types.NestedField.required(10, "name", Types.StringType.get()),
                      Types.NestedField.optional(11, "code", Types.FixedType.ofLength(4))))),
          Set.of(1));

  private final GoldenDirectory directory;
  private final List<Map<String, Object>> index = new ArrayList<>();

  private GoldenMetadata(GoldenDirectory directory) {
    this.directory = directory;
  }

  public static void write(GoldenDirectory directory) {
    GoldenMetadata golden = new GoldenMetadata(directory);
    golden.writeNewTables();
    golden.writeV1();
    golden.writeV2();
    golden.writeV3();
    directory.writeIndex(golden.index);
  }

  private void writeNewTables() {
    for (int version = 1; version <= 3; version++) {
      write("v" + version + "_new", ".metadata.json", "a table without snapshots", newTable(version));
    }
  }

  private void writeV1() {
    TableMetadata manifestsInline =
        commit(newTable(1), new BaseSnapshot(
            0, FIRST_SNAPSHOT, null, CREATED + 1000, "append", summary("added-data-files", "2"), 0,
            new String[] {LOCATION + "/metadata/m0.avro", LOCATION + "/metadata/m1.avro"}));
    write("v1_inline_manifests", ".metadata.json", "a snapshot that lists its manifests itself", manifestsInline);
    TableMetadata first = commit(newTable(1), snapshot(1, 0, FIRST_SNAPSHOT, null, null));
    write("v1_full", ".metadata.json", "two schemas, specs, sort orders and snapshots; refs; void in the second spec",
        commit(evolve(first), snapshot(2, 0, SECOND_SNAPSHOT, FIRST_SNAPSHOT, null)));
    write("v1_upgraded_to_v2", ".metadata.json", "sequence number 0 in the old snapshot",
        commit(at(first.upgradeToFormatVersion(2), 1500), snapshot(2, 1, SECOND_SNAPSHOT, FIRST_SNAPSHOT, null)));
  }

  private void writeV2() {
    TableMetadata full = v2Table();
    String note = "refs with retention, statistics, metadata log, three snapshots on two branches";
    write("v2_full", ".metadata.json", note, full);
    write("v2_full", ".gz.metadata.json", note + ", compressed", full);
    write("v2_full", ".metadata.json.gz", note + ", compressed, with the older file name", full);
    write("v2_no_current_snapshot", ".metadata.json", "snapshots on a branch, none on main", branchOnly());
  }

  private void writeV3() {
    write("v3_defaults", ".metadata.json", "initial and write defaults of every type, v3 types", defaultsTable());
    String note = "next-row-id, first-row-id, added-rows, encryption keys";
    write("v3_full", ".metadata.json", note, v3Table());
    write("v3_full", ".gz.metadata.json", note + ", compressed", v3Table());
    TableMetadata upgraded = at(v2Table().upgradeToFormatVersion(3), 9000);
    write("v2_upgraded_to_v3", ".metadata.json", "old snapshots have no first-row-id, next-row-id is 0", upgraded);
    Snapshot firstV3 =
        new BaseSnapshot(
            4, 77L, SECOND_SNAPSHOT, CREATED + 9500, "append", summary("added-records", "5"), 1,
            LOCATION + "/metadata/snap-77.avro", 0L, 25L, null);
    write("v2_upgraded_to_v3_first_commit", ".metadata.json", "the first v3 snapshot also numbers the old rows",
        commit(upgraded, firstV3));
  }

  private static TableMetadata newTable(int version) {
    PartitionSpec spec = PartitionSpec.builderFor(FIRST_SCHEMA).identity("category").bucket("id", 16).build();
    SortOrder order = SortOrder.builderFor(FIRST_SCHEMA).asc("id").desc("category", NullOrder.NULLS_LAST).build();
    Map<String, String> properties = properties("write.delete.mode", "merge-on-read", "note", "größe \"x\"");
    TableMetadata created = TableMetadata.newTableMetadata(FIRST_SCHEMA, spec, order, LOCATION, properties, version);
    return at(TableMetadata.buildFrom(created).assignUUID(UUID).discardChanges().build(), 0);
  }

  /** A second schema, spec and sort order, each the current one. */
  private static TableMetadata evolve(TableMetadata base) {
    Schema schema =
        new SchemaUpdate(base.schema(), base.lastColumnId())
            .renameColumn("category", "kind")
            .addColumn("price", Types.DecimalType.of(9, 2), "added later")
            .deleteColumn("counts")
            .addColumn("person", "age", Types.IntegerType.get())
            .apply();
    TableMetadata withSchema = base.updateSchema(schema);
    PartitionSpec spec =
        new BaseUpdatePartitionSpec(base.formatVersion(), withSchema.spec(), withSchema.lastAssignedPartitionId())
            .removeField("category")
            .addField(Expressions.day("ts"))
            .apply();
    SortOrder order = SortOrder.builderFor(schema).desc("ts").asc("person.age", NullOrder.NULLS_LAST).build();
    return at(withSchema.updatePartitionSpec(spec).replaceSortOrder(order), 1500);
  }

  private static TableMetadata v2Table() {
    TableMetadata first = commit(newTable(2), snapshot(1, 1, FIRST_SNAPSHOT, null, null));
    TableMetadata second = commit(evolve(first), snapshot(2, 2, SECOND_SNAPSHOT, FIRST_SNAPSHOT, null));
    Snapshot onDev = snapshot(3, 3, THIRD_SNAPSHOT, FIRST_SNAPSHOT, null);
    TableMetadata third =
        at(TableMetadata.buildFrom(second).setBranchSnapshot(onDev, "dev").discardChanges().build(), 3000);
    TableMetadata referenced =
        TableMetadata.buildFrom(third)
            .setRef("dev", SnapshotRef.branchBuilder(THIRD_SNAPSHOT)
                .minSnapshotsToKeep(5).maxSnapshotAgeMs(86_400_000L).maxRefAgeMs(864_000_000L).build())
            .setRef("release/größe", SnapshotRef.tagBuilder(FIRST_SNAPSHOT).maxRefAgeMs(1L << 40).build())
            .setStatistics(statistics(FIRST_SNAPSHOT))
            .setStatistics(statistics(SECOND_SNAPSHOT))
            .setPartitionStatistics(partitionStatistics())
            .setPreviousFileLocation(LOCATION + "/metadata/00002-second.metadata.json")
            .discardChanges()
            .build();
    return at(referenced, 8000);
  }

  private static TableMetadata branchOnly() {
    return at(
        TableMetadata.buildFrom(newTable(2))
            .setBranchSnapshot(snapshot(1, 1, FIRST_SNAPSHOT, null, null), "audit")
            .discardChanges()
            .build(), 8000);
  }

  private static TableMetadata v3Table() {
    TableMetadata first = commit(newTable(3), snapshot(1, 1, FIRST_SNAPSHOT, null, 0L));
    TableMetadata withKey =
        TableMetadata.buildFrom(first)
            .addEncryptionKey(
                new BaseEncryptedKey("kek-1", ManifestFixtures.bytes(1, 2, 3), null, properties("kms", "x")))
            .addEncryptionKey(new BaseEncryptedKey("key-1", ManifestFixtures.bytes(0xff, 0), "kek-1", null))
            .discardChanges()
            .build();
    Snapshot second =
        new BaseSnapshot(
            2, SECOND_SNAPSHOT, FIRST_SNAPSHOT, CREATED + 2000, "delete", summary("added-dvs", "2"), 0,
            LOCATION + "/metadata/snap-2.avro", 100L, 0L, "key-1");
    return commit(at(withKey, 1500), second);
  }

  private static TableMetadata defaultsTable() {
    Schema schema = MetadataDefaults.schema();
    TableMetadata created =
        TableMetadata.newTableMetadata(
            schema, PartitionSpec.unpartitioned(), SortOrder.unsorted(), LOCATION, Map.of(), 3);
    return at(TableMetadata.buildFrom(created).assignUUID(UUID).discardChanges().build(), 0);
  }

  /** Snapshot number n, a second after the one before it; 100 rows where the table has row ids. */
  private static Snapshot snapshot(int n, long sequenceNumber, long id, Long parentId, Long firstRowId) {
    Long addedRows = firstRowId == null ? null : 100L;
    return new BaseSnapshot(
        sequenceNumber, id, parentId, CREATED + 1000L * n, "overwrite",
        summary("added-data-files", "1", "added-records", "100", "note", "größe"), n == 1 ? 0 : 1,
        LOCATION + "/metadata/snap-" + n + ".avro", firstRowId, addedRows, null);
  }

  private static TableMetadata commit(TableMetadata base, Snapshot snapshot) {
    TableMetadata committed =
        TableMetadata.buildFrom(base)
            .setBranchSnapshot(snapshot, SnapshotRef.MAIN_BRANCH)
            .setPreviousFileLocation(LOCATION + "/metadata/before-" + snapshot.snapshotId() + ".metadata.json")
            .discardChanges()
            .build();
    return at(committed, snapshot.timestampMillis() - CREATED);
  }

  private static StatisticsFile statistics(long snapshotId) {
    BlobMetadata blob =
        new GenericBlobMetadata("apache-datasketches-theta-v1", snapshotId, 1, List.of(1), properties("ndv", "17"));
    return new GenericStatisticsFile(
        snapshotId, LOCATION + "/metadata/" + snapshotId + ".stats", 1234, 321, List.of(blob));
  }

  private static PartitionStatisticsFile partitionStatistics() {
    return ImmutableGenericPartitionStatisticsFile.builder()
        .snapshotId(SECOND_SNAPSHOT)
        .path(LOCATION + "/metadata/partition-stats.parquet")
        .fileSizeInBytes(4321)
        .build();
  }

  /** The metadata with last-updated-ms that long after the table's creation: builders take it from the clock. */
  private static TableMetadata at(TableMetadata metadata, long millis) {
    ObjectNode json = (ObjectNode) GoldenDirectory.parseJson(TableMetadataParser.toJson(metadata));
    json.put(TableMetadataParser.LAST_UPDATED_MILLIS, CREATED + millis);
    return TableMetadataParser.fromJson(json);
  }

  private static Map<String, String> summary(String... pairs) {
    return properties(pairs);
  }

  private static Map<String, String> properties(String... pairs) {
    Map<String, String> properties = new TreeMap<>();
    for (int i = 0; i < pairs.length; i += 2) {
      properties.put(pairs[i], pairs[i + 1]);
    }
    return properties;
  }

  private void write(String name, String extension, String note, TableMetadata metadata) {
    String file = name + extension;
    InMemoryFileIO io = new InMemoryFileIO();
    String location = LOCATION + "/metadata/" + file;
    TableMetadataParser.overwrite(metadata, io.newOutputFile(location));
    Map<String, Object> entry = new LinkedHashMap<>();
    entry.put("file", file);
    entry.put("note", note);
    entry.put("written_by", "TableMetadataParser.overwrite");
    entry.put("read", describe(TableMetadataParser.read(io, location)));
    index.add(entry);
    directory.write(file, content(io, location));
  }

  private static byte[] content(InMemoryFileIO io, String location) {
    try (InputStream stream = io.newInputFile(location).newStream()) {
      return stream.readAllBytes();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private static Map<String, Object> describe(TableMetadata metadata) {
    Map<String, Object> fields = new LinkedHashMap<>();
    fields.put("format-version", metadata.formatVersion());
    fields.put("table-uuid", metadata.uuid());
    fields.put("location", metadata.location());
    fields.put("last-sequence-number", metadata.lastSequenceNumber());
    fields.put("last-updated-ms", metadata.lastUpdatedMillis());
    fields.put("last-column-id", metadata.lastColumnId());
    fields.put("current-schema-id", metadata.currentSchemaId());
    fields.put("schema-ids", metadata.schemas().stream().map(Schema::schemaId).toList());
    fields.put("default-spec-id", metadata.defaultSpecId());
    fields.put("spec-ids", metadata.specs().stream().map(PartitionSpec::specId).toList());
    fields.put("last-partition-id", metadata.lastAssignedPartitionId());
    fields.put("default-sort-order-id", metadata.defaultSortOrderId());
    fields.put("sort-order-ids", metadata.sortOrders().stream().map(SortOrder::orderId).toList());
    fields.put("properties", new TreeMap<>(metadata.properties()));
    Snapshot current = metadata.currentSnapshot();
    fields.put("current-snapshot-id", current == null ? null : current.snapshotId());
    fields.put("next-row-id", metadata.nextRowId());
    fields.put("snapshots", metadata.snapshots().stream().map(GoldenMetadata::describe).toList());
    fields.put("refs", refs(metadata));
    fields.put("statistics", metadata.statisticsFiles().stream().map(StatisticsFile::path).toList());
    fields.put(
        "partition-statistics",
        metadata.partitionStatisticsFiles().stream().map(PartitionStatisticsFile::path).toList());
    fields.put("snapshot-log", metadata.snapshotLog().stream().map(HistoryEntry::snapshotId).toList());
    fields.put("metadata-log", metadata.previousFiles().stream().map(TableMetadata.MetadataLogEntry::file).toList());
    fields.put("encryption-keys", metadata.encryptionKeys().stream().map(key -> key.keyId()).toList());
    return fields;
  }

  private static Map<String, Object> describe(Snapshot snapshot) {
    Map<String, Object> fields = new LinkedHashMap<>();
    fields.put("snapshot-id", snapshot.snapshotId());
    fields.put("parent-snapshot-id", snapshot.parentId());
    fields.put("sequence-number", snapshot.sequenceNumber());
    fields.put("timestamp-ms", snapshot.timestampMillis());
    fields.put("operation", snapshot.operation());
    fields.put("schema-id", snapshot.schemaId());
    fields.put("manifest-list", snapshot.manifestListLocation());
    fields.put("first-row-id", snapshot.firstRowId());
    fields.put("added-rows", snapshot.addedRows());
    fields.put("key-id", snapshot.keyId());
    return fields;
  }

  private static Map<String, Object> refs(TableMetadata metadata) {
    Map<String, Object> refs = new TreeMap<>();
    metadata.refs().forEach((name, ref) -> refs.put(name, GoldenDirectory.parseJson(SnapshotRefParser.toJson(ref))));
    return refs;
  }
}
