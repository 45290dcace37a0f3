package deletekit.corpus;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.DeleteFile;
import org.apache.iceberg.FileFormat;
import org.apache.iceberg.FileMetadata;
import org.apache.iceberg.PartitionData;
import org.apache.iceberg.PartitionSpec;
import org.apache.iceberg.Schema;
import org.apache.iceberg.SingleValueParser;
import org.apache.iceberg.Table;
import org.apache.iceberg.data.GenericDataUtil;
import org.apache.iceberg.data.GenericFileWriterFactory;
import org.apache.iceberg.data.GenericRecord;
import org.apache.iceberg.data.Record;
import org.apache.iceberg.data.parquet.GenericParquetWriter;
import org.apache.iceberg.deletes.BaseDVFileWriter;
import org.apache.iceberg.deletes.EqualityDeleteWriter;
import org.apache.iceberg.deletes.PositionDelete;
import org.apache.iceberg.deletes.PositionDeleteWriter;
import org.apache.iceberg.encryption.EncryptedOutputFile;
import org.apache.iceberg.io.DataWriter;
import org.apache.iceberg.io.DeleteSchemaUtil;
import org.apache.iceberg.io.OutputFileFactory;
import org.apache.iceberg.parquet.Parquet;
import org.apache.iceberg.shaded.com.fasterxml.jackson.databind.JsonNode;
import org.apache.iceberg.shaded.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.iceberg.types.Type;
import org.apache.iceberg.types.Types;
import org.apache.iceberg.types.Types.NestedField;

/**
 * Writes one data or delete file of a table with Iceberg's own writers; the caller commits it.
 *
 * <p>Every method takes a JSON request, so that Python needs no generics, arrays or builders:
 * {@code format}, {@code schema-id}, {@code spec-id}, {@code partition} (one value a field), {@code columns} (in file
 * order, dots for nested leaves), {@code rows} (objects by column name; floats may be the string "NaN"), {@code keys},
 * {@code deletes} (pairs of path and position). Values are those of the spec's JSON single-value serialization.
 */
public final class FileWriters {
  private static final ObjectMapper JSON = new ObjectMapper();

  public DataFile data(Table table, String request) throws IOException {
    Request r = new Request(table, request);
    GenericFileWriterFactory factory =
        new GenericFileWriterFactory.Builder(table).dataFileFormat(r.format()).dataSchema(r.schema()).build();
    DataWriter<Record> writer = factory.newDataWriter(r.newFile(""), r.spec(), r.partition());
    try (writer) {
      for (Record row : r.rows()) {
        writer.write(row);
      }
    }
    return writer.toDataFile();
  }

  public DeleteFile equalityDeletes(Table table, String request) throws IOException {
    Request r = new Request(table, request);
    GenericFileWriterFactory factory =
        new GenericFileWriterFactory.Builder(table)
            .deleteFileFormat(r.format())
            .equalityFieldIds(r.keyIds())
            .equalityDeleteRowSchema(r.schema())
            .build();
    EqualityDeleteWriter<Record> writer = factory.newEqualityDeleteWriter(r.newFile("eq"), r.spec(), r.partition());
    try (writer) {
      for (Record row : r.rows()) {
        writer.write(row);
      }
    }
    return writer.toDeleteFile();
  }

  public DeleteFile positionDeletes(Table table, String request) throws IOException {
    Request r = new Request(table, request);
    GenericFileWriterFactory factory =
        new GenericFileWriterFactory.Builder(table).deleteFileFormat(r.format()).build();
    PositionDeleteWriter<Record> writer = factory.newPositionDeleteWriter(r.newFile("pos"), r.spec(), r.partition());
    PositionDelete<Record> delete = PositionDelete.create();
    try (writer) {
      for (JsonNode pair : r.list("deletes")) {
        writer.write(delete.set(pair.get(0).asText(), pair.get(1).asLong()));
      }
    }
    return writer.toDeleteFile();
  }

  /** Position deletes with the deprecated {@code row} struct, which Iceberg's own delete writers no longer write. */
  public DeleteFile positionDeletesWithRows(Table table, String request) throws IOException {
    Request r = new Request(table, request);
    Schema schema = DeleteSchemaUtil.posDeleteSchema(r.schema());
    EncryptedOutputFile file = r.newFile("pos");
    DataWriter<Record> writer =
        Parquet.writeData(file)
            .schema(schema)
            .createWriterFunc(GenericParquetWriter::create)
            .meta("delete-type", "position")
            .withSpec(PartitionSpec.unpartitioned())
            .build();
    List<Record> rows = r.rows();
    try (writer) {
      for (int i = 0; i < rows.size(); i++) {
        JsonNode pair = r.list("deletes").get(i);
        GenericRecord delete = GenericRecord.create(schema);
        delete.set(0, pair.get(0).asText());
        delete.set(1, pair.get(1).asLong());
        delete.set(2, rows.get(i));
        writer.write(delete);
      }
    }
    FileMetadata.Builder builder =
        FileMetadata.deleteFileBuilder(r.spec())
            .ofPositionDeletes()
            .withFormat(FileFormat.PARQUET)
            .withPath(file.encryptingOutputFile().location())
            .withFileSizeInBytes(writer.length())
            .withRecordCount(rows.size());
    return (r.spec().isPartitioned() ? builder.withPartition(r.partition()) : builder).build();
  }

  /** One Puffin file with a deletion vector for every data file named in {@code deletes}. */
  public List<DeleteFile> deletionVectors(Table table, String request) throws IOException {
    Request r = new Request(table, request);
    OutputFileFactory files = OutputFileFactory.builderFor(table, 1, 1).format(FileFormat.PUFFIN).build();
    BaseDVFileWriter writer = new BaseDVFileWriter(files, path -> null);
    try (writer) {
      for (JsonNode pair : r.list("deletes")) {
        writer.delete(pair.get(0).asText(), pair.get(1).asLong(), r.spec(), r.partition());
      }
    }
    return new ArrayList<>(writer.result().deleteFiles());
  }

  private static final class Request {
    private final Table table;
    private final JsonNode json;

    private Request(Table table, String request) throws IOException {
      this.table = table;
      this.json = JSON.readTree(request);
    }

    private JsonNode list(String name) {
      return json.path(name);
    }

    private FileFormat format() {
      return FileFormat.fromString(json.path("format").asText("parquet"));
    }

    private Schema tableSchema() {
      return json.has("schema-id") ? table.schemas().get(json.get("schema-id").asInt()) : table.schema();
    }

    private Schema schema() {
      if (!json.has("columns")) {
        return tableSchema();
      }
      List<NestedField> fields = new ArrayList<>();
      json.get("columns").forEach(name -> fields.add(tableSchema().select(name.asText()).columns().get(0)));
      return new Schema(fields);
    }

    private int[] keyIds() {
      List<Integer> ids = new ArrayList<>();
      json.get("keys").forEach(name -> ids.add(tableSchema().findField(name.asText()).fieldId()));
      return ids.stream().mapToInt(Integer::intValue).toArray();
    }

    private PartitionSpec spec() {
      return json.has("spec-id") ? table.specs().get(json.get("spec-id").asInt()) : table.spec();
    }

    private PartitionData partition() {
      List<NestedField> fields = spec().partitionType().fields();
      PartitionData partition = new PartitionData(spec().partitionType());
      for (int i = 0; i < json.path("partition").size(); i++) {
        partition.set(i, SingleValueParser.fromJson(fields.get(i).type(), json.get("partition").get(i)));
      }
      return partition;
    }

    private EncryptedOutputFile newFile(String suffix) {
      OutputFileFactory.Builder files = OutputFileFactory.builderFor(table, 1, 1).format(format());
      return (suffix.isEmpty() ? files : files.suffix(suffix)).build().newOutputFile(spec(), partition());
    }

    private List<Record> rows() {
      List<Record> rows = new ArrayList<>();
      json.path("rows").forEach(row -> rows.add(record(schema().asStruct(), row)));
      return rows;
    }

    private static Record record(Types.StructType type, JsonNode json) {
      GenericRecord record = GenericRecord.create(type);
      type.fields().forEach(field -> record.setField(field.name(), value(field.type(), json.get(field.name()))));
      return record;
    }

    private static Object value(Type type, JsonNode json) {
      if (json == null || json.isNull()) {
        return null;
      } else if (type.isStructType()) {
        return record(type.asStructType(), json);
      } else if (type.typeId() == Type.TypeID.DOUBLE) {
        return Double.valueOf(json.asText());
      } else if (type.typeId() == Type.TypeID.FLOAT) {
        return Float.valueOf(json.asText());
      }
      return GenericDataUtil.internalToGeneric(type, SingleValueParser.fromJson(type, json));
    }
  }
}
