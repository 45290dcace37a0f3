package org.apache.iceberg.deletes;

import java.io.Closeable;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import java.util.stream.LongStream;
import org.apache.iceberg.DeleteFile;
import org.apache.iceberg.Describe;
import org.apache.iceberg.PartitionData;
import org.apache.iceberg.PartitionSpec;
import org.apache.iceberg.Schema;
import org.apache.iceberg.StructLike;
import org.apache.iceberg.encryption.EncryptedFiles;
import org.apache.iceberg.golden.GoldenDirectory;
import org.apache.iceberg.golden.Hex;
import org.apache.iceberg.inmemory.InMemoryInputFile;
import org.apache.iceberg.inmemory.InMemoryOutputFile;
import org.apache.iceberg.puffin.Blob;
import org.apache.iceberg.puffin.FileMetadata;
import org.apache.iceberg.puffin.FileMetadataParser;
import org.apache.iceberg.puffin.Puffin;
import org.apache.iceberg.puffin.PuffinCompressionCodec;
import org.apache.iceberg.puffin.PuffinReader;
import org.apache.iceberg.puffin.PuffinWriter;
import org.apache.iceberg.puffin.StandardBlobTypes;
import org.apache.iceberg.puffin.StandardPuffinProperties;
import org.apache.iceberg.types.Types;

/** Puffin files: deletion vectors through BaseDVFileWriter, statistics blobs through PuffinWriter. */
public final class GoldenPuffin {
  private static final Schema SCHEMA =
      new Schema(
          Types.NestedField.required(1, "id", Types.LongType.get()),
          Types.NestedField.optional(2, "country", Types.StringType.get()));
  private static final PartitionSpec UNPARTITIONED = PartitionSpec.unpartitioned();
  private static final PartitionSpec BY_COUNTRY =
      PartitionSpec.builderFor(SCHEMA).withSpecId(1).identity("country").build();
  private static final PuffinCompressionCodec NONE = PuffinCompressionCodec.NONE;
  private static final PuffinCompressionCodec ZSTD = PuffinCompressionCodec.ZSTD;
  private static final String DATA = "s3://bucket/db/t/data/";

  private final GoldenDirectory directory;
  private final List<Map<String, Object>> index = new ArrayList<>();

  private GoldenPuffin(GoldenDirectory directory) {
    this.directory = directory;
  }

  public static void write(GoldenDirectory directory) {
    GoldenPuffin golden = new GoldenPuffin(directory);
    golden.readForeign();
    golden.writeDeletionVectors();
    golden.writeJavaTestShapes();
    golden.writeStatistics();
    directory.writeIndex(golden.index);
  }

  /** What Iceberg says of the files already there, which it did not write: its error, or null if it reads them. */
  private void readForeign() {
    for (String file : directory.list(".puffin")) {
      Map<String, Object> entry = new LinkedHashMap<>();
      entry.put("file", file);
      entry.put("java_error", readError(directory.read(file)));
      index.add(entry);
    }
  }

  private static String readError(byte[] content) {
    try {
      read(content);
      return null;
    } catch (RuntimeException e) {
      return e.getClass().getSimpleName() + ": " + e.getMessage();
    }
  }

  private void writeDeletionVectors() {
    deletionVectors("one_dv", "one deletion vector, unpartitioned", UNPARTITIONED,
        Map.of(DATA + "a.parquet", List.of(1L, 3L)));
    deletionVectors("many_dvs", "a DV for each of 14 data files in two partitions, in the order Java's HashMap gives",
        BY_COUNTRY, manyFiles());
    deletionVectors("dv_beyond_32_bits", "positions in bitmaps 0 and 2", UNPARTITIONED,
        Map.of(DATA + "huge.parquet", List.of(0L, (2L << 32) + 7)));
  }

  private static Map<String, List<Long>> manyFiles() {
    Map<String, List<Long>> files = new LinkedHashMap<>();
    for (int i = 0; i < 12; i++) {
      long first = i;
      List<Long> positions = LongStream.range(0, 3L * i + 1).map(k -> first + k * k).boxed().toList();
      files.put(DATA + "country=" + (i % 2 == 0 ? "NL" : "FR") + "/" + String.format("%05d.parquet", i), positions);
    }
    files.put(DATA + "country=NL/größe-日本-😀.parquet", List.of(5L));
    files.put(DATA + "country=FR/space %20 \"quote\" \\ tab\t.parquet", List.of(2L, 4L, 6L));
    return files;
  }

  /** The three files of Iceberg's own core/src/test/resources/org/apache/iceberg/puffin/v1. */
  private void writeJavaTestShapes() {
    puffin("empty", "no blob, no property: the smallest file", Map.of());
    Blob first = blob("some-blob", List.of(1), 2, 1, bytes("abcdefghi"), NONE, Map.of());
    puffin("java_sample_metric_data_uncompressed", "TestPuffinWriter's sample", createdBy("Test 1234"),
        first, blob("some-other-blob", List.of(2), 2, 1, otherSample(), NONE, Map.of()));
    puffin("java_sample_metric_data_zstd", "TestPuffinWriter's sample, both blobs compressed", createdBy("Test 1234"),
        blob("some-blob", List.of(1), 2, 1, bytes("abcdefghi"), ZSTD, Map.of()),
        blob("some-other-blob", List.of(2), 2, 1, otherSample(), ZSTD, Map.of()));
  }

  private static byte[] otherSample() {
    return bytes("some blob \u0000 binary data 🤯 that is not very very very very very very long, is it?");
  }

  private void writeStatistics() {
    byte[] sketch = new byte[96];
    new Random(20).nextBytes(sketch);
    puffin("theta_sketches", "arbitrary bytes where a sketch would be; blob and file properties",
        Map.of("created-by", "golden", "note", "größe"),
        blob(StandardBlobTypes.APACHE_DATASKETCHES_THETA_V1, List.of(1), 4242424242424242L, 7, sketch, NONE,
            Map.of("ndv", "1234")),
        blob(StandardBlobTypes.APACHE_DATASKETCHES_THETA_V1, List.of(2), 4242424242424242L, 7, sketch, ZSTD,
            Map.of("ndv", "56")));
    puffin("zstd_large_blob", "20000 repetitive bytes compressed to a few", createdBy("golden"),
        blob("some-blob", List.of(1, 2), 1, 1, bytes("iceberg ".repeat(2500)), ZSTD, Map.of()));
    puffin("odd_blobs", "an empty payload, no field, and an unknown type", createdBy("golden"),
        blob("some-blob", List.of(), 0, 0, new byte[0], NONE, Map.of()),
        blob("x-unknown-type", List.of(2147483645, 1), Long.MAX_VALUE, Long.MAX_VALUE, bytes("xyz"), NONE,
            Map.of("", "empty key", "key", "")));
  }

  private void deletionVectors(String name, String note, PartitionSpec spec, Map<String, List<Long>> files) {
    InMemoryOutputFile output = new InMemoryOutputFile(DATA + name + ".puffin");
    BaseDVFileWriter writer =
        new BaseDVFileWriter(path -> null, () -> EncryptedFiles.plainAsEncryptedOutput(output));
    files.forEach((path, positions) -> positions.forEach(pos -> writer.delete(path, pos, spec, partition(spec, path))));
    close(writer);
    Map<String, Object> entry = add(name, note, "BaseDVFileWriter", output.toByteArray());
    entry.put("deleted_positions", files);
    List<DeleteFile> dvs = writer.result().deleteFiles();
    entry.put("delete_files", dvs.stream().map(dv -> Describe.contentFile(dv, spec)).toList());
  }

  private static StructLike partition(PartitionSpec spec, String path) {
    if (spec.isUnpartitioned()) {
      return null;
    }
    PartitionData partition = new PartitionData(spec.partitionType());
    partition.set(0, path.contains("country=NL") ? "NL" : "FR");
    return partition;
  }

  private void puffin(String name, String note, Map<String, String> properties, Blob... blobs) {
    InMemoryOutputFile output = new InMemoryOutputFile(DATA + name + ".puffin");
    PuffinWriter writer = Puffin.write(output).setAll(new TreeMap<>(properties)).build();
    Arrays.stream(blobs).forEach(writer::add);
    close(writer);
    add(name, note, "PuffinWriter", output.toByteArray());
  }

  private static Map<String, String> createdBy(String writer) {
    return Map.of(StandardPuffinProperties.CREATED_BY_PROPERTY, writer);
  }

  private static Blob blob(
      String type,
      List<Integer> fields,
      long snapshotId,
      long sequenceNumber,
      byte[] payload,
      PuffinCompressionCodec codec,
      Map<String, String> properties) {
    return new Blob(
        type, fields, snapshotId, sequenceNumber, ByteBuffer.wrap(payload), codec, new TreeMap<>(properties));
  }

  private Map<String, Object> add(String name, String note, String writtenBy, byte[] content) {
    directory.write(name + ".puffin", content);
    Map<String, Object> entry = new LinkedHashMap<>();
    entry.put("file", name + ".puffin");
    entry.put("note", note);
    entry.put("written_by", writtenBy);
    entry.putAll(read(content));
    index.add(entry);
    return entry;
  }

  /** The footer and, blob by blob, the payload's length and hash after decompression. */
  private static Map<String, Object> read(byte[] content) {
    InMemoryInputFile input = new InMemoryInputFile(content);
    try (PuffinReader reader = Puffin.read(input).build()) {
      FileMetadata metadata = reader.fileMetadata();
      Map<String, Object> read = new LinkedHashMap<>();
      read.put("file_size", content.length);
      read.put("footer", GoldenDirectory.parseJson(FileMetadataParser.toJson(metadata, false)));
      List<Object> payloads = new ArrayList<>();
      reader.readAll(metadata.blobs()).forEach(blob -> payloads.add(describePayload(blob.second())));
      read.put("payloads", payloads);
      return read;
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private static Map<String, Object> describePayload(ByteBuffer payload) {
    Map<String, Object> description = new LinkedHashMap<>();
    description.put("length", payload.remaining());
    description.put("sha256", Hex.sha256(payload));
    return description;
  }

  private static byte[] bytes(String text) {
    return text.getBytes(StandardCharsets.UTF_8);
  }

  private static void close(Closeable closeable) {
    try {
      closeable.close();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
