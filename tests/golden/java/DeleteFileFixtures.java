package org.apache.iceberg.golden;

import java.math.BigDecimal;
import java.nio.ByteBuffer;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.OffsetDateTime;
import java.util.List;
import java.util.UUID;
import org.apache.iceberg.Schema;
import org.apache.iceberg.data.GenericRecord;
import org.apache.iceberg.data.Record;
import org.apache.iceberg.types.Types;

/** The table schemas and rows that the golden delete files hold. */
final class DeleteFileFixtures {
  static final Types.StructType ADDRESS =
      Types.StructType.of(
          Types.NestedField.optional(8, "city", Types.StringType.get()),
          Types.NestedField.required(9, "zip", Types.IntegerType.get()));
  static final Schema USERS =
      new Schema(
          Types.NestedField.required(1, "id", Types.IntegerType.get()),
          Types.NestedField.optional(2, "category", Types.StringType.get()),
          Types.NestedField.optional(3, "value", Types.DoubleType.get()),
          Types.NestedField.optional(4, "ratio", Types.FloatType.get()),
          Types.NestedField.optional(7, "address", ADDRESS));
  static final Schema TYPES =
      new Schema(
          Types.NestedField.optional(1, "bool", Types.BooleanType.get()),
          Types.NestedField.optional(2, "int", Types.IntegerType.get()),
          Types.NestedField.optional(3, "long", Types.LongType.get()),
          Types.NestedField.optional(4, "date", Types.DateType.get()),
          Types.NestedField.optional(5, "time", Types.TimeType.get()),
          Types.NestedField.optional(6, "timestamp", Types.TimestampType.withoutZone()),
          Types.NestedField.optional(7, "timestamptz", Types.TimestampType.withZone()),
          Types.NestedField.optional(8, "string", Types.StringType.get()),
          Types.NestedField.optional(9, "uuid", Types.UUIDType.get()),
          Types.NestedField.optional(10, "fixed", Types.FixedType.ofLength(4)),
          Types.NestedField.optional(11, "binary", Types.BinaryType.get()),
          Types.NestedField.optional(12, "decimal_9_2", Types.DecimalType.of(9, 2)),
          Types.NestedField.optional(13, "decimal_18_4", Types.DecimalType.of(18, 4)),
          Types.NestedField.optional(14, "decimal_38_10", Types.DecimalType.of(38, 10)));
  static final Schema NANOS =
      new Schema(
          Types.NestedField.optional(1, "timestamp_ns", Types.TimestampNanoType.withoutZone()),
          Types.NestedField.optional(2, "timestamptz_ns", Types.TimestampNanoType.withZone()));

  private DeleteFileFixtures() {}

  static Record user(Schema schema, Object... values) {
    return row(schema.asStruct(), values);
  }

  static Record address(String city, int zip) {
    return row(ADDRESS, city, zip);
  }

  static List<Record> rowsOfTypes() {
    return List.of(
        row(TYPES.asStruct(), true, 7, 1L << 40, LocalDate.parse("2024-02-29"), LocalTime.parse("10:11:12.131415"),
            LocalDateTime.parse("2024-02-29T12:34:56.789012"), OffsetDateTime.parse("2024-02-29T12:34:56.789012Z"),
            "größe 日本 😀 longer than sixteen", UUID.fromString("f79c3e09-677c-4bbd-a479-3f349cb785e7"),
            new byte[] {0, 1, 127, -1}, ByteBuffer.wrap(new byte[] {-54, -2}), new BigDecimal("14.20"),
            new BigDecimal("12345678901234.5678"), new BigDecimal("12345678901234567890.1234567890")),
        row(TYPES.asStruct(), false, Integer.MIN_VALUE, Long.MIN_VALUE, LocalDate.parse("1969-12-31"), LocalTime.MIN,
            LocalDateTime.parse("1969-12-31T23:59:58.999999"), OffsetDateTime.parse("1970-01-01T00:00:00Z"),
            "", UUID.fromString("00000000-0000-0000-0000-000000000000"),
            new byte[4], ByteBuffer.wrap(new byte[0]), new BigDecimal("-9999999.99"),
            new BigDecimal("-0.0001"), new BigDecimal("-0.0000000001")),
        GenericRecord.create(TYPES));
  }

  static List<Record> rowsOfNanos() {
    return List.of(
        row(NANOS.asStruct(), LocalDateTime.parse("2024-02-29T12:34:56.789012345"),
            OffsetDateTime.parse("2024-02-29T12:34:56.789012345Z")),
        row(NANOS.asStruct(), LocalDateTime.parse("1969-12-31T23:59:58.999999999"), null));
  }

  /** ORC cannot tell the second before 1970 from the one after, where there is a fraction. */
  static Record lastSecondBefore1970(Schema timestamp) {
    return row(timestamp.asStruct(), LocalDateTime.parse("1969-12-31T23:59:59.999999"));
  }

  private static Record row(Types.StructType type, Object... values) {
    GenericRecord row = GenericRecord.create(type);
    for (int i = 0; i < values.length; i++) {
      row.set(i, values[i]);
    }
    return row;
  }
}
