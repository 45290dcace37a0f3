"""Scans: the live rows of a snapshot, as Arrow; and how many there are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField

from deletekit.deletes.filter import Filter, parse_filter, unbound_filter
from deletekit.deletes.projection import check_supported
from deletekit.deletes.read import FileBatch, ReadContext, ReadRequest, read_task
from deletekit.deletes.scan_planning import ScanTask, plan_scan
from deletekit.engines.local import Engine
from deletekit.errors import InvalidInputError
from deletekit.formats.content_file import FileContent
from deletekit.operations.context import engine_or_default
from deletekit.table.metadata import MAIN, Snapshot, TableMetadata
from deletekit.table.snapshot import SnapshotReader
from deletekit.table.table import Table
from deletekit.table.types import arrow_type

__all__ = ["METADATA_COLUMNS", "Scan", "scan"]

METADATA_COLUMNS = {
    "_file": pa.string(),
    "_pos": pa.int64(),
    "_deleted": pa.bool_(),
    "_spec_id": pa.int32(),
    "_row_id": pa.int64(),
    "_last_updated_sequence_number": pa.int64(),
}
_LINEAGE = ("_row_id", "_last_updated_sequence_number")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def scan(
    table: Table,
    where: Filter = None,
    columns: Sequence[str] | None = None,
    *,
    snapshot_id: int | None = None,
    ref: str = MAIN,
    as_of: int | str | datetime | None = None,
    engine: Engine | None = None,
) -> Scan:
    """A lazy read of a table's live rows; nothing is read until a method of the result asks for it.

    Parameters
    ----------
    where: pyiceberg expression or its SQL-like text; rows for which it is true are returned (NULL is not true).
    columns: names in the order wanted, `parent.child` for nested fields; None is every column. Metadata columns may be
        named too: `_file`, `_pos`, `_deleted` (then deleted rows are returned, marked), `_spec_id`, `_row_id`,
        `_last_updated_sequence_number`.
    snapshot_id: read this snapshot, with the schema it was written with.
    ref: read the head of a branch (with the current schema) or a tag (with its snapshot's schema).
    as_of: read what was current on `main` at this time: milliseconds since the epoch, a datetime (naive means UTC), or
        ISO text.

    Raises InvalidInputError for a bad filter, an unknown column, or more than one of `snapshot_id`, `ref`, `as_of`;
    NotFoundError for a snapshot or ref that is not there. Spec: "Scan Planning", "Point in Time Reads".
    """
    snapshot, schema = resolve_snapshot(table.metadata, snapshot_id=snapshot_id, ref=ref, as_of=as_of)
    names = [f.name for f in schema.fields] if columns is None else list(columns)
    if not names:
        raise InvalidInputError("a scan needs a column; count() needs none", kind="column-not-found", field="columns")
    fields = {n: select_field(schema, n) for n in names if n not in METADATA_COLUMNS}
    check_supported(list(fields.values()))
    bound = parse_filter(where, schema)
    return Scan(table, snapshot, schema, where, names, fields, bound, engine_or_default(engine))


@dataclass(frozen=True)
class Scan:
    """What `scan` returns. Attributes `snapshot` (None for a table without commits) and `schema` say what is read."""

    table: Table
    snapshot: Snapshot | None
    schema: Schema
    where: Filter
    columns: list[str]
    fields: dict[str, NestedField]
    bound: Any
    engine: Engine

    @property
    def arrow_schema(self) -> pa.Schema:
        """Schema of the result: table columns with their nullability, metadata columns nullable."""
        out = []
        for name in self.columns:
            if name in self.fields:
                field = self.fields[name]
                out.append(pa.field(field.name, arrow_type(field.field_type), not field.required))
            else:
                out.append(pa.field(name, METADATA_COLUMNS[name]))
        return pa.schema([f.remove_metadata() for f in out])

    def plan(self) -> Sequence[ScanTask]:
        """The data files to read, each with the deletes that apply to it; reads manifests only."""
        reader = SnapshotReader(self.table.io, self.table.metadata)
        return plan_scan(
            self.table.metadata, self.snapshot, reader, unbound_filter(self.where, self.schema), self.schema
        )

    def to_batches(self) -> Iterator[pa.Table]:
        """The rows, one Arrow table per row group, in manifest order; several files are read ahead in threads."""
        context = ReadContext(self.table.io, self.table.metadata)
        request = ReadRequest(tuple(self.fields.values()), self.bound, lineage=any(n in _LINEAGE for n in self.columns))
        for tables in self.engine.map(lambda task: self._read(context, task, request), self.plan()):
            yield from tables

    def to_arrow(self) -> pa.Table:
        """All rows as one Arrow table."""
        schema = self.arrow_schema  # its empty_table() fails with a uuid inside a struct or list
        empty = pa.Table.from_arrays([pa.nulls(0, f.type) for f in schema], schema=schema)
        return pa.concat_tables([empty, *self.to_batches()])

    def count(self) -> int:
        """Number of rows, from metadata wherever that is exact.

        Without a filter, files under no delete are counted from the manifests, files under deletion vectors or position
        deletes from those; only a filter or an equality delete opens data files.
        """
        context = ReadContext(self.table.io, self.table.metadata)
        if "_deleted" in self.columns:
            return sum(len(t) for t in self.to_batches())
        total, to_read = 0, []
        for task in self.plan():
            if self.where is None and all(d.content == FileContent.POSITION_DELETES for d in task.delete_files):
                total += task.data_file.record_count - _hidden(context, task)
            else:
                to_read.append(task)
        request = ReadRequest((), self.bound)
        return total + sum(self.engine.map(lambda task: _count(context, task, request), to_read))

    def _read(self, context: ReadContext, task: ScanTask, request: ReadRequest) -> list[pa.Table]:
        return [self._result(batch, task) for batch in read_task(context, task, request)]

    def _result(self, batch: FileBatch, task: ScanTask) -> pa.Table:
        keep = batch.selected if "_deleted" in self.columns else batch.live
        whole = bool(keep.all())
        arrays = []
        for name in self.columns:
            column = batch.table.column(self._position(name)) if name in self.fields or name in _LINEAGE else None
            if column is None:
                column = _metadata_column(name, batch, task)
            arrays.append(column if whole else column.filter(pa.array(keep)))
        return pa.Table.from_arrays(arrays, schema=self.arrow_schema)

    def _position(self, name: str) -> int:
        order = list(self.fields)
        return order.index(name) if name in self.fields else len(order) + _LINEAGE.index(name)


def resolve_snapshot(
    metadata: TableMetadata,
    *,
    snapshot_id: int | None = None,
    ref: str = MAIN,
    as_of: int | str | datetime | None = None,
) -> tuple[Snapshot | None, Schema]:
    """The snapshot meant, and the schema to read it with (Java SnapshotUtil.schemaFor). See `scan`."""
    if sum((snapshot_id is not None, ref != MAIN, as_of is not None)) > 1:
        raise InvalidInputError(
            "name one of snapshot_id, ref and as_of", kind="time-travel", field="snapshot_id, ref, as_of"
        )
    if snapshot_id is not None:
        snapshot = metadata.snapshot_by_id(snapshot_id)
        return snapshot, metadata.schema_of(snapshot)
    if as_of is not None:
        snapshot = metadata.snapshot_as_of(_millis(as_of))
        return snapshot, metadata.schema_of(snapshot)
    found = metadata.snapshot_of_ref(ref)
    is_tag = ref in metadata.refs and metadata.refs[ref].get("type") == "tag"
    return found, metadata.schema_of(found) if found is not None and is_tag else metadata.schema


def _millis(as_of: int | str | datetime) -> int:
    if isinstance(as_of, int):
        return as_of
    try:
        moment = datetime.fromisoformat(as_of) if isinstance(as_of, str) else as_of
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, AttributeError) as e:
        raise InvalidInputError(
            "bad time", kind="time-travel", field="as_of", found=as_of, expected="milliseconds, a datetime or ISO 8601"
        ) from e
    return (moment - _EPOCH) // timedelta(milliseconds=1)  # in integers: a float of seconds is off by one at times


def select_field(schema: Schema, name: str) -> NestedField:
    """A column, or for `parent.child` its struct with that one field. Raises InvalidInputError."""
    try:
        return schema.select(name).fields[0]
    except (ValueError, IndexError) as e:
        raise InvalidInputError(
            "no such column", kind="column-not-found", field=name, expected=", ".join(schema.column_names)
        ) from e


def _hidden(context: ReadContext, task: ScanTask) -> int:
    # A vector's cardinality is not enough: positions behind the file's end hide nothing, and Java writes them if told.
    return context.loader.positions(task).count_in(0, task.data_file.record_count)


def _count(context: ReadContext, task: ScanTask, request: ReadRequest) -> int:
    return sum(int(np.count_nonzero(batch.live)) for batch in read_task(context, task, request))


def _metadata_column(name: str, batch: FileBatch, task: ScanTask) -> pa.ChunkedArray:
    rows = len(batch.deleted)
    values: Any
    if name == "_file":
        values = pa.repeat(pa.scalar(task.data_file.file_path), rows)
    elif name == "_pos":
        values = pa.array(np.arange(batch.first_position, batch.first_position + rows, dtype=np.int64))
    elif name == "_deleted":
        values = pa.array(batch.deleted)
    else:
        values = pa.repeat(pa.scalar(task.data_file.spec_id, pa.int32()), rows)
    return pa.chunked_array([values])
