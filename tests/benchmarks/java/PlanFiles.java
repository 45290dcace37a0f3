import com.sun.management.OperatingSystemMXBean;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import org.apache.hadoop.conf.Configuration;
import org.apache.iceberg.BaseTable;
import org.apache.iceberg.FileScanTask;
import org.apache.iceberg.StaticTableOperations;
import org.apache.iceberg.hadoop.HadoopFileIO;
import org.apache.iceberg.io.CloseableIterable;

/** Plans the table of each line, a metadata file, and looks at each task. */
public final class PlanFiles {
  private PlanFiles() {}

  /** Prints a line for each: data files, deletes, seconds, and processor seconds of the process and its threads. */
  public static void main(String[] args) throws Exception {
    OperatingSystemMXBean process = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      long start = System.nanoTime();
      long used = process.getProcessCpuTime();
      long inThreads = ofThreads();
      int files = 0;
      int deletes = 0;
      long rows = 0;
      StaticTableOperations table = new StaticTableOperations(line, new HadoopFileIO(new Configuration()));
      try (CloseableIterable<FileScanTask> tasks = new BaseTable(table, line).newScan().planFiles()) {
        for (FileScanTask task : tasks) {
          files += 1;
          deletes += task.deletes().size();
          rows += task.file().recordCount() + task.file().location().length();
        }
      }
      long took = System.nanoTime() - start;
      String seconds = took / 1e9 + " " + (process.getProcessCpuTime() - used) / 1e9 + " " + (ofThreads() - inThreads) / 1e9;
      System.out.println("PLANNED " + files + " " + deletes + " " + seconds + " " + rows);
    }
  }

  /** Without those of the compiler and the collector. */
  private static long ofThreads() {
    ThreadMXBean threads = ManagementFactory.getThreadMXBean();
    long sum = 0;
    for (long id : threads.getAllThreadIds()) {
      sum += Math.max(threads.getThreadCpuTime(id), 0);
    }
    return sum;
  }
}
