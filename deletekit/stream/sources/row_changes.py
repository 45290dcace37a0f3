"""Make one Arrow table of the changes that messages say, and find the messages whose values do not fit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg import types as it
from pyiceberg.schema import Schema

from deletekit.errors import InvalidInputError
from deletekit.rows.projection import repeated
from deletekit.stream.fitting_rows import fitting_parts
from deletekit.stream.sources.format_options import FormatOptions, OptionError, all_of, option_text
from deletekit.stream.sources.left_out import (
    checked_servers,
    in_order,
    unavailable,
    unavailable_at,
    with_marks,
    without_unavailable,
)
from deletekit.stream.sources.messages import CHANGE_TYPE, KEY_BEFORE, SEQUENCE, UNCHANGED, Message, Reject
from deletekit.stream.sources.source_types import SourceType, iceberg_type
from deletekit.stream.sources.values import column_of
from deletekit.table.types import arrow_type

Kind = Literal["INSERT", "UPDATE_BEFORE", "UPDATE_AFTER", "DELETE", "TOMBSTONE"]
Row = Mapping[str, Any]
_PUTS = ("INSERT", "UPDATE_AFTER")


@dataclass(frozen=True, slots=True)
class Change:
    """One row that a message says.

    Attributes
    ----------
    row: values by column. A row that is deleted has only those that are known.
    source: the type of the row in the source, a struct; None if the message does not say.
    sequence: the value of the column `_sequence`; server: whose log it is a place of, if that is known.
    before: of an updated row, what is known of the row before.
    unmoved: of an updated row without `before`, the columns of the message's key: only these are certainly as before,
        because a source sends a changed key as a delete and an insert. None if the message has no key.
    """

    kind: Kind
    row: Row
    source: SourceType | None = None
    sequence: int | str | None = None
    server: str | None = None
    before: Row | None = None
    unmoved: tuple[str, ...] | None = None


class Truncate:
    """What a message says when the source table was truncated."""


TRUNCATE = Truncate()
Understand = Callable[[Message], Iterable[Change | Truncate]]
"""Says the changes of one message; none for a message that changes no row."""


@dataclass(slots=True)
class _Said:
    """The messages of a batch that changed rows, and these changes."""

    messages: list[Message] = field(default_factory=list)
    changes: list[list[Change]] = field(default_factory=list)
    truncate: bool = False
    servers: dict[str | None, None] = field(default_factory=dict)
    refused: int = 0
    options: dict[str, dict[str, None]] = field(default_factory=dict)

    def refuse(self, message: Message, error: InvalidInputError, reject: Reject | None) -> None:
        """Give a message that cannot be understood to `reject`, and note the options that it lacks."""
        for option, columns in getattr(error, "options", {}).items():
            self.options.setdefault(option, {}).update(dict.fromkeys(columns))
        self.refused += 1
        refuse(message, error, reject)


def decode_messages(
    understand: Understand, messages: Sequence[Message], schema: Schema, options: FormatOptions, reject: Reject | None
) -> pa.Table:
    """Return the change rows of messages, as `Decoder.decode`."""
    said = _Said()
    for message in messages:
        try:
            changes = [_available(change, options) for change in understand(message)]
        except InvalidInputError as e:
            said.refuse(message, e, reject)
            continue
        if changes and changes[0] is TRUNCATE:
            _check_truncate(message, messages, options)
            said.messages, said.changes, said.truncate = [], [], True
        elif changes:
            said.messages.append(message)
            said.changes.append(changes)  # type: ignore[arg-type]  # no Truncate is left
            said.servers.update(dict.fromkeys(c.server for c in changes))  # type: ignore[union-attr]
    servers = checked_servers(said.servers, options.servers)

    def make(start: int, end: int) -> pa.Table:
        return _table([c for changes in said.changes[start:end] for c in changes], schema, options)

    def refuse_one(number: int, error: InvalidInputError) -> None:
        said.refuse(said.messages[number], error, reject)

    tables = list(fitting_parts(make, refuse_one, 0, len(said.messages))) if said.messages else []
    return with_marks(
        _together(tables, schema),
        truncate=said.truncate,
        unknown=_unknown(said, schema),
        understood=len(messages) - said.refused,
        options=option_text(said.options) if said.options else "",
        servers=servers,
    )


def _available(change: Change | Truncate, options: FormatOptions) -> Change | Truncate:
    """Return a change without the columns of a row before it whose values were not sent."""
    if isinstance(change, Truncate):
        return change
    if change.kind in _PUTS:
        before = change.before and without_unavailable(change.before, options.unavailable)
        return change if before is change.before else replace(change, before=before)
    return replace(change, row=without_unavailable(change.row, options.unavailable))


def place_in(message: Message, error: InvalidInputError) -> InvalidInputError:
    """Return an error that names its message."""
    return InvalidInputError(f"{error.message} ({message.place})", error.kind, error.field, error.found, error.expected)


def refuse(message: Message, error: InvalidInputError, reject: Reject | None) -> None:
    """Give a message that cannot be understood to `reject`; without it raise the error, which names the message."""
    named = place_in(message, error)
    if reject is None:
        raise named from error
    reject(message, named)


def _check_truncate(message: Message, messages: Sequence[Message], options: FormatOptions) -> None:
    """Refuse a truncate, dead letters or not: the rows that it deletes would stay."""
    if options.truncate != "apply":
        error = InvalidInputError(
            "the source table was truncated",
            kind="message-truncate",
            found="truncate",
            expected="option truncate='apply', which deletes all rows of the table",
        )
        raise place_in(message, error)
    partitions = {(m.topic, m.partition) for m in messages if m.partition >= 0}
    if len(partitions) > 1:
        error = InvalidInputError(
            "the source table was truncated, and messages of several partitions are not in one order",
            kind="message-truncate",
            found=f"{len(partitions)} partitions",
            expected="a topic of one partition",
        )
        raise place_in(message, error)


# --- columns ----------------------------------------------------------------------------------------------------------


def _table(changes: Sequence[Change], schema: Schema, options: FormatOptions) -> pa.Table:
    groups: dict[int, list[int]] = {}
    for number, change in enumerate(changes):
        groups.setdefault(id(change.source), []).append(number)
    if len(groups) == 1:
        return _table_of_type(changes, changes[0].source, schema, options)
    parts = [[changes[n] for n in numbers] for numbers in groups.values()]
    tables = [_table_of_type(part, part[0].source, schema, options) for part in parts]
    order = np.argsort(np.concatenate([np.array(ns) for ns in groups.values()]), kind="stable")
    return _together(tables, schema).take(pa.array(order))


def _table_of_type(
    changes: Sequence[Change], source: SourceType | None, schema: Schema, options: FormatOptions
) -> pa.Table:
    """Return the rows of changes whose types in the source are the same."""
    rows = [c.row for c in changes]
    puts = [c.kind in _PUTS for c in changes]
    fields = {f.name: f for f in schema.fields}
    types = {} if source is None else source.fields
    columns: dict[str, pa.Array] = {}
    errors: list[InvalidInputError] = []
    unchanged: list[list[str]] = [[] for _ in rows]
    for name in _names(rows, puts, fields, options):
        kind = fields[name].field_type if name in fields else None
        values = [row.get(name) for row in rows]
        for place in unavailable_at(values, options.unavailable):
            if changes[place].kind == "INSERT":
                raise unavailable(options.unavailable, name, "the message inserts its row")
            values[place] = None
            unchanged[place].append(name)
        try:
            if kind is None:
                # Of a column that the table lacks, only rows that are written matter.
                values = [v if put else None for v, put in zip(values, puts, strict=True)]
                kind = _own_type(values, types.get(name), name)
            column = column_of(values, types.get(name), name, kind, options)
        except InvalidInputError as e:
            errors.append(e)
            continue
        if name in fields and fields[name].write_default is not None:
            column = _with_default(column, rows, puts, fields[name])
        columns[name] = column
    if errors:
        raise all_of(errors)
    columns[CHANGE_TYPE] = pa.array([c.kind for c in changes], pa.string())
    if options.sequence is not None:
        places = [in_order(c.sequence, c.server, options.servers) for c in changes]
        columns[SEQUENCE] = _sequence(places, fields.get(SEQUENCE))
    if any(unchanged):
        columns[UNCHANGED] = pa.array([names or None for names in unchanged], pa.list_(pa.string()))
        columns[KEY_BEFORE] = _before(changes, unchanged, types, schema, options)
    return pa.table(columns)


def _before(
    changes: Sequence[Change],
    unchanged: Sequence[Sequence[str]],
    types: Mapping[str, SourceType],
    schema: Schema,
    options: FormatOptions,
) -> pa.Array:
    """Return the rows before updates with values that were not sent: null where the message does not have the row."""
    rows = [c.before if names else None for c, names in zip(changes, unchanged, strict=True)]
    made = [
        column_of([row and row.get(f.name) for row in rows], types.get(f.name), f.name, f.field_type, options)
        for f in schema.fields
    ]
    named = [pa.field(f.name, arrow_type(f.field_type)) for f in schema.fields]
    return pa.StructArray.from_arrays(made, fields=named, mask=pa.array([row is None for row in rows]))


def _names(
    rows: Sequence[Row], puts: Sequence[bool], fields: Mapping[str, it.NestedField], options: FormatOptions
) -> list[str]:
    """Return the columns of rows: those of the table, and others of rows that are written."""
    known: dict[str, None] = {}
    others: dict[str, None] = {}
    seen: set[tuple[str, ...]] = set()
    for row, put in zip(rows, puts, strict=True):
        names = tuple(row)
        if names in seen:
            continue
        if put:
            seen.add(names)
        for name in names:
            if name in fields:
                known[name] = None
            elif put:
                others[name] = None
    reserved = [n for n in (CHANGE_TYPE, SEQUENCE, UNCHANGED, KEY_BEFORE) if n in known or n in others]
    if reserved:
        raise InvalidInputError("a column of the source has a reserved name", kind="message-column", field=reserved[0])
    return [name for name in (*known, *others) if name not in options.ignore]


def _own_type(values: Sequence[Any], source: SourceType | None, name: str) -> it.IcebergType:
    """Return the type of a column that the table lacks."""
    if source is not None:
        kind = iceberg_type(source)
        if kind is not None:
            return kind
    found = set(map(type, values)) - {type(None)}
    plain: dict[type, it.IcebergType] = {bool: it.BooleanType(), int: it.LongType(), str: it.StringType()}
    if source is None and not found:
        return it.UnknownType()
    if source is None and found <= {int, float, Decimal} and found != {int}:
        return it.DoubleType()
    if source is None and len(found) == 1 and found <= plain.keys():
        return plain[next(iter(found))]
    said = ", ".join(t.__name__ for t in found) if source is None else source.shown
    message, expected = "rows have a column the table does not", "the column in the table, or in option ignore"
    error = InvalidInputError(message, kind="column-not-found", field=name, found=said, expected=expected)
    raise OptionError.of(error, {"ignore": [name]})


def _with_default(column: pa.Array, rows: Sequence[Row], puts: Sequence[bool], field_: it.NestedField) -> pa.Array:
    """Put the column's default into rows that are written and lack the column, as `deletes.input_rows` does."""
    lacking = [put and field_.name not in row for row, put in zip(rows, puts, strict=True)]
    if not any(lacking) or all(lacking):
        return column
    default = repeated(field_.write_default, arrow_type(field_.field_type), 1)
    places = np.where(lacking, len(column), np.arange(len(column)))
    return pa.concat_arrays([column, default]).take(pa.array(places))


def _sequence(values: Sequence[int | str | None], known: it.NestedField | None) -> pa.Array:
    kinds = set(map(type, values)) - {type(None)}  # tombstones have none
    if not kinds and known is not None:
        return pa.nulls(len(values), arrow_type(known.field_type))
    if len(kinds) > 1 or not kinds <= {int, str}:
        message, expected = "messages have no sequence", "another field of their origin as option sequence"
        error = InvalidInputError(message, kind="message-sequence", field="sequence", expected=expected)
        raise OptionError.of(error, {"sequence": ()})
    try:
        return pa.array(values, pa.int64() if kinds == {int} else pa.string() if kinds else pa.null())
    except OverflowError as e:
        raise InvalidInputError("a sequence is too large", kind="message-sequence", field="sequence") from e


def _together(tables: Sequence[pa.Table], schema: Schema) -> pa.Table:
    if len(tables) == 1:
        return tables[0]
    if not tables:
        columns = {f.name: pa.nulls(0, arrow_type(f.field_type)) for f in schema.fields}
        return pa.table({**columns, CHANGE_TYPE: pa.array([], pa.string())})
    try:
        made = pa.concat_tables(tables, promote_options="permissive")
    except pa.ArrowException as e:
        message, expected = "a column has two types in one batch", "one type, or the column in the table"
        raise InvalidInputError(message, kind="message-column", found=str(e)[:200], expected=expected) from e
    return _defaults_of_missing(made, tables, schema)


def _defaults_of_missing(made: pa.Table, tables: Sequence[pa.Table], schema: Schema) -> pa.Table:
    """Put defaults where one of several tables lacks a column that another has."""
    for number, field_ in enumerate(made.schema):
        known = next((f for f in schema.fields if f.name == field_.name), None)
        if known is None or known.write_default is None or all(field_.name in t.column_names for t in tables):
            continue
        parts = []
        for table in tables:
            if field_.name in table.column_names:
                parts += table.column(field_.name).chunks
            else:
                puts = pc.is_in(table.column(CHANGE_TYPE), pa.array(_PUTS)).combine_chunks()
                default = repeated(known.write_default, field_.type, len(table))
                places = pc.if_else(puts, pa.array(np.arange(len(table))), None)
                parts.append(default.take(places.combine_chunks() if isinstance(places, pa.ChunkedArray) else places))
        made = made.set_column(number, field_, pa.chunked_array(parts, field_.type))
    return made


def _unknown(said: _Said, schema: Schema) -> set[str]:
    """Return the table's columns that some row lacks that a change deletes, or that was there before an update."""
    names = {f.name for f in schema.fields}
    shapes = {
        tuple(c.row) if c.kind not in _PUTS else c.unmoved
        for changes in said.changes
        for c in changes
        if c.kind not in _PUTS or c.unmoved is not None
    }
    return {name for shape in shapes for name in names.difference(shape or ())}
