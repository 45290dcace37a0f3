"""Find the live files of a branch's head, and tell whether files rewritten on an older head can still be committed.

Only manifests are read, and new delete files of a whole partition. In doubt the answer is no, and files are read again.
Spec: "Scan Planning", "Commit Conflict Resolution and Retry"; Java BaseRewriteFiles.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from deletekit.commit.change import Base, RowDelta
from deletekit.commit.planned_change import check_request
from deletekit.deletes.delete_file_index import DeleteFileIndex
from deletekit.deletes.merge_previous_deletes import Replacement
from deletekit.deletes.plan import delete_index
from deletekit.deletes.read import ReadContext
from deletekit.deletes.scan_task import ScanTask
from deletekit.deletes.which_apply import Scope, is_global, newest_covered, referenced_path, scope_of
from deletekit.filters.filter import Filter, parse_filter
from deletekit.formats.content_file import DataFile, DeleteFile, FileContent, ManifestEntry
from deletekit.formats.manifest_list import ManifestContent
from deletekit.rows.write_context import check_parquet_only, granularity_of
from deletekit.table.snapshot import LiveFiles
from deletekit.table.table import Table


def check_delete_rewrite(table: Table, where: Filter, ref: str, properties: Mapping[str, str] | None) -> None:
    """Refuse a rewrite of deletes into deletes by position that cannot be done, before anything is read."""
    check_request(table.refresh(), ref, properties)
    metadata = table.metadata
    parse_filter(where, metadata.schema)
    granularity_of(metadata)
    if "position-delete" in metadata.version.delete_kinds:
        check_parquet_only(metadata, "write.delete.format.default")


def replacing(done: Iterable[Replacement], removed: Iterable[ManifestEntry] = (), **more: Any) -> RowDelta:
    """Return deletes that were replaced as one change of no row, which removes each file once.

    `removed` are more delete entries to remove, `more` other fields of `RowDelta`.
    """
    parts = list(done)
    gone = {e.data_file.identity: e for e in chain(removed, *(p.removed_delete_files for p in parts))}
    return RowDelta(
        added_delete_files=tuple(f for p in parts for f in p.added_delete_files),
        removed_delete_files=tuple(gone.values()),
        removed_data_files=tuple(e for p in parts for e in p.removed_data_files),
        **{"operation": "replace", **more},
    )


@dataclass(frozen=True, slots=True)
class RewrittenGroup:
    """Data files that were read with their deletes, and the new files with their live rows.

    Attributes
    ----------
    sequence_number: the data sequence number of the new files: that of the snapshot they were read from, or None for
        that of the commit.
    kept: columns of the live rows, which were asked for, one file after another.
    """

    tasks: tuple[ScanTask, ...]
    files: tuple[DataFile, ...]
    sequence_number: int | None
    kept: pa.Table | None = None

    def kept_of_files(self) -> dict[str, pa.Table]:
        """Return the kept rows of each new file, in its order. Nothing for a group in several partitions."""
        counts = [file.record_count for file in self.files]
        if self.kept is None or len(self.kept) != sum(counts) or len({scope_of(file) for file in self.files}) > 1:
            return {}
        starts = np.cumsum([0, *counts])
        return {f.file_path: self.kept.slice(start, n) for f, start, n in zip(self.files, starts, counts, strict=False)}


class Head:
    """The live files of a branch's head."""

    def __init__(self, base: Base) -> None:
        # Not the base itself: a head goes to Spark's workers, and the base has the catalog.
        self._snapshot, self._reader = base.snapshot, base.reader
        self._data = LiveFiles(base.reader, base.snapshot, ManifestContent.DATA)
        self.context = ReadContext(base.table.io, base.metadata)

    def tasks(self, paths: Collection[str]) -> list[ScanTask]:
        """Return those of these data files that are live, with all their deletes, in the order of `paths`."""
        found = {e.data_file.file_path: e for _, e in self._data.with_paths(paths)}
        live = [found[path] for path in paths if path in found]
        return [ScanTask(entry, self._index.for_data_file(entry)) for entry in live]

    def deletes(self, content: FileContent) -> Iterator[tuple[ManifestEntry, DeleteFile]]:
        """Yield every live position delete file, or every live equality delete file, but no deletion vectors."""
        if self._snapshot is None:
            return
        for columns in self._reader.live_columns(self._snapshot, ManifestContent.DELETES):
            chosen = columns.is_live & ~columns.is_vector & (columns.content == content)
            for entry in columns.entries(np.flatnonzero(chosen)):
                assert isinstance(entry.data_file, DeleteFile)
                yield entry, entry.data_file

    def own_deletes(self, paths: Iterable[str]) -> list[ManifestEntry]:
        """Return the own deletes of these data files, even position deletes that a vector overrules."""
        wanted = set(paths)
        own = LiveFiles(self._reader, self._snapshot, ManifestContent.DELETES).vectors_of(wanted)
        return [
            *(e for _, e in own),
            *(e for e, d in self.deletes(FileContent.POSITION_DELETES) if referenced_path(d) in wanted),
        ]

    def still_holds(self, group: RewrittenGroup) -> bool:
        """Tell whether the new files of a group may replace the old ones on this head.

        The old files must be live and unchanged. No delete that was applied may be gone (by a rollback). New deletes
        may only be equality deletes that hide the same rows of the new files: newer than those, and either global or of
        the one partition of old and new files.

        A file of an old partition spec moves to another partition. A new delete in the old partition would no longer
        find its rows there. A delete in the new partition, which does not apply to the old file, would hide live rows.
        """
        if any(file.spec_id not in self.context.metadata.specs for file in group.files):
            return False
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
        return self._stays_in_scope(group)

    def _spares(self, entry: ManifestEntry, group: RewrittenGroup, task: ScanTask) -> bool:
        """Tell whether a new delete hides the same rows of the new files as of an old one, apart from its scope."""
        delete = entry.data_file
        assert isinstance(delete, DeleteFile)
        if delete.content == FileContent.POSITION_DELETES:
            if referenced_path(delete) is not None:
                return False
            return not self.context.loader.positions_of(delete, task.data_file.file_path)
        return group.sequence_number is not None and group.sequence_number <= newest_covered(entry)

    def _stays_in_scope(self, group: RewrittenGroup) -> bool:
        """Tell whether every newer equality delete has all files of the group in scope, or none."""
        if group.sequence_number is None:
            return True
        places = {scope_of(file) for file in (*(task.data_file for task in group.tasks), *group.files)}
        newer = {place for place, number in self._scoped_keys.items() if group.sequence_number <= number}
        return len(places) == 1 or not places & newer

    @cached_property
    def _scoped_keys(self) -> dict[Scope, int]:
        """Return each partition with equality deletes, and the newest data sequence number that they apply to."""
        found: dict[Scope, int] = {}
        for entry, delete in self.deletes(FileContent.EQUALITY_DELETES):
            if not is_global(self.context.metadata.specs[delete.spec_id]):
                place = scope_of(delete)
                found[place] = max(found.get(place, -1), newest_covered(entry))
        return found

    @cached_property
    def _index(self) -> DeleteFileIndex:
        assert self._snapshot is not None
        return delete_index(self.context.metadata, self._snapshot, self._reader)


def _state(task: ScanTask) -> tuple[object, ...]:
    """Return what must be unchanged. An upgrade gives the rows ids that the new files do not have."""
    return task.data.sequence_number, task.data_file.first_row_id, scope_of(task.data_file)
