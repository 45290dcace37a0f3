"""Turn changes of PostgreSQL's rows, whose values are text, into change rows in a table's types."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import pyarrow as pa
from pyiceberg.schema import Schema

from deletekit.errors import InvalidInputError
from deletekit.stream.sources.marks import with_marks
from deletekit.stream.sources.messages import CHANGE_TYPE
from deletekit.stream.sources.pgoutput import Change, Column, Row, whole_row
from deletekit.table.types import arrow_type

_NUMERIC = 1700
_TYPES: dict[int, pa.DataType] = {
    16: pa.bool_(),
    17: pa.binary(),
    20: pa.int64(),
    21: pa.int32(),
    23: pa.int32(),
    26: pa.int64(),
    700: pa.float32(),
    701: pa.float64(),
    1082: pa.date32(),
    1083: pa.time64("us"),
    1114: pa.timestamp("us"),
    1184: pa.timestamp("us", "UTC"),
    2950: pa.uuid(),
}
"""The types of columns that the table lacks, by PostgreSQL's OID; all others are text."""


def change_rows(changes: Sequence[Change], schema: Schema, *, truncate: bool) -> pa.Table:
    """Return change rows: the columns of the changed table, and `_change_type`.

    An update is the row after it, behind the row before it if that was sent. Values are cast to the table's types.

    Parameters
    ----------
    truncate: all rows of the table are deleted before the first change.

    Raises InvalidInputError, naming the column, for a value that does not fit its type.
    """
    rows: list[tuple[str, dict[str, Any]]] = []
    columns: dict[str, Column] = {}
    unknown: set[str] = set()
    for change in changes:
        columns |= {c.name: c for c in change.relation.columns}
        if not change.is_insert:
            unknown |= {c.name for c in change.relation.columns} - change.relation.old_columns
        if change.old is not None:
            rows.append(("DELETE" if change.new is None else "UPDATE_BEFORE", _named(change, change.old)))
        if change.new is not None:
            rows.append(("INSERT" if change.is_insert else "UPDATE_AFTER", _named(change, whole_row(change))))
    types = {f.name: arrow_type(f.field_type) for f in schema.fields}
    found = {
        name: _array(name, [row.get(name) for _, row in rows], types.get(name) or own_type(column))
        for name, column in columns.items()
    }
    if not rows:
        found = {name: pa.nulls(0, kind) for name, kind in types.items()}
    table = pa.table({**found, CHANGE_TYPE: pa.array([kind for kind, _ in rows], pa.string())})
    return with_marks(table, truncate=truncate, unknown=unknown)


def own_type(column: Column) -> pa.DataType:
    """Return the type of a column that the table lacks."""
    if column.type_oid == _NUMERIC and column.modifier >= 4:
        precision, scale = (column.modifier - 4) >> 16, (column.modifier - 4) & 0x7FF
        if precision <= 38 and scale <= precision:
            return pa.decimal128(precision, scale)
    return _TYPES.get(column.type_oid, pa.string())


def _named(change: Change, row: Row) -> dict[str, Any]:
    return {c.name: value for c, value in zip(change.relation.columns, row, strict=True)}


def _array(name: str, texts: list[str | None], kind: pa.DataType) -> pa.Array:
    try:
        return _cast(texts, kind)
    except (pa.ArrowException, ValueError, KeyError) as e:
        raise InvalidInputError(
            "a value of PostgreSQL does not fit the column's type",
            kind="source-value",
            field=name,
            found=str(e),
            expected=str(kind),
        ) from e


def _cast(texts: list[str | None], kind: pa.DataType) -> pa.Array:
    if pa.types.is_nested(kind):
        raise ValueError("arrays and composite values are not read")
    if pa.types.is_boolean(kind):
        return pa.array([None if t is None else _BOOLEANS[t] for t in texts], kind)
    if pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return pa.array([None if t is None else _bytes(t) for t in texts], kind)
    if isinstance(kind, pa.UuidType):
        return pa.array([None if t is None else UUID(t).bytes for t in texts], pa.binary(16)).cast(kind)
    return pa.array(texts, pa.string()).cast(kind)


_BOOLEANS = {"t": True, "f": False}


def _bytes(text: str) -> bytes:
    if not text.startswith("\\x"):
        raise ValueError(f"not bytea: {text[:20]}")
    return bytes.fromhex(text[2:])
