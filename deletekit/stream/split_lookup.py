"""Find the old rows of a batch's keys on Spark's executors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from deletekit.deletes.keys import KeyNumbers
from deletekit.deletes.read import ReadContext, ReadRequest, read_task
from deletekit.deletes.scan_task import ScanTask
from deletekit.spark.engine import SparkEngine
from deletekit.stream.change_rows import Changes
from deletekit.stream.split_parts import Part, read_parts

KEY, FILE, POSITION, ROW_ID = "key", "file", "position", "row_id"
HITS = f"{KEY} long, {FILE} long, {POSITION} long, {ROW_ID} long"
"""An old row: the number of its key in the batch, the number of its data file, its position, and its row id or -1."""

# A task that reads a data file holds so many keys of the batch at a time.
_KEYS_AT_ONCE = 2_000_000

Parsed = Callable[[pa.Table], Changes]


def found_rows(
    context: ReadContext,
    tasks: Sequence[ScanTask],
    parts: Sequence[Part],
    parsed: Parsed,
    session: SparkSession,
    engine: SparkEngine,
) -> DataFrame:
    """Return the live rows with keys of the batch, as a lazy DataFrame of HITS."""
    scans = [_Scan(number, task, some) for number, task in enumerate(tasks) for some in _some(parts)]

    def find(scan: _Scan) -> Iterator[pa.RecordBatch]:
        return scan.find(context, parsed)

    return engine.frame(session, find, scans, HITS)


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
