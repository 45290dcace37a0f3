"""Stream the changes of a table: `spark.readStream.format("deletekit")`, each batch from one snapshot to a later one.

The offset of a batch is the snapshot at its end, with the table's uuid. Two offsets always give the same rows, so a
batch that Spark runs again is the same batch. Spark does not keep the first offset of an unfinished first batch. So
that offset is what the option `starting` says, and never depends on the table.

Spark 4 asks a Python source for the newest offset, and does not say where the query is. It plans a batch, or the last
one of the checkpoint, before it asks again; the reader remembers its end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any

import pyarrow as pa
from pyiceberg.schema import Schema, index_by_id
from pyiceberg.types import NestedField
from pyspark.sql import types as st
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from deletekit.commit.planned_change import check_same_table
from deletekit.errors import InvalidInputError
from deletekit.filters.filter import filter_field_ids
from deletekit.spark.data_source.changes_reader import (
    START,
    change_arguments,
    check_spark_schema,
    sent,
    spark_changes,
)
from deletekit.spark.data_source.options import SourceOptions
from deletekit.spark.data_source.reader import check_ref
from deletekit.spark.python_process import spare_chores
from deletekit.spark.releases import arrow_schema_of
from deletekit.table.metadata import MAIN, Snapshot, TableMetadata
from deletekit.table.table import Table
from deletekit.tools.change_reader import ROW_ID
from deletekit.tools.changes import Changes, changes_in_schema

Offset = dict[str, Any]
FULL, NOW = "full", "now"


def stream_changes(table: Table, schema: Schema, options: SourceOptions) -> Changes:
    """Return no changes, with the columns of a stream. Raises InvalidInputError for a bad option or ref."""
    _starting(options)
    options.number("max-snapshots-per-trigger")
    check_ref(table.metadata, options)
    table.metadata.snapshot_of_ref(options.get("branch") or MAIN)
    return changes_in_schema(table, None, None, schema, **change_arguments(options))


class ChangeStreamReader(DataSourceStreamReader):
    """The changes of one branch, in the columns that the table had at `load()`.

    Parameters
    ----------
    loaded: the table's schema at `load()`; None is the schema of now.
    schema: the columns of the stream.

    Raises InvalidInputError for a bad option before the query starts. A query ends with NotFoundError if the table was
    replaced by another, or a snapshot that it needs has expired; with InvalidInputError if the branch went back, or if
    a column that it reads has changed.
    """

    def __init__(self, loaded: Schema | None, options: SourceOptions, schema: st.StructType) -> None:
        self._options = options
        self._ref = options.get("branch") or MAIN
        self._arguments = change_arguments(options)
        self._limit = options.number("max-snapshots-per-trigger")
        self._seen: Offset | None = None
        self._table = options.open_table()
        self._schema = loaded or self._table.schema
        none = stream_changes(self._table, self._schema, options)
        check_spark_schema(none, schema)
        self._made = arrow_schema_of(schema)
        self._has_row_ids = ROW_ID in schema.names
        ids = {f.field_id for f in none.fields.values()} | filter_field_ids(none.bound)
        self._columns = [self._schema.find_field(i) for i in sorted(ids)]

    def initialOffset(self) -> Offset:  # noqa: N802  # Spark's name
        return {"starting": _starting(self._options)}

    def latestOffset(self) -> Offset:  # noqa: N802
        """Return where the next batch ends: the head of the branch, or as far as the limit allows."""
        table = self._current()
        start = self._seen or self.initialOffset()
        first = _snapshot_id(start)
        head = table.metadata.snapshot_of_ref(self._ref)
        end = head
        if start.get("starting") not in (FULL, NOW):
            check_same_table(table, start.get("table"))
            end = self._limited(table.metadata, first, head)
            self._changes(table, first, end)  # refused before Spark notes an offset that cannot be planned
        return {"table": table.metadata.table_uuid, "snapshot": None if end is None else end.snapshot_id}

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """Plan a partition for each task of the changes from one offset to another."""
        spare_chores()
        self._seen, first = end, _snapshot_id(start)
        last = _snapshot_id(end)
        if start == end or last is None or start.get("starting") == NOW:
            return []
        table = self._current()
        for offset in (start, end):
            check_same_table(table, offset.get("table"))
        # A full read is the net of all that was before: only inserts. They need no comparison with each other.
        mode = {"mode": "net"} if start.get("starting") == FULL else {}
        found = self._changes(table, first, table.metadata.snapshot_by_id(last), **mode)
        reader = sent(found)
        return [InputPartition((reader, task)) for task in found.tasks()]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        spare_chores()
        reader, task = partition.value
        yield from spark_changes(reader, task, self._made)

    def __getstate__(self) -> dict[str, Any]:
        return {"_made": self._made}  # the partition has the rest: the table's metadata of its batch

    def _current(self) -> Table:
        """Return the table of now. Raises InvalidInputError if it has not the columns of the stream any more."""
        table = self._table.refresh() if self._table.catalog is not None else self._options.open_table()
        known = index_by_id(table.schema)
        # The upgrade to version 3 adds a column to changes.
        found: dict[str, Any] = {ROW_ID: table.format_version >= 3}
        expected: dict[str, Any] = {ROW_ID: self._has_row_ids}
        for field in self._columns:
            expected[field.name] = _kind(field)
            found[field.name] = _kind(known[field.field_id]) if field.field_id in known else "no such column"
        for name, kind in expected.items():
            if found[name] != kind:
                message = "a column of the stream has changed in the table"
                told = f"{kind}; a new load() of the stream goes on with the columns of now"
                raise InvalidInputError(message, kind="schema-change", field=name, found=found[name], expected=told)
        return table

    def _changes(self, table: Table, start: int | None, end: Snapshot | None, **other: Any) -> Changes:
        return changes_in_schema(table, start, end, self._schema, **self._arguments | other)

    def _limited(self, metadata: TableMetadata, start: int | None, head: Snapshot | None) -> Snapshot | None:
        if head is None or self._limit is None:
            return head
        line = list(takewhile(lambda s: s.snapshot_id != start, metadata.ancestors(head.snapshot_id)))
        return line[-self._limit :][0] if line else head


def _starting(options: SourceOptions) -> str:
    """Return where a new query starts, as its offset says it."""
    named = options.get("starting")
    if named not in (FULL, NOW, START):
        if named is None:
            expected = "full, now, start, or the id of a snapshot"
            raise InvalidInputError("a stream starts where?", kind="option", field="starting", expected=expected)
        options.number("starting")
    return str(named)


def _snapshot_id(offset: Mapping[str, Any]) -> int | None:
    """Return the snapshot at an offset, None before the first. Raises InvalidInputError for another source's offset."""
    if set(offset) == {"starting"}:
        return int(offset["starting"]) if offset["starting"].isdecimal() else None
    if set(offset) != {"table", "snapshot"}:
        message, expected = "the checkpoint is of another source", "a table and a snapshot"
        raise InvalidInputError(message, kind="checkpoint", field="offset", found=dict(offset), expected=expected)
    snapshot: int | None = offset["snapshot"]
    return snapshot


def _kind(field: NestedField) -> str:
    return f"{field.field_type}{' not null' if field.required else ''}"
