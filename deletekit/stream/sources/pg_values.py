"""Turn changes of PostgreSQL's rows, whose values are text, into change rows in a table's types."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import pyarrow as pa
from pyiceberg.schema import Schema

from deletekit.errors import InvalidInputError
from deletekit.stream.fitting_parts import fitting_parts
from deletekit.stream.sources.marks import with_marks
from deletekit.stream.sources.messages import CHANGE_TYPE, Message, Reject
from deletekit.stream.sources.pgoutput import UNCHANGED, Change, Column, Row, lsn_text, whole_row
from deletekit.stream.sources.row_changes import refuse
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


@dataclass(frozen=True, slots=True)
class _ChangeMessage(Message):
    """A change as a message, for dead letters: of a table, at the LSN of the commit, with the number of the change."""

    @property
    def position(self) -> str:
        return f"{lsn_text(self.partition)}:{self.offset}"

    @property
    def place(self) -> str:
        return f"table {self.topic}, commit at {lsn_text(self.partition)}, change {self.offset}"


def change_rows(changes: Sequence[Change], schema: Schema, reject: Reject | None = None, *, truncate: bool) -> pa.Table:
    """Return change rows: the columns of the changed table, and `_change_type`.

    An update is the row after it, behind the row before it if that was sent. Values are cast to the table's types.

    Parameters
    ----------
    changes: all of them of the same columns.
    reject: takes each change that does not fit, which is then left out.
    truncate: all rows of the table are deleted before the first change.

    Raises InvalidInputError, naming the column, for a value that does not fit its type, if there is no `reject`, and
    always for a column whose type holds no value of PostgreSQL.
    """
    types = {f.name: arrow_type(f.field_type) for f in schema.fields}
    columns = {c.name: c for change in changes for c in change.relation.columns}
    kinds = {name: types.get(name) or own_type(column) for name, column in columns.items()}
    for name, kind in kinds.items():
        if pa.types.is_nested(kind):
            raise _unfit(name, "arrays and composite values are not read", kind)
    if not kinds:
        kinds = types

    def refuse_one(number: int, error: InvalidInputError) -> None:
        refuse(_message(changes[number]), error, reject)

    parts = list(fitting_parts(lambda start, end: _table(changes[start:end], kinds), refuse_one, 0, len(changes)))
    unknown: set[str] = set()
    for change in changes:
        if not change.is_insert:
            unknown |= {c.name for c in change.relation.columns} - change.relation.old_columns
    return with_marks(pa.concat_tables(parts or [_table((), kinds)]), truncate=truncate, unknown=unknown)


def _table(changes: Sequence[Change], kinds: Mapping[str, pa.DataType]) -> pa.Table:
    rows: list[tuple[str, dict[str, Any]]] = []
    for change in changes:
        if change.old is not None:
            rows.append(("DELETE" if change.new is None else "UPDATE_BEFORE", _named(change, change.old)))
        if change.new is not None:
            rows.append(("INSERT" if change.is_insert else "UPDATE_AFTER", _named(change, whole_row(change))))
    found = {name: _array(name, [row.get(name) for _, row in rows], kind) for name, kind in kinds.items()}
    return pa.table({**found, CHANGE_TYPE: pa.array([kind for kind, _ in rows], pa.string())})


def _message(change: Change) -> Message:
    """Return a change as a message: its rows as JSON, without what was not sent."""
    rows = {
        name: {c: v for c, v in _named(change, row).items() if v is not UNCHANGED}
        for name, row in (("old", change.old), ("new", change.new))
        if row is not None
    }
    relation = change.relation
    name = f"{relation.namespace}.{relation.name}"
    return _ChangeMessage(None, json.dumps(rows, ensure_ascii=False).encode(), name, change.lsn, change.number)


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
    if not texts:
        return pa.nulls(0, kind)
    try:
        return _cast(texts, kind)
    except (pa.ArrowException, ValueError, KeyError) as e:
        raise _unfit(name, str(e), kind) from e


def _unfit(name: str, found: str, kind: pa.DataType) -> InvalidInputError:
    message = "a value of PostgreSQL does not fit the column's type"
    return InvalidInputError(message, kind="source-value", field=name, found=found, expected=str(kind))


def _cast(texts: list[str | None], kind: pa.DataType) -> pa.Array:
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
