import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.util.Collections;
import org.apache.hadoop.conf.Configuration;
import org.apache.xtable.conversion.ConversionConfig;
import org.apache.xtable.conversion.ConversionController;
import org.apache.xtable.conversion.ConversionSourceProvider;
import org.apache.xtable.conversion.SourceTable;
import org.apache.xtable.conversion.TargetTable;
import org.apache.xtable.delta.DeltaConversionSourceProvider;
import org.apache.xtable.kernel.DeltaKernelConversionSourceProvider;
import org.apache.xtable.model.sync.SyncMode;

/** First syncs by XTable: `spark` or `kernel`, then pairs of a Delta table and a folder for the Iceberg table. */
public class XTableSync {
  private static final OperatingSystemMXBean SYSTEM =
      (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();

  @SuppressWarnings({"unchecked", "rawtypes"})
  public static void main(String[] arguments) {
    Configuration conf = new Configuration();
    conf.set("spark.master", "local[2]");
    conf.set("spark.ui.enabled", "false");
    conf.set("spark.sql.shuffle.partitions", "2");
    ConversionSourceProvider provider =
        arguments[0].equals("spark") ? new DeltaConversionSourceProvider() : new DeltaKernelConversionSourceProvider();
    provider.init(conf);
    ConversionController controller = new ConversionController(conf);
    for (int i = 1; i < arguments.length; i += 2) {
      SourceTable source = SourceTable.builder().name("t").formatName("DELTA").basePath(arguments[i]).build();
      TargetTable target = TargetTable.builder().name("t").formatName("ICEBERG").basePath(arguments[i + 1]).build();
      ConversionConfig config =
          ConversionConfig.builder()
              .sourceTable(source)
              .targetTables(Collections.singletonList(target))
              .syncMode(SyncMode.FULL)
              .build();
      long begin = System.nanoTime();
      long used = SYSTEM.getProcessCpuTime();
      Object result = controller.sync(config, provider).get("ICEBERG");
      double seconds = (System.nanoTime() - begin) / 1e9;
      System.out.println("RESULT " + seconds + " " + (SYSTEM.getProcessCpuTime() - used) / 1e9 + " " + result);
    }
    System.exit(0);
  }
}
