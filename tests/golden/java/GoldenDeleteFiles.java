package org.apache.iceberg.golden;

import static org.apache.iceberg.golden.DeleteFileFixtures.NANOS;
import static org.apache.iceberg.golden.DeleteFileFixtures.TYPES;
import static org.apache.iceberg.golden.DeleteFileFixtures.USERS;
import static org.apache.iceberg.golden.DeleteFileFixtures.address;
import static org.apache.iceberg.golden.DeleteFileFixtures.lastSecondBefore1970;
import static org.apache.iceberg.golden.DeleteFileFixtures.rowsOfNanos;
import static org.apache.iceberg.golden.DeleteFileFixtures.rowsOfTypes;
import static org.apache.iceberg.golden.DeleteFileFixtures.user;

import java.io.Closeable;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.stream.IntStream;
import java.util.stream.LongStream;
import org.apache.iceberg.DeleteFile;
import org.apache.iceberg.Describe;
import org.apache.iceberg.FileFormat;
import org.apache.iceberg.MetricsConfig;
import org.apache.iceberg.PartitionData;
import org.apache.iceberg.PartitionSpec;
import org.apache.iceberg.Schema;
import org.apache.iceberg.SchemaParser;
import org.apache.iceberg.SortOrder;
import org.apache.iceberg.data.GenericFileWriterFactory;
import org.apache.iceberg.data.GenericRecord;
import org.apache.iceberg.data.Record;
import org.apache.iceberg.deletes.DeleteGranularity;
import org.apache.iceberg.deletes.EqualityDeleteWriter;
import org.apache.iceberg.deletes.PositionDelete;
import org.apache.iceberg.deletes.PositionDeleteWriter;
import org.apache.iceberg.deletes.SortingPositionOnlyDeleteWriter;
import org.apache.iceberg.encryption.EncryptedFiles;
import org.apache.iceberg.encryption.EncryptedOutputFile;
import org.apache.iceberg.formats.FormatModelRegistry;
import org.apache.iceberg.inmemory.InMemoryFileIO;
import org.apache.iceberg.io.CloseableIterable;
import org.apache.iceberg.io.DataWriter;
import org.apache.iceberg.io.DeleteSchemaUtil;
import org.apache.iceberg.io.InputFile;
import org.apache.iceberg.types.TypeUtil;

/** Position and equality delete files in Parquet, Avro and ORC, with the metadata their writers return. */
final class GoldenDeleteFiles {
  private static final String DATA = "s3://bucket/db/t/data/";
  private static final PartitionSpec UNPARTITIONED = PartitionSpec.unpartitioned();
  private static final PartitionSpec BY_CATEGORY =
      PartitionSpec.builderFor(USERS).withSpecId(1).identity("category").build();
  private static final Map<String, String> TABLE_PROPERTIES = Map.of("write.parquet.compression-codec", "zstd");

  private final GoldenDirectory directory;
  private final FileFormat format;
  private final List<Map<String, Object>> index;
  private final InMemoryFileIO io = new InMemoryFileIO();

  private GoldenDeleteFiles(GoldenDirectory directory, FileFormat format, List<Map<String, Object>> index) {
    this.directory = directory;
    this.format = format;
    this.index = index;
  }

  static void write(GoldenDirectory directory) {
    List<Map<String, Object>> index = new ArrayList<>();
    for (FileFormat format : List.of(FileFormat.PARQUET, FileFormat.AVRO, FileFormat.ORC)) {
      GoldenDeleteFiles golden = new GoldenDeleteFiles(directory, format, index);
      golden.writePositionDeletes();
      golden.writeEqualityDeletes();
    }
    directory.writeIndex(index);
  }

  private void writePositionDeletes() {
    position("pos_one_file", "one data file: file scope by equal bounds", UNPARTITIONED, null,
        Map.of(), positions("a.parquet", 0, 5, 7));
    position("pos_one_file_long_path", "bounds of file_path are never truncated", BY_CATEGORY, category("größe"),
        Map.of(), positions("category=gr%C3%B6%C3%9Fe/" + "0123456789".repeat(8) + ".parquet", 1L << 33));
    position("pos_many_files", "several data files: no bounds of file_path and pos", UNPARTITIONED, null,
        Map.of(), positions("a.parquet", 0, 5), positions("b.parquet", 1), positions("größe.parquet", 2, 3));
    position("pos_row_groups", "12000 rows in several Parquet row groups or ORC stripes", UNPARTITIONED, null,
        smallRowGroups(), positions("a.parquet", LongStream.range(0, 12_000).map(i -> i + i / 30 * 70).toArray()));
    sorted("pos_sorted", "SortingPositionOnlyDeleteWriter: rows came unsorted and twice, paths in code point order");
    positionWithRows("pos_with_row", "the row struct, which the spec deprecates and Iceberg 1.12 no longer writes");
  }

  private void writeEqualityDeletes() {
    equality("eq_int", "one required int key", USERS.select("id"), List.of(1), 1, 3, -5);
    Schema idAndCategory = USERS.select("id", "category");
    equality("eq_int_string", "two keys, NULL in one; bounds truncated to 16 characters", idAndCategory, List.of(1, 2),
        UNPARTITIONED, null,
        List.of(user(idAndCategory, 1, "a"), user(idAndCategory, 2, null), user(idAndCategory, 2, "z".repeat(20))));
    equality("eq_all_null", "a key column of NULL alone: no bounds", USERS.select("category"), List.of(2),
        UNPARTITIONED, null, List.of(user(USERS.select("category"), (Object) null)));
    Schema floats = USERS.select("value", "ratio");
    equality("eq_floating", "NaN, zeroes of both signs and NULL: the spec forbids these keys, Java writes them", floats,
        List.of(3, 4), UNPARTITIONED, null,
        List.of(user(floats, Double.NaN, Float.NaN), user(floats, -0.0d, 0.0f), user(floats, 0.0d, -0.0f),
            user(floats, Double.POSITIVE_INFINITY, null), user(floats, null, 1.5f)));
    equality("eq_extra_columns", "columns beside the key", USERS, List.of(1), BY_CATEGORY, category("a"),
        List.of(user(USERS, 1, "a", 1.5d, null, address("Köln", 50667)), user(USERS, 2, "a", null, 2.5f, null)));
    Schema nested = TypeUtil.select(USERS, Set.of(8));
    equality("eq_nested", "a key in a struct: a value, NULL, and a NULL struct", nested, List.of(8),
        UNPARTITIONED, null,
        List.of(user(nested, city(nested, "Köln")), user(nested, city(nested, null)), user(nested, (Object) null)));
    equality("eq_types", "keys of each type but floating and nanosecond ones; an ordinary, an extreme, a NULL row",
        TYPES, IntStream.rangeClosed(1, 14).boxed().toList(), UNPARTITIONED, null, rowsOfTypes());
    equality("eq_timestamp_ns", "keys of the v3 types", NANOS, List.of(1, 2), UNPARTITIONED, null, rowsOfNanos());
    Schema timestamp = TYPES.select("timestamp");
    equality("eq_last_second_before_1970", "1969-12-31T23:59:59.999999 was written; ORC gives it back a second later",
        timestamp, List.of(6), UNPARTITIONED, null, List.of(lastSecondBefore1970(timestamp)));
  }

  private static Record city(Schema nested, String city) {
    Record address = GenericRecord.create(nested.findType("address").asStructType());
    address.setField("city", city);
    return address;
  }

  private static PartitionData category(String category) {
    PartitionData partition = new PartitionData(BY_CATEGORY.partitionType());
    partition.set(0, category);
    return partition;
  }

  private static Map<String, String> smallRowGroups() {
    return Map.of(
        "write.delete.parquet.row-group-size-bytes", "2000",
        "write.delete.parquet.row-group-check-min-record-count", "3000",
        "write.delete.parquet.row-group-check-max-record-count", "3000",
        "write.delete.orc.stripe-size-bytes", "2000");
  }

  private static Positions positions(String dataFile, long... positions) {
    return new Positions(DATA + dataFile, positions);
  }

  private record Positions(String path, long[] values) {}

  private void position(
      String name, String note, PartitionSpec spec, PartitionData partition, Map<String, String> properties,
      Positions... deletes) {
    GenericFileWriterFactory factory =
        builder().writerProperties(merge(TABLE_PROPERTIES, properties)).build();
    PositionDeleteWriter<Record> writer = factory.newPositionDeleteWriter(output(name), spec, partition);
    PositionDelete<Record> delete = PositionDelete.create();
    for (Positions file : deletes) {
      for (long pos : file.values()) {
        writer.write(delete.set(file.path(), pos));
      }
    }
    close(writer);
    addPositions(name, note, "PositionDeleteWriter", writer.toDeleteFile(), spec);
  }

  private void sorted(String name, String note) {
    GenericFileWriterFactory factory = builder().writerProperties(TABLE_PROPERTIES).build();
    SortingPositionOnlyDeleteWriter<Record> writer =
        new SortingPositionOnlyDeleteWriter<>(
            () -> factory.newPositionDeleteWriter(output(name), UNPARTITIONED, null), DeleteGranularity.PARTITION);
    PositionDelete<Record> delete = PositionDelete.create();
    for (String dataFile : List.of("\uff61.parquet", "b.parquet", "😀.parquet", "a.parquet", "B.parquet")) {
      for (long pos : new long[] {9, 2, 9, 0}) {
        writer.write(delete.set(DATA + dataFile, pos));
      }
    }
    close(writer);
    DeleteFile file = writer.result().deleteFiles().get(0);
    addPositions(name, note, "SortingPositionOnlyDeleteWriter", file, UNPARTITIONED);
  }

  /** Iceberg's delete writers refuse a row since 1.12, so this is a data file with a position delete file's schema. */
  private void positionWithRows(String name, String note) {
    Schema schema = DeleteSchemaUtil.posDeleteSchema(USERS);
    try (DataWriter<Record> writer = dataWriter(output(name), schema)) {
      Record first = user(USERS, 1, "a", 1.5d, null, address("Köln", 50667));
      writer.write(user(schema, DATA + "a.parquet", 0L, first));
      writer.write(user(schema, DATA + "a.parquet", 4L, user(USERS, 2, null, null, 2.5f, null)));
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    addRows(name, note, "DataWriter", null, UNPARTITIONED, schema);
  }

  private DataWriter<Record> dataWriter(EncryptedOutputFile output, Schema schema) throws IOException {
    return FormatModelRegistry.<Record, Schema>dataWriteBuilder(format, Record.class, output)
        .schema(schema)
        .setAll(TABLE_PROPERTIES)
        .meta("delete-type", "position")
        .metricsConfig(MetricsConfig.forPositionDelete())
        .spec(UNPARTITIONED)
        .build();
  }

  private void equality(String name, String note, Schema schema, List<Integer> equalityIds, Integer... ids) {
    List<Record> rows = List.of(ids).stream().map(id -> user(schema, id)).toList();
    equality(name, note, schema, equalityIds, UNPARTITIONED, null, rows);
  }

  private void equality(
      String name, String note, Schema schema, List<Integer> equalityIds, PartitionSpec spec, PartitionData partition,
      List<Record> rows) {
    GenericFileWriterFactory factory =
        builder()
            .equalityDeleteRowSchema(schema)
            .equalityFieldIds(equalityIds.stream().mapToInt(Integer::intValue).toArray())
            .equalityDeleteSortOrder(SortOrder.unsorted())
            .writerProperties(TABLE_PROPERTIES)
            .build();
    EqualityDeleteWriter<Record> writer = factory.newEqualityDeleteWriter(output(name), spec, partition);
    rows.forEach(writer::write);
    close(writer);
    addRows(name, note, "EqualityDeleteWriter", writer.toDeleteFile(), spec, schema);
  }

  private GenericFileWriterFactory.Builder builder() {
    return new GenericFileWriterFactory.Builder().deleteFileFormat(format);
  }

  private static Map<String, String> merge(Map<String, String> properties, Map<String, String> overrides) {
    Map<String, String> merged = new LinkedHashMap<>(properties);
    merged.putAll(overrides);
    return merged;
  }

  private String fileName(String name) {
    return format.addExtension(name);
  }

  private EncryptedOutputFile output(String name) {
    return EncryptedFiles.plainAsEncryptedOutput(io.newOutputFile(DATA + fileName(name)));
  }

  private void addRows(
      String name, String note, String writtenBy, DeleteFile file, PartitionSpec spec, Schema schema) {
    List<Record> rows = add(name, note, writtenBy, file, spec, schema);
    index.get(index.size() - 1).put("rows", rows.stream().map(RecordJson::describe).toList());
  }

  private void addPositions(String name, String note, String writtenBy, DeleteFile file, PartitionSpec spec) {
    List<Record> rows = add(name, note, writtenBy, file, spec, DeleteSchemaUtil.pathPosSchema());
    Map<String, List<long[]>> positions = new LinkedHashMap<>();
    for (Record row : rows) {
      String path = row.getField("file_path").toString();
      Ranges.extend(positions.computeIfAbsent(path, key -> new ArrayList<>()), (Long) row.getField("pos"));
    }
    index.get(index.size() - 1).put("positions", positions);
  }

  /** Adds a file that was written to the directory and the index, and returns the rows it is read back as. */
  private List<Record> add(
      String name, String note, String writtenBy, DeleteFile file, PartitionSpec spec, Schema schema) {
    InputFile input = io.newInputFile(DATA + fileName(name));
    Map<String, Object> entry = new LinkedHashMap<>();
    entry.put("file", fileName(name));
    entry.put("note", note);
    entry.put("written_by", writtenBy);
    entry.put("format", format.name().toLowerCase(Locale.ROOT));
    entry.put("schema", GoldenDirectory.parseJson(SchemaParser.toJson(schema)));
    entry.put("delete_file", file == null ? null : Describe.contentFile(file, spec));
    index.add(entry);
    directory.write(fileName(name), content(input));
    return read(input, schema);
  }

  private static byte[] content(InputFile input) {
    try (InputStream stream = input.newStream()) {
      return stream.readAllBytes();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private List<Record> read(InputFile input, Schema schema) {
    try (CloseableIterable<Record> records =
        FormatModelRegistry.<Record, Schema>readBuilder(format, Record.class, input).project(schema).build()) {
      List<Record> rows = new ArrayList<>();
      records.forEach(rows::add);
      return rows;
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private static void close(Closeable writer) {
    try {
      writer.close();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
