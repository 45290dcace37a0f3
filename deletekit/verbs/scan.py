"""SELECT: read or count the live rows of a snapshot, as Arrow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain
from reprlib import repr as short
from typing import Any

import numpy as np
import pyarrow as pa
from pyiceberg.expressions import BooleanExpression
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField

from deletekit.deletes.plan import ScanTasks, plan_scan
from deletekit.deletes.read import FileBatch, ReadContext, ReadRequest, read_task
from deletekit.deletes.scan_task import ScanTask, TaskPart, task_parts
from deletekit.engines.current import engine_or_default
from deletekit.engines.local import Engine
from deletekit.errors import InvalidInputError, UnsupportedError
from deletekit.filters.filter import Filter, bound_filter, keep_rows, unbound_filter
from deletekit.formats.reserved_fields import LINEAGE_NAMES
from deletekit.public import public_methods
from deletekit.table.column_names import as_names
from deletekit.table.metadata import MAIN, Snapshot
from deletekit.table.snapshot import SnapshotReader
from deletekit.table.table import Table
from deletekit.table.types import arrow_schema, arrow_type
from deletekit.verbs.shared.arrow_result import ArrowResult
from deletekit.verbs.shared.count_rows import count_live_rows
from deletekit.verbs.shared.read_options import resolve_snapshot, select_field

METADATA_COLUMNS = {
    "_file": pa.string(),
    "_pos": pa.int64(),
    "_deleted": pa.bool_(),
    "_spec_id": pa.int32(),
    "_row_id": pa.int64(),
    "_last_updated_sequence_number": pa.int64(),
}


def scan(
    table: Table,
    where: Filter = None,
    columns: str | Sequence[str] | None = None,
    *,
    snapshot_id: int | None = None,
    ref: str = MAIN,
    as_of: int | str | datetime | None = None,
    limit: int | None = None,
    engine: Engine | None = None,
) -> Scan:
    """Return a lazy scan of a table's live rows; its methods read them.

    Parameters
    ----------
    where: pyiceberg expression, or text as in SQL's WHERE (see `deletekit.filters.parser`); rows for which it is
        true are returned (NULL is not true).
    columns: a name, or names in the order wanted, `parent.child` for nested fields; None is every column. Metadata
        columns may be named too: `_file`, `_pos`, `_deleted` (then deleted rows are returned, marked), `_spec_id`,
        `_row_id`, `_last_updated_sequence_number`. A table's own column of such a name is read instead.
    snapshot_id: read this snapshot, with the schema it was written with.
    ref: read the head of a branch (with the current schema) or a tag (with its snapshot's schema).
    as_of: read what was current on `main` at this time: milliseconds since the epoch, a datetime (naive means UTC), or
        ISO text.
    limit: return at most this many rows, the first in manifest order; files after them are not read.

    Raises InvalidInputError for a bad filter, an unknown column, a negative limit, or more than one of `snapshot_id`,
    `ref`, `as_of`; NotFoundError for a snapshot or ref that is not there. Spec: "Scan Planning", "Point in Time Reads".

    Examples
    --------
    >>> dk.scan(users, "value > 200", columns=["id", "value"]).to_arrow().to_pylist()
    [{'id': 3, 'value': 300.0}, {'id': 4, 'value': 400.0}]
    """
    if limit is not None and limit < 0:
        raise InvalidInputError("a limit is a number of rows", "limit", "limit", limit, "0 or more")
    snapshot, schema = resolve_snapshot(table.metadata, snapshot_id=snapshot_id, ref=ref, as_of=as_of)
    names = [f.name for f in schema.fields] if columns is None else as_names(columns)
    if columns is not None and not names:
        raise InvalidInputError("a scan needs a column; count() needs none", "column-not-found", "columns")
    own = {f.name: f for f in schema.fields}  # to select each of them takes time by the square of their number
    fields = {n: own.get(n) or select_field(schema, n) for n in names if not is_metadata_column(n, schema)}
    arrow_schema(Schema(*fields.values()))  # refuses, by name, a type that cannot be read
    unbound = unbound_filter(where, schema)
    bound = bound_filter(unbound, schema)
    return Scan(table, snapshot, schema, where, names, fields, unbound, bound, engine_or_default(engine), limit)


@public_methods
@dataclass(frozen=True, repr=False)
class Scan(ArrowResult):
    """What `scan` returns. Attributes `snapshot` (None for a table without commits) and `schema` say what is read.

    Rows come in manifest order. Raises UnsupportedError for a schema without columns: Arrow has no rows then.
    """

    table: Table
    snapshot: Snapshot | None
    schema: Schema
    where: Filter
    columns: list[str]
    fields: dict[str, NestedField]
    unbound: Any
    bound: Any
    engine: Engine
    limit: int | None = None

    @property
    def arrow_schema(self) -> pa.Schema:
        """Schema of the result: table columns with their nullability, metadata columns nullable."""
        own = {n: pa.field(f.name, arrow_type(f.field_type), not f.required) for n, f in self.fields.items()}
        return pa.schema([own[n].remove_metadata() if n in own else (n, METADATA_COLUMNS[n]) for n in self.columns])

    def plan(self) -> Sequence[ScanTask]:
        """Return the data files to read, each with the deletes that apply to it. Only manifests are read."""
        return self._plan()

    def _plan(self) -> ScanTasks:
        reader = SnapshotReader(self.table.io, self.table.metadata)
        return plan_scan(self.table.metadata, self.snapshot, reader, self.unbound, self.schema)

    def __repr__(self) -> str:
        snapshot = None if self.snapshot is None else self.snapshot.snapshot_id
        parts = [f"snapshot_id={snapshot}", f"columns={short(self.columns)}"]
        parts += [f"where={self.where!r}"] if self.where is not None else []
        parts += [f"limit={self.limit}"] if self.limit is not None else []
        return f"Scan({self.table.name}, {', '.join(parts)})"

    def _facts_and_rows(self) -> tuple[dict[str, Any], Iterator[pa.Table]]:
        planned = self.plan()
        rows = sum(task.data_file.record_count for task in planned)
        facts = {**super()._facts_and_rows()[0], "data files": len(planned), "rows at most": f"{rows:,}"}
        return facts, self._tables(planned)

    def count(self) -> int:
        """Return the number of rows, from metadata where that is exact.

        Without a filter, files under no delete or under a deletion vector of ours are counted from the manifests, files
        under other vectors or position deletes from those; only a filter or an equality delete opens data files.
        """
        if _shows_deleted(self.columns, self.fields):
            return sum(len(t) for t in self._tables())
        context = ReadContext(self.table.io, self.table.metadata)
        total = count_live_rows(context, self._plan(), self.engine, self.bound)
        return total if self.limit is None else min(total, self.limit)

    def _tables(self, planned: Sequence[ScanTask] | None = None) -> Iterator[pa.Table]:
        if not self.columns:
            raise UnsupportedError("the table has no column to read; count() needs none", "no-columns")
        context = ReadContext(self.table.io, self.table.metadata)
        result = ScanResult(self.columns, self.fields, self.arrow_schema)
        request = result.request(self.bound)

        def read(part: TaskPart) -> list[pa.Table]:
            tables = (result.of(batch, part.task) for batch in read_task(context, part, request))
            return [t for t in tables if len(t)]

        announced = context.loader.announced(self.plan() if planned is None else planned, share_keys=True)
        tables = chain.from_iterable(self.engine.map(read, task_parts(announced)))
        yield from tables if self.limit is None else _first(tables, self.limit)


def narrowed(whole: Scan, columns: Sequence[str], where: BooleanExpression | None, limit: int | None) -> Scan:
    """Return a scan of some columns and rows of another. Raises InvalidInputError for a filter the schema refuses."""
    fields = {name: field for name, field in whole.fields.items() if name in columns}
    unbound = unbound_filter(where, whole.schema)
    bound = bound_filter(unbound, whole.schema)
    return replace(whole, columns=list(columns), fields=fields, where=where, unbound=unbound, bound=bound, limit=limit)


@dataclass(frozen=True)
class ScanResult:
    """Makes the result of batches of a data file: live rows, the columns in order, metadata columns."""

    columns: list[str]
    fields: dict[str, NestedField]
    schema: pa.Schema

    def request(self, bound: Any) -> ReadRequest:
        """Return what to read for it, of the rows for which the bound filter is true."""
        lineage = any(n in LINEAGE_NAMES and n not in self.fields for n in self.columns)
        only_live = not _shows_deleted(self.columns, self.fields)
        return ReadRequest(tuple(self.fields.values()), bound, lineage, only_live=only_live)

    def of(self, batch: FileBatch, task: ScanTask) -> pa.Table:
        keep = batch.selected_mask if _shows_deleted(self.columns, self.fields) else batch.live_mask
        arrays = [self._column(name, batch, task) for name in self.columns]
        if keep is not None and keep.true_count < len(keep):
            arrays = keep_rows(arrays, keep)
        return pa.Table.from_arrays(arrays, schema=self.schema)

    def _column(self, name: str, batch: FileBatch, task: ScanTask) -> Any:
        if name in self.fields:
            return batch.table.column(list(self.fields).index(name))
        if name in LINEAGE_NAMES:
            return batch.table.column(len(self.fields) + LINEAGE_NAMES.index(name))
        return _metadata_column(name, batch, task)


def is_metadata_column(name: str, schema: Schema) -> bool:
    """Return whether a name means a metadata column. In a table that has a column of this name, it means that one."""
    return name in METADATA_COLUMNS and all(f.name != name for f in schema.fields)


def _shows_deleted(columns: Sequence[str], fields: Mapping[str, NestedField]) -> bool:
    return "_deleted" in columns and "_deleted" not in fields


def _first(tables: Iterator[pa.Table], rows: int) -> Iterator[pa.Table]:
    while rows > 0 and (table := next(tables, None)) is not None:
        yield table.slice(0, min(rows, len(table)))
        rows -= len(table)


def _metadata_column(name: str, batch: FileBatch, task: ScanTask) -> pa.ChunkedArray:
    rows = len(batch)
    if name == "_pos":
        return pa.chunked_array([np.arange(batch.first_position, batch.first_position + rows, dtype=np.int64)])
    if name == "_deleted":
        return pa.chunked_array([batch.deleted])
    value = task.data_file.file_path if name == "_file" else task.data_file.spec_id
    return pa.chunked_array([pa.repeat(pa.scalar(value, METADATA_COLUMNS[name]), rows)])
