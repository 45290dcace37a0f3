package org.apache.iceberg;

import java.math.BigDecimal;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.UUID;
import org.apache.iceberg.expressions.Literal;
import org.apache.iceberg.types.Conversions;
import org.apache.iceberg.types.Types;

/** The table, partition specs and files that the golden manifests hold. */
final class ManifestFixtures {
  static final Schema SCHEMA =
      new Schema(
          5,
          Types.NestedField.required(1, "id", Types.LongType.get()),
          Types.NestedField.optional(2, "category", Types.StringType.get()),
          Types.NestedField.optional(3, "price", Types.DecimalType.of(9, 2)),
          Types.NestedField.optional(4, "day", Types.DateType.get()),
          Types.NestedField.optional(5, "ts", Types.TimestampType.withoutZone()),
          Types.NestedField.optional(6, "tstz", Types.TimestampType.withZone()),
          Types.NestedField.optional(7, "uid", Types.UUIDType.get()),
          Types.NestedField.optional(8, "code", Types.FixedType.ofLength(4)),
          Types.NestedField.optional(9, "payload", Types.BinaryType.get()),
          Types.NestedField.optional(10, "flag", Types.BooleanType.get()),
          Types.NestedField.optional(11, "ratio", Types.FloatType.get()),
          Types.NestedField.optional(12, "score", Types.DoubleType.get()),
          Types.NestedField.optional(13, "name", Types.StringType.get()),
          Types.NestedField.optional(14, "at", Types.TimeType.get()),
          Types.NestedField.optional(15, "big", Types.DecimalType.of(38, 10)),
          Types.NestedField.optional(16, "n", Types.IntegerType.get()),
          Types.NestedField.optional(
              17, "person", Types.StructType.of(Types.NestedField.optional(18, "city", Types.StringType.get()))));

  static final Schema NANO_SCHEMA =
      new Schema(
          Types.NestedField.required(1, "id", Types.LongType.get()),
          Types.NestedField.optional(2, "ns", Types.TimestampNanoType.withoutZone()),
          Types.NestedField.optional(3, "nstz", Types.TimestampNanoType.withZone()));

  static final PartitionSpec UNPARTITIONED = PartitionSpec.builderFor(SCHEMA).withSpecId(0).build();
  static final PartitionSpec CATEGORY_BUCKET_DAY =
      PartitionSpec.builderFor(SCHEMA).withSpecId(1).identity("category").bucket("id", 16).day("ts").build();
  static final PartitionSpec IDENTITIES =
      PartitionSpec.builderFor(SCHEMA)
          .withSpecId(2)
          .identity("id")
          .identity("category")
          .identity("price")
          .identity("day")
          .identity("ts")
          .identity("tstz")
          .identity("uid")
          .identity("payload")
          .identity("flag")
          .identity("ratio")
          .identity("score")
          .identity("at")
          .identity("big")
          .identity("n")
          .identity("person.city")
          .build();
  static final PartitionSpec TRANSFORMS =
      PartitionSpec.builderFor(SCHEMA)
          .withSpecId(3)
          .year("ts")
          .month("day")
          .hour("tstz")
          .truncate("name", 3)
          .truncate("price", 50)
          .truncate("payload", 2)
          .bucket("uid", 8)
          .alwaysNull("flag")
          .build();
  static final PartitionSpec ALL_VOID = PartitionSpec.builderFor(SCHEMA).withSpecId(4).alwaysNull("category").build();
  static final PartitionSpec NANOS =
      PartitionSpec.builderFor(NANO_SCHEMA).withSpecId(5).identity("ns").day("nstz").build();

  static final PartitionSpec FIXED = PartitionSpec.builderFor(SCHEMA).withSpecId(6).identity("code").build();

  static final Map<Integer, PartitionSpec> SPECS =
      Map.of(
          0, UNPARTITIONED, 1, CATEGORY_BUCKET_DAY, 2, IDENTITIES, 3, TRANSFORMS, 4, ALL_VOID, 5, NANOS, 6, FIXED);

  private static final int PATH_ID = MetadataColumns.DELETE_FILE_PATH.fieldId();
  private static final int POS_ID = MetadataColumns.DELETE_FILE_POS.fieldId();
  private static final String LOCATION = "s3://bucket/db/t/data/";

  private ManifestFixtures() {}

  static PartitionData partition(PartitionSpec spec, Object... values) {
    PartitionData partition = new PartitionData(spec.partitionType());
    for (int i = 0; i < values.length; i++) {
      partition.set(i, values[i]);
    }
    return partition;
  }

  static PartitionData category(String category, Integer bucket, String day) {
    return partition(CATEGORY_BUCKET_DAY, category, bucket, day == null ? null : date(day));
  }

  static PartitionData ordinaryIdentities() {
    return partition(
        IDENTITIES, 7L, "größe/=日本", new BigDecimal("14.20"), date("2024-02-29"),
        timestamp("2024-02-29T12:34:56.789012"), timestampTz("2024-02-29T12:34:56.789012+00:00"),
        UUID.fromString("f79c3e09-677c-4bbd-a479-3f349cb785e7"), bytes(0xca, 0xfe),
        true, 1.5f, -2.25d, time("10:11:12.131415"), new BigDecimal("12345678901234567890.1234567890"), -3, "Köln");
  }

  static PartitionData extremeIdentities() {
    return partition(
        IDENTITIES, Long.MIN_VALUE, "", new BigDecimal("-9999999.99"), date("1969-12-31"),
        timestamp("1969-12-31T23:59:59.999999"), timestampTz("0001-01-01T00:00:00+00:00"),
        UUID.fromString("00000000-0000-0000-0000-000000000000"), bytes(),
        false, Float.NaN, -0.0d, time("00:00"), new BigDecimal("-0.0000000001"), Integer.MAX_VALUE, "");
  }

  static DataFile dataFile(String name, PartitionSpec spec, PartitionData partition, long records) {
    return dataFile(name, spec, partition, records, null);
  }

  static DataFile dataFile(String name, PartitionSpec spec, PartitionData partition, long records, Long firstRowId) {
    return DataFiles.builder(spec)
        .withPath(LOCATION + name + ".parquet")
        .withFormat(FileFormat.PARQUET)
        .withPartition(partition)
        .withRecordCount(records)
        .withFileSizeInBytes(1000 + records)
        .withFirstRowId(firstRowId)
        .build();
  }

  /** A data file with every optional field. */
  static DataFile fullDataFile(String name, PartitionSpec spec, PartitionData partition, Long firstRowId) {
    return DataFiles.builder(spec)
        .withPath(LOCATION + name + ".orc")
        .withFormat(FileFormat.ORC)
        .withPartition(partition)
        .withFileSizeInBytes(123_456_789_012L)
        .withMetrics(metrics(300))
        .withSplitOffsets(List.of(4L, 134_217_728L, 5_000_000_000L))
        .withEncryptionKeyMetadata(bytes(0xde, 0xad, 0xbe, 0xef))
        .withSortOrderId(2)
        .withFirstRowId(firstRowId)
        .build();
  }

  /** Maps whose columns differ, so that a reader that mixes two of them up is seen. */
  static Metrics metrics(long records) {
    Map<Integer, Long> sizes = sorted(Map.of(1, 100L, 2, 200L, 12, 5_000_000_000L));
    Map<Integer, Long> values = sorted(Map.of(1, records, 2, records + 1));
    Map<Integer, Long> nulls = sorted(Map.of(1, 0L, 2, 17L, 3, records));
    Map<Integer, Long> nans = sorted(Map.of(11, 0L, 12, 3L));
    return new Metrics(records, sizes, values, nulls, nans, bounds(true), bounds(false));
  }

  private static Map<Integer, ByteBuffer> bounds(boolean lower) {
    Map<Integer, ByteBuffer> bounds = new LinkedHashMap<>();
    bounds.put(1, bound(1, lower ? -5L : 1_000_000_000_000L));
    bounds.put(2, bound(2, lower ? "a" : "zzzzzzzzzzzzzzz{"));
    bounds.put(3, bound(3, new BigDecimal(lower ? "-1.50" : "12345.67")));
    bounds.put(4, bound(4, lower ? date("1969-12-30") : date("2024-03-01")));
    bounds.put(7, bound(7, lower ? new UUID(0, 1) : new UUID(-1, -1)));
    bounds.put(9, lower ? bytes() : bytes(0xff, 0x00));
    bounds.put(10, bound(10, !lower));
    bounds.put(12, bound(12, lower ? Double.NEGATIVE_INFINITY : 0.0d));
    return bounds;
  }

  /** Map.of has another order in every run, and Iceberg writes maps in the order they have. */
  private static <V> Map<Integer, V> sorted(Map<Integer, V> map) {
    return new TreeMap<>(map);
  }

  private static ByteBuffer bound(int fieldId, Object value) {
    return Conversions.toByteBuffer(SCHEMA.findType(fieldId), value);
  }

  /** A position delete file for one data file: equal bounds of file_path, as PositionDeleteWriter leaves them. */
  static DeleteFile fileScopedDeletes(String name, PartitionSpec spec, PartitionData partition, String dataFile) {
    ByteBuffer path = utf8(LOCATION + dataFile);
    Map<Integer, ByteBuffer> lower = sorted(Map.of(PATH_ID, path, POS_ID, longBound(3)));
    Map<Integer, ByteBuffer> upper = sorted(Map.of(PATH_ID, path, POS_ID, longBound(90)));
    Map<Integer, Long> sizes = sorted(Map.of(PATH_ID, 70L, POS_ID, 40L));
    return positionDeletes(name, spec, partition, new Metrics(3L, sizes, null, null, null, lower, upper)).build();
  }

  static DeleteFile manyFileDeletes(String name, PartitionSpec spec, PartitionData partition) {
    Map<Integer, Long> sizes = sorted(Map.of(PATH_ID, 170L, POS_ID, 140L));
    return positionDeletes(name, spec, partition, new Metrics(30L, sizes, null, null, null, null, null)).build();
  }

  static DeleteFile referencingDeletes(String name, PartitionSpec spec, PartitionData partition, String dataFile) {
    return positionDeletes(name, spec, partition, new Metrics(4L, null, null, null, null, null, null))
        .withReferencedDataFile(LOCATION + dataFile)
        .build();
  }

  private static FileMetadata.Builder positionDeletes(
      String name, PartitionSpec spec, PartitionData partition, Metrics metrics) {
    return FileMetadata.deleteFileBuilder(spec)
        .ofPositionDeletes()
        .withPath(LOCATION + name + "-deletes.parquet")
        .withFormat(FileFormat.PARQUET)
        .withPartition(partition)
        .withFileSizeInBytes(1500)
        .withMetrics(metrics)
        .withSplitOffsets(List.of(4L));
  }

  static DeleteFile equalityDeletes(String name, PartitionSpec spec, PartitionData partition, int... equalityIds) {
    return FileMetadata.deleteFileBuilder(spec)
        .ofEqualityDeletes(equalityIds)
        .withPath(LOCATION + name + "-eq-deletes.avro")
        .withFormat(FileFormat.AVRO)
        .withPartition(partition)
        .withFileSizeInBytes(900)
        .withMetrics(metrics(9))
        .withEncryptionKeyMetadata(bytes(0x01))
        .withSortOrder(SortOrder.builderFor(SCHEMA).withOrderId(3).asc("id").build())
        .build();
  }

  static DeleteFile deletionVector(PartitionSpec spec, PartitionData partition, String dataFile, long offset) {
    return FileMetadata.deleteFileBuilder(spec)
        .ofPositionDeletes()
        .withFormat(FileFormat.PUFFIN)
        .withPath(LOCATION + "00000-0-dvs-deletes.puffin")
        .withPartition(partition)
        .withFileSizeInBytes(9_876)
        .withReferencedDataFile(LOCATION + dataFile)
        .withContentOffset(offset)
        .withContentSizeInBytes(44)
        .withRecordCount(2)
        .build();
  }

  static ByteBuffer bytes(int... values) {
    ByteBuffer bytes = ByteBuffer.allocate(values.length);
    for (int value : values) {
      bytes.put((byte) value);
    }
    return bytes.flip();
  }

  private static ByteBuffer utf8(String text) {
    return ByteBuffer.wrap(text.getBytes(StandardCharsets.UTF_8));
  }

  private static ByteBuffer longBound(long value) {
    return Conversions.toByteBuffer(Types.LongType.get(), value);
  }

  static Integer date(String date) {
    return Literal.of(date).<Integer>to(Types.DateType.get()).value();
  }

  static Long timestamp(String timestamp) {
    return Literal.of(timestamp).<Long>to(Types.TimestampType.withoutZone()).value();
  }

  static Long timestampTz(String timestamp) {
    return Literal.of(timestamp).<Long>to(Types.TimestampType.withZone()).value();
  }

  private static Long time(String time) {
    return Literal.of(time).<Long>to(Types.TimeType.get()).value();
  }
}
