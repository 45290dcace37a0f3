"""Translate Iceberg types into Spark's, and Arrow columns with them.

A type is translated exactly or refused by name. Spark has no uuid (it becomes text) and no fixed (binary). It would
lose time and nanoseconds, so columns of these types are refused. Spec: "Primitive Types"; Java TypeToSparkType.
"""

from __future__ import annotations

import polars as pl
import pyarrow as pa
from pyiceberg import types as it
from pyspark.sql import types as st

from deletekit.errors import UnsupportedError
from deletekit.verbs.shared.spark_rows import differs, mapped_column

_PRIMITIVES: dict[type[it.IcebergType], st.DataType] = {
    it.BooleanType: st.BooleanType(),
    it.IntegerType: st.IntegerType(),
    it.LongType: st.LongType(),
    it.FloatType: st.FloatType(),
    it.DoubleType: st.DoubleType(),
    it.DateType: st.DateType(),
    it.TimestampType: st.TimestampNTZType(),
    it.TimestamptzType: st.TimestampType(),
    it.StringType: st.StringType(),
    it.UUIDType: st.StringType(),
    it.BinaryType: st.BinaryType(),
    it.FixedType: st.BinaryType(),
    it.UnknownType: st.NullType(),
}
_UUID_PARTS = ((0, 8), (8, 4), (12, 4), (16, 4), (20, 12))


def spark_field(field: it.NestedField, path: str = "") -> st.StructField:
    """Return a column as Spark's. Raise UnsupportedError that names the column and its type."""
    kind = spark_type(field.field_type, path or field.name)
    metadata = {"comment": field.doc} if field.doc else None
    return st.StructField(field.name, kind, not field.required, metadata)


def spark_type(kind: it.IcebergType, path: str = "") -> st.DataType:
    """Return a type as Spark's. Raise UnsupportedError that names the column at `path` and its type."""
    if isinstance(kind, it.StructType):
        return st.StructType([spark_field(f, f"{path}.{f.name}") for f in kind.fields])
    if isinstance(kind, it.ListType):
        return st.ArrayType(spark_type(kind.element_type, f"{path}.element"), not kind.element_required)
    if isinstance(kind, it.MapType):
        key = spark_type(kind.key_type, f"{path}.key")
        return st.MapType(key, spark_type(kind.value_type, f"{path}.value"), not kind.value_required)
    if isinstance(kind, it.DecimalType):
        return st.DecimalType(kind.precision, kind.scale)
    if type(kind) not in _PRIMITIVES:
        raise UnsupportedError(
            "Spark has no type for this column",
            kind="spark-type",
            field=path,
            found=str(kind),
            expected="other columns, named by the option columns",
        )
    return _PRIMITIVES[type(kind)]


def to_spark(column: pa.ChunkedArray, kind: it.IcebergType) -> pa.ChunkedArray:
    """Cast a column as deletekit reads it to the Arrow type from which Spark makes `spark_type(kind)`."""
    return mapped_column(column, kind, _leaf_to_spark, "") if differs(kind) else column


def _leaf_to_spark(array: pa.Array, kind: it.IcebergType, path: str) -> pa.Array:
    del path
    stored = array.storage if isinstance(array, pa.ExtensionArray) else array
    plain = stored.cast(pa.binary())
    if not isinstance(kind, it.UUIDType):
        return plain
    digits = pl.Series("", plain).bin.encode("hex")
    frame = pl.select(*(digits.str.slice(start, length).alias(str(start)) for start, length in _UUID_PARTS))
    return frame.select(pl.concat_str(pl.all(), separator="-")).to_series().to_arrow().cast(pa.string())
