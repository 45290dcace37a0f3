"""Parse change rows, and find the last change of each key in a batch.

Only the last change of a key counts, and rows are in order. A change that cannot be understood, or an order that cannot
be known, is refused before anything is written.

An insert or update replaces any row with its key. The row before an update (UPDATE_BEFORE) counts as a delete, because
the row after it may have another key.

An update may lack values that did not change (`_unchanged`, `_key_before`). The row before it has them: an earlier row
of the batch, or the row that is stored (`stored_values.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField

from deletekit.errors import InvalidInputError
from deletekit.rows.input_rows import align, as_table
from deletekit.rows.keys import KeyNumbers, flat
from deletekit.stream.change_order import check_arrival, newest_value, ranks, sequence_values, with_tombstones
from deletekit.stream.sources.left_out import check_deletes, truncates
from deletekit.stream.sources.messages import KEY_BEFORE, UNCHANGED
from deletekit.table.python_values import key_texts
from deletekit.table.types import arrow_type
from deletekit.verbs.shared.equality_keys import key_column

UNSENT_COLUMNS = (UNCHANGED, KEY_BEFORE)
Numbers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsent:
    """The values of a batch that were not sent.

    Attributes
    ----------
    names: by the number of a row, the columns whose values it takes from the row before it.
    before: by the number of a row, the number of the key that the row before it has; -1 if no change has that key.
    """

    names: Mapping[int, tuple[str, ...]]
    before: Mapping[int, int]

    @property
    def columns(self) -> frozenset[str]:
        """All columns with a value that was not sent."""
        return frozenset[str]().union(*self.names.values())

    def optional(self, schema: Schema) -> Schema:
        """Return a schema in which these columns may be null."""
        fields = [f.model_copy(update={"required": False}) if f.name in self.columns else f for f in schema.fields]
        return Schema(*fields, schema_id=schema.schema_id)


def read_unsent(
    table: pa.Table,
    schema: Schema,
    fields: Sequence[NestedField],
    keys: KeyNumbers,
    is_put: npt.NDArray[np.bool_],
    decisive: Sequence[str],
) -> Unsent | None:
    """Return the values that were not sent, or None if all were.

    Parameters
    ----------
    fields: the key columns; keys: those of the rows.
    decisive: columns that put the changes in order.

    Raises InvalidInputError (`unchanged-value`) for a column that the table lacks, or that has to be known: one of the
    key or of the order.
    """
    if UNCHANGED not in table.column_names or UNCHANGED in schema.column_names:
        return None
    column = table.column(UNCHANGED)
    if not (pa.types.is_list(column.type) or pa.types.is_large_list(column.type) or pa.types.is_null(column.type)):
        message = "names of columns are a list of texts"
        raise _refused(message, "unchanged-value", UNCHANGED, str(column.type), "list of text")
    some = np.flatnonzero(is_put & pc.greater(pc.fill_null(pc.list_value_length(column), 0), 0).to_numpy())
    if not len(some):
        return None
    names = {int(row): tuple(column[int(row)].as_py()) for row in some}
    known = {f.name: f for f in schema.fields}
    needed = {str(schema.find_column_name(f.field_id)).partition(".")[0] for f in fields} | {*decisive}
    for name in sorted({name for each in names.values() for name in each}, key=str):
        if name not in known:
            message = "a value that was not sent is of no column of the table"
            raise _refused(message, "unchanged-value", name, name, ", ".join(known))
        if name in needed:
            message = "a value that was not sent has to be known: it finds or orders rows"
            raise _refused(message, "unchanged-value", name, None, "a value")
        _check_required(table, known[name], is_put, names)
    return Unsent(names=names, before=_before(table, schema, fields, keys, some))


def _before(
    table: pa.Table, schema: Schema, fields: Sequence[NestedField], keys: KeyNumbers, rows: npt.NDArray[np.int64]
) -> dict[int, int]:
    own = {int(row): int(keys.of_rows[row]) for row in rows}
    if KEY_BEFORE not in table.column_names or pa.types.is_null(table.column(KEY_BEFORE).type):
        return own
    before = table.column(KEY_BEFORE)
    if not pa.types.is_struct(before.type):
        message = "the row before a change is a struct of columns"
        raise _refused(message, "unchanged-value", KEY_BEFORE, str(before.type), "a struct")
    given = rows[before.is_valid().to_numpy()[rows]]
    if len(given):
        some = before.take(pa.array(given)).combine_chunks()
        parts = some.chunks if isinstance(some, pa.ChunkedArray) else [some]
        held = pa.concat_tables([pa.Table.from_batches([pa.RecordBatch.from_struct_array(part)]) for part in parts])
        found = keys.find([key_column(held, schema, f) for f in fields])
        own |= dict(zip(given.tolist(), found.tolist(), strict=True))
    return own


def _check_required(
    table: pa.Table, field: NestedField, is_put: npt.NDArray[np.bool_], names: Mapping[int, tuple[str, ...]]
) -> None:
    """Refuse null in a required column of a row that was sent: `align` takes the column for an optional one."""
    if not field.required or field.name not in table.column_names:
        return
    null = is_put & table.column(field.name).is_null().to_numpy()
    null[[row for row, each in names.items() if field.name in each]] = False
    if null.any():
        message = "null in a required column"
        raise InvalidInputError(message, kind="null-in-required", field=field.name, found=int(null.sum()))


class ChangeType(IntEnum):
    """Iceberg's change types (`create_changelog_view`), which are Flink's row kinds."""

    INSERT = 0
    UPDATE_BEFORE = 1
    UPDATE_AFTER = 2
    DELETE = 3


_SPELLINGS = {
    ChangeType.INSERT: ("INSERT", "+I", "I", "C", "R"),  # C and R: Debezium's create and snapshot read
    ChangeType.UPDATE_BEFORE: ("UPDATE_BEFORE", "-U", "UPDATE_PREIMAGE"),  # the last: Delta's change data feed
    ChangeType.UPDATE_AFTER: ("UPDATE_AFTER", "+U", "U", "UPDATE", "UPSERT", "UPDATE_POSTIMAGE"),
    ChangeType.DELETE: ("DELETE", "-D", "D"),
}
_TOMBSTONE = "TOMBSTONE"
"""A delete that is a tombstone of Kafka: it has no place in the order of its source, and comes where it arrives."""
_CODES = {text: code for code, texts in _SPELLINGS.items() for text in texts} | {_TOMBSTONE: ChangeType.DELETE}


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeFormat:
    """The columns of a change row, and what they mean.

    Attributes
    ----------
    fields: the key columns.
    change_type: the column with the change's type. None: every row is an upsert.
    order: the column that rows are sorted by; None: they are in order.
    ordered: whether the order of rows is reliable. If not, `order` must tell the changes of a key apart.
    sequence: the column of `sequence_by`, which orders rows before `order` does.
    """

    fields: tuple[NestedField, ...]
    change_type: str | None
    order: str | None
    ordered: bool = True
    sequence: NestedField | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LastChanges:
    """The result of a batch: the last change of each key.

    Attributes
    ----------
    keys: each key once.
    put: for each key the number of its last row in `Changes.puts`, or -1 if it was deleted.
    was_deleted: whether the batch deleted the key at some point, so that its last row is not the old one.
    rows: for each key the number of its last change.
    tombstone: whether a tombstone deleted the key at some point: the old row goes, whatever its value of `sequence_by`.
    """

    keys: tuple[Any, ...]
    put: Numbers
    was_deleted: Mask
    rows: Numbers
    tombstone: Mask

    def __len__(self) -> int:
        return len(self.put)


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """A batch, parsed by a table's schema.

    Attributes
    ----------
    keys: key columns of the rows, in the table's types.
    types: a `ChangeType` for each row.
    codes: a number for each row's key.
    order: the rows in order.
    puts: the inserted and updated rows, aligned to the table; `put_of` is a row's number among them, or -1.
    batch_columns: the table's columns that the batch has; the others get their defaults in `puts`.
    newest: the highest value of the order column, else of `sequence`.
    last: the last change of each key.
    truncate: whether the batch deletes all rows before its own.
    sequence: the value of `sequence_by` of each row, of a tombstone the highest one before it; None without such a
        column.
    unsent: the values that the batch takes from rows before it; None if it has all values.
    """

    schema: Schema
    form: ChangeFormat
    keys: tuple[Any, ...]
    types: npt.NDArray[np.int8]
    codes: Numbers
    order: Numbers
    puts: pa.Table
    put_of: Numbers
    batch_columns: tuple[NestedField, ...]
    newest: Any
    last: LastChanges
    truncate: bool = False
    sequence: Any = None
    unsent: Unsent | None = None

    def __len__(self) -> int:
        return len(self.types)


def read_changes(rows: Any, schema: Schema, form: ChangeFormat) -> Changes:
    """Parse change rows: a pyarrow Table or RecordBatch, anything with `__arrow_c_stream__`, or a list of dicts.

    Raises InvalidInputError, naming the column, for an unknown change type, a missing key or order, and rows that do
    not fit the table.
    """
    table = as_table(rows, schema, "changes")
    check_deletes(table, [str(schema.find_column_name(f.field_id)).partition(".")[0] for f in form.fields])
    types, tombstones = _types(table, form)
    keys = tuple(_key(table, schema, f) for f in form.fields)
    numbers = KeyNumbers(keys)
    codes = numbers.of_rows
    deletes = types == ChangeType.DELETE
    order, newest = _order(table, form, tombstones, codes, deletes)
    sequence, alone = None, np.zeros(len(table), np.bool_)
    if form.sequence is not None and len(table):
        given = sequence_values(table, form.sequence, tombstones)
        if not form.ordered:
            check_arrival(tombstones & given.is_null().to_numpy(False), codes, order, form.order)
        arrived = order * len(table) + np.arange(len(table))
        sequence, alone = with_tombstones(given, codes, arrived, deletes)
        order = ranks(sequence) * (int(order.max()) + 1) + order  # by sequence_by, then by order
        newest = newest_value(sequence) if form.order is None else newest
    is_put = (types == ChangeType.INSERT) | (types == ChangeType.UPDATE_AFTER)
    decisive = [n for n in (form.order, None if form.sequence is None else form.sequence.name) if n is not None]
    unsent = read_unsent(table, schema, form.fields, numbers, is_put, decisive)
    asides = (form.change_type, form.order, *UNSENT_COLUMNS)
    dropped = [n for n in asides if n in table.column_names and n not in schema.column_names]
    wanted = schema if unsent is None else unsent.optional(schema)
    puts = _puts(table.drop_columns(dropped).filter(pa.array(is_put)), wanted)
    first = 0 if form.ordered else types != ChangeType.UPDATE_BEFORE
    rank = np.lexsort((np.broadcast_to(first, order.shape), order))
    put_of = np.where(is_put, np.cumsum(is_put) - 1, -1)
    changes = Changes(
        schema=schema,
        form=form,
        keys=keys,
        types=types,
        codes=codes,
        order=rank,
        puts=puts,
        put_of=put_of,
        batch_columns=tuple(f for f in schema.fields if f.name in table.column_names),
        newest=newest,
        last=_last_changes(keys, types, codes, rank, put_of, alone),
        truncate=truncates(table),
        sequence=sequence,
        unsent=unsent,
    )
    if not form.ordered:
        _check_order(changes, order, form)
    return changes


def check_columns(empty: pa.Table, schema: Schema, form: ChangeFormat) -> None:
    """Raise InvalidInputError for columns that no change rows of a table can have.

    Parameters
    ----------
    empty: no rows, with the columns of the change rows.
    """
    for kind, name in (("change-type", form.change_type), ("change-order", form.order)):
        if name is not None and name not in empty.column_names:
            message = f"changes lack the column of their {'type' if kind == 'change-type' else 'order'}"
            raise _refused(message, kind, name, None, empty.column_names)
    for field in form.fields:
        key_column(empty, schema, field)
    names = [form.change_type, form.order, *(n for n in UNSENT_COLUMNS if n in empty.column_names)]
    extra = [n for n in names if n is not None and n not in schema.column_names]
    _puts(empty.drop_columns(extra), schema)


def _last_changes(
    keys: tuple[Any, ...], types: npt.NDArray[np.int8], codes: Numbers, order: Numbers, put_of: Numbers, alone: Mask
) -> LastChanges:
    count = int(codes.max()) + 1 if len(codes) else 0
    last = np.zeros(count, np.int64)
    last[codes[order]] = order  # of equal indices the last one stays
    was_deleted = np.zeros(count, np.bool_)
    was_deleted[codes[types == ChangeType.DELETE]] = True
    tombstone = np.zeros(count, np.bool_)
    tombstone[codes[alone]] = True
    own = tuple(c.take(pa.array(last)) for c in keys)
    return LastChanges(keys=own, put=put_of[last], was_deleted=was_deleted, rows=last, tombstone=tombstone)


def _puts(rows: pa.Table, schema: Schema) -> pa.Table:
    """Align the inserted and updated rows to the table. If there are none, even required columns may be missing."""
    if len(rows):
        return align(rows, schema)
    no_rows = {name: pa.nulls(0) for name in rows.column_names}
    return align(pa.table(no_rows | {f.name: pa.nulls(0, arrow_type(f.field_type)) for f in schema.fields}), schema)


def _types(table: pa.Table, form: ChangeFormat) -> tuple[npt.NDArray[np.int8], Mask]:
    """Return the type of each change, and which are tombstones."""
    name = form.change_type
    if name is None or not len(table):
        return np.full(len(table), ChangeType.UPDATE_AFTER, np.int8), np.zeros(len(table), np.bool_)
    if name not in table.column_names:
        raise _refused("changes lack the column of their type", "change-type", name, None, table.column_names)
    column = pl.Series(name, table.column(name))
    texts = column.cast(pl.String) if column.dtype in (pl.Categorical, pl.Null) else column
    if texts.dtype != pl.String:
        raise _refused("change types are text", "change-type", name, str(column.dtype), "INSERT, ...")
    known = texts.unique().to_list()
    for text in known:
        if text is None or text.strip().upper() not in _CODES:
            raise _refused("unknown change type", "change-type", name, text, ", ".join(sorted(_CODES)))
    codes = [int(_CODES[text.strip().upper()]) for text in known]
    found: npt.NDArray[np.int8] = texts.replace_strict(known, codes, return_dtype=pl.Int8).to_numpy()
    tombstones = texts.is_in([text for text in known if text.strip().upper() == _TOMBSTONE]).to_numpy()
    return found, np.asarray(tombstones, np.bool_)


def _order(table: pa.Table, form: ChangeFormat, tombstones: Mask, codes: Numbers, deletes: Mask) -> tuple[Numbers, Any]:
    """Return a number for each row, equal where the order column is equal, and that column's highest value."""
    is_alone = bool(tombstones.all()) and form.order not in table.column_names  # which have no value of any column
    if is_alone and not form.ordered:
        check_arrival(tombstones, codes, None, form.order)
    if form.order is None or is_alone:
        return (np.arange(len(table)) if form.ordered else np.zeros(len(table), np.int64)), None
    if form.order not in table.column_names:
        raise _refused("changes lack the order column", "change-order", form.order)
    column = table.column(form.order)
    missing = tombstones & column.is_null().to_numpy()
    if column.null_count > missing.sum():
        raise _refused("null in the order column", "change-order", form.order, f"{column.null_count} nulls")
    if pa.types.is_floating(column.type) and pc.any(pc.is_nan(column)).as_py():
        message = "NaN in the order column, which is neither before nor after any number"
        raise _refused(message, "change-order", form.order, "NaN", "a number in each row")
    if pa.types.is_nested(column.type):
        raise _refused("changes cannot be put in order by this type", "change-order", form.order, str(column.type))
    if not form.ordered:
        check_arrival(missing, codes, None, form.order)
    if missing.all():
        return np.zeros(len(table), np.int64), None
    values, _ = with_tombstones(flat(column), codes, np.arange(len(table)), deletes)
    return ranks(values), newest_value(values)


def _key(table: pa.Table, schema: Schema, field: NestedField) -> Any:
    column = key_column(table, schema, field)
    if field.required and column.null_count:
        raise _refused("null in a required key column", "null-in-required", field.name, column.null_count)
    return column


def _check_order(changes: Changes, order: Numbers, form: ChangeFormat) -> None:
    """Refuse two changes of a key with equal order, unless they are the rows before and after one update."""
    by_key = changes.order[np.argsort(changes.codes[changes.order], kind="stable")]
    first, second = by_key[:-1], by_key[1:]
    tied = (changes.codes[first] == changes.codes[second]) & (order[first] == order[second])
    pair = (changes.types[first] == ChangeType.UPDATE_BEFORE) & (changes.types[second] == ChangeType.UPDATE_AFTER)
    wrong = np.flatnonzero(tied & ~pair)
    if len(wrong):
        key = key_texts(changes.keys, int(second[wrong[0]]))
        message = "several changes of a key, and their order is not known"
        expected = "a column that puts the changes of each key in order"
        raise _refused(message, "change-order", form.order or "order", key, expected)


def _refused(message: str, kind: str, field: str, found: object = None, expected: object = None) -> InvalidInputError:
    return InvalidInputError(message, kind=kind, field=field, found=found, expected=expected)
