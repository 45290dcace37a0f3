"""Read a key index that is a part of the table: its root, its runs, and rows by the hash of their key.

The index says where each physical row of some data files is, live or hidden, and nothing of deletes. Data files never
change, so it is right for every snapshot. What differs is which of its files are live: files of the snapshot that it
does not have must be read, and rows of files that the snapshot does not have must be passed over.

A run has its rows sorted by hash, in small blocks, each with a checksum. Only blocks that may have a key are read.

For batches of Spark it stays in its files (`FileIndex`), and tasks extend it: they read the keys of new data files and
write the runs. The driver plans, and writes the root. Data files that are not in the index are searched by reading
their keys, so it is extended only when there are some of them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, islice
from typing import Any

import numpy as np
import pyarrow as pa
from pyiceberg.types import NestedField

from deletekit.commit.change import Base
from deletekit.deletes.plan import plan_scan
from deletekit.deletes.read import ReadContext, ReadRequest, rows_at
from deletekit.deletes.scan_task import ScanTask
from deletekit.engines.local import Engine
from deletekit.errors import DeletekitError
from deletekit.formats.content_file import DataFile, DeleteFile
from deletekit.formats.deletion_vector import PositionBitmap
from deletekit.log import tell
from deletekit.rows.write_context import WriteContext
from deletekit.stream.key_hashes import KeyHasher, KeyHashes, Numbers
from deletekit.stream.key_index import (
    MOST_FILES,
    NO_ID,
    FileKeys,
    IndexHits,
    Run,
    by_file,
    index_rows,
    indexed_file,
    joined_hits,
    merged,
    new_run,
    open_run,
    read_file_keys,
    stacks,
)
from deletekit.stream.live_rows import LiveRows
from deletekit.table.file_io import FileIO
from deletekit.table.metadata import Snapshot, TableMetadata
from deletekit.table.sinks.batches import KEY, history
from deletekit.table.sinks.files import KEY_INDEX, RUN, root_name, sink_path
from deletekit.table.sinks.index_files import (
    BLOCK_ROWS,
    DamagedIndexError,
    IndexedFile,
    IndexRoot,
    RunInfo,
    encode_root,
    read_root,
    read_tail,
)

# A search loads about so many rows at a time.
_LOADED_ROWS = 1 << 22
_MOST_ROOTS = 3
_NEWEST = 100
# The index is extended when so many data files, or rows, are not in it.
_NEW_FILES = 8
_NEW_ROWS = 1_000_000
# A task makes a run of so many rows, in memory; longer runs are not merged.
_RUN_ROWS = 8_000_000


NewFiles = Sequence[tuple[DataFile, FileKeys | None]]
"""Data files that a commit adds, each with its keys if the index keeps them."""
OldRows = Mapping[int, PositionBitmap]
"""Positions of rows, by the number of their data file."""


@dataclass(frozen=True)
class SavedIndex:
    """The root of an index. The runs are not loaded.

    Attributes
    ----------
    name: of the root, as the summary has it.
    """

    io: FileIO
    metadata: TableMetadata
    name: str
    root: IndexRoot

    def __reduce__(self) -> tuple[Any, ...]:
        return SavedIndex, (self.io, self.metadata, self.name, self.root)

    @cached_property
    def files(self) -> Sequence[tuple[IndexedFile, ...]]:
        """Return the data files of each run. The first call reads its tail.

        Raises DamagedIndexError.
        """
        return [read_tail(self.io, self.path_of(run), run).files for run in self.root.runs]

    def path_of(self, run: RunInfo) -> str:
        """Return the path of a run."""
        return sink_path(self.metadata, run.name)

    @property
    def paths(self) -> tuple[str, ...]:
        """Return the paths of the root and its runs."""
        return (sink_path(self.metadata, self.name), *map(self.path_of, self.root.runs))

    def runs(self) -> list[Run]:
        """Open the runs: read their tails. Raise DamagedIndexError."""
        return [open_run(self.io, self.path_of(run), run) for run in self.root.runs]


def load_index(
    io: FileIO, metadata: TableMetadata, head: Snapshot | None, fields: Sequence[NestedField]
) -> SavedIndex | None:
    """Return the newest index in the history of a head for a key; None if there is none that can be used.

    An index is right for every snapshot, so one that only a ref keeps will do: expiry may have taken what led to it.
    A damaged or missing root is told to the log, and the one before it is tried.
    """
    for name in _roots(metadata, head, fields):
        try:
            root = read_root(io, sink_path(metadata, name))
        except DamagedIndexError as e:
            tell_damage(e)
            continue
        if root.table_uuid == metadata.table_uuid and root.key == key_of(fields):
            return SavedIndex(io, metadata, name, root)
    return None


def index_entry(
    base: Base, fields: Sequence[NestedField], index: SavedIndex | None, *, keeps: bool
) -> tuple[Mapping[str, str], tuple[str, ...]]:
    """Return the summary entry of a commit that names an index, and the paths that the entry leads to.

    A commit without one of its own names that of the history (`keeps`), so that it does not expire.
    """
    if index is not None:
        return {KEY_INDEX: index.name}, index.paths
    name = next(_roots(base.metadata, base.snapshot, fields), None) if keeps else None
    return ({}, ()) if name is None else ({KEY_INDEX: name}, ())


def is_named(metadata: TableMetadata, head: Snapshot | None, name: str) -> bool:
    """Tell whether one of the newest snapshots of a head, or of those that refs keep, names a root."""
    newest = islice(history(metadata, head), _NEWEST)
    return any(root_name(s) == name for s in chain(newest, _kept_by_refs(metadata)))


def tell_damage(error: DeletekitError) -> None:
    """Log that an index cannot be used."""
    tell("key-index", level=logging.WARNING, file=error.file, found=error.found, then="made again")


def _roots(metadata: TableMetadata, head: Snapshot | None, fields: Sequence[NestedField]) -> Iterator[str]:
    key, seen = ",".join(str(f.field_id) for f in fields), set[str]()
    for snapshot in chain(history(metadata, head), _kept_by_refs(metadata)):
        name = root_name(snapshot)
        if name is not None and name not in seen and snapshot.summary.get(KEY, key) == key:
            seen.add(name)
            yield name
            if len(seen) == _MOST_ROOTS:
                return


def _kept_by_refs(metadata: TableMetadata) -> list[Snapshot]:
    ids = {int(ref["snapshot-id"]) for ref in metadata.refs.values()} & metadata.snapshots.keys()
    return sorted((metadata.snapshots[i] for i in ids), key=lambda s: -s.sequence_number)


def key_of(fields: Sequence[NestedField]) -> tuple[tuple[int, str], ...]:
    """Return the key as a root has it."""
    return tuple((f.field_id, str(f.field_type)) for f in fields)


def find_in_runs(runs: Sequence[Run], hashes: KeyHashes) -> IndexHits:
    """Find every row of some runs with one of these hashes. Raise DamagedIndexError."""
    order = np.argsort(hashes.low)
    wanted = hashes.take(order)
    found = joined_hits(run.find(wanted) for run in runs)
    return replace(found, keys=order[found.keys])


class Index:
    """Finds the live rows of a head by their keys, in runs that are in memory (`TableIndex`) or in files (`FileIndex`).

    Attributes
    ----------
    fields: the key columns.
    tasks: the data files of the head, with their deletes, by their numbers.
    keeps: whether `after` wants the keys of new data files.
    """

    keeps = False

    def __init__(self, fields: Sequence[NestedField]) -> None:
        self.fields, self.hasher = tuple(fields), KeyHasher(fields)
        self.live = LiveRows(self.fields)
        self.tasks: dict[int, ScanTask] = {}
        self.context: ReadContext

    def divide(self, base: Base, known: Mapping[str, IndexedFile]) -> list[ScanTask]:
        """Look up in the data files of a head that are known, by their paths. Return the others."""
        self.context, self.tasks, others = ReadContext(base.table.io, base.metadata), {}, []
        for task in plan_scan(base.metadata, base.snapshot, base.reader):
            file, now = known.get(task.data_file.file_path), task.data_file
            if file is not None and (file.rows, file.size) == (now.record_count, now.file_size_in_bytes):
                self.tasks[file.number] = task
            else:
                others.append(task)
        return others

    def rows(self, hashes: KeyHashes) -> IndexHits:
        """Return every row with one of these hashes, live or not."""
        raise NotImplementedError

    def find(self, keys: Sequence[Any]) -> IndexHits:
        """Find the live rows with one of these keys, given as columns of the fields' types.

        Raises DamagedIndexError for files of the index, and for a position behind the end of a data file; FormatError
        and NotFoundError for deletes.
        """
        hashes = self.hasher(keys)
        found = self.rows(hashes)
        found = found.take(np.isin(found.files, list(self.tasks)))
        for number, rows in by_file(found.files):
            file = self.tasks[number].data_file
            if int(found.positions[rows].max()) >= file.record_count:
                message, expected = "the key index has a row behind the end of a data file", f"{file.record_count} rows"
                raise DamagedIndexError(message, kind="key-index", file=file.file_path, expected=expected)
        wanted = hashes.take(found.keys)
        return found.take(self.live.are_live(self.context, self.tasks, found.files, found.positions, wanted))

    def row_ids(self, hits: IndexHits) -> Numbers:
        """Return the `_row_id` of each row; -1 for rows without one."""
        ids = hits.row_ids.copy()
        for number, rows in by_file(hits.files):
            first = self.tasks[number].data_file.first_row_id
            stored = ids[rows]
            ids[rows] = NO_ID if first is None else np.where(stored == NO_ID, first + hits.positions[rows], stored)
        return ids

    def stored(
        self, hits: IndexHits, columns: Sequence[NestedField], engine: Engine
    ) -> Iterator[tuple[Numbers, pa.Table]]:
        """Read columns of the rows that were found. Yield the indices of some hits, and their rows."""
        context, request = self.context, ReadRequest(tuple(columns))

        def read(asked: tuple[ScanTask, Numbers]) -> tuple[Numbers, pa.Table]:
            task, rows = asked
            wanted, places = np.unique(hits.positions[rows], return_inverse=True)
            return rows, rows_at(context, task, request, PositionBitmap(wanted)).take(pa.array(places))

        return engine.map(read, [(self.tasks[number], rows) for number, rows in by_file(hits.files)])

    def hidden(self, number: int) -> PositionBitmap | None:
        """Return what deletes by position hide of a data file; None if that is not known without reading them."""
        del number
        return None

    def after(self, base: Base, files: NewFiles, deletes: Sequence[DeleteFile], old: OldRows) -> SavedIndex | None:
        """Return the index that was saved for a commit, whose `deletes` hide the `old` rows; None for none."""
        raise NotImplementedError


class FileIndex(Index):
    """An index that stays in its files. It can be pickled.

    Attributes
    ----------
    saved: the index; None for none. is_new: whether it was written for this commit.
    others: the data files that are not in it, by numbers behind; a search reads their keys.

    Raises DamagedIndexError.
    """

    def __init__(self, base: Base, fields: Sequence[NestedField], saved: SavedIndex | None, *, is_new: bool) -> None:
        super().__init__(fields)
        self.saved, self.is_new = saved, is_new
        others = self.divide(base, {} if saved is None else by_path(f for files in saved.files for f in files))
        self._runs = saved.root.runs if saved is not None and self.tasks else ()
        self.others = dict(enumerate(others, 0 if saved is None else saved.root.next_number))
        self.tasks |= self.others

    @property
    def lacks_many(self) -> bool:
        """Whether it lacks so much that it must be extended."""
        rows = sum(task.data_file.record_count for task in self.others.values())
        return len(self.others) >= _NEW_FILES or rows >= _NEW_ROWS

    def rows(self, hashes: KeyHashes) -> IndexHits:
        """Return every row with one of these hashes, live or not.

        Only the blocks that may hold them are read, and those of a few million rows are held at a time.
        """
        found = [find_in_runs([_run_of(self.context, self.fields, self.others)] if self.others else [], hashes)]
        order = np.argsort(hashes.low)
        for info in self._runs:
            most, path = min(info.rows, len(hashes) * BLOCK_ROWS), sink_path(self.context.metadata, info.name)
            for some in np.array_split(order, 1 + most // _LOADED_ROWS):
                if len(some):
                    hits = find_in_runs([open_run(self.context.io, path, info)], hashes.take(some))
                    found.append(replace(hits, keys=some[hits.keys]))
        return joined_hits(found)

    def after(self, *_: Any) -> SavedIndex | None:
        return self.saved if self.is_new else None


def file_index(
    base: Base, fields: Sequence[NestedField], engine: Engine, kept: SavedIndex | None, *, load: bool = True
) -> FileIndex:
    """Return the index of a head's history, extended if many data files are not in it. Raise DamagedIndexError.

    Parameters
    ----------
    kept: the index of the last call, which need not be read again.
    load: False makes a new index of all data files.
    """
    saved = load_index(base.table.io, base.metadata, base.snapshot, fields) if load else None
    if saved is not None and kept is not None and kept.name == saved.name:
        saved = kept
    found = FileIndex(base, fields, saved, is_new=False)
    if (load and not found.lacks_many) or not found.others or max(found.others) >= MOST_FILES:
        return found
    return FileIndex(base, fields, _extended(base, engine, found), is_new=True)


def by_path(files: Iterable[IndexedFile]) -> dict[str, IndexedFile]:
    """Return data files by their paths. Of two numbers of one path, the later one is right: the file was changed."""
    return {f.path: f for f in sorted(files, key=lambda f: f.number)}


def _extended(base: Base, engine: Engine, found: FileIndex) -> SavedIndex:
    """Write runs of the data files that are not in the index, merge short runs, and write the root."""
    context, write, fields = found.context, base.write, found.fields
    groups: list[dict[int, ScanTask]] = []
    held = 0
    for number, task in found.others.items():
        if not groups or held + task.data_file.record_count > _RUN_ROWS:
            groups.append({})
            held = 0
        groups[-1][number] = task
        held += task.data_file.record_count

    def written(group: Mapping[int, ScanTask]) -> RunInfo:
        return _saved(write, _run_of(context, fields, group), f"n{min(group)}")

    new = list(engine.map(written, groups))
    next_number = max(found.others) + 1
    live = np.zeros(next_number, np.bool_)
    live[list(found.tasks)] = True
    known = [] if found.saved is None else zip(found.saved.root.runs, found.saved.files, strict=True)
    old = [run for run, files in known if any(live[f.number] for f in files)]

    def made(stack: Sequence[RunInfo]) -> RunInfo:
        if len(stack) == 1:
            return stack[0]
        run = merged([open_run(write.io, sink_path(write.metadata, info.name), info) for info in stack], live)
        return _saved(write, run, f"m{stack[0].digest[:8]}")

    runs = engine.map(made, stacks([*old, *new], lambda run: run.rows, _RUN_ROWS))
    return write_root(base, fields, next_number, tuple(runs))


def write_root(base: Base, fields: Sequence[NestedField], next_number: int, runs: tuple[RunInfo, ...]) -> SavedIndex:
    """Write the root of an index with the files of an attempt's base."""
    root = IndexRoot(
        table_uuid=base.metadata.table_uuid,
        key=key_of(fields),
        snapshot_id=base.snapshot.snapshot_id if base.snapshot else None,
        next_number=next_number,
        runs=runs,
    )
    name, data = encode_root(root)
    base.write.write(sink_path(base.metadata, name), data)
    return SavedIndex(base.table.io, base.metadata, name, root)


def save_run(write: WriteContext, run: Run, name: str) -> RunInfo:
    """Write a run with the files of an attempt. Return what a root has of it."""
    path = sink_path(write.metadata, name)
    write.remember(path)
    run.save(write.io, path)
    assert run.saved is not None
    return run.saved


def _run_of(context: ReadContext, fields: Sequence[NestedField], group: Mapping[int, ScanTask]) -> Run:
    """Return a run of the keys of some data files, which are read."""
    hasher = KeyHasher(fields)
    rows = [index_rows(hasher, number, read_file_keys(context, task, fields)) for number, task in group.items()]
    files = [indexed_file(number, task.data_file) for number, task in group.items()]
    return new_run(rows, files)


def _saved(write: WriteContext, run: Run, text: str) -> RunInfo:
    # With the attempt in its name, the driver removes the files of others.
    return save_run(write, run, f"{write.operation_id}-{text}{RUN}")
