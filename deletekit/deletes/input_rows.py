"""Turn rows as callers pass them into columns of exactly the table's types.

A value is never changed: it fits, or it is refused with the name of its column. 1 is not "1", 1.5 is not an int, and a
timestamp with a zone is not one without. Structs are matched by name at every depth, and an extra name is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.schema import Schema
from pyiceberg.types import (
    IcebergType,
    ListType,
    MapType,
    NestedField,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    UUIDType,
)

from deletekit.errors import InvalidInputError
from deletekit.table.column_names import columns_like
from deletekit.table.types import arrow_field, arrow_type


def align(rows: Any, schema: Schema) -> pa.Table:
    """Return rows as a table of exactly `schema`'s columns, in order, with field ids.

    Parameters
    ----------
    rows: a pyarrow Table or RecordBatch, anything with `__arrow_c_stream__`, or a list of dicts. Columns are matched by
        name. A missing optional column, or a name missing in a dict, takes its write default, else null.

    Raises InvalidInputError, naming the column, for an unknown or missing column, a null in a required one, or a value
    that the column's type cannot hold.
    """
    table = as_table(rows, schema)
    names = {f.name for f in schema.fields}
    for name in table.column_names:
        if name not in names:
            raise _unknown(name, schema.column_names)
    columns = [_align_column(table, field) for field in schema.fields]
    return pa.Table.from_arrays(columns, schema=pa.schema([arrow_field(f) for f in schema.fields]))


def as_table(rows: Any, schema: Schema, argument: str = "rows", *, ragged: bool = True) -> pa.Table:
    """Return rows as an Arrow table of their own types.

    Parameters
    ----------
    schema: tells whether a dict inside a dict is a struct or a map.
    argument: the name of the argument, for errors.
    ragged: whether dicts may leave names out; these take the column's write default, else null.

    Raises InvalidInputError for rows that are not tabular or have a column twice.
    """
    try:
        if isinstance(rows, list):
            return _table_of_dicts(rows, schema, argument, ragged)
        table = rows if isinstance(rows, pa.Table) else pa.table(rows)
    except (pa.ArrowException, TypeError, ValueError, AttributeError, OverflowError) as e:
        if isinstance(e, InvalidInputError):
            raise
        raise InvalidInputError(f"{argument} are not tabular", kind="rows", field=argument, found=str(e)) from e
    for name in table.column_names:
        if table.column_names.count(name) > 1:
            raise InvalidInputError("rows have a column twice", kind="column-not-unique", field=name)
    return table


def cast_column(column: pa.ChunkedArray, field: NestedField) -> pa.ChunkedArray:
    """Return a column as the Arrow type of `field`. Raises InvalidInputError for a value that the type cannot hold.

    Nulls are allowed at the top, where keys may have them. Inside, a required field must not be null.
    """
    return pa.chunked_array(
        [_fit(chunk, field.field_type, field.name) for chunk in column.chunks], type=arrow_type(field.field_type)
    )


# --- dicts ------------------------------------------------------------------------------------------------------------


def _table_of_dicts(rows: Sequence[Mapping[str, Any]], schema: Schema, argument: str, ragged: bool) -> pa.Table:
    fields = {f.name: f for f in schema.fields}
    names = dict.fromkeys(name for row in rows for name in row.keys())  # noqa: SIM118  # a row that is a list has no keys() and must fail
    if not ragged:
        odd = next((row for row in rows if row.keys() != names.keys()), None)
        if odd is not None:
            raise InvalidInputError(
                "rows name different columns", kind="rows", field=argument, found=sorted(odd), expected=sorted(names)
            )
    if not names and (ragged or not rows):  # no rows, or rows of defaults only
        names = dict.fromkeys(f.name for f in schema.fields if not f.required or not rows)
    return pa.table({name: _values(rows, name, fields.get(name)) for name in names})


def _values(rows: Sequence[Mapping[str, Any]], name: str, field: NestedField | None) -> pa.Array:
    if field is None:
        return pa.array([row.get(name) for row in rows])
    default = field.write_default
    try:
        return pa.array([_plain(row.get(name, default), field.field_type) for row in rows])
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as e:
        raise InvalidInputError(
            f"column does not fit the table's type ({e})",
            kind="column-type",
            field=name,
            expected=str(field.field_type),
        ) from e


def _plain(value: Any, kind: IcebergType) -> Any:
    """Return a value in a shape whose type pyarrow finds by itself: a map as a list of entries."""
    if isinstance(value, datetime):
        _check_zone(value, kind)
    if isinstance(value, UUID) and isinstance(kind, UUIDType):
        return value.bytes  # pyarrow knows uuids, but not inside structs and lists
    if value is None or kind.is_primitive:
        return value
    if isinstance(value, pa.Scalar):
        value = value.as_py()
    if isinstance(kind, StructType) and isinstance(value, Mapping):
        types = {f.name: f.field_type for f in kind.fields}
        return {n: _plain(v, types[n]) if n in types else v for n, v in value.items()}
    if isinstance(kind, ListType) and not isinstance(value, str | bytes | Mapping):
        return [_plain(v, kind.element_type) for v in value]
    if isinstance(kind, MapType) and not isinstance(value, str | bytes):
        pairs = value.items() if isinstance(value, Mapping) else value
        return [{"key": _plain(k, kind.key_type), "value": _plain(v, kind.value_type)} for k, v in pairs]
    return value


def _check_zone(value: datetime, kind: IcebergType) -> None:
    # pyarrow gives all values of a column the zone of the first one.
    zoned = isinstance(kind, TimestamptzType | TimestamptzNanoType)
    naive = isinstance(kind, TimestampType | TimestampNanoType)
    if (zoned and value.tzinfo is None) or (naive and value.tzinfo is not None):
        raise ValueError("a time with a zone is not one without")


# --- columns ----------------------------------------------------------------------------------------------------------


def _align_column(table: pa.Table, field: NestedField) -> Any:
    if field.name not in table.column_names:
        return pa.chunked_array([_absent(field, len(table), field.name)])
    column = table.column(field.name)
    if field.required and column.null_count:
        raise _null(field.name, column.null_count)
    return cast_column(column, field)


def _absent(field: NestedField, rows: int, path: str) -> pa.Array:
    kind = arrow_type(field.field_type)
    if field.write_default is not None:
        return _fit(pa.array([field.write_default] * rows), field.field_type, path) if rows else pa.nulls(0, kind)
    if field.required:
        raise InvalidInputError("rows lack a required column", kind="column-not-found", field=path)
    return pa.nulls(rows, kind)


def _fit(array: pa.Array, kind: IcebergType, path: str) -> pa.Array:
    """Return one chunk as the Arrow type of `kind`."""
    if isinstance(array.type, pa.BaseExtensionType):
        array = array.storage
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), arrow_type(kind))
    try:
        if isinstance(kind, StructType):
            return _struct(array, kind, path)
        if isinstance(kind, ListType):
            return _list(array, kind, path)
        if isinstance(kind, MapType):
            return _map(array, kind, path)
        return _primitive(array, arrow_type(kind))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as e:
        raise InvalidInputError(
            f"column does not fit the table's type ({e})",
            kind="column-type",
            field=path,
            found=str(array.type),
            expected=str(kind),
        ) from e


def _struct(array: pa.Array, kind: StructType, path: str) -> pa.Array:
    if not pa.types.is_struct(array.type):
        raise pa.ArrowInvalid("not a struct")
    found = {array.type.field(i).name: i for i in range(array.type.num_fields)}
    wanted = [f.name for f in kind.fields]
    for name in found:
        if name not in wanted:
            raise _unknown(f"{path}.{name}", [f"{path}.{n}" for n in wanted])
    flat = array.flatten()  # children with the parent's nulls applied
    children = []
    for field in kind.fields:
        name = f"{path}.{field.name}"
        if field.name in found:
            child = flat[found[field.name]]
            if field.required and child.null_count > array.null_count:
                raise _null(name, child.null_count - array.null_count)
            children.append(_fit(child, field.field_type, name))
        else:
            missing = array.null_count < len(array)  # a null parent needs no children
            children.append(_absent(field, len(array), name) if missing else _nulls(field, len(array)))
    return pa.StructArray.from_arrays(children, fields=list(arrow_type(kind)), mask=array.is_null())


def _nulls(field: NestedField, rows: int) -> pa.Array:
    return pa.nulls(rows, arrow_type(field.field_type))


def _list(array: pa.Array, kind: ListType, path: str) -> pa.Array:
    if not _is(array.type, "list", "large_list", "fixed_size_list"):
        raise pa.ArrowInvalid("not a list")
    if not pa.types.is_list(array.type):
        array = array.cast(pa.list_(array.type.value_field))
    whole = pa.concat_arrays([array])  # a null mask needs offsets that start at zero
    offsets, values = whole.offsets, whole.values
    if whole.null_count and values.null_count:
        offsets, values = _without_hidden(whole)
    values = _inner(values, kind.element_field, f"{path}.element")
    return pa.ListArray.from_arrays(offsets, values, type=arrow_type(kind), mask=whole.is_null())


def _without_hidden(array: pa.ListArray) -> tuple[pa.Array, pa.Array]:
    """Return offsets and values of lists, without what null lists hold: one of fixed size holds nulls."""
    lengths, valid = np.diff(array.offsets.to_numpy()), array.is_valid().to_numpy(zero_copy_only=False)
    shown = np.flatnonzero(np.repeat(valid, lengths))
    offsets = np.concatenate([[0], np.cumsum(np.where(valid, lengths, 0))])
    return pa.array(offsets, pa.int32()), array.values.take(pa.array(shown))


def _map(array: pa.Array, kind: MapType, path: str) -> pa.Array:
    """Return a map from a map, or from the list of key-value structs that `_plain` makes of one."""
    if not _is(array.type, "map", "list"):
        raise pa.ArrowInvalid("not a map")
    whole = pa.concat_arrays([array])
    if pa.types.is_map(array.type):
        keys, values = whole.keys, whole.items
    elif pa.types.is_null(array.type.value_type):  # maps without entries
        keys = values = pa.nulls(0)
    else:
        keys, values = whole.values.flatten()
    keys = _inner(keys, kind.key_field, f"{path}.key")
    values = _inner(values, kind.value_field, f"{path}.value")
    return pa.MapArray.from_arrays(whole.offsets, keys, values, type=arrow_type(kind), mask=whole.is_null())


def _inner(values: pa.Array, field: NestedField, path: str) -> pa.Array:
    if field.required and values.null_count:
        raise _null(path, values.null_count)
    return _fit(values, field.field_type, path)


def _primitive(array: pa.Array, kind: pa.DataType) -> pa.Array:
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, _primitive(array, kind.storage_type))
    if array.type == kind:
        return array
    zoned = [t.tz is not None for t in (array.type, kind) if pa.types.is_timestamp(t)]
    if zoned in ([True, False], [False, True]) or (pa.types.is_date(array.type) and zoned == [True]):
        raise pa.ArrowInvalid("a time with a zone is not one without")
    if not _same_family(array.type, kind):
        raise pa.ArrowInvalid(f"{array.type} is not {kind}")
    if pa.types.is_decimal(kind) and pa.types.is_integer(array.type):
        array = array.cast(pa.decimal128(20, 0))  # Arrow asks that the target can hold every int64
    made = array.cast(kind)
    # Arrow checks casts between integers, decimals and texts. These casts it rounds or cuts silently.
    if {_sort(array.type), _sort(kind)} in ({"timestamp", "date"}, {"floating", "decimal"}):
        if not pc.all(pc.equal(made.cast(array.type), array)).as_py():
            raise pa.ArrowInvalid(f"a value of {array.type} has no equal in {kind}")
    elif pa.types.is_float32(kind) and _infinite(made) > _infinite(array):
        raise pa.ArrowInvalid("a number is too large for float")
    return made


def _sort(kind: pa.DataType) -> str:
    return next((name for names in _FAMILIES for name in names if _is(kind, name)), str(kind))


def _infinite(array: pa.Array) -> int:
    return pc.sum(pc.is_inf(array)).as_py() or 0 if pa.types.is_floating(array.type) else 0


_FAMILIES = (
    ("integer", "floating", "decimal"),
    ("string", "large_string", "string_view"),
    ("binary", "large_binary", "fixed_size_binary", "binary_view"),
    ("boolean",),
    ("date", "timestamp"),
    ("time",),
)


def _same_family(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Tell whether a cast keeps the meaning: numbers to numbers, text to text."""
    return any(_is(found, *names) and _is(wanted, *names) for names in _FAMILIES)


def _is(kind: pa.DataType, *names: str) -> bool:
    return any(getattr(pa.types, f"is_{name}")(kind) for name in names)


def _unknown(name: str, known: Sequence[str]) -> InvalidInputError:
    return InvalidInputError(
        "rows have a column the table does not", kind="column-not-found", field=name, expected=columns_like(name, known)
    )


def _null(path: str, count: int) -> InvalidInputError:
    return InvalidInputError("null in a required column", kind="null-in-required", field=path, found=f"{count} nulls")
