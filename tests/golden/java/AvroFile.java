package org.apache.iceberg.golden;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.iceberg.shaded.org.apache.avro.Schema;
import org.apache.iceberg.shaded.org.apache.avro.file.DataFileReader;
import org.apache.iceberg.shaded.org.apache.avro.file.SeekableByteArrayInput;
import org.apache.iceberg.shaded.org.apache.avro.generic.GenericDatumReader;
import org.apache.iceberg.shaded.org.apache.avro.generic.GenericFixed;
import org.apache.iceberg.shaded.org.apache.avro.generic.GenericRecord;

/** An Avro file as Avro itself stores it: no logical types, no Iceberg field ids, bytes in hexadecimal. */
public final class AvroFile {
  private final Map<String, String> metadata = new LinkedHashMap<>();
  private final List<Object> records = new ArrayList<>();

  public AvroFile(byte[] content) {
    try (DataFileReader<GenericRecord> reader =
        new DataFileReader<>(new SeekableByteArrayInput(content), new GenericDatumReader<>())) {
      reader.getMetaKeys().stream().sorted().forEach(key -> metadata.put(key, reader.getMetaString(key)));
      reader.forEach(row -> records.add(describe(row)));
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** The file's key-value metadata without the two schemas, Avro's and Iceberg's. */
  public Map<String, String> metadata() {
    Map<String, String> withoutSchemas = new LinkedHashMap<>(metadata);
    withoutSchemas.remove("avro.schema");
    withoutSchemas.remove("iceberg.schema");
    return withoutSchemas;
  }

  public List<Object> records() {
    return records;
  }

  private static Object describe(Object value) {
    if (value instanceof GenericRecord row) {
      Map<String, Object> fields = new LinkedHashMap<>();
      for (Schema.Field field : row.getSchema().getFields()) {
        fields.put(field.name(), describe(row.get(field.pos())));
      }
      return fields;
    } else if (value instanceof List<?> list) {
      return list.stream().map(AvroFile::describe).toList();
    } else if (value instanceof ByteBuffer bytes) {
      return Hex.of(bytes);
    } else if (value instanceof GenericFixed fixed) {
      return Hex.of(ByteBuffer.wrap(fixed.bytes()));
    } else if (value instanceof CharSequence text) {
      return text.toString();
    }
    return value;
  }
}
