"""Read the changes of one commit: rows that left and rows that came, those that were only written again left out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

import pyarrow as pa
from pyiceberg.types import NestedField

from deletekit.deletes.changed_rows import RowsToRead, read_rows
from deletekit.deletes.read import ReadContext, ReadRequest
from deletekit.rows.keys import row_buckets
from deletekit.rows.row_pairs import RowPairs, moved_rows, paired_rows
from deletekit.table.types import arrow_type
from deletekit.tools.snapshot_range import ChangeStep
from deletekit.verbs.shared.arrow_result import no_rows

CHANGE_COLUMNS = {"_change_type": pa.string(), "_change_ordinal": pa.int32(), "_commit_snapshot_id": pa.int64()}
"""The columns that say what a change is, with Iceberg's names."""
ROW_ID = "_row_id"
# So many rows are compared at once; more are compared by parts, each read again.
_HELD_ROWS = 1 << 22

Map = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]


@dataclass(frozen=True, slots=True)
class Pairing:
    """By what the two images of an update are found.

    Attributes
    ----------
    key: names of key columns, none for no pairing by key.
    row_id: whether rows are first paired by `_row_id`.
    upsert: whether only the newest image of an update is wanted.
    """

    key: tuple[str, ...]
    row_id: bool
    upsert: bool


@dataclass(frozen=True, slots=True)
class ChangeTask:
    """A part of the changes that can be read by itself, in any process.

    Attributes
    ----------
    rows: what to read, of one commit.
    is_compared: whether the rows are compared with each other. Otherwise there is one part of a file, and all of its
        rows are changes.
    """

    step: ChangeStep
    rows: tuple[RowsToRead, ...]
    is_compared: bool = False


@dataclass(frozen=True)
class ChangeReader:
    """Reads tasks.

    Attributes
    ----------
    columns: the names of the result's columns.
    fields: by name, the columns that are read and compared: those of the result and the key.
    bound: the bound filter.
    schema: of the result.
    """

    context: ReadContext
    columns: list[str]
    fields: Mapping[str, NestedField]
    bound: Any
    pairing: Pairing
    schema: pa.Schema

    def read_all(self, task: ChangeTask) -> list[pa.Table]:
        """Return the changes of one task, as tables of the result's schema."""
        return list(self.read(task))

    def read(self, task: ChangeTask, map_: Map = map) -> Iterator[pa.Table]:
        """Yield the changes of one task. `map_` may read several files at once."""
        if not task.is_compared:
            (rows,) = task.rows
            for table in self._rows(rows):
                yield self._made(task.step, "delete" if rows.is_delete else "insert", table)
            return
        left, came, pairs = self.compared(task, map_)
        images = [("delete", left, pairs.left), ("update_before", left, pairs.before)]
        images += [("update_after", came, pairs.after), ("insert", came, pairs.came)]
        for kind, rows, places in images:
            if len(places) and not (self.pairing.upsert and kind == "update_before"):
                yield self._made(task.step, kind, rows.take(pa.array(places)))

    def compared(self, task: ChangeTask, map_: Map = map) -> tuple[pa.Table, pa.Table, RowPairs]:
        """Return the rows that left and that came, without those that were only written again, and their pairs.

        What is too much to hold is compared by parts; equal rows are in the same part.
        Raises InvalidInputError for a key that is not unique.
        """
        parts = -(-sum(r.most for r in task.rows) // _HELD_ROWS) or 1
        row_id = ROW_ID if self._has_row_ids else None
        found: tuple[list[pa.Table], list[pa.Table]] = ([], [])
        for part in range(parts):
            sides = [self._side(task, is_delete, part, parts, map_) for is_delete in (True, False)]
            places = moved_rows(sides[0], sides[1], list(self.fields), row_id)
            for tables, side, place in zip(found, sides, places, strict=True):
                tables.append(side.take(pa.array(place)))
        left, came = (pa.concat_tables(tables) for tables in found)
        return left, came, paired_rows(left, came, row_id if self.pairing.row_id else None, self.pairing.key)

    def _side(self, task: ChangeTask, is_delete: bool, part: int, parts: int, map_: Map) -> pa.Table:
        wanted = [r for r in task.rows if r.is_delete is is_delete]
        tables = chain.from_iterable(map_(partial(self._part, part, parts), wanted))
        return pa.concat_tables([no_rows(self._read_schema), *tables])

    def _part(self, part: int, parts: int, rows: RowsToRead) -> list[pa.Table]:
        tables = self._rows(rows)
        if parts == 1:
            return list(tables)
        names = list(self.fields)
        return [t.filter(pa.array(row_buckets(t.select(names).columns, parts) == part)) for t in tables]

    def _rows(self, rows: RowsToRead) -> Iterator[pa.Table]:
        """Yield rows with the columns that are compared, by the names that they were asked for."""
        request = ReadRequest(tuple(self.fields.values()), self.bound, self._has_row_ids)
        schema = self._read_schema
        for table in read_rows(self.context, rows, request):
            yield pa.Table.from_arrays(table.columns[: len(schema)], schema=schema)

    @property
    def _has_row_ids(self) -> bool:
        return ROW_ID in self.schema.names

    @property
    def _read_schema(self) -> pa.Schema:
        own = [pa.field(n, arrow_type(f.field_type)) for n, f in self.fields.items()]
        return pa.schema([*own, *([pa.field(ROW_ID, pa.int64())] if self._has_row_ids else [])])

    def _made(self, step: ChangeStep, kind: str, rows: pa.Table) -> pa.Table:
        values = zip((kind, step.ordinal, step.commit.snapshot_id), CHANGE_COLUMNS.values(), strict=True)
        arrays = [rows.column(n) for n in self.columns]
        arrays += [pa.chunked_array([pa.repeat(pa.scalar(v, type_), len(rows))]) for v, type_ in values]
        arrays += [rows.column(ROW_ID)] if self._has_row_ids else []
        return pa.Table.from_arrays(arrays, schema=self.schema)
