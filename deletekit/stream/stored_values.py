"""Take the values that a batch's messages leave out from the rows before: of the batch itself, or of the table.

An update of PostgreSQL does not have a large value (TOAST) that it leaves alone. The row before the update has it: the
newest row of the key in the batch, if nothing has deleted it, else the stored row, whose place the index knows. If the
update changed the key, it is the row of the old key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from deletekit.engines.local import LocalEngine
from deletekit.errors import InvalidInputError
from deletekit.stream.change_rows import Changes, ChangeType
from deletekit.stream.saved_index import Index
from deletekit.table.types import arrow_field

Source = tuple[str, int]
"""Where a value is: in a `row` of the batch, or in the `stored` row of a key; `gone` if its row was deleted."""
_GONE: Source = ("gone", -1)


class UnsentError(InvalidInputError):
    """Rows take a value from a row that is not there. `rows` has the error of each, by its number in the batch."""

    def __init__(self, rows: Mapping[int, InvalidInputError]) -> None:
        self.rows, first = rows, next(iter(rows.values()))
        super().__init__(first.message, kind=first.kind, field=first.field, found=first.found, expected=first.expected)


def filled(changes: Changes, index: Index | None, known: pl.Series | None = None) -> Changes:
    """Return the changes with all values of the rows that are written.

    Parameters
    ----------
    index: that of the head; None if no row of it is left.
    known: of each key the value of `sequence_by` that the table has: changes with a lower one are none.

    Raises UnsentError if the row before a change is not there, or is not the only one of its key.
    """
    if changes.unsent is None:
        return changes
    late = same = np.zeros(len(changes), np.bool_)
    if known is not None:
        own, there = pl.Series("value", changes.sequence), known.gather(changes.codes)
        late, same = ((own < there).fill_null(value=False).to_numpy(), (own == there).fill_null(value=False).to_numpy())
    wanted, again = _sources(changes, late, same)
    names = sorted({name for each in wanted.values() for name in each})
    codes = {n for each in wanted.values() for kind, n in each.values() if kind == "stored"} | {*again.values()}
    stored, places = _stored(changes, index, sorted(codes), names)
    for row, code in again.items():
        if len(places.get(code, ())) == 1:
            wanted[row] = dict.fromkeys(wanted[row], ("stored", code))
    _check(changes, wanted, places)
    columns = dict(zip(changes.puts.column_names, changes.puts.columns, strict=True))
    for name in names:
        at = np.arange(len(changes.puts))
        for row, sources in wanted.items():
            kind, number = sources.get(name, ("row", row))
            at[changes.put_of[row]] = changes.put_of[number] if kind == "row" else len(at) + places[number][0]
        column = columns[name]
        more = stored.column(name).cast(column.type).chunks if len(stored) else []
        columns[name] = pa.chunked_array([*column.chunks, *more], column.type).take(pa.array(at))
    whole = pa.schema([arrow_field(f) for f in changes.schema.fields])
    return replace(changes, puts=pa.Table.from_arrays([columns[f.name] for f in changes.schema.fields], schema=whole))


def _sources(changes: Changes, late: Any, same: Any) -> tuple[dict[int, dict[str, Source]], dict[int, int]]:
    """Return where the values are that the last row of each key was not sent.

    Also return the rows that changed their key, and may have done so before: the stored row of their key, whose number
    is given, has their value of `sequence_by`.
    """
    unsent = changes.unsent
    assert unsent is not None
    affected = {int(changes.codes[row]) for row in unsent.names} | {*unsent.before.values()}
    rows = changes.order[np.isin(changes.codes[changes.order], list(affected)) & ~late[changes.order]]
    # Of each key the sources of all columns that matter, as they are after the changes so far.
    state: dict[int, dict[str, Source]] = {}
    parked: dict[int, dict[str, Source]] = {}
    columns, found, again = unsent.columns, dict[int, dict[str, Source]](), dict[int, int]()
    for row in rows.tolist():
        code, kind = int(changes.codes[row]), changes.types[row]
        now = state.get(code) or dict.fromkeys(columns, ("stored", code))
        parked.pop(code, None) if kind != ChangeType.UPDATE_AFTER else None
        if changes.put_of[row] < 0:
            if kind == ChangeType.UPDATE_BEFORE:
                parked[code] = now
            state[code] = dict.fromkeys(columns, _GONE)
            continue
        own = dict.fromkeys(columns, ("row", row))
        names = unsent.names.get(row, ())
        if names:
            old = unsent.before[row]
            of_old = state.get(old) or dict.fromkeys(columns, ("stored", old) if old >= 0 else _GONE)
            before = parked.pop(old, None) or of_old
            found[row] = {name: before[name] for name in names}
            if same[row] and old != code and code not in state:
                again[row] = code
            own |= found[row]
        state[code] = own
    written = set(changes.last.rows[changes.last.put >= 0].tolist())
    again = {row: code for row, code in again.items() if row in written}
    return {row: sources for row, sources in found.items() if row in written}, again


def _stored(
    changes: Changes, index: Index | None, codes: Sequence[int], names: Sequence[str]
) -> tuple[pa.Table, dict[int, list[int]]]:
    """Return columns of stored rows, and for each key which of them are its own."""
    if index is None or not codes:
        return pa.table({}), {}
    rows = np.searchsorted(changes.codes, codes, sorter=(by := np.argsort(changes.codes, kind="stable")))
    hits = index.find([key.take(pa.array(by[rows])) for key in changes.keys])
    columns = [f for f in index.context.metadata.schema.fields if f.name in names]
    parts, places, count = list[pa.Table](), dict[int, list[int]](), 0
    for at, part in index.stored(hits, columns, LocalEngine(1)):
        for place, key in enumerate(hits.keys[at].tolist(), count):
            places.setdefault(codes[key], []).append(place)
        parts.append(part.select(range(len(columns))).rename_columns([f.name for f in columns]))
        count += len(part)
    return (pa.concat_tables(parts) if parts else pa.table({})), places


def _check(changes: Changes, wanted: Mapping[int, Mapping[str, Source]], places: Mapping[int, list[int]]) -> None:
    """Raise UnsentError for rows whose values are nowhere, or in several stored rows."""
    wrong: dict[int, InvalidInputError] = {}
    for row, sources in wanted.items():
        for name, (kind, number) in sources.items():
            count = 1 if kind == "row" else len(places.get(number, ()))
            if count != 1:
                key = ", ".join(str(column[row].as_py()) for column in changes.keys)
                what = "there is none" if not count else "there are several with its key"
                wrong[row] = InvalidInputError(
                    f"a value that did not change was not sent, it is taken from the stored row, and {what}",
                    kind="unchanged-value",
                    field=name,
                    found=f"key {key}",
                    expected="the row in the table, or all values: REPLICA IDENTITY FULL in the source",
                )
    if wrong:
        raise UnsentError(wrong)
