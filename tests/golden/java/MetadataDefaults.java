package org.apache.iceberg;

import java.math.BigDecimal;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import org.apache.iceberg.expressions.Literal;
import org.apache.iceberg.types.EdgeAlgorithm;
import org.apache.iceberg.types.Type;
import org.apache.iceberg.types.Types;

/** A v3 schema with a default on every column whose type can have one, and the types that cannot. */
final class MetadataDefaults {
  private final List<Types.NestedField> fields = new ArrayList<>();

  private MetadataDefaults() {}

  static Schema schema() {
    MetadataDefaults columns = new MetadataDefaults();
    columns.addDefaults();
    columns.addTypesWithoutDefaults();
    return new Schema(columns.fields);
  }

  private void addDefaults() {
    add("boolean", Types.BooleanType.get(), Literal.of(true));
    add("int", Types.IntegerType.get(), Literal.of(-34));
    add("long", Types.LongType.get(), Literal.of(4_900_000_000L));
    add("float", Types.FloatType.get(), Literal.of(12.21f));
    add("double", Types.DoubleType.get(), Literal.of(-0.0d));
    add("decimal", Types.DecimalType.of(9, 2), Literal.of(new BigDecimal("14.20")));
    add("date", Types.DateType.get(), Literal.of("2024-12-17").to(Types.DateType.get()));
    add("time", Types.TimeType.get(), Literal.of("23:59:59.999999").to(Types.TimeType.get()));
    addTimestamp("timestamp", Types.TimestampType.withoutZone(), "2024-12-17T23:59:59.999999");
    addTimestamp("timestamptz", Types.TimestampType.withZone(), "2024-12-17T23:59:59.999999+00:00");
    addTimestamp("timestamp_ns", Types.TimestampNanoType.withoutZone(), "2024-12-17T23:59:59.999999999");
    addTimestamp("timestamptz_ns", Types.TimestampNanoType.withZone(), "2024-12-17T23:59:59.999999999+00:00");
    add("string", Types.StringType.get(), Literal.of("größe \"x\""));
    add("uuid", Types.UUIDType.get(), Literal.of(UUID.fromString("eb26bdb1-a1d8-4aa6-990e-da940875492c")));
    Type fixed = Types.FixedType.ofLength(2);
    add("fixed", fixed, Literal.of(ByteBuffer.wrap(new byte[] {0x11, 0x1f})).to(fixed));
    add("binary", Types.BinaryType.get(), Literal.of(ByteBuffer.wrap(new byte[] {-1, 0x00})));
    fields.add(
        Types.NestedField.required("required_with_default")
            .withId(nextId())
            .ofType(Types.IntegerType.get())
            .withInitialDefault(Literal.of(1))
            .withWriteDefault(Literal.of(2))
            .build());
  }

  private void addTypesWithoutDefaults() {
    add("unknown", Types.UnknownType.get(), null);
    fields.add(Types.NestedField.optional(nextId(), "variant", Types.VariantType.get()));
    add("geometry", Types.GeometryType.of("srid:3857"), null);
    add("geography", Types.GeographyType.of("srid:4269", EdgeAlgorithm.KARNEY), null);
  }

  private void addTimestamp(String name, Type type, String value) {
    add(name, type, Literal.of(value).to(type));
  }

  private void add(String name, Type type, Literal<?> value) {
    fields.add(
        Types.NestedField.optional(name)
            .withId(nextId())
            .ofType(type)
            .withInitialDefault(value)
            .withWriteDefault(value)
            .build());
  }

  private int nextId() {
    return fields.size() + 1;
  }
}
