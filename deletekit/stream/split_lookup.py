"""Find the old rows of a batch's keys on Spark's executors.

Rows of data files that are in the table's key index are looked up there: a task reads the blocks that may hold the keys
of its part of the batch. Of other data files the key columns are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyiceberg.types import NestedField
from pyspark.sql import DataFrame, SparkSession

from deletekit.deletes.keys import KeyNumbers
from deletekit.deletes.read import ReadContext, ReadRequest, read_task
from deletekit.deletes.scan_task import ScanTask
from deletekit.spark.engine import SparkEngine
from deletekit.stream.change_rows import Changes
from deletekit.stream.key_hashes import KeyHasher, KeyHashes
from deletekit.stream.key_index import NO_ID, by_file
from deletekit.stream.live_rows import LiveRows
from deletekit.stream.saved_index import IndexHits, RunPart, find_in_parts
from deletekit.stream.split_index import SplitIndex
from deletekit.stream.split_parts import Part, read_parts
from deletekit.table.index_files import DamagedIndexError

KEY, FILE, POSITION, ROW_ID = "key", "file", "position", "row_id"
HITS = f"{KEY} long, {FILE} long, {POSITION} long, {ROW_ID} long"
"""An old row: the number of its key in the batch, the number of its data file, its position, and its row id or -1."""

# A task that reads a data file holds so many keys of the batch at a time.
_KEYS_AT_ONCE = 2_000_000

Parsed = Callable[[pa.Table], Changes]


def found_rows(
    context: ReadContext,
    tasks: Sequence[ScanTask],
    index: SplitIndex,
    parts: Sequence[Part],
    parsed: Parsed,
    session: SparkSession,
    engine: SparkEngine,
) -> DataFrame:
    """Return the live rows with keys of the batch, as a lazy DataFrame of HITS."""
    runs, indexed = index.parts, {number: tasks[place] for number, place in index.places.items()}
    searches: list[_Scan | _Lookup] = [_Lookup(part, dict(index.places)) for part in parts] if runs else []
    searches += [_Scan(place, tasks[place], some) for place in index.others for some in _some(parts)]

    def find(search: _Scan | _Lookup) -> Iterator[pa.RecordBatch]:
        if isinstance(search, _Lookup):
            yield search.find(context, parsed, runs, indexed)
        else:
            yield from search.find(context, parsed)

    return engine.frame(session, find, searches, HITS)


@dataclass(frozen=True, slots=True)
class _Lookup:
    """Look for the keys of a part in the index. `places` has the place of each live data file of the index."""

    part: Part
    places: Mapping[int, int]

    def find(
        self, context: ReadContext, parsed: Parsed, runs: Sequence[RunPart], indexed: Mapping[int, ScanTask]
    ) -> pa.RecordBatch:
        changes = parsed(read_parts(context.io, [self.part]))
        fields = changes.form.fields
        found = live_in_index(context, runs, indexed, fields, KeyHasher(fields)(changes.last.keys))
        ids = found.row_ids.copy()
        for number, rows in by_file(found.files):
            first = indexed[number].data_file.first_row_id
            inherits = rows[ids[rows] == NO_ID]
            ids[inherits if first is not None else rows] = NO_ID if first is None else first + found.positions[inherits]
        places = np.array([self.places[n] for n in found.files.tolist()], np.int64)
        return hits_batch(found.keys + self.part.first_key, places, found.positions, ids)


def live_in_index(
    context: ReadContext,
    runs: Sequence[RunPart],
    indexed: Mapping[int, ScanTask],
    fields: Sequence[NestedField],
    hashes: KeyHashes,
) -> IndexHits:
    """Return the live rows of data files of an index that have one of some keys.

    Parameters
    ----------
    indexed: the live data files in it, by their numbers.

    Raises DamagedIndexError for files of the index; FormatError and NotFoundError for deletes.
    """
    found = find_in_parts(context.io, runs, hashes)
    found = found.take(np.isin(found.files, list(indexed)))
    for number, rows in by_file(found.files):
        _check_positions(indexed[number], found.positions[rows])
    where, wanted = (found.files, found.positions), hashes.take(found.keys)
    return found.take(LiveRows(fields).are_live(context, indexed.__getitem__, *where, wanted))


def _check_positions(task: ScanTask, positions: Any) -> None:
    file = task.data_file
    if int(positions.max()) >= file.record_count:
        message = "the key index has a row behind the end of a data file"
        raise DamagedIndexError(message, kind="key-index", file=file.file_path, expected=f"{file.record_count} rows")


@dataclass(frozen=True, slots=True)
class _Scan:
    """Look for the keys of some parts in one data file, by reading its key columns."""

    number: int
    task: ScanTask
    parts: tuple[Part, ...]

    def find(self, context: ReadContext, parsed: Parsed) -> Iterator[pa.RecordBatch]:
        changes = parsed(read_parts(context.io, self.parts))
        keys, fields = KeyNumbers(changes.last.keys), changes.form.fields
        has_ids = self.task.data_file.first_row_id is not None
        for batch in read_task(context, self.task, ReadRequest(fields, lineage=has_ids, only_live=True)):
            numbers = keys.find(batch.table.columns[: len(fields)])
            hit = (numbers >= 0) & ~batch.deleted
            row_ids = batch.table.column("_row_id").filter(pa.array(hit)) if has_ids else None
            yield hits_batch(numbers[hit] + self.parts[0].first_key, self.number, batch.positions(hit), row_ids)


def hits_batch(keys: Any, file: Any, positions: Any, row_ids: Any) -> pa.RecordBatch:
    """Return old rows as Arrow rows of HITS."""
    count = len(keys)
    ids = np.full(count, -1) if row_ids is None else row_ids
    if isinstance(ids, pa.ChunkedArray):
        ids = ids.combine_chunks().fill_null(-1)
    columns = [keys, np.broadcast_to(file, count), positions, ids]
    arrays = [c if isinstance(c, pa.Array) else pa.array(np.ascontiguousarray(c, np.int64)) for c in columns]
    return pa.RecordBatch.from_arrays(arrays, names=[KEY, FILE, POSITION, ROW_ID])


def _some(parts: Sequence[Part]) -> list[tuple[Part, ...]]:
    """Return the parts in order, in groups that a task holds at a time."""
    groups: list[list[Part]] = []
    held = 0
    for part in parts:
        if not groups or held + part.keys > _KEYS_AT_ONCE:
            groups.append([])
            held = 0
        groups[-1].append(part)
        held += part.keys
    return [tuple(group) for group in groups]
