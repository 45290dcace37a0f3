"""Iceberg types as Spark's, and Arrow columns from the one to the other.

Law: exact or refused by name. Spark has no uuid (it is text there) and no fixed (binary); time and nanoseconds it would
lose, so columns of them are refused. Spec: "Primitive Types"; Java TypeToSparkType.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import polars as pl
import pyarrow as pa
from pyiceberg import types as it
from pyiceberg.schema import Schema
from pyspark.sql import types as st

from deletekit.errors import InvalidInputError, UnsupportedError

__all__ = ["from_spark", "spark_field", "spark_type", "to_spark"]

Leaf = Callable[[pa.Array, it.IcebergType, str], pa.Array]

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
_UUID_TEXT = "^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"
_UUID_PARTS = ((0, 8), (8, 4), (12, 4), (16, 4), (20, 12))


def spark_field(field: it.NestedField, path: str = "") -> st.StructField:
    """A column as Spark's. Raises UnsupportedError, naming the column and its type."""
    kind = spark_type(field.field_type, path or field.name)
    metadata = {"comment": field.doc} if field.doc else None
    return st.StructField(field.name, kind, not field.required, metadata)


def spark_type(kind: it.IcebergType, path: str = "") -> st.DataType:
    """A type as Spark's. Raises UnsupportedError, naming the column at `path` and the type that Spark lacks."""
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
    """A column as deletekit reads it, as the Arrow type from which Spark makes `spark_type(kind)`."""
    if not _differs(kind):
        return column
    chunks = [_mapped(chunk, kind, _leaf_to_spark, "") for chunk in column.chunks]
    return pa.chunked_array(chunks) if chunks else pa.chunked_array([_mapped(_none(column), kind, _leaf_to_spark, "")])


def from_spark(table: pa.Table, schema: Schema) -> pa.Table:
    """Rows as Spark hands them out, with its text read as uuids where the table has those; `align` does the rest.

    Raises InvalidInputError, naming the column, for text that is no uuid.
    """
    kinds = {f.name: f.field_type for f in schema.fields if _differs(f.field_type)}
    for place, name in enumerate(table.column_names):
        if name in kinds:
            column = table.column(place)
            chunks = [_mapped(c, kinds[name], _leaf_from_spark, name) for c in column.chunks or [_none(column)]]
            table = table.set_column(place, name, pa.chunked_array(chunks))
    return table


def _none(column: pa.ChunkedArray) -> pa.Array:
    return pa.nulls(0, column.type)


def _differs(kind: it.IcebergType) -> bool:
    """Whether a type holds, at any depth, what Spark has as another one."""
    if isinstance(kind, it.StructType):
        return any(_differs(f.field_type) for f in kind.fields)
    if isinstance(kind, it.ListType):
        return _differs(kind.element_type)
    if isinstance(kind, it.MapType):
        return _differs(kind.key_type) or _differs(kind.value_type)
    return isinstance(kind, it.UUIDType | it.FixedType)


def _mapped(array: pa.Array, kind: it.IcebergType, leaf: Leaf, path: str) -> pa.Array:
    """An array with `leaf` applied to its primitive parts; what is not of the shape of `kind` is left as it is."""
    if not _differs(kind):
        return array
    if isinstance(kind, it.StructType) and pa.types.is_struct(array.type):
        return _struct(array, {f.name: f.field_type for f in kind.fields}, leaf, path)
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


def _struct(array: pa.StructArray, kinds: Mapping[str, it.IcebergType], leaf: Leaf, path: str) -> pa.Array:
    fields, children = [], []
    for place, child in enumerate(array.flatten()):
        field = array.type.field(place)
        kind = kinds.get(field.name)
        made = child if kind is None else _mapped(child, kind, leaf, f"{path}.{field.name}")
        fields.append(field.with_type(made.type).with_nullable(True))
        children.append(made)
    return pa.StructArray.from_arrays(children, fields=fields, mask=array.is_null())


def _leaf_to_spark(array: pa.Array, kind: it.IcebergType, path: str) -> pa.Array:
    del path
    stored = array.storage if isinstance(array, pa.ExtensionArray) else array
    plain = stored.cast(pa.binary())
    if not isinstance(kind, it.UUIDType):
        return plain
    digits = pl.Series("", plain).bin.encode("hex")
    frame = pl.select(*(digits.str.slice(start, length).alias(str(start)) for start, length in _UUID_PARTS))
    return frame.select(pl.concat_str(pl.all(), separator="-")).to_series().to_arrow().cast(pa.string())


def _leaf_from_spark(array: pa.Array, kind: it.IcebergType, path: str) -> pa.Array:
    if not isinstance(kind, it.UUIDType) or not (
        pa.types.is_string(array.type) or pa.types.is_large_string(array.type)
    ):
        return array
    text: Any = pl.Series("", array)
    wrong = text.filter(~text.str.contains(_UUID_TEXT))
    if len(wrong):
        raise InvalidInputError(
            "column does not fit the table's type", kind="column-type", field=path, found=wrong[0], expected="uuid"
        )
    return text.str.replace_all("-", "", literal=True).str.decode("hex").to_arrow().cast(pa.binary(16))
