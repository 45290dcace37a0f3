import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.UUID;
import org.apache.hadoop.conf.Configuration;
import org.apache.iceberg.DeleteFile;
import org.apache.iceberg.FileFormat;
import org.apache.iceberg.FileMetadata;
import org.apache.iceberg.PartitionSpec;
import org.apache.iceberg.Schema;
import org.apache.iceberg.Table;
import org.apache.iceberg.deletes.BaseDVFileWriter;
import org.apache.iceberg.deletes.PositionDeleteIndex;
import org.apache.iceberg.hadoop.HadoopTables;
import org.apache.iceberg.io.OutputFileFactory;
import org.apache.iceberg.types.Types;

/** A vector decoded and handed to Iceberg's writer position by position, as its writers take them; many to a file. */
public final class VectorWriter {
  private VectorWriter() {}

  /** Arguments: a file with one blob, its cardinality, vectors a file, runs, a directory. Prints seconds a vector. */
  public static void main(String[] args) throws Exception {
    byte[] blob = Files.readAllBytes(Path.of(args[0]));
    int vectors = Integer.parseInt(args[2]);
    double[] seconds = new double[Integer.parseInt(args[3])];
    Schema schema = new Schema(Types.NestedField.required(1, "id", Types.LongType.get()));
    Table table = new HadoopTables(new Configuration()).create(schema, args[4] + "/" + UUID.randomUUID());
    for (int run = 0; run < seconds.length; run++) {
      long start = System.nanoTime();
      OutputFileFactory files = OutputFileFactory.builderFor(table, 1, run).format(FileFormat.PUFFIN).build();
      try (BaseDVFileWriter writer = new BaseDVFileWriter(files, path -> null)) {
        for (int vector = 0; vector < vectors; vector++) {
          String path = "part-" + vector + ".parquet";
          read(blob, Long.parseLong(args[1]))
              .forEach(position -> writer.delete(path, position, PartitionSpec.unpartitioned(), null));
        }
      }
      seconds[run] = (System.nanoTime() - start) / 1e9 / vectors;
    }
    double[] warm = Arrays.copyOfRange(seconds, seconds.length / 2, seconds.length);
    Arrays.sort(warm);
    System.out.println(warm[warm.length / 2]);
  }

  private static PositionDeleteIndex read(byte[] blob, long cardinality) {
    DeleteFile file =
        FileMetadata.deleteFileBuilder(PartitionSpec.unpartitioned())
            .ofPositionDeletes()
            .withFormat(FileFormat.PUFFIN)
            .withPath("deletes.puffin")
            .withReferencedDataFile("part-0.parquet")
            .withFileSizeInBytes(blob.length)
            .withContentOffset(0)
            .withContentSizeInBytes(blob.length)
            .withRecordCount(cardinality)
            .build();
    return PositionDeleteIndex.deserialize(blob, file);
  }
}
