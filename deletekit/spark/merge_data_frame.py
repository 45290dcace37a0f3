"""MERGE with a Spark DataFrame: Spark joins, and the worker with the matches of a data file changes that file.

Keys are equal as in every merge: both sides are cast to the table's type, then to bytes. The rows of the source stay on
the executors. Each worker gets whole data files and changes them as for every other verb.
Spec: "Row-level Deletes".
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from operator import itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.types import NestedField
from pyspark.sql import DataFrame, SparkSession, functions
from pyspark.sql.types import BinaryType

from deletekit.commit.change import Base, RowDelta
from deletekit.deletes.delete_modes import Change, ChangeOptions, ChangeResult, change_files, write_rows
from deletekit.deletes.plan import plan_scan
from deletekit.deletes.read import FileBatch, ReadContext, ReadRequest, read_task
from deletekit.deletes.scan_task import ScanTask
from deletekit.formats.content_file import DataFile
from deletekit.rows.data_file_writer import write_data_files
from deletekit.rows.input_rows import align
from deletekit.rows.keys import flat, sql_key_bytes
from deletekit.rows.write_context import WriteContext
from deletekit.spark.columns import with_arrow_column, with_partition
from deletekit.spark.engine import SparkEngine
from deletekit.spark.types import from_spark
from deletekit.verbs.merge import check_single, fitting_rows, on_columns, on_fields, updated_rows
from deletekit.verbs.shared.row_changes import collect_delta, filter_of_reads, merged_results

KEY, FILE, POSITION, PLACE, ROW_ID = (f"__deletekit_{n}" for n in ("key", "file", "position", "place", "row_id"))
_ROWS_AT_ONCE = 1 << 16


def merge_frame(
    base: Base,
    source: DataFrame,
    on: str | Sequence[str],
    when_matched: str | None,
    *,
    inserts: bool,
    options: ChangeOptions,
    empty: pa.Table,
    engine: SparkEngine,
) -> RowDelta:
    """Plan, join on Spark, and change and insert rows in its workers. Raises as `merge`.

    Parameters
    ----------
    empty: no rows, with the columns of `source`; they are checked before anything runs.
    """
    write, schema = base.write, base.metadata.schema
    empty = from_spark(empty, schema)
    keys = on_fields(schema, empty.column_names, on_columns(on))
    fitting_rows(schema, empty)
    if inserts:
        align(empty, schema)
    reads = filter_of_reads(base.metadata, "merge")
    context = ReadContext(base.table.io, base.metadata)
    tasks = list(plan_scan(base.metadata, base.snapshot, base.reader))
    rows = _joined(context, tasks, source, keys, engine)
    placed = with_partition(rows, PLACE, empty.column_names, base.metadata) if inserts else None

    def work(batches: Iterator[pa.RecordBatch]) -> ChangeResult:
        matches = Matches(write, tasks, when_matched, inserts)
        result = change_files(context, write, matches.of(batches), matches, options)
        result.added_data_files += [*matches.inserted, *write_rows(write, result.rows)]
        return replace(result, seen=[], rows=[])

    total = merged_results(engine.map_partitions(placed_rows(rows, placed), work))
    return collect_delta(base, total, options, reads)


def _joined(
    context: ReadContext, tasks: Sequence[ScanTask], source: DataFrame, on: Sequence[NestedField], engine: SparkEngine
) -> DataFrame:
    """Join each row of the source with the data file and position of every live row that it matches."""
    names, schema = [f.name for f in on], context.metadata.schema

    def source_key(*columns: pa.Array) -> pa.Array:
        given = pa.table(dict(zip(names, columns, strict=True)))
        return sql_key_bytes(fitting_rows(schema, from_spark(given, schema)).columns)

    table = live_keys(context, tasks, on, sql_key_bytes, source.sparkSession, engine)
    return table.join(with_arrow_column(source, KEY, BinaryType(), source_key, names), KEY, "right_outer")


def live_keys(
    context: ReadContext,
    tasks: Sequence[ScanTask],
    fields: Sequence[NestedField],
    key_of: Callable[[Sequence[Any]], pa.Array],
    session: SparkSession,
    engine: SparkEngine,
    *,
    row_ids: bool = False,
) -> DataFrame:
    """Return the keys of all live rows that have one: their bytes, the number of the data file, the position.

    Parameters
    ----------
    key_of: returns the bytes of keys; null for a key that equals nothing.
    row_ids: also return the `_row_id`; null for rows without one.
    """
    request = ReadRequest(tuple(fields), lineage=row_ids, only_live=True)

    def keys(numbered: tuple[int, ScanTask]) -> Iterator[pa.RecordBatch]:
        number, task = numbered
        for batch in read_task(context, task, request):
            yield from _key_batches(number, batch, len(fields), key_of, row_ids=row_ids)

    ddl = f"{KEY} binary, {FILE} long, {POSITION} long" + (f", {ROW_ID} long" if row_ids else "")
    return engine.frame(session, keys, list(enumerate(tasks)), ddl)


def _key_batches(
    number: int, batch: FileBatch, count: int, key_of: Callable[[Sequence[Any]], pa.Array], *, row_ids: bool
) -> Iterator[pa.RecordBatch]:
    for start in range(0, len(batch), _ROWS_AT_ONCE):
        piece = batch.table.slice(start, _ROWS_AT_ONCE)
        keys = flat(key_of(piece.columns[:count]))
        live = ~batch.deleted[start : start + len(piece)] & keys.is_valid().to_numpy(zero_copy_only=False)
        positions = np.flatnonzero(live) + batch.first_position + start
        files = pa.repeat(pa.scalar(number, pa.int64()), len(positions))
        columns = [keys.filter(pa.array(live)), files, pa.array(positions, pa.int64())]
        if row_ids:
            columns.append(flat(piece.column(count)).filter(pa.array(live)))
        yield pa.RecordBatch.from_arrays(columns, names=[KEY, FILE, POSITION, ROW_ID][: len(columns)])


def placed_rows(rows: DataFrame, placed: DataFrame | None) -> DataFrame:
    """Bring the matches of a data file into one partition, in order, after the rows to insert."""
    placed = rows.withColumn(PLACE, functions.xxhash64(KEY)) if placed is None else placed
    placed = placed.withColumn(PLACE, functions.coalesce(FILE, PLACE)).drop(KEY)
    return placed.repartition(PLACE).drop(PLACE).sortWithinPartitions(functions.asc_nulls_first(FILE), POSITION)


@dataclass
class Matches(Change):
    """The change of one worker: in each data file, the rows that a source row was joined to; and rows to insert.

    Attributes
    ----------
    inserted: the data files of source rows that match nothing.
    """

    write: WriteContext
    tasks: Sequence[ScanTask]
    when_matched: str | None
    inserts: bool
    inserted: list[DataFile] = field(default_factory=list)
    request: ReadRequest = field(default_factory=lambda: ReadRequest(()))

    def __post_init__(self) -> None:
        self.replaces = self.when_matched == "update"
        self._schema = self.write.metadata.schema
        self._positions: npt.NDArray[np.int64] = np.empty(0, np.int64)
        self._rows = pa.table({})

    def of(self, batches: Iterable[pa.RecordBatch]) -> Iterator[ScanTask]:
        """Yield the data files; `match` uses the matches of the one yielded last."""
        for number, pieces in groupby(pieces_by_file(batches), itemgetter(0)):
            found = (piece for _, piece in pieces)
            if number is None:
                self._insert(found)
            else:
                self._take(pa.Table.from_batches(list(found)))
                yield self.tasks[number]

    def match(self, batch: FileBatch) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        ends = np.searchsorted(self._positions, [batch.first_position, batch.first_position + len(batch)])
        index = np.arange(*ends, dtype=np.int64)
        hit = index if self.when_matched is not None else index[:0]
        return self._positions[hit] - batch.first_position, index

    def new_rows(self, current: pa.Table, index: npt.NDArray[np.int64] | None) -> pa.Table:
        return updated_rows(self._schema, current, self._rows.take(pa.array(index)))

    def _take(self, matches: pa.Table) -> None:
        self._positions, counts = np.unique(matches.column(POSITION).to_numpy(), return_counts=True)
        if self.when_matched is not None:
            check_single(counts)
        self._rows = self.source_rows(matches)
        self.needs = [f for f in self._schema.fields if f.name not in self._rows.column_names]

    def _insert(self, batches: Iterable[pa.RecordBatch]) -> None:
        rows = (self.source_rows(pa.Table.from_batches([batch])) for batch in batches)
        if self.inserts:
            self.inserted += write_data_files(self.write, (align(some, self._schema) for some in rows))
        else:
            deque(rows, maxlen=0)  # checks their values

    def source_rows(self, rows: pa.Table) -> pa.Table:
        return fitting_rows(self._schema, from_spark(rows.drop_columns([FILE, POSITION]), self._schema))


def pieces_by_file(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int | None, pa.RecordBatch]]:
    """Yield the batches, cut where the data file changes; None is not a data file."""
    for batch in batches:
        files = pc.fill_null(batch.column(FILE), -1).to_numpy()
        starts = np.flatnonzero(np.diff(files, prepend=-2)).tolist()
        for start, stop in zip(starts, [*starts[1:], len(files)], strict=True):
            number = int(files[start])
            yield None if number < 0 else number, batch.slice(start, stop - start)
