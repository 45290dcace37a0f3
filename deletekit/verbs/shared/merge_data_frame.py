"""MERGE with a Spark DataFrame: Spark joins, and the worker with the matches of a data file changes that file.

Keys are equal as in every merge: both sides are cast to the table's type, then to bytes. The rows of the source stay on
the executors. Each worker gets whole data files and changes them as for every other verb.
Spec: "Row-level Deletes".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.schema import Schema

from deletekit.commit.change import Base, RowDelta
from deletekit.deletes.data_file_writer import write_data_files
from deletekit.deletes.delete_modes import ChangeOptions, ChangeResult, change_files
from deletekit.deletes.input_rows import align
from deletekit.deletes.keys import sql_key_bytes
from deletekit.deletes.plan import plan_scan
from deletekit.deletes.read import FileBatch, ReadContext, ReadRequest, read_task
from deletekit.deletes.scan_task import ScanTask
from deletekit.deletes.write_context import WriteContext
from deletekit.errors import InvalidInputError
from deletekit.formats.content_file import DataFile
from deletekit.table.metadata import TableMetadata
from deletekit.verbs.shared.data_frames import arrow_column, empty_rows, in_chunks, partition_hash
from deletekit.verbs.shared.merge_rows import fitting_rows, on_fields, updated_rows
from deletekit.verbs.shared.row_changes import collect_delta, filter_of_reads, merged_results
from deletekit.verbs.shared.spark_rows import from_spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from deletekit.engines.spark import SparkEngine

_KEY, _FILE, _POSITION, _PLACE = (f"__deletekit_{name}" for name in ("key", "file", "position", "place"))
_ROWS_AT_ONCE = 1 << 16


class FrameMerge:
    """A merge as `merge` takes it, checked. Raises InvalidInputError for columns that do not fit."""

    def __init__(
        self,
        metadata: TableMetadata,
        source: DataFrame,
        on: Sequence[str],
        when_matched: str | None,
        when_not_matched: str | None,
    ) -> None:
        empty = from_spark(empty_rows(source, "source"), metadata.schema)
        self.on = on_fields(metadata.schema, empty.column_names, on)
        fitting_rows(metadata.schema, empty)
        if when_not_matched == "insert":
            align(empty, metadata.schema)
        self.source = source
        self.columns = empty.column_names
        self.when_matched = when_matched
        self.inserts = when_not_matched == "insert"


def merge_frame(base: Base, merge: FrameMerge, options: ChangeOptions, engine: SparkEngine) -> RowDelta:
    """Plan, join on Spark, and change and insert rows in its workers. Raises as `merge`."""
    write = base.write
    reads = filter_of_reads(base.metadata, "merge")
    context = ReadContext(base.table.io, base.metadata)
    tasks = list(plan_scan(base.metadata, base.snapshot, base.reader))
    rows = _joined(context, tasks, merge, engine)
    place = partition_hash(rows, merge.columns, base.metadata) if merge.inserts else None
    placed = _placed(rows, place)
    updates, inserts, looks_only = merge.when_matched == "update", merge.inserts, merge.when_matched is None

    def work(batches: Iterator[pa.RecordBatch]) -> ChangeResult:
        matches = _Matches(write, tasks, updates=updates, inserts=inserts, looks_only=looks_only)
        result = change_files(context, write, matches.of(batches), matches, options)
        result.added_data_files += matches.inserted
        return replace(result, seen=[])

    total = merged_results(engine.map_partitions(placed, work))
    return collect_delta(base, total, options, reads)


def _joined(context: ReadContext, tasks: Sequence[ScanTask], merge: FrameMerge, engine: SparkEngine) -> DataFrame:
    """Join each row of the source with the data file and position of every live row that it matches."""
    on, schema = merge.on, context.metadata.schema
    request = ReadRequest(on, only_live=True)

    def live_keys(numbered: tuple[int, ScanTask]) -> Iterator[pa.RecordBatch]:
        number, task = numbered
        for batch in read_task(context, task, request):
            yield from _key_batches(number, batch)

    def source_key(*columns: pa.Array) -> pa.Array:
        given = pa.table(dict(zip([f.name for f in on], columns, strict=True)))
        return sql_key_bytes(fitting_rows(schema, from_spark(given, schema)).columns)

    ddl = f"{_KEY} binary, {_FILE} long, {_POSITION} long"
    table = engine.frame(merge.source.sparkSession, live_keys, list(enumerate(tasks)), ddl)
    source = merge.source.withColumn(_KEY, arrow_column(source_key, "binary", merge.source, [f.name for f in on]))
    return table.join(source, _KEY, "right_outer")


def _key_batches(number: int, batch: FileBatch) -> Iterator[pa.RecordBatch]:
    for start in range(0, len(batch), _ROWS_AT_ONCE):
        piece = batch.table.slice(start, _ROWS_AT_ONCE)
        keys = sql_key_bytes(piece.columns)
        live = ~batch.deleted[start : start + len(piece)] & keys.is_valid().to_numpy(zero_copy_only=False)
        positions = np.flatnonzero(live) + batch.first_position + start
        files = pa.repeat(pa.scalar(number, pa.int64()), len(positions))
        columns = [keys.filter(pa.array(live)), files, pa.array(positions, pa.int64())]
        yield pa.RecordBatch.from_arrays(columns, names=[_KEY, _FILE, _POSITION])


def _placed(rows: DataFrame, place: Any) -> DataFrame:
    """Bring the matches of a data file into one partition, in order, after the rows to insert."""
    from pyspark.sql import functions  # noqa: PLC0415  # pyspark is an extra

    alone = functions.xxhash64(_KEY) if place is None else place
    placed = rows.withColumn(_PLACE, functions.coalesce(functions.col(_FILE), alone)).drop(_KEY)
    return placed.repartition(_PLACE).drop(_PLACE).sortWithinPartitions(functions.asc_nulls_first(_FILE), _POSITION)


class _Matches:
    """The change of one worker: in each data file, the rows that a source row was joined to; and rows to insert.

    Attributes
    ----------
    inserted: the data files of source rows that match nothing.
    """

    def __init__(
        self, write: WriteContext, tasks: Sequence[ScanTask], *, updates: bool, inserts: bool, looks_only: bool
    ) -> None:
        self.request = ReadRequest(())
        self.replaces = updates
        self.inserted: list[DataFile] = []
        self._write = write
        self._schema: Schema = write.metadata.schema
        self._tasks = tasks
        self._inserts = inserts
        self._looks_only = looks_only
        self._positions: npt.NDArray[np.int64] = np.empty(0, np.int64)
        self._rows = pa.table({})

    def of(self, batches: Iterable[pa.RecordBatch]) -> Iterator[ScanTask]:
        """Yield the data files; `match` uses the matches of the one yielded last."""
        for number, pieces in groupby(_pieces(batches), itemgetter(0)):
            found = (piece for _, piece in pieces)
            if number is None:
                self._insert(found)
                continue
            self._take(pa.Table.from_batches(list(found)))
            yield self._tasks[number]

    def match(self, batch: FileBatch) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.int64]]:
        ends = np.searchsorted(self._positions, [batch.first_position, batch.first_position + len(batch)])
        index = np.arange(*ends, dtype=np.int64)
        hit = np.zeros(len(batch), np.bool_)
        if not self._looks_only:
            hit[self._positions[index] - batch.first_position] = True
        return hit, index

    def new_rows(self, current: pa.Table, index: npt.NDArray[np.int64] | None) -> pa.Table:
        return updated_rows(self._schema, current, self._rows.take(pa.array(index)))

    def _take(self, matches: pa.Table) -> None:
        positions, counts = np.unique(matches.column(_POSITION).to_numpy(), return_counts=True)
        if not self._looks_only and counts.max() > 1:
            raise InvalidInputError(
                "a table row matches several source rows",
                kind="merge-cardinality",
                field="on",
                found=int(counts.max()),
                expected="one source row for each key",
            )
        self._positions = positions
        self._rows = fitting_rows(self._schema, self._source_rows(matches))

    def _insert(self, batches: Iterable[pa.RecordBatch]) -> None:
        for chunk in in_chunks(batches):
            rows = fitting_rows(self._schema, self._source_rows(chunk))
            if self._inserts:
                self.inserted += write_data_files(self._write, align(rows, self._schema), self._write.metadata.spec)

    def _source_rows(self, rows: pa.Table) -> pa.Table:
        return from_spark(rows.drop_columns([_FILE, _POSITION]), self._schema)


def _pieces(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int | None, pa.RecordBatch]]:
    """Yield the batches, cut where the data file changes; None is no data file."""
    for batch in batches:
        files = pc.fill_null(batch.column(_FILE), -1).to_numpy()
        starts = np.flatnonzero(np.diff(files, prepend=-2)).tolist()
        for start, stop in zip(starts, [*starts[1:], len(files)], strict=True):
            number = int(files[start])
            yield None if number < 0 else number, batch.slice(start, stop - start)
