"""Keep an index of a table's live rows by key, from commit to commit, exact for one head at a time.

The index follows the live files, not the intentions of commits. It compares the head's data and delete files with those
that it has seen, reads the new ones and forgets those that are gone, by any writer, in any order. After a hash is
found, the key itself is compared. The index only knows where a row is, not its values.

A row takes 16 bytes of memory, and at most one bit if it is hidden. Keys that are not integers, and row ids that data
files store, are on the local disk (`KeyColumns`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.types import NestedField

from deletekit.commit.change import Base
from deletekit.deletes.keys import same_keys
from deletekit.deletes.merge_previous_deletes import positions_in_file
from deletekit.deletes.plan import plan_scan
from deletekit.deletes.read import ReadContext, deleted_positions
from deletekit.deletes.scan_task import ScanTask
from deletekit.engines.local import Engine
from deletekit.formats.content_file import DeleteFile
from deletekit.formats.deletion_vector import PositionBitmap
from deletekit.stream.key_columns import FileKeys, KeyColumns, read_file_keys
from deletekit.stream.key_index import KeyHasher, KeyIndex, Locations, by_file, pack, unpack
from deletekit.table.file_io import FileIO

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Hits:
    """Live rows with one of the wanted keys: the index of the key, the number of the file, the position."""

    keys: Numbers
    files: Numbers
    positions: Numbers

    def __len__(self) -> int:
        return len(self.keys)

    def where(self, mask: npt.NDArray[np.bool_]) -> Hits:
        return Hits(self.keys[mask], self.files[mask], self.positions[mask])


@dataclass(slots=True)
class IndexedFile:
    """A live data file of the head: its hidden rows, whether it stores row ids, and the deletes that were seen."""

    task: ScanTask
    hidden: PositionBitmap
    stored_ids: bool
    seen: frozenset[Any]

    def has_live(self, positions: Numbers) -> npt.NDArray[np.bool_]:
        return np.isin(positions, (PositionBitmap(positions) - self.hidden).to_numpy())


class TableIndex:
    """An index of the rows of one branch by one key.

    Parameters
    ----------
    fields: the key columns.
    max_keys: how many rows it may hold; the data files with the oldest rows are left out. None: no limit.

    Attributes
    ----------
    files: the data files by their numbers.
    """

    def __init__(self, fields: Sequence[NestedField], *, max_keys: int | None = None) -> None:
        self.fields = tuple(fields)
        self._hasher = KeyHasher(fields)
        self._max_keys = max_keys
        self._columns = KeyColumns()
        self._clear()

    def _clear(self) -> None:
        self._index, self._nulls = KeyIndex(), KeyIndex()
        self.files: dict[int, IndexedFile] = {}
        self._numbers: dict[str, int] = {}
        self._left_out: set[str] = set()
        self._next = 0
        self._gone_rows = 0
        self._expected: dict[str, FileKeys] = {}
        self._expected_hidden: dict[Any, PositionBitmap] = {}

    def close(self) -> None:
        """Remove the files on disk."""
        self._columns.close()

    def __len__(self) -> int:
        return len(self._index) + len(self._nulls)

    @property
    def nbytes(self) -> int:
        """Return the bytes of memory of keys, locations and hidden rows."""
        return self._index.nbytes + self._nulls.nbytes + sum(_size(f.hidden) for f in self.files.values())

    @property
    def is_complete(self) -> bool:
        """Return whether a key that is not found is certainly not in the table."""
        return not self._left_out

    def expect(self, written: Mapping[str, FileKeys], deletes: Iterable[DeleteFile], hits: Hits) -> None:
        """Announce what a commit writes, so that the next `catch_up` need not read it.

        `written` are the keys of data files, by path. `deletes` are its delete files; vectors for files of `hits` hide
        those hits.
        """
        self._expected = dict(written)
        of_path = {self.files[n].task.data_file.file_path: (n, at) for n, at in by_file(hits.files)}
        self._expected_hidden = {}
        for delete in deletes:
            if delete.is_deletion_vector and delete.referenced_data_file in of_path:
                number, at = of_path[delete.referenced_data_file]
                self._expected_hidden[delete.identity] = self.files[number].hidden | PositionBitmap(hits.positions[at])

    def catch_up(self, io: FileIO, base: Base, engine: Engine) -> int:
        """Make the index exact for a head. Return how many data files were read.

        Raise FormatError and NotFoundError for files that cannot be read; the index is then built again next time.
        """
        tasks = {t.data_file.file_path: t for t in plan_scan(base.metadata, base.snapshot, base.reader)}
        context = ReadContext(io, base.metadata)
        try:
            self._forget(set(self._numbers) - set(tasks))
            known = [t for path, t in tasks.items() if path in self._numbers]
            changed = [t for t in known if {d.identity for d in t.delete_files} != self._file(t).seen]
            expected = self._expected_hidden.keys()
            context.loader.expect(t for t in changed if expected.isdisjoint(d.identity for d in t.delete_files))
            self._forget(self._hide(context, changed))
            for task in known:
                if task.data_file.file_path in self._numbers:
                    self._file(task).task = task
            read = self._read(context, self._chosen(tasks), engine)
            self._compact()
        except BaseException:
            self._clear()
            raise
        self._expected, self._expected_hidden = {}, {}
        return read

    def find(self, keys: Sequence[Any]) -> Hits:
        """Find the live rows with one of these keys, given as columns of the fields' types."""
        hashes = self._hasher(keys)
        plain, null = np.flatnonzero(~hashes.is_null), np.flatnonzero(hashes.is_null)
        rows, locations = self._index.find(hashes.values[plain])
        null_rows, null_locations = self._nulls.find(hashes.values[null])
        locations = np.concatenate([locations, null_locations])
        hits = Hits(np.concatenate([plain[rows], null[null_rows]]), *unpack(locations))
        return self._verified(keys, hits.where(self._are_live(locations)))

    def row_ids(self, hits: Hits) -> pa.Array:
        """Return the `_row_id` of each row; null for rows without one."""
        ids, known = np.zeros(len(hits), np.int64), np.zeros(len(hits), np.bool_)
        for number, rows in by_file(hits.files):
            file, positions = self.files[number], hits.positions[rows]
            if file.stored_ids:
                found = self._columns.take(number, positions).column("_row_id")
                ids[rows] = found.to_numpy()
                known[rows] = True
            elif file.task.data_file.first_row_id is not None:
                ids[rows] = file.task.data_file.first_row_id + positions
                known[rows] = True
        return pa.array(ids, mask=~known)

    # --- what is live -------------------------------------------------------------------------------------------------

    def _file(self, task: ScanTask) -> IndexedFile:
        return self.files[self._numbers[task.data_file.file_path]]

    def _chosen(self, tasks: Mapping[str, ScanTask]) -> list[ScanTask]:
        """Choose the data files to read: the new ones, the newest first, as many as fit into `max_keys`."""
        new = [t for path, t in tasks.items() if path not in self._numbers]
        self._left_out &= set(tasks)
        if self._max_keys is None:
            return new
        room = self._max_keys
        newest = sorted(tasks.values(), key=lambda t: t.data.sequence_number or 0, reverse=True)
        kept: set[str] = set()
        for task in newest:
            room -= task.data_file.record_count
            if room < 0:
                break
            kept.add(task.data_file.file_path)
        self._forget(set(self._numbers) - kept)
        self._left_out = set(tasks) - kept
        return [t for t in new if t.data_file.file_path in kept]

    def _read(self, context: ReadContext, tasks: Sequence[ScanTask], engine: Engine) -> int:
        expected = self._expected
        unread = [t for t in tasks if t.deletes or t.data_file.file_path not in expected]
        for task in tasks:
            if not task.deletes and task.data_file.file_path in expected:
                self._add(task, expected[task.data_file.file_path])
        for task, keys in engine.map(lambda t: (t, read_file_keys(context, t, self.fields)), unread):
            self._add(task, keys)
        return len(unread)

    def _add(self, task: ScanTask, keys: FileKeys) -> None:
        number = self._next
        self._next += 1
        live = np.arange(len(keys)) if keys.hidden is None else np.flatnonzero(~keys.hidden)
        hashes = self._hasher(keys.columns if keys.hidden is None else [c.take(pa.array(live)) for c in keys.columns])
        self._index.add(hashes.values[~hashes.is_null], pack(number, live[~hashes.is_null]))
        self._nulls.add(hashes.values[hashes.is_null], pack(number, live[hashes.is_null]))
        kept = {} if self._hasher.exact else {str(i): c for i, c in enumerate(keys.columns)}
        if keys.row_ids is not None:
            kept["_row_id"] = _filled(keys.row_ids, task.data_file.first_row_id)
        if kept and len(keys):
            self._columns.put(number, pa.table(kept))
        hidden = PositionBitmap(() if keys.hidden is None else np.flatnonzero(keys.hidden))
        seen = frozenset(d.identity for d in task.delete_files)
        self.files[number] = IndexedFile(task, hidden, keys.row_ids is not None, seen)
        self._numbers[task.data_file.file_path] = number

    def _forget(self, paths: Iterable[str]) -> None:
        for path in paths:
            number = self._numbers.pop(path)
            self._gone_rows += self.files.pop(number).task.data_file.record_count
            self._columns.drop(number)

    def _compact(self) -> None:
        """Drop rows that are hidden or whose file is gone, once they are a third of all."""
        if 3 * self._gone_rows > len(self):
            self._index.keep(self._are_live)
            self._nulls.keep(self._are_live)
            self._gone_rows = 0

    def _are_live(self, locations: Locations) -> npt.NDArray[np.bool_]:
        files, positions = unpack(locations)
        live = np.zeros(len(files), np.bool_)
        for number, rows in by_file(files):
            if number in self.files:
                live[rows] = self.files[number].has_live(positions[rows])
        return live

    # --- what is hidden -----------------------------------------------------------------------------------------------

    def _hide(self, context: ReadContext, tasks: Sequence[ScanTask]) -> set[str]:
        """Apply new deletes. Return the files that lost deletes, which must be read again."""
        read_again: set[str] = set()
        by_value: list[tuple[ScanTask, list[DeleteFile]]] = []
        for task in tasks:
            file = self._file(task)
            now = {d.identity: d for d in task.delete_files}
            new = [d for i, d in now.items() if i not in file.seen]
            positions = [d for d in new if d.kind != "equality-delete"]
            hidden = self._positions(context, task, positions)
            # New deletes must hide all rows of removed ones, as when a vector replaces another.
            if file.seen - set(now) and file.hidden - hidden:
                read_again.add(task.data_file.file_path)
                continue
            self._hide_rows(file, hidden)
            file.seen = frozenset(now)
            keyed = [d for d in new if d.kind == "equality-delete"]
            if keyed:
                by_value.append((task, keyed))
        self._hide_keys(context, by_value)
        return read_again

    def _positions(self, context: ReadContext, task: ScanTask, deletes: Collection[DeleteFile]) -> PositionBitmap:
        """Return what position deletes hide of a file, without positions behind its end, which some writers leave."""
        hidden = PositionBitmap()
        for delete in deletes:
            known = self._expected_hidden.get(delete.identity)
            if known is None:
                found = context.loader.positions_of(delete, task.data_file.file_path)
                known = positions_in_file(found, task.data_file)
            hidden = hidden | known
        return hidden

    def _hide_keys(self, context: ReadContext, found: Sequence[tuple[ScanTask, list[DeleteFile]]]) -> None:
        """Look up the keys of equality deletes in the index.

        Read data files only for deletes with other key columns.
        """
        ids = tuple(sorted(f.field_id for f in self.fields))
        other = [t for t, deletes in found if any(tuple(sorted(d.equality_ids or ())) != ids for d in deletes)]
        for task in other:
            self._hide_rows(self._file(task), deleted_positions(context, task))
        skip = {t.data_file.file_path for t in other}
        targets: dict[Any, tuple[DeleteFile, set[int]]] = {}
        for task, deletes in found:
            if task.data_file.file_path not in skip:
                for delete in deletes:
                    number = self._numbers[task.data_file.file_path]
                    targets.setdefault(delete.identity, (delete, set()))[1].add(number)
        for delete, numbers in targets.values():
            hits = self.find(context.loader.key_columns(ids, delete))
            for number, rows in by_file(hits.files):
                if number in numbers:
                    self._hide_rows(self.files[number], PositionBitmap(hits.positions[rows]))

    def _hide_rows(self, file: IndexedFile, positions: PositionBitmap) -> None:
        hidden = file.hidden | positions  # rows never come back
        self._gone_rows += len(hidden) - len(file.hidden)
        file.hidden = hidden

    # --- looking up ---------------------------------------------------------------------------------------------------

    def _verified(self, keys: Sequence[Any], hits: Hits) -> Hits:
        if self._hasher.exact:
            return hits
        right = np.zeros(len(hits), np.bool_)
        for number, rows in by_file(hits.files):
            stored = self._columns.take(number, hits.positions[rows])
            asked = [c.take(pa.array(hits.keys[rows])) for c in keys]
            right[rows] = same_keys(asked, [stored.column(str(i)) for i in range(len(keys))])
        return hits.where(right)


def _size(positions: PositionBitmap) -> int:
    found = [bitmap.get_statistics() for bitmap in positions.by_key.values()]
    return sum(
        int(f["n_bytes_array_containers"] + f["n_bytes_run_containers"] + f["n_bytes_bitset_containers"]) for f in found
    )


def _filled(row_ids: pa.Array, first_row_id: int | None) -> pa.Array:
    """Fill in row ids that are not stored. They follow from the position."""
    if not row_ids.null_count or first_row_id is None:
        return row_ids
    return pc.coalesce(row_ids, pa.array(first_row_id + np.arange(len(row_ids))))
