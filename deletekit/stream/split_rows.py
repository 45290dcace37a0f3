"""Keep the change rows of a batch on Spark's executors, from the micro-batch to the files that the driver commits.

1. Spark brings all changes of a key into one partition. Its task parses them, keeps the last change of each key, and
   writes these rows to a file, its part of the batch. A part never changes: a task that runs again gives the same rows.
2. Tasks find the old rows of all keys in the table's key index (`saved_index.py`).
3. Spark brings the old rows to the parts of their keys. Tasks write the new rows, with the row ids of the old ones.
4. Spark brings the old rows of each data file together. Tasks write what hides them.

The driver gets counts, digests and the files that were written, but no row and no key. After a lost race 2 to 4 run
again, from the same parts. `discard` removes the parts. Those of a killed process are found by `remove_orphan_files`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField
from pyspark.sql import DataFrame, SparkSession, Window, functions

from deletekit.commit.change import Base, RowDelta
from deletekit.deletes.merge_previous_deletes import HiddenRows, Replacement, replace_deletes
from deletekit.deletes.plan import plan_scan
from deletekit.deletes.read import ReadContext, ReadRequest, read_task
from deletekit.deletes.scan_task import ScanTask
from deletekit.errors import CommitConflictError, UnsupportedError
from deletekit.formats.content_file import DataFile
from deletekit.formats.deletion_vector import PositionBitmap
from deletekit.rows.keys import KeyNumbers, flat
from deletekit.rows.write_context import WriteContext
from deletekit.spark.engine import SparkEngine
from deletekit.stream.batch_delta import BatchDelta, delete_granularity, equality_delta, write_last_rows
from deletekit.stream.batch_digest import digest_of
from deletekit.stream.change_rows import Changes, read_changes
from deletekit.stream.dead_letters import with_staged
from deletekit.stream.key_hashes import KeyHasher
from deletekit.stream.live_rows import LiveRows
from deletekit.stream.saved_index import SplitIndex, find_in_files, live_hits, row_ids_of, split_index
from deletekit.stream.sequence_guard import Guarded, SplitGuard, files_of, without_keys
from deletekit.stream.sink_state import SinkState
from deletekit.stream.split_parts import Part, read_parts
from deletekit.stream.split_staging import GivenFrame, table_of
from deletekit.stream.stored_values import UnsentError
from deletekit.table.sinks.index_files import RunInfo
from deletekit.table.table import Table
from deletekit.verbs.shared.equality_keys import specs_in_use

KEY, FILE, POSITION, ROW_ID, LATE = "key", "file", "position", "row_id", "late"
HITS = f"{KEY} long, {FILE} long, {POSITION} long, {ROW_ID} long, {LATE} long"
"""An old row: the number of its key in the batch, the number of its data file, its position, its row id or -1, and
whether `sequence_by` says that it is newer than the change (1) or not (0)."""

# A task that reads a data file holds so many keys of the batch at a time.
_KEYS_AT_ONCE = 2_000_000

Parsed = Callable[[pa.Table], Changes]
_GROUP = "__deletekit_group"
_HIT = (KEY, FILE, POSITION, ROW_ID, LATE)
# Work of a task. Less of it than a task's start is worth makes small files.
_GROUP_BYTES = 16 << 20
_GROUP_HITS = 1 << 17
Numbers = npt.NDArray[np.int64]


def found_rows(
    context: ReadContext,
    tasks: Sequence[ScanTask],
    index: SplitIndex,
    parts: Sequence[Part],
    parsed: Parsed,
    session: SparkSession,
    engine: SparkEngine,
    guard: SplitGuard | None = None,
) -> DataFrame:
    """Return the live rows with keys of the batch, as a lazy DataFrame of HITS. `guard` finds late changes."""
    runs, indexed = index.runs, {number: tasks[place] for number, place in index.places.items()}
    searches: list[_Scan | _Lookup] = [_Lookup(part, dict(index.places)) for part in parts] if runs else []
    searches += [_Scan(place, tasks[place], some) for place in index.others for some in _some(parts)]

    def find(search: _Scan | _Lookup) -> Iterator[pa.RecordBatch]:
        if isinstance(search, _Lookup):
            yield search.find(context, parsed, runs, indexed, guard)
        else:
            yield from search.find(context, parsed, guard)

    return engine.frame(session, find, searches, HITS)


@dataclass(frozen=True, slots=True)
class _Lookup:
    """Look for the keys of a part in the index. `places` has the place of each live data file of the index."""

    part: Part
    places: Mapping[int, int]

    def find(
        self,
        context: ReadContext,
        parsed: Parsed,
        runs: Sequence[RunInfo],
        indexed: Mapping[int, ScanTask],
        guard: SplitGuard | None,
    ) -> pa.RecordBatch:
        changes = parsed(read_parts(context.io, [self.part]))
        fields = changes.form.fields
        hashes = KeyHasher(fields)(changes.last.keys)
        found = find_in_files(context, runs, hashes)
        found = live_hits(context, found, indexed, LiveRows(fields), hashes)
        ids = row_ids_of(found, indexed)
        places = np.array([self.places[n] for n in found.files.tolist()], np.int64)
        late = None
        if guard is not None:
            files = files_of(found.files, indexed.__getitem__)
            late = guard.newer(context, changes, found.keys, files, found.positions)
            late |= guard.older(context, changes)[found.keys]
        return hits_batch(found.keys + self.part.first_key, places, found.positions, ids, late)


@dataclass(frozen=True, slots=True)
class _Scan:
    """Look for the keys of some parts in one data file, by reading its key columns."""

    number: int
    task: ScanTask
    parts: tuple[Part, ...]

    def find(self, context: ReadContext, parsed: Parsed, guard: SplitGuard | None) -> Iterator[pa.RecordBatch]:
        changes = parsed(read_parts(context.io, self.parts))
        keys, fields = KeyNumbers(changes.last.keys), changes.form.fields
        has_ids = self.task.data_file.first_row_id is not None
        columns = fields if guard is None else (*fields, guard.column)
        older = None if guard is None else guard.older(context, changes)
        for batch in read_task(context, self.task, ReadRequest(columns, lineage=has_ids, only_live=True)):
            numbers = keys.find(batch.table.columns[: len(fields)])
            hit = (numbers >= 0) & ~batch.deleted
            row_ids = batch.table.column("_row_id").filter(pa.array(hit)) if has_ids else None
            found, late = numbers[hit], None
            if guard is not None and older is not None:
                values = flat(batch.table.column(len(fields)).filter(pa.array(hit)))
                late = guard.compared(changes, found, values) | older[found]
            yield hits_batch(found + self.parts[0].first_key, self.number, batch.positions(hit), row_ids, late)


def hits_batch(keys: Any, file: Any, positions: Any, row_ids: Any, late: Any = None) -> pa.RecordBatch:
    """Return old rows as Arrow rows of HITS."""
    count = len(keys)
    ids = np.full(count, -1) if row_ids is None else row_ids
    if isinstance(ids, pa.ChunkedArray):
        ids = ids.combine_chunks().fill_null(-1)
    columns = [keys, np.broadcast_to(file, count), positions, ids, np.zeros(count) if late is None else late]
    arrays = [c if isinstance(c, pa.Array) else pa.array(np.ascontiguousarray(c, np.int64)) for c in columns]
    return pa.RecordBatch.from_arrays(arrays, names=[KEY, FILE, POSITION, ROW_ID, LATE])


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


class SplitRows:
    """Change rows of a Spark DataFrame, with the attributes and methods of `HeldRows`.

    Attributes
    ----------
    given: how many rows the DataFrame had, dead letters too.
    takes_stored: some rows depend on others in a way that tasks do not work out: values that were not sent, and
        tombstones that `sequence_by` has no value of. The batch has to be written in one process.

    Raises InvalidInputError as `read_changes`; UnsupportedError for a DataFrame of Spark Connect.
    """

    truncates = False
    source = None

    def __init__(self, state: SinkState, frame: DataFrame) -> None:
        self._state, self._given = state, GivenFrame(state, frame)
        self.guarded: Guarded | None = None
        self._form, self._engine, self._session = self._given.reads.form, self._given.engine, frame.sparkSession
        self.schema, self.fields = self._given.reads.schema, self._form.fields
        self._staging = WriteContext(state.table.io, state.table.metadata)
        try:
            staged = self._given.staged(self._staging)
            files = [file for _, file in staged if file is not None]
            self.letters = with_staged(state.dead_letters, files, state.table.io, self._engine)
        except BaseException:
            self.discard()
            raise
        parts = [part for part, _ in staged if part is not None]
        self.takes_stored = any(part.takes_stored for part in parts)
        starts = np.cumsum([0, *(p.keys for p in parts)]).tolist()
        self._parts = [replace(p, first_key=first) for p, first in zip(parts, starts[:-1], strict=True)]
        self._rows, self.keys = sum(p.rows for p in parts), sum(p.keys for p in parts)
        self.given = self._rows + sum(file.count for file in files)
        self.newest = max((p.newest for p in parts if p.newest is not None), default=None)
        self.digest = digest_of([p.digest for p in parts])

    def __len__(self) -> int:
        return self._rows

    def evolve(self, table: Table) -> None:
        self._given.evolve(table)
        found, expected = (_column_ids(schema, self._given.names) for schema in (table.schema, self.schema))
        if found != expected:  # tasks made the digest with these ids
            message = "others changed the columns of the batch meanwhile; write it again"
            raise CommitConflictError(message, field="evolve", found=found, expected=expected)

    def parse(self, schema: Schema, fields: tuple[NestedField, ...]) -> None:
        self.schema, self.fields = schema, fields

    def as_truncation(self, base: Base) -> BatchDelta:  # noqa: ARG002  # as the protocol has it
        raise UnsupportedError("a DataFrame cannot say that a table was truncated", kind="truncate")

    def discard(self) -> None:
        self._staging.discard()

    def reject(self, error: UnsentError) -> None:
        raise error

    # --- writing ------------------------------------------------------------------------------------------------------

    def by_value(self, base: Base) -> BatchDelta:
        return self._mapped(base, equality_delta)

    def by_position(self, base: Base) -> tuple[BatchDelta, int]:
        return self._state.retried(base, lambda load: self._by_position(base, load=load))

    def _by_position(self, base: Base, *, load: bool) -> tuple[BatchDelta, int]:
        tasks = list(plan_scan(base.metadata, base.snapshot, base.reader))
        context, state, parts = ReadContext(base.table.io, base.metadata), self._state, self._parts
        own = state.guard(base.metadata.schema)
        guard = None if own is None else SplitGuard(own, base, self._staging)
        index = split_index(base, tasks, self.fields, self._engine, state.split_index, load=load)
        state.split_index = index.saved
        hits = found_rows(context, tasks, index, parts, self._parsed, self._session, self._engine, guard)
        if guard is not None:  # others may have written a key twice
            hits = hits.withColumn(LATE, functions.max(LATE).over(Window.partitionBy(KEY)))
        hits = hits.persist()  # found once: both shuffles take them
        try:
            written = self._write_parts(base, hits, guard)
            hidden = self._hide(base, tasks, hits.filter(f"{LATE} = 0"), sum(w.hits for w in written))
        finally:
            hits.unpersist()
        removed = {e.data_file.identity: e for done, _ in hidden for e in done.removed_delete_files}
        delta = RowDelta(
            granularity=delete_granularity(base.metadata),
            added_data_files=tuple(f for w in written for f in w.files),
            removed_data_files=tuple(e for done, _ in hidden for e in done.removed_data_files),
            added_delete_files=tuple(d for done, _ in hidden for d in done.added_delete_files),
            removed_delete_files=tuple(removed.values()),
        )
        found, late = sum(w.hits for w in written), sum(w.late for w in written)
        if guard is not None:
            memory = guard.remembered(base.write, [path for w in written for path in w.deletes], self._engine)
            self.guarded = Guarded(late=late, memory=memory)
        targets, new = frozenset(path for _, paths in hidden for path in paths), index.saved if index.is_new else None
        written_delta = BatchDelta(delta=delta, hits=found, misses=self.keys - late - found, targets=targets, index=new)
        return written_delta, len(index.others)

    def _mapped(self, base: Base, write: Callable[[WriteContext, Any, Changes], BatchDelta]) -> BatchDelta:
        """Write the parts without looking for old rows."""
        context, specs, parsed, groups = base.write, specs_in_use(base), self._parsed, self._groups()
        io = context.io
        done = list(self._engine.map(lambda parts: write(context, specs, parsed(read_parts(io, parts))), groups))
        delta = RowDelta(
            added_data_files=tuple(f for d in done for f in d.delta.added_data_files),
            added_delete_files=tuple(f for d in done for f in d.delta.added_delete_files),
        )
        return BatchDelta(delta=delta, hits=sum(d.hits for d in done), misses=sum(d.misses for d in done))

    def _write_parts(self, base: Base, hits: DataFrame, guard: SplitGuard | None) -> list[_WrittenRows]:
        """Write the new rows. Each task gets whole parts, and the old rows of their keys."""
        context, parsed, groups = base.write, self._parsed, self._groups()
        if not groups:
            return []
        starts = [group[0].first_key for group in groups]
        session = self._session
        # A group without an old row has work too.
        names = [functions.lit(-1).cast("long").alias(name) for name in _HIT]
        work = session.range(0, len(groups), 1, 1).select(functions.col("id").alias(_GROUP), *names)
        number = functions.lit(0).cast("long")
        for start in starts[1:]:
            number += (functions.col(KEY) >= start).cast("long")
        rows = work.union(hits.select(number.alias(_GROUP), *_HIT))

        def write(batches: Iterator[pa.RecordBatch]) -> _WrittenRows:
            found = table_of(batches)
            done = _WrittenRows()
            for group in np.unique(found.column(_GROUP).to_numpy()).tolist() if len(found) else []:
                mine = found.filter(pa.array(found.column(_GROUP).to_numpy() == group))
                changes = parsed(read_parts(context.io, groups[group]))
                done += _written(context, changes, mine, groups[group][0].first_key, guard)
            return done

        return self._engine.map_partitions(_by_number(rows, _GROUP, len(groups)), write)

    def _hide(
        self, base: Base, tasks: Sequence[ScanTask], hits: DataFrame, count: int
    ) -> list[tuple[Replacement, list[str]]]:
        """Hide the old rows. Each task gets whole data files."""
        if not count:
            return []
        context, metadata = base.write, base.metadata

        def write(batches: Iterator[pa.RecordBatch]) -> tuple[Replacement, list[str]]:
            found = table_of(batches)
            files = found.column(FILE).to_numpy() if len(found) else np.empty(0, np.int64)
            positions = found.column(POSITION).to_numpy() if len(found) else files
            hidden = [
                HiddenRows(tasks[number], PositionBitmap(positions[files == number]))
                for number in np.unique(files).tolist()
            ]
            loader = ReadContext(context.io, metadata).loader
            done = replace_deletes(context, loader, hidden, granularity=delete_granularity(metadata))
            return done, [h.task.data_file.file_path for h in hidden]

        workers = max(1, min(self._engine.threads, len(tasks), -(-count // _GROUP_HITS)))
        return self._engine.map_partitions(hits.select(FILE, POSITION).repartition(workers, FILE), write)

    # --- parts --------------------------------------------------------------------------------------------------------

    @property
    def _parsed(self) -> Callable[[pa.Table], Changes]:
        """Return what parses rows of parts, in any process."""
        schema = self.schema
        form = replace(self._state.options.form(schema, ordered=True), fields=self.fields, order=None)
        return lambda rows: read_changes(rows, schema, form)

    def _groups(self) -> list[list[Part]]:
        """Return the parts in order, in groups of about equal work: at most as many as tasks run at a time."""
        parts = self._parts
        most = max(1, min(self._engine.threads, sum(p.bytes for p in parts) // _GROUP_BYTES))
        each = max(1, -(-len(parts) // most))
        return [list(parts[at : at + each]) for at in range(0, len(parts), each)]


@dataclass(frozen=True, slots=True)
class _WrittenRows:
    """Data files of new rows, how many keys had an old row or were late, and where their deletes are staged."""

    files: tuple[DataFile, ...] = ()
    hits: int = 0
    late: int = 0
    deletes: tuple[str, ...] = ()

    def __add__(self, other: _WrittenRows) -> _WrittenRows:
        return _WrittenRows(
            self.files + other.files, self.hits + other.hits, self.late + other.late, self.deletes + other.deletes
        )


def _written(
    context: WriteContext, changes: Changes, found: pa.Table, first_key: int, guard: SplitGuard | None
) -> _WrittenRows:
    """Write the last row of each key that is not late."""
    found = found.filter(pc.greater_equal(found.column(KEY), 0))
    keys = found.column(KEY).to_numpy() - first_key
    read = ReadContext(context.io, context.metadata)
    late = np.zeros(len(changes.last), np.bool_) if guard is None else guard.older(read, changes)
    late[keys[found.column(LATE).to_numpy() > 0]] = True
    left, numbers = ~late[keys], np.cumsum(~late) - 1
    changes, keys = without_keys(changes, late), numbers[keys[left]]
    row_ids = found.column(ROW_ID).filter(pa.array(left))
    files = tuple(file for file, _, _ in write_last_rows(context, changes, keys, row_ids))
    deletes = None if guard is None else guard.staged_deletes(changes, first_key)
    hits = len(np.unique(keys))
    return _WrittenRows(files, hits, int(late.sum()), () if deletes is None else (deletes,))


def _by_number(rows: DataFrame, name: str, count: int) -> DataFrame:
    """Return the rows with those of each number in a partition of their own; before Spark 4.1 some share one."""
    if hasattr(rows, "repartitionById"):
        return rows.repartitionById(count, functions.col(name).cast("int"))
    return rows.repartition(count, name)


def _column_ids(schema: Schema, names: Sequence[str]) -> dict[str, int]:
    return {f.name: f.field_id for f in schema.fields if f.name in names}
