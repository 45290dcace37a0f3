"""Keep an index of a table's rows by key, from commit to commit, and save it in the table.

The index is exact for one head at a time. It follows the live files, not the intentions of commits. It compares the
head's data files with those that it has, reads the new ones and passes over those that are gone, by any writer, in any
order. Equal hashes are equal keys (`key_hashes.py`). Whether a row is live is decided when it is found
(`live_rows.py`).

Before a batch is committed, its rows are saved as a run, and a root that names all runs. The batch's summary names the
root. So another process starts with the index of the newest batch, and reads what came after it. If files of the index
are damaged, missing or another table's, the index is made again from the data files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
from pyiceberg.types import NestedField

from deletekit.commit.change import Base
from deletekit.deletes.merge_previous_deletes import HiddenRows
from deletekit.deletes.scan_task import ScanTask
from deletekit.engines.local import Engine
from deletekit.errors import NotFoundError
from deletekit.formats.content_file import DataFile, DeleteFile
from deletekit.formats.deletion_vector import PositionBitmap
from deletekit.stream.key_hashes import KeyHashes
from deletekit.stream.key_index import (
    MOST_FILES,
    Columns,
    FileKeys,
    IndexHits,
    Run,
    by_file,
    index_rows,
    indexed_file,
    merged,
    new_run,
    read_file_keys,
    with_run,
)
from deletekit.stream.saved_index import (
    Index,
    NewFiles,
    OldRows,
    SavedIndex,
    by_path,
    find_in_runs,
    is_named,
    load_index,
    save_run,
    write_root,
)
from deletekit.table.sinks.files import RUN, new_name, root_name, sink_path
from deletekit.table.sinks.index_files import DamagedIndexError, IndexedFile

# Rows are sorted when so many have been read.
_SORTED_ROWS = 1 << 23


class TableIndex(Index):
    """An index of the rows of one branch by one key."""

    keeps = True

    def __init__(self, fields: Sequence[NestedField]) -> None:
        super().__init__(fields)
        self._runs: list[Run] = []
        self._known: dict[str, IndexedFile] = {}
        self._number = 0
        self._saved: SavedIndex | None = None
        self._unsure: tuple[str, SavedIndex | None, list[Run]] | None = None
        self._announced: dict[str, FileKeys] = {}

    def __len__(self) -> int:
        return sum(map(len, self._runs))

    @property
    def nbytes(self) -> int:
        """Return the bytes of memory of loaded rows, hidden rows and keys of equality deletes."""
        return sum(run.nbytes for run in self._runs) + self.live.nbytes

    def hidden(self, number: int) -> PositionBitmap:
        """Return what deletes by position hide of a data file. Raise FormatError or NotFoundError."""
        return self.live.by_position(self.context, self.tasks[number])

    def announce(self, written: Mapping[str, FileKeys]) -> None:
        """Announce the keys of data files, by their paths, that the next `catch_up` need not read."""
        self._announced |= written

    # --- following the table ------------------------------------------------------------------------------------------

    def catch_up(self, base: Base, engine: Engine, *, load: bool) -> int:
        """Make the index exact for a head. Return how many data files were read.

        Parameters
        ----------
        load: whether an empty one begins with the index that is saved in the table.

        Raise FormatError and NotFoundError for files that cannot be read; DamagedIndexError for files of the index, and
        if it has no more numbers for data files. It must not be used any more then.
        """
        self._confirm(base)
        self._save_again(base)
        if load and not self._runs:
            self._load(base)
        new = self.divide(base, self._known)
        if self._number + len(new) >= MOST_FILES:
            raise DamagedIndexError("the key index has no more numbers for data files", kind="key-index")
        self.live.keep([*self.tasks.values(), *new])
        read = self._read(new, engine)
        self._compact()
        return read

    def _confirm(self, base: Base) -> None:
        """Forget what was written for a commit that did not happen: its files are removed."""
        if self._unsure is not None:
            name, before, written = self._unsure
            if not is_named(base.metadata, base.snapshot, name):
                self._saved = before
                for run in written:
                    run.saved = None
        self._unsure = None

    def _save_again(self, base: Base) -> None:
        """Save all runs again if their files were removed: by expiry, as no snapshot named them, or by `erase`."""
        if self._saved is None or (base.snapshot is not None and root_name(base.snapshot) == self._saved.name):
            return
        try:
            base.table.io.size(sink_path(base.metadata, self._saved.name))
        except NotFoundError:
            self._saved = None
            for run in self._runs:
                run.load().saved = None

    def _load(self, base: Base) -> None:
        saved = load_index(base.table.io, base.metadata, base.snapshot, self.fields)
        if saved is not None:
            self._set(saved.runs())
            self._number = max([saved.root.next_number, *(f.number + 1 for f in self._known.values())])
            self._saved = saved

    def _set(self, runs: list[Run]) -> None:
        """Go on with other runs."""
        self._runs, self._known = runs, by_path(f for run in runs for f in run.files)

    def _read(self, tasks: Sequence[ScanTask], engine: Engine) -> int:
        """Take in data files. Return how many were read: announced ones are not."""
        context, fields, announced, self._announced = self.context, self.fields, self._announced, {}
        known, unknown = [], []
        for task in tasks:
            keys = announced.get(task.data_file.file_path)
            if keys is not None and len(keys) == task.data_file.record_count:
                known.append((task, keys))
            else:
                unknown.append(task)
        waiting: list[tuple[IndexedFile, Columns]] = []
        for task, keys in chain(known, engine.map(lambda t: (t, read_file_keys(context, t, fields)), unknown)):
            waiting.append(self._numbered(task.data_file, keys))
            self.tasks[waiting[-1][0].number] = task
            if sum(file.rows for file, _ in waiting) >= _SORTED_ROWS:
                self._add(waiting)
                waiting = []
        if waiting:
            self._add(waiting)
        return len(unknown)

    def _numbered(self, file: DataFile, keys: FileKeys) -> tuple[IndexedFile, Columns]:
        """Give a data file the next number. Return its rows."""
        self._number += 1
        return indexed_file(self._number - 1, file), index_rows(self.hasher, self._number - 1, keys)

    def _add(self, rows: Sequence[tuple[IndexedFile, Columns]]) -> None:
        files = [file for file, _ in rows]
        live = self._is_live()
        live[[file.number for file in files]] = True
        self._set(with_run(self._runs, new_run([columns for _, columns in rows], files), live))

    def _is_live(self) -> npt.NDArray[np.bool_]:
        live = np.zeros(self._number, np.bool_)
        live[list(self.tasks)] = True
        return live

    def _compact(self) -> None:
        """Leave out the rows of files that are gone, once they are a third of all."""
        live = sum(t.data_file.record_count for t in self.tasks.values())
        if 3 * (len(self) - live) > len(self):
            self._set([merged(self._runs, self._is_live())])

    # --- looking up ---------------------------------------------------------------------------------------------------

    def rows(self, hashes: KeyHashes) -> IndexHits:
        return find_in_runs(self._runs, hashes)

    def hidden_by_value(self) -> Iterator[HiddenRows]:
        """List what equality deletes hide of each data file, apart from what deletes by position hide."""
        of_delete: dict[Any, tuple[DeleteFile, set[int]]] = {}
        hidden: dict[int, PositionBitmap] = {}
        for number, task in self.tasks.items():
            other = self.live.by_other_keys(self.context, task)
            if other:
                hidden[number] = other
            for delete in self.live.by_key(task):
                of_delete.setdefault(delete.identity, (delete, set()))[1].add(number)
        for delete, numbers in of_delete.values():
            found = find_in_runs(self._runs, self.live.keys_of(self.context, delete))
            for number, rows in by_file(found.files):
                if number in numbers:
                    positions = PositionBitmap(found.positions[rows])
                    hidden[number] = hidden.get(number, PositionBitmap()) | positions
        for number, positions in hidden.items():
            known = self.hidden(number)
            if positions - known:
                yield HiddenRows(self.tasks[number], positions - known, known)

    # --- what a commit adds -------------------------------------------------------------------------------------------

    def after(self, base: Base, files: NewFiles, deletes: Sequence[DeleteFile], old: OldRows) -> SavedIndex:
        """Save the index as it is after a commit, whose files the next `catch_up` then need not read.

        If the commit does not happen, they are files that are not live.
        """
        if files and self._number + len(files) < MOST_FILES:
            self._add([self._numbered(file, keys) for file, keys in files if keys is not None])
        of_path = {self.tasks[n].data_file.file_path: n for n in old}
        vectors = [(d, of_path.get(d.referenced_data_file or "")) for d in deletes if d.is_deletion_vector]
        self.live.announce({d.identity: self.hidden(n) | old[n] for d, n in vectors if n is not None})
        return self._save(base)

    def _save(self, base: Base) -> SavedIndex:
        """Save the index as far as it is not saved.

        The files are written with those of the base, so a commit that fails removes them.
        """
        written = [run for run in self._runs if run.saved is None]
        names = tuple(run.saved for run in self._runs if run.saved is not None)
        if not written and self._saved is not None and self._saved.root.runs == names:
            return self._saved
        self._unsure = "", self._saved, written
        infos = tuple(run.saved or save_run(base.write, run, new_name(RUN)) for run in self._runs)
        saved = write_root(base, self.fields, self._number, infos)
        self._unsure, self._saved = (saved.name, self._saved, written), saved
        return saved
