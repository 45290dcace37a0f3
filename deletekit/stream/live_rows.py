"""Tell which rows of data files are live: neither hidden by position nor by value.

Deletes are loaded when they are first asked for, and kept until the deletes of the file change. A row is hidden by
value if the hash of its key is among those of an equality delete. The caller knows the hash, so no row is read. Only
for equality deletes with other key columns the data file is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from operator import or_
from typing import Any

import numpy as np
import numpy.typing as npt
from pyiceberg.types import NestedField

from deletekit.deletes.merge_previous_deletes import positions_in_file
from deletekit.deletes.read import ReadContext, deleted_positions
from deletekit.deletes.scan_task import ScanTask
from deletekit.formats.content_file import DeleteFile, FileContent
from deletekit.formats.deletion_vector import PositionBitmap
from deletekit.stream.key_hashes import KeyHasher, KeyHashes, Numbers
from deletekit.stream.key_index import by_file, equal_hashes

Mask = npt.NDArray[np.bool_]


class LiveRows:
    """What deletes hide of the data files of one head after another.

    Parameters
    ----------
    fields: the key columns, in the order in which they are hashed.
    """

    def __init__(self, fields: Sequence[NestedField]) -> None:
        self._ids = tuple(f.field_id for f in fields)
        self._hasher = KeyHasher(fields)
        self._hidden: dict[str, tuple[frozenset[Any], PositionBitmap]] = {}
        self._foreign: dict[str, tuple[frozenset[Any], PositionBitmap]] = {}
        self._keys: dict[Any, KeyHashes] = {}
        self._announced: dict[Any, PositionBitmap] = {}

    @property
    def nbytes(self) -> int:
        """Return the bytes of memory that bitmaps and keys take."""
        bitmaps = [bitmap for kept in (self._hidden, self._foreign) for _, bitmap in kept.values()]
        return sum(map(_size, bitmaps)) + sum(k.low.nbytes for k in self._keys.values())

    def announce(self, hidden: Mapping[Any, PositionBitmap]) -> None:
        """Announce what vectors hide that will be committed, by their identity. They need not be read then."""
        self._announced = dict(hidden)

    def keep(self, tasks: Iterable[ScanTask]) -> None:
        """Forget what is kept for other data files and deletes than these."""
        paths: set[str] = set()
        deletes: set[Any] = set()
        for task in tasks:
            paths.add(task.data_file.file_path)
            deletes.update(d.identity for d in task.delete_files)
        for kept in (self._hidden, self._foreign):
            for path in kept.keys() - paths:
                del kept[path]
        self._keys = {i: keys for i, keys in self._keys.items() if i in deletes}
        self._announced = {i: hidden for i, hidden in self._announced.items() if i in deletes}

    def by_position(self, context: ReadContext, task: ScanTask) -> PositionBitmap:
        """Return what deletes by position hide of a data file, without positions behind its end.

        Raises FormatError or NotFoundError for deletes that cannot be read.
        """
        path, deletes = task.data_file.file_path, _positional(task)
        now = frozenset(d.identity for d in deletes)
        seen, hidden = self._hidden.get(path, (frozenset(), PositionBitmap()))
        if seen == now:
            return hidden
        if not seen <= now:  # some were replaced or rolled back
            seen, hidden = frozenset(), PositionBitmap()
        new = [self._positions(context, d, task) for d in deletes if d.identity not in seen]
        hidden = reduce(or_, new, hidden)
        self._hidden[path] = now, hidden
        return hidden

    def are_live(
        self,
        context: ReadContext,
        tasks: Mapping[int, ScanTask],
        files: Numbers,
        positions: Numbers,
        hashes: KeyHashes,
    ) -> Mask:
        """Tell which rows are live.

        Parameters
        ----------
        tasks: the data files by their numbers, with all their deletes.
        files, positions, hashes: of each row: the number of its file, its position, the hash of its key.

        Raises as `by_position`.
        """
        live = np.ones(len(files), np.bool_)
        groups = [(tasks[number], rows) for number, rows in by_file(files)]
        context.loader.expect(t for t, _ in groups if self._must_be_read(t))
        by_value: dict[Any, tuple[DeleteFile, list[Numbers]]] = {}
        for task, rows in groups:
            hidden = self.by_position(context, task)
            if hidden:
                live[rows] = ~_are_in(hidden, positions[rows])
            other = self.by_other_keys(context, task)
            if other:
                live[rows] &= ~_are_in(other, positions[rows])
            for delete in self.by_key(task):
                by_value.setdefault(delete.identity, (delete, []))[1].append(rows)
        for delete, parts in by_value.values():
            asked = np.concatenate(parts)
            asked = asked[live[asked]]
            live[asked] = ~contains(self.keys_of(context, delete), hashes.take(asked))
        return live

    def by_key(self, task: ScanTask) -> list[DeleteFile]:
        """Return the equality deletes of a data file with these key columns."""
        keys = [d for d in task.delete_files if d.content == FileContent.EQUALITY_DELETES]
        return [d for d in keys if set(d.equality_ids or ()) == set(self._ids)]

    def _must_be_read(self, task: ScanTask) -> bool:
        now = frozenset(d.identity for d in _positional(task))
        known = self._hidden.get(task.data_file.file_path)
        return (known is None or known[0] != now) and self._announced.keys().isdisjoint(now)

    def _positions(self, context: ReadContext, delete: DeleteFile, task: ScanTask) -> PositionBitmap:
        known = self._announced.get(delete.identity)
        if known is not None:
            return known
        return positions_in_file(context.loader.positions_of(delete, task.data_file.file_path), task.data_file)

    def by_other_keys(self, context: ReadContext, task: ScanTask) -> PositionBitmap:
        """Return what equality deletes with other key columns hide of a data file. Raises as `by_position`."""
        path = task.data_file.file_path
        same = {d.identity for d in self.by_key(task)}
        files = [d for d in task.delete_files if d.content == FileContent.EQUALITY_DELETES]
        now = frozenset(d.identity for d in files if d.identity not in same)
        if not now:
            return PositionBitmap()
        deletes = tuple(d for d in task.deletes if d.data_file.identity in now)
        if path not in self._foreign or self._foreign[path][0] != now:
            self._foreign[path] = now, deleted_positions(context, replace(task, deletes=deletes))
        return self._foreign[path][1]

    def keys_of(self, context: ReadContext, delete: DeleteFile) -> KeyHashes:
        """Return the hashes of the keys of an equality delete, sorted."""
        if delete.identity not in self._keys:
            hashes = self._hasher(context.loader.key_columns(self._ids, delete))
            self._keys[delete.identity] = hashes.take(np.argsort(hashes.low))
        return self._keys[delete.identity]


def contains(keys: KeyHashes, wanted: KeyHashes) -> Mask:
    """Tell which of the wanted hashes are among the sorted ones."""
    asked, found = equal_hashes(keys.low, wanted.low)
    same = keys.is_null[found] == wanted.is_null[asked]
    if keys.high is not None and wanted.high is not None:
        same &= keys.high[found] == wanted.high[asked]
    return np.isin(np.arange(len(wanted)), asked[same])


def _positional(task: ScanTask) -> list[DeleteFile]:
    return [d for d in task.delete_files if d.content == FileContent.POSITION_DELETES]


def _are_in(hidden: PositionBitmap, positions: Numbers) -> Mask:
    return ~np.isin(positions, (PositionBitmap(positions) - hidden).to_numpy())


def _size(positions: PositionBitmap) -> int:
    found = [bitmap.get_statistics() for bitmap in positions.by_key.values()]
    return sum(
        int(f["n_bytes_array_containers"] + f["n_bytes_run_containers"] + f["n_bytes_bitset_containers"]) for f in found
    )
