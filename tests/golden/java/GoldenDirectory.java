package org.apache.iceberg.golden;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.iceberg.shaded.com.fasterxml.jackson.core.JsonProcessingException;
import org.apache.iceberg.shaded.com.fasterxml.jackson.databind.JsonNode;
import org.apache.iceberg.shaded.com.fasterxml.jackson.databind.ObjectMapper;

/** One directory of golden files and the index.json beside them: an array with one entry a line. */
public final class GoldenDirectory {
  private static final ObjectMapper MAPPER = new ObjectMapper();

  private final Path path;

  public GoldenDirectory(Path root, String name) {
    this.path = root.resolve(name);
    createDirectory();
  }

  private void createDirectory() {
    try {
      Files.createDirectories(path);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  public void write(String file, byte[] content) {
    try {
      Files.write(path.resolve(file), content);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  public byte[] read(String file) {
    try {
      return Files.readAllBytes(path.resolve(file));
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** File names with this suffix, sorted. */
  public List<String> list(String suffix) {
    try (Stream<Path> files = Files.list(path)) {
      return files
          .map(file -> file.getFileName().toString())
          .filter(file -> file.endsWith(suffix))
          .sorted()
          .collect(Collectors.toList());
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  public void writeIndex(List<Map<String, Object>> entries) {
    String lines =
        entries.stream().map(GoldenDirectory::toJson).collect(Collectors.joining(",\n"));
    write("index.json", ("[\n" + lines + "\n]\n").getBytes(StandardCharsets.UTF_8));
  }

  public static JsonNode parseJson(String json) {
    try {
      return MAPPER.readTree(json);
    } catch (JsonProcessingException e) {
      throw new UncheckedIOException(e);
    }
  }

  private static String toJson(Object value) {
    try {
      return MAPPER.writeValueAsString(value);
    } catch (JsonProcessingException e) {
      throw new UncheckedIOException(e);
    }
  }
}
