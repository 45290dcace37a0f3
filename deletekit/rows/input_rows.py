"""Turn rows as callers pass them into columns of exactly the table's types.

A value is never changed: it fits, or it is refused with the name of its column. 1 is not "1", 1.5 is not an int, and a
timestamp with a zone is not one without. Structs are matched by name at every depth, and an extra name is refused.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from os import PathLike
from typing import Any
from uuid import UUID

import pyarrow as pa
from pyiceberg import types as it
from pyiceberg.schema import Schema

from deletekit.deferred import pc
from deletekit.errors import InvalidInputError
from deletekit.rows.projection import Projection, is_a, repeated
from deletekit.table.column_names import columns_like
from deletekit.table.types import arrow_field, arrow_type, storage_of

_ZONED = (it.TimestamptzType, it.TimestamptzNanoType)
_NAIVE = (it.TimestampType, it.TimestampNanoType)


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


def as_constant(value: Any, field: it.NestedField) -> pa.Scalar:
    """Return a Python value as one of a column. Raises InvalidInputError, naming the column, if it is none."""
    return align([{field.name: value}], Schema(field, schema_id=0)).column(0)[0]


def as_table(rows: Any, schema: Schema, argument: str = "rows", *, ragged: bool = True) -> pa.Table:
    """Return rows as an Arrow table of their own types.

    Parameters
    ----------
    schema: tells whether a dict inside a dict is a struct or a map.
    argument: the name of the argument, for errors.
    ragged: whether dicts may leave names out; these take the column's write default, else null.

    Raises InvalidInputError for rows that are not tabular or have a column twice.
    """
    odd = rows if not isinstance(rows, list) else next((row for row in rows if not isinstance(row, Mapping)), {})
    is_texts = isinstance(rows, Mapping) and any(isinstance(column, str | bytes) for column in rows.values())
    if is_texts or not (isinstance(odd, Mapping) or any(hasattr(odd, name) for name in _ARROW)):
        found = repr(odd) if isinstance(odd, str | PathLike) else type(odd).__name__
        raise InvalidInputError(f"{argument} are not tabular", kind="rows", field=argument, found=found, expected=_ROWS)
    with tabular(argument):
        if isinstance(rows, list):
            return _table_of_dicts(rows, schema, argument, ragged)
        table = rows if isinstance(rows, pa.Table) else pa.table(with_index(rows))
    for name in table.column_names:
        if table.column_names.count(name) > 1:
            raise InvalidInputError("rows have a column twice", kind="column-not-unique", field=name)
    return table


def with_index(rows: Any) -> Any:
    """Return a pandas frame with its index as columns. Arrow loses a named one that counts; one without a name is none.

    Such is the index of a frame whose rows were filtered.
    """
    is_frame = hasattr(rows, "reset_index")
    return rows.reset_index(drop=list(rows.index.names) == [None], allow_duplicates=True) if is_frame else rows


_ARROW = ("__arrow_c_stream__", "__arrow_c_array__", "__dataframe__")
_ROWS = "a pyarrow Table, a DataFrame, a list of dicts or the path of a file"


@contextmanager
def tabular(argument: str) -> Iterator[None]:
    """Turn what Arrow raises for rows of no shape into InvalidInputError. `argument` is their name."""
    try:
        yield
    except InvalidInputError:
        raise
    except (pa.ArrowException, TypeError, ValueError, AttributeError, OverflowError) as e:
        raise InvalidInputError(f"{argument} are not tabular", "rows", argument, str(e), _ROWS) from e


def cast_column(column: pa.ChunkedArray, field: it.NestedField) -> pa.ChunkedArray:
    """Return a column as the Arrow type of `field`. Raises InvalidInputError for a value that the type cannot hold.

    Nulls are allowed at the top, where keys may have them. Inside, a required field must not be null.
    """
    optional = field.model_copy(update={"required": False})
    chunks = [_Fit().convert(chunk, chunk.type, optional, field.name) for chunk in column.chunks]
    return pa.chunked_array(chunks, type=arrow_type(field.field_type))


# --- dicts ------------------------------------------------------------------------------------------------------------


def _table_of_dicts(rows: Sequence[Mapping[str, Any]], schema: Schema, argument: str, ragged: bool) -> pa.Table:
    fields = {f.name: f for f in schema.fields}
    names = dict.fromkeys(name for row in rows for name in row.keys())  # noqa: SIM118  # a row that is a list has no keys() and must fail
    if not ragged:
        odd = next((row for row in rows if row.keys() != names.keys()), None)
        if odd is not None:
            raise InvalidInputError("rows name different columns", "rows", argument, sorted(odd), sorted(names))
    if not names and (ragged or not rows):  # no rows, or rows of defaults only
        names = dict.fromkeys(f.name for f in schema.fields if not f.required or not rows)
    return pa.table({name: _values(rows, name, fields.get(name)) for name in names})


def _values(rows: Sequence[Mapping[str, Any]], name: str, field: it.NestedField | None) -> pa.Array:
    if field is None:
        return pa.array([row.get(name) for row in rows])
    try:
        return pa.array([_plain(row.get(name, field.write_default), field.field_type) for row in rows])
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as e:
        message = f"column does not fit the table's type ({e})"
        raise InvalidInputError(message, "column-type", name, expected=str(field.field_type)) from e


def _plain(value: Any, kind: it.IcebergType) -> Any:
    """Return a value in a shape whose type pyarrow finds by itself: a map as a list of entries."""
    if isinstance(value, datetime):
        if value != value:  # pandas' NaT
            return None
        if isinstance(kind, _ZONED if value.tzinfo is None else _NAIVE):
            # pyarrow gives a column the zone of its first value.
            raise TypeError("a time with a zone is not one without")
        if isinstance(kind, it.TimestampNanoType | it.TimestamptzNanoType):
            return pa.scalar(value, arrow_type(kind))  # pyarrow finds no nanoseconds by itself
        if getattr(value, "nanosecond", 0):
            raise ValueError("a time with nanoseconds is none of microseconds")
    if isinstance(value, UUID) and isinstance(kind, it.UUIDType):
        return value.bytes  # pyarrow knows uuids, but not inside structs and lists
    if value is None or kind.is_primitive:
        return value
    if isinstance(value, pa.Scalar):
        value = value.as_py()
    if isinstance(kind, it.StructType) and isinstance(value, Mapping):
        types = {f.name: f.field_type for f in kind.fields}
        return {n: _plain(v, types[n]) if n in types else v for n, v in value.items()}
    if isinstance(kind, it.ListType) and not isinstance(value, str | bytes | Mapping):
        return [_plain(v, kind.element_type) for v in value]
    if isinstance(kind, it.MapType) and not isinstance(value, str | bytes):
        pairs = value.items() if isinstance(value, Mapping) else value
        return [{"key": _plain(k, kind.key_type), "value": _plain(v, kind.value_type)} for k, v in pairs]
    return value


# --- columns ----------------------------------------------------------------------------------------------------------


def _align_column(table: pa.Table, field: it.NestedField) -> Any:
    if field.name not in table.column_names:
        return pa.chunked_array([_Fit().missing(field, len(table), field.name)])
    column = table.column(field.name)
    if field.required and column.null_count:
        raise _null(field.name, column.null_count)
    return cast_column(column, field)


class _Fit(Projection):
    """The walk for rows of a caller: fields are matched by name, and values are never changed."""

    lists = ("list", "large_list", "fixed_size_list")
    error = InvalidInputError
    message = "column does not fit the table's type"

    def convert(
        self, array: pa.Array, stored: pa.DataType, field: it.NestedField, path: str, hidden: int = 0
    ) -> pa.Array:
        del stored  # it may be a layout that is undone here
        if field.required and array.null_count > hidden:
            raise _null(path, array.null_count - hidden)
        array = storage_of(array)
        if pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()
        if pa.types.is_null(array.type):
            return pa.nulls(len(array), arrow_type(field.field_type))
        return super().convert(array, array.type, field, path)

    def places(self, stored: pa.StructType, kind: it.StructType, path: str) -> dict[int | None, int]:
        ids = {f.name: f.field_id for f in kind.fields}
        unknown = next((f.name for f in stored if f.name not in ids), None)
        if unknown is not None:
            raise _unknown(f"{path}.{unknown}", [f"{path}.{name}" for name in ids])
        return {ids[f.name]: i for i, f in enumerate(stored)}

    def missing(self, field: it.NestedField, rows: int, path: str) -> pa.Array:
        if field.write_default is not None:
            return repeated(field.write_default, arrow_type(field.field_type), rows)
        if field.required:
            raise InvalidInputError("rows lack a required column", kind="column-not-found", field=path)
        return pa.nulls(rows, arrow_type(field.field_type))

    def primitive(self, array: pa.Array, target: pa.DataType) -> pa.Array:
        if isinstance(target, pa.BaseExtensionType):
            return pa.ExtensionArray.from_storage(target, self.primitive(array, target.storage_type))
        found = array.type
        if found == target:
            return array
        zoned = [t.tz is not None for t in (found, target) if pa.types.is_timestamp(t)]
        if zoned in ([True, False], [False, True]) or (pa.types.is_date(found) and zoned == [True]):
            raise pa.ArrowInvalid("a time with a zone is not one without")
        if not any(is_a(found, *family) and is_a(target, *family) for family in _FAMILIES):
            raise pa.ArrowInvalid(f"{found} is not {target}")
        if pa.types.is_decimal(target) and pa.types.is_integer(found):
            array = array.cast(pa.decimal128(20, 0))  # Arrow asks that the target can hold every int64
        made = array.cast(target)
        # Arrow checks casts between integers, decimals and texts. These casts it rounds or cuts silently.
        if {_sort(found), _sort(target)} in ({"timestamp", "date"}, {"floating", "decimal"}):
            if not pc.all(pc.equal(made.cast(found), array)).as_py():
                raise pa.ArrowInvalid(f"a value of {found} has no equal in {target}")
        elif pa.types.is_float32(target) and _infinite(made) > _infinite(array):
            raise pa.ArrowInvalid("a number is too large for float")
        return made

    def entries(self, array: pa.Array, stored: pa.DataType) -> tuple[list[pa.Array], list[pa.DataType]]:
        if pa.types.is_map(stored):
            return super().entries(array, stored)
        # `_plain` makes a list of key-value structs of a map; of maps without entries, a list of nothing.
        if pa.types.is_list(stored) and pa.types.is_null(stored.value_type):
            return [pa.nulls(0)] * 2, [pa.null()] * 2
        if not pa.types.is_list(stored) or not pa.types.is_struct(stored.value_type) or len(stored.value_type) != 2:
            raise pa.ArrowTypeError("not a map")
        return array.values.flatten(), [f.type for f in stored.value_type]


def _sort(kind: pa.DataType) -> str:
    return next((name for names in _FAMILIES for name in names if is_a(kind, name)), str(kind))


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


def _unknown(name: str, known: Sequence[str]) -> InvalidInputError:
    message, near = "rows have a column the table does not", columns_like(name, known)
    return InvalidInputError(message, "column-not-found", name, expected=near)


def _null(path: str, count: int) -> InvalidInputError:
    return InvalidInputError("null in a required column", kind="null-in-required", field=path, found=f"{count} nulls")
