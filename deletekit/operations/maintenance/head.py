"""The live files of the head that an attempt commits on, and whether what was read of an older head still holds there.

Law: reads manifests, and of delete files only those of a whole partition that came since. When in doubt, it does not
hold, and is read anew.
Spec: "Scan Planning", "Commit Conflict Resolution and Retry"; Java BaseRewriteFiles.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from deletekit.commit.row_delta import Base
from deletekit.deletes.delete_file_index import DeleteFileIndex, is_global, referenced_path
from deletekit.deletes.read import ReadContext
from deletekit.deletes.scan_planning import ScanTask, delete_index
from deletekit.formats.content_file import DataFile, DeleteFile, FileContent, ManifestEntry
from deletekit.formats.manifest_list import ManifestContent
from deletekit.operations.verify.live_files import scope
from deletekit.table.file_io import FileIO
from deletekit.table.live_files import LiveFiles

__all__ = ["Head", "RewrittenGroup"]


@dataclass(frozen=True, slots=True)
class RewrittenGroup:
    """Data files that were read, with the deletes that were applied to them, and the files that came of it.

    `sequence_number` is the data sequence number of the new files: that of the snapshot they were read from, or None
    for that of the commit.
    """

    tasks: tuple[ScanTask, ...]
    files: tuple[DataFile, ...]
    sequence_number: int | None


class Head:
    """A branch's head."""

    def __init__(self, io: FileIO, base: Base) -> None:
        self._base = base
        self._data = LiveFiles(base.reader, base.snapshot, ManifestContent.DATA)
        self.context = ReadContext(io, base.metadata)

    def tasks(self, paths: Collection[str]) -> list[ScanTask]:
        """What of these data files is live, with all deletes; in the order of `paths`."""
        if not paths or self._base.snapshot is None:
            return []
        found = {e.data_file.file_path: e for e in self._data.with_paths(paths)}
        live = [found[path] for path in paths if path in found]
        return [ScanTask(entry, self._index.for_data_file(entry)) for entry in live]

    def deletes(self) -> Iterator[tuple[ManifestEntry, DeleteFile]]:
        """Every live delete file."""
        if self._base.snapshot is not None:
            for entry in self._base.reader.live_entries(self._base.snapshot, ManifestContent.DELETES):
                if isinstance(entry.data_file, DeleteFile):
                    yield entry, entry.data_file

    def own_deletes(self, paths: Iterable[str]) -> list[ManifestEntry]:
        """Deletion vectors and position delete files that are about these data files alone.

        Those that a deletion vector overrules are among them, which no scan would show.
        """
        if self._base.snapshot is None:
            return []
        wanted = set(paths)
        deletes = LiveFiles(self._base.reader, self._base.snapshot, ManifestContent.DELETES)
        own = list(deletes.vectors_of(wanted))
        for columns in self._base.reader.live_columns(self._base.snapshot, ManifestContent.DELETES):
            positional = columns.is_live & ~columns.is_vector & (columns.content == FileContent.POSITION_DELETES)
            for entry in columns.entries(np.flatnonzero(positional)):
                assert isinstance(entry.data_file, DeleteFile)
                if referenced_path(entry.data_file) in wanted:
                    own.append(entry)
        return own

    def still_holds(self, group: RewrittenGroup) -> bool:
        """Whether the new files of a group may take the place of the old ones here.

        The old files must be live as they were, no delete that was applied may be gone (the branch went back), and what
        came since may only be equality deletes that hide the same rows of the new files: newer than those, and global
        or of their partition. A file of an old partition spec moves to another partition, and a new delete that is
        scoped to the old one would no longer find its rows.
        """
        now = {task.data_file.file_path: task for task in self.tasks([t.data_file.file_path for t in group.tasks])}
        for then in group.tasks:
            task = now.get(then.data_file.file_path)
            if task is None or _state(task) != _state(then):
                return False
            applied = {d.identity for d in then.delete_files}
            if applied - {d.identity for d in task.delete_files}:
                return False
            new = [d for d in task.deletes if d.data_file.identity not in applied]
            if not all(self._spares(delete, group, then) for delete in new):
                return False
        return True

    def _spares(self, entry: ManifestEntry, group: RewrittenGroup, task: ScanTask) -> bool:
        delete = entry.data_file
        assert isinstance(delete, DeleteFile)
        if delete.content == FileContent.POSITION_DELETES:
            if referenced_path(delete) is not None:
                return False
            return not self.context.loader.positions_of(delete, task.data_file.file_path)
        if group.sequence_number is None or (entry.sequence_number or 0) <= group.sequence_number:
            return False
        if is_global(self._base.metadata.specs[delete.spec_id]):
            return True
        return all(scope(file) == scope(delete) for file in group.files)

    @cached_property
    def _index(self) -> DeleteFileIndex:
        assert self._base.snapshot is not None
        return delete_index(self._base.metadata, self._base.snapshot, self._base.reader)


def _state(task: ScanTask) -> tuple[object, ...]:
    """An upgrade gives rows ids that the new files do not have."""
    return task.data.sequence_number, task.data_file.first_row_id, scope(task.data_file)
