"""Fill required fields under NULL structs: Parquet needs a value there, though no reader sees it.

Only what lies under a NULL parent is filled. A NULL that is not hidden stays, and the writer refuses it.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa


def without_hidden_nulls(table: pa.Table) -> pa.Table:
    """Return the same rows, with some value in every required field of a NULL struct."""
    if not any(_has_required(f.type) for f in table.schema):
        return table
    columns = [
        pa.chunked_array([_filled(c) for c in column.chunks], type=column.type)
        for column in (table.column(i) for i in range(table.num_columns))
    ]
    return pa.Table.from_arrays(columns, schema=table.schema)


def _has_required(kind: pa.DataType) -> bool:
    if pa.types.is_struct(kind):
        return any(not f.nullable or _has_required(f.type) for f in kind)
    if pa.types.is_map(kind):
        return _has_required(kind.item_type)
    return pa.types.is_list(kind) and _has_required(kind.value_type)


def _filled(array: pa.Array) -> pa.Array:
    kind = array.type
    if not _has_required(kind):
        return array
    if pa.types.is_struct(kind):
        children = [_child(array, i) for i in range(kind.num_fields)]
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=array.is_null())
    whole = pa.concat_arrays([array])  # offsets start at zero, as a null mask needs
    if pa.types.is_map(kind):
        return pa.MapArray.from_arrays(whole.offsets, whole.keys, _filled(whole.items), type=kind, mask=whole.is_null())
    return pa.ListArray.from_arrays(whole.offsets, _filled(whole.values), type=kind, mask=whole.is_null())


def _child(parent: pa.StructArray, index: int) -> pa.Array:
    child = parent.field(index)
    if not parent.type.field(index).nullable and child.null_count:
        rows = np.arange(len(child))
        hidden = parent.is_null().to_numpy(zero_copy_only=False)
        both = pa.concat_arrays([child, _zero_array(child.type)])
        child = both.take(pa.array(np.where(hidden, len(child), rows)))
    return _filled(child)


def _zero_array(kind: pa.DataType) -> pa.Array:
    """Return one value of a type; pyarrow cannot convert Python values to a nested type with uuids."""
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, _zero_array(kind.storage_type))
    if pa.types.is_struct(kind):
        return pa.StructArray.from_arrays([_zero_array(f.type) for f in kind], fields=list(kind))
    empty = pa.array([0, 0], pa.int32())
    if pa.types.is_map(kind):
        return pa.MapArray.from_arrays(empty, pa.nulls(0, kind.key_type), pa.nulls(0, kind.item_type), type=kind)
    if pa.types.is_list(kind):
        return pa.ListArray.from_arrays(empty, pa.nulls(0, kind.value_type), type=kind)
    return pa.array([_zero(kind)], kind)


def _zero(kind: pa.DataType) -> Any:
    if pa.types.is_string(kind):
        return ""
    if pa.types.is_fixed_size_binary(kind):
        return bytes(kind.byte_width)
    if pa.types.is_binary(kind):
        return b""
    if pa.types.is_boolean(kind):
        return False
    return Decimal(0) if pa.types.is_decimal(kind) else 0
