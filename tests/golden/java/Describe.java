package org.apache.iceberg;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.iceberg.golden.GoldenDirectory;
import org.apache.iceberg.golden.Hex;
import org.apache.iceberg.types.Types;

/** Iceberg's objects as JSON with the spec's field names: bytes in hexadecimal, partition values as in Appendix D. */
public final class Describe {
  private Describe() {}

  static Map<String, Object> entry(ManifestEntry<?> entry, PartitionSpec spec) {
    Map<String, Object> fields = new LinkedHashMap<>();
    fields.put("status", entry.status().id());
    fields.put("snapshot_id", entry.snapshotId());
    fields.put("sequence_number", entry.dataSequenceNumber());
    fields.put("file_sequence_number", entry.fileSequenceNumber());
    fields.put("data_file", contentFile(entry.file(), spec));
    return fields;
  }

  public static Map<String, Object> contentFile(ContentFile<?> file, PartitionSpec spec) {
    Map<String, Object> fields = new LinkedHashMap<>();
    fields.put("content", file.content().id());
    fields.put("file_path", file.location());
    fields.put("file_format", file.format().toString());
    fields.put("spec_id", file.specId());
    fields.put("partition", partition(file.partition(), spec.partitionType()));
    fields.put("record_count", file.recordCount());
    fields.put("file_size_in_bytes", file.fileSizeInBytes());
    fields.put("column_sizes", file.columnSizes());
    fields.put("value_counts", file.valueCounts());
    fields.put("null_value_counts", file.nullValueCounts());
    fields.put("nan_value_counts", file.nanValueCounts());
    fields.put("lower_bounds", hex(file.lowerBounds()));
    fields.put("upper_bounds", hex(file.upperBounds()));
    fields.put("key_metadata", Hex.of(file.keyMetadata()));
    fields.put("split_offsets", file.splitOffsets());
    fields.put("equality_ids", file.equalityFieldIds());
    fields.put("sort_order_id", file.sortOrderId());
    fields.put("first_row_id", file.firstRowId());
    boolean isDelete = file instanceof DeleteFile;
    fields.put("referenced_data_file", isDelete ? ((DeleteFile) file).referencedDataFile() : null);
    fields.put("content_offset", isDelete ? ((DeleteFile) file).contentOffset() : null);
    fields.put("content_size_in_bytes", isDelete ? ((DeleteFile) file).contentSizeInBytes() : null);
    return fields;
  }

  static Map<String, Object> manifestFile(ManifestFile manifest) {
    Map<String, Object> fields = new LinkedHashMap<>();
    fields.put("manifest_path", manifest.path());
    fields.put("manifest_length", manifest.length());
    fields.put("partition_spec_id", manifest.partitionSpecId());
    fields.put("content", manifest.content().id());
    fields.put("sequence_number", manifest.sequenceNumber());
    fields.put("min_sequence_number", manifest.minSequenceNumber());
    fields.put("added_snapshot_id", manifest.snapshotId());
    fields.put("added_files_count", manifest.addedFilesCount());
    fields.put("existing_files_count", manifest.existingFilesCount());
    fields.put("deleted_files_count", manifest.deletedFilesCount());
    fields.put("added_rows_count", manifest.addedRowsCount());
    fields.put("existing_rows_count", manifest.existingRowsCount());
    fields.put("deleted_rows_count", manifest.deletedRowsCount());
    fields.put("partitions", partitionSummaries(manifest.partitions()));
    fields.put("key_metadata", Hex.of(manifest.keyMetadata()));
    fields.put("first_row_id", manifest.firstRowId());
    return fields;
  }

  private static List<Object> partitionSummaries(List<ManifestFile.PartitionFieldSummary> summaries) {
    if (summaries == null) {
      return null;
    }
    List<Object> descriptions = new ArrayList<>();
    for (ManifestFile.PartitionFieldSummary summary : summaries) {
      Map<String, Object> fields = new LinkedHashMap<>();
      fields.put("contains_null", summary.containsNull());
      fields.put("contains_nan", summary.containsNaN());
      fields.put("lower_bound", Hex.of(summary.lowerBound()));
      fields.put("upper_bound", Hex.of(summary.upperBound()));
      descriptions.add(fields);
    }
    return descriptions;
  }

  private static Map<String, Object> partition(StructLike partition, Types.StructType type) {
    Map<String, Object> values = new LinkedHashMap<>();
    for (int i = 0; i < type.fields().size(); i++) {
      Types.NestedField field = type.fields().get(i);
      Object value = partition.get(i, Object.class);
      values.put(field.name(), GoldenDirectory.parseJson(SingleValueParser.toJson(field.type(), value)));
    }
    return values;
  }

  private static Map<Integer, String> hex(Map<Integer, ByteBuffer> bounds) {
    if (bounds == null) {
      return null;
    }
    Map<Integer, String> hex = new LinkedHashMap<>();
    bounds.forEach((id, bound) -> hex.put(id, Hex.of(bound)));
    return hex;
  }
}
