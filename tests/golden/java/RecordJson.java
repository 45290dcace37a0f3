package org.apache.iceberg.golden;

import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.iceberg.SingleValueParser;
import org.apache.iceberg.StructLike;
import org.apache.iceberg.data.InternalRecordWrapper;
import org.apache.iceberg.data.Record;
import org.apache.iceberg.types.Types;

/** Records as JSON: field names to values in the form of the spec's Appendix D, a struct as an object. */
final class RecordJson {
  private RecordJson() {}

  static Map<String, Object> describe(Record row) {
    return describe(new InternalRecordWrapper(row.struct()).wrap(row), row.struct());
  }

  private static Map<String, Object> describe(StructLike row, Types.StructType type) {
    Map<String, Object> values = new LinkedHashMap<>();
    for (int i = 0; i < type.fields().size(); i++) {
      Types.NestedField field = type.fields().get(i);
      values.put(field.name(), describe(row.get(i, Object.class), field));
    }
    return values;
  }

  private static Object describe(Object value, Types.NestedField field) {
    if (value instanceof StructLike struct) {
      return describe(struct, field.type().asStructType());
    }
    return GoldenDirectory.parseJson(SingleValueParser.toJson(field.type(), value));
  }
}
