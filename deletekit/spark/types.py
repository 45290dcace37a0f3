"""Translate Iceberg types into Spark's, and Arrow columns both ways.

A type is translated exactly or refused by name. Spark has no uuid (it becomes text) and no fixed (binary). It has no
nanoseconds, and no time before 4.1, where it is switched off by default: columns of these types are refused, as by
Iceberg's own reader. Text that comes for a uuid column is read as a uuid.
Spec: "Primitive Types"; Java TypeToSparkType.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyiceberg import types as it
from pyiceberg.schema import Schema
from pyspark.sql import types as st

from deletekit.deferred import Deferred
from deletekit.errors import InvalidInputError, UnsupportedError
from deletekit.rows.input_rows import align

if TYPE_CHECKING:
    import polars as pl
else:
    pl = Deferred("polars")

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
_UUID_TEXT = "^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"

Leaf = Callable[[pa.Array, it.IcebergType, str], pa.Array]


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
        expected = "other columns, named by the option columns"
        raise UnsupportedError("Spark has no type for this column", "spark-type", path, str(kind), expected)
    return _PRIMITIVES[type(kind)]


def to_spark(column: pa.ChunkedArray, kind: it.IcebergType) -> pa.ChunkedArray:
    """Cast a column as deletekit reads it to the Arrow type from which Spark makes `spark_type(kind)`."""
    return _mapped_column(column, kind, _leaf_to_spark, "")


def tables_from_spark(batches: Iterable[pa.RecordBatch], schema: Schema) -> Iterator[pa.Table]:
    """Yield rows of Spark as columns of exactly the table's types. Raises InvalidInputError as `align`."""
    return (align(from_spark(pa.Table.from_batches([batch]), schema), schema) for batch in batches)


def from_spark(rows: pa.Table, schema: Schema) -> pa.Table:
    """Return rows of Spark with text read as uuids where the table has uuids; `align` does the rest.

    Raises InvalidInputError, naming the column, for text that is not a uuid.
    """
    kinds = {f.name: f.field_type for f in schema.fields}
    for place, name in enumerate(rows.column_names):
        if name in kinds and _differs(kinds[name]):
            column = _mapped_column(rows.column(place), kinds[name], _leaf_from_spark, name)
            rows = rows.set_column(place, name, column)
    return rows


def _differs(kind: it.IcebergType) -> bool:
    """Return whether a type contains, at any depth, one that Spark does not have."""
    if isinstance(kind, it.StructType):
        return any(_differs(f.field_type) for f in kind.fields)
    if isinstance(kind, it.ListType):
        return _differs(kind.element_type)
    if isinstance(kind, it.MapType):
        return _differs(kind.key_type) or _differs(kind.value_type)
    return isinstance(kind, it.UUIDType | it.FixedType)


def _mapped_column(column: pa.ChunkedArray, kind: it.IcebergType, leaf: Leaf, path: str) -> pa.ChunkedArray:
    if not _differs(kind):
        return column
    return pa.chunked_array([_mapped(c, kind, leaf, path) for c in column.chunks or [pa.nulls(0, column.type)]])


def _mapped(array: pa.Array, kind: it.IcebergType, leaf: Leaf, path: str) -> pa.Array:
    """Apply `leaf` to the primitive parts that have another type in Spark; an array of another shape is one part."""
    if not _differs(kind):
        return array
    if isinstance(kind, it.StructType) and pa.types.is_struct(array.type):
        kinds = {f.name: f.field_type for f in kind.fields}
        fields, children = list(array.type), array.flatten()
        for i, field in enumerate(fields):
            if field.name in kinds:
                children[i] = _mapped(children[i], kinds[field.name], leaf, f"{path}.{field.name}")
            fields[i] = field.with_type(children[i].type)
        return pa.StructArray.from_arrays(children, fields=fields, mask=array.is_null())
    if isinstance(kind, it.ListType) and pa.types.is_list(array.type):
        whole = pa.concat_arrays([array])  # offsets start at zero, as a null mask needs
        values = _mapped(whole.values, kind.element_type, leaf, f"{path}.element")
        field = array.type.value_field.with_type(values.type)
        return pa.ListArray.from_arrays(whole.offsets, values, type=pa.list_(field), mask=whole.is_null())
    if isinstance(kind, it.MapType) and pa.types.is_map(array.type):
        whole = pa.concat_arrays([array])
        keys = _mapped(whole.keys, kind.key_type, leaf, f"{path}.key")
        items = _mapped(whole.items, kind.value_type, leaf, f"{path}.value")
        made = pa.map_(array.type.key_field.with_type(keys.type), array.type.item_field.with_type(items.type))
        return pa.MapArray.from_arrays(whole.offsets, keys, items, type=made, mask=whole.is_null())
    return leaf(array, kind, path)


def _leaf_to_spark(array: pa.Array, kind: it.IcebergType, _: str) -> pa.Array:
    stored = array.storage if isinstance(array, pa.ExtensionArray) else array
    plain = stored.cast(pa.binary())
    if not isinstance(kind, it.UUIDType):
        return plain
    digits = pl.Series("", plain).bin.encode("hex")
    frame = pl.select(*(digits.str.slice(start, length).alias(str(start)) for start, length in _UUID_PARTS))
    return frame.select(pl.concat_str(pl.all(), separator="-")).to_series().to_arrow().cast(pa.string())


def _leaf_from_spark(array: pa.Array, kind: it.IcebergType, path: str) -> pa.Array:
    is_text = pa.types.is_string(array.type) or pa.types.is_large_string(array.type)
    if not isinstance(kind, it.UUIDType) or not is_text:
        return array
    text: Any = pl.Series("", array)
    wrong = text.filter(~text.str.contains(_UUID_TEXT))
    if len(wrong):
        raise InvalidInputError("column does not fit the table's type", "column-type", path, wrong[0], "uuid")
    return text.str.replace_all("-", "", literal=True).str.decode("hex").to_arrow().cast(pa.binary(16))
