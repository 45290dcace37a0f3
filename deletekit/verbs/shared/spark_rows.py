"""Convert rows of Spark, which has no uuid and no fixed type, for the verbs and the data source.

Text in a uuid column is read as a uuid, or refused with the column's name. Imports no pyspark.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import polars as pl
import pyarrow as pa
from pyiceberg import types as it
from pyiceberg.schema import Schema

from deletekit.errors import InvalidInputError

Leaf = Callable[[pa.Array, it.IcebergType, str], pa.Array]

_UUID_TEXT = "^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"


def from_spark(rows: pa.Table, schema: Schema) -> pa.Table:
    """Return rows of Spark with text read as uuids where the table has uuids; `align` does the rest.

    Raises InvalidInputError, naming the column, for text that is no uuid.
    """
    kinds = {f.name: f.field_type for f in schema.fields if differs(f.field_type)}
    for place, name in enumerate(rows.column_names):
        if name in kinds:
            rows = rows.set_column(place, name, mapped_column(rows.column(place), kinds[name], _leaf_from_spark, name))
    return rows


def mapped_column(column: pa.ChunkedArray, kind: it.IcebergType, leaf: Leaf, path: str) -> pa.ChunkedArray:
    """Apply `leaf` to the primitive parts of a column that have another type in Spark."""
    return pa.chunked_array([_mapped(c, kind, leaf, path) for c in column.chunks or [pa.nulls(0, column.type)]])


def differs(kind: it.IcebergType) -> bool:
    """Return whether a type contains, at any depth, one that Spark does not have."""
    if isinstance(kind, it.StructType):
        return any(differs(f.field_type) for f in kind.fields)
    if isinstance(kind, it.ListType):
        return differs(kind.element_type)
    if isinstance(kind, it.MapType):
        return differs(kind.key_type) or differs(kind.value_type)
    return isinstance(kind, it.UUIDType | it.FixedType)


def _mapped(array: pa.Array, kind: it.IcebergType, leaf: Leaf, path: str) -> pa.Array:
    """Apply `leaf` to the primitive parts of an array; parts without the shape of `kind` are not changed."""
    if not differs(kind):
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
