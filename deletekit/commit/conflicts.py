"""What landed while a change was being made, and whether the change may be committed on top of it as it is written.

Law: judges, and never plans. A planned change says which files and rows it rests on; what landed is the difference of
two heads of one branch; whatever is not certainly harmless is a conflict, which planning anew on the new head cures.
Spec: "Commit Conflict Resolution and Retry"; Java BaseRowDelta, MergingSnapshotProducer. Where Java looks at a user's
filter or at the operations in between, this looks at the files concerned and at the two states.

What each isolation level does about

- a data file that landed and may hold rows of the filter. Serializable: the change is planned anew and takes them in.
  Snapshot: they stay as they are.
- a delete that landed on a data file that the change is about. Both: a pure delete is united with it (vectors) or added
  to it; what carries rows on (an update, a merge, copy-on-write) is planned anew, or a deleted row would come back.
  Snapshot also plans a pure delete anew when data files landed, for they may hold the rows that it meant to delete.
- a data file that the change is about and that is gone. Both: planned anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from pyiceberg.expressions import AlwaysFalse, BooleanExpression

from deletekit.commit.change import Base, RowDelta
from deletekit.deletes.delete_loader import DeleteLoader
from deletekit.deletes.plan import ScanTask, files_that_may_match
from deletekit.deletes.replace import HiddenRows, replace_deletes
from deletekit.deletes.scope import is_global, referenced_path
from deletekit.deletes.which_apply import DeleteFileIndex
from deletekit.deletes.write_context import WriteContext
from deletekit.errors import CommitConflictError
from deletekit.formats.content_file import DeleteFile, EntryStatus, FileContent, ManifestEntry
from deletekit.formats.manifest_columns import ManifestColumns
from deletekit.formats.manifest_list import ManifestContent
from deletekit.table.ancestry import ancestors
from deletekit.table.live_files import LiveFiles
from deletekit.table.metadata import TableMetadata
from deletekit.table.properties import value_of

__all__ = ["Carried", "IsolationLevel", "Overlap", "PlannedChange", "carry", "isolation_level", "judge"]

IsolationLevel = Literal["serializable", "snapshot"]

_MOVING = {
    "current-snapshot-id",
    "last-sequence-number",
    "last-updated-ms",
    "metadata-log",
    "next-row-id",
    "partition-statistics",
    "refs",
    "snapshot-log",
    "snapshots",
    "statistics",
}
"""Fields of table metadata that commits change; a change is planned by all the others."""


def isolation_level(metadata: TableMetadata, verb: str) -> IsolationLevel:
    """`write.<verb>.isolation-level`, Iceberg's default being `serializable`. Raises InvalidInputError."""
    level: IsolationLevel = value_of(metadata.properties, f"write.{verb}.isolation-level")
    return level


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedChange:
    """A change whose files are written, and what it rests on.

    Attributes
    ----------
    targets: paths of the data files of which rows are changed or were counted on; the files that `delta` removes, or
        covers with positions, are among them without being named.
    reads: unbound filter: a data file that lands and may hold such rows makes the change stale. `AlwaysFalse` for what
        no new row can change: an append, keys deleted unseen, everything under snapshot isolation.
    granularity: of its delete files, as `replace_deletes` takes it; vectors that are united keep to it.
    """

    delta: RowDelta
    targets: frozenset[str] = frozenset()
    reads: BooleanExpression = field(default_factory=AlwaysFalse)
    granularity: str | None = None

    @property
    def is_empty(self) -> bool:
        return self.delta.is_empty


@dataclass(frozen=True, slots=True)
class Overlap:
    """Two deletion vectors of one data file: the one that was written here, and the one that landed first."""

    data: ManifestEntry
    ours: DeleteFile
    theirs: ManifestEntry


@dataclass(frozen=True, slots=True)
class Carried:
    """A change that stays as it is written, but for vectors that have to be united with those that landed."""

    delta: RowDelta
    overlaps: tuple[Overlap, ...] = ()
    granularity: str | None = None


def judge(planned: PlannedChange, base: Base, head: Base) -> CommitConflictError | Carried:
    """Whether a change planned on `base` may be committed on `head` without being planned again.

    Returns the conflict, naming file and reason, when it may not. Raises FormatError, NotFoundError for metadata that
    cannot be read.
    """
    window = _window(base, head)
    if isinstance(window, CommitConflictError):
        return window
    if not window:
        return Carried(planned.delta)
    landed = _landed(head, window)
    paths = _targets(planned)
    targets = _live_before(head, paths, window)
    for path in paths - set(targets):
        return CommitConflictError(
            "a data file that the change is about was removed meanwhile", kind="missing-data-file", file=path
        )
    touched = _touched(head, landed.deletes, targets)
    return (
        _stale_reads(planned, landed, head)
        or _rows_moved(planned, landed, touched)
        or _carried(planned, head, targets, touched)
    )


def carry(carried: Carried, write: WriteContext, loader: DeleteLoader) -> RowDelta:
    """The change for the new head: each vector that overlaps is written anew as the union, its predecessor removed.

    One that would add no position to what landed is left out. A data file of which the two leave no row is removed.
    """
    overlapping = []
    for overlap in carried.overlaps:
        ours, theirs = loader.vector(overlap.ours), loader.vector(_delete(overlap.theirs))
        if ours - theirs:
            overlapping.append(HiddenRows(ScanTask(overlap.data, (overlap.theirs,)), ours, theirs))
    done = replace_deletes(write, loader, overlapping, granularity=carried.granularity)
    united = {o.ours.identity for o in carried.overlaps}
    delta = carried.delta
    kept = [f for f in delta.added_delete_files if f.identity not in united]
    return replace(
        delta,
        removed_data_files=(*delta.removed_data_files, *done.removed_data_files),
        added_delete_files=(*kept, *done.added_delete_files),
        removed_delete_files=(*delta.removed_delete_files, *done.removed_delete_files),
    )


@dataclass(frozen=True, slots=True)
class _Landed:
    """Manifests of the head with files that were added since; in these columns no others are live."""

    data: tuple[ManifestColumns, ...]
    deletes: tuple[ManifestColumns, ...]


def _window(base: Base, head: Base) -> frozenset[int] | CommitConflictError:
    """Ids of the snapshots between two heads of a branch; a conflict where that cannot be told."""
    for name in sorted({*base.metadata.raw, *head.metadata.raw} - _MOVING):
        if base.metadata.raw.get(name) != head.metadata.raw.get(name):
            return CommitConflictError("the table was changed meanwhile", kind="changed-metadata", field=name)
    if base.snapshot and head.snapshot and (base.snapshot.first_row_id is None) != (head.snapshot.first_row_id is None):
        # The first commit after an upgrade to v3; rows that were read without an id have one now.
        return CommitConflictError("rows were given their ids meanwhile", kind="changed-metadata", field="first-row-id")
    start = base.snapshot.snapshot_id if base.snapshot else None
    newest = head.snapshot.snapshot_id if head.snapshot else None
    window: set[int] = set()
    if newest == start:
        return frozenset()
    for snapshot in ancestors(head.metadata, newest):
        window.add(snapshot.snapshot_id)
        if snapshot.parent_snapshot_id == start:  # which itself may have expired
            return frozenset(window)
    return CommitConflictError(
        "the branch was moved to another history meanwhile",
        kind="changed-history",
        field=f"ref {head.ref}",
        found=newest,
        expected=f"a descendant of {start}",
    )


def _landed(head: Base, window: frozenset[int]) -> _Landed:
    data = tuple(_added(head, ManifestContent.DATA, window))
    return _Landed(data, tuple(_added(head, ManifestContent.DELETES, window)))


def _added(head: Base, content: ManifestContent, window: frozenset[int]) -> Iterator[ManifestColumns]:
    """By the snapshot that added each file: what a rewritten manifest carries on is not new."""
    ids = np.array(sorted(window), np.int64)
    for listed in head.reader.manifests(head.snapshot) if head.snapshot else ():
        if listed.content == content and listed.has_live_files and listed.added_snapshot_id in (0, *window):
            columns = head.reader.columns(listed)
            new = columns.is_live & np.isin(columns.snapshot_id, ids)
            if new.any():
                status = np.where(new, columns.status, EntryStatus.DELETED).astype(np.int8)
                yield replace(columns, status=status)


def _targets(planned: PlannedChange) -> frozenset[str]:
    delta = planned.delta
    positional = [d for d in delta.added_delete_files if d.content == FileContent.POSITION_DELETES]
    about = {path for d in positional if (path := referenced_path(d)) is not None}
    return planned.targets | about | {e.data_file.file_path for e in delta.removed_data_files}


def _live_before(head: Base, paths: frozenset[str], window: frozenset[int]) -> dict[str, ManifestEntry]:
    """Those of the files that are live and were not added anew meanwhile."""
    if not paths:
        return {}
    live = LiveFiles(head.reader, head.snapshot, ManifestContent.DATA).with_paths(paths)
    return {e.data_file.file_path: e for e in live if e.snapshot_id not in window}


def _touched(
    head: Base, deletes: Sequence[ManifestColumns], targets: Mapping[str, ManifestEntry]
) -> dict[str, tuple[ManifestEntry, ...]]:
    """Deletes that landed on the files of the change, by path."""
    metadata = head.metadata
    index = DeleteFileIndex(deletes, metadata.specs, metadata.all_fields, metadata.untrusted_bounds)
    return {path: found for path, entry in targets.items() if (found := index.for_data_file(entry))}


def _stale_reads(planned: PlannedChange, landed: _Landed, head: Base) -> CommitConflictError | None:
    """Rows that landed and that the change would have to take in."""
    for entry in files_that_may_match(head.metadata, planned.reads, landed.data):
        return CommitConflictError(
            "a data file landed that may hold rows which the change is about",
            kind="conflicting-data-file",
            file=entry.data_file.file_path,
            field="isolation-level",
            expected="none under serializable isolation, or for keys that were looked up",
        )
    specs = {f.spec_id for f in planned.delta.added_delete_files if f.content == FileContent.EQUALITY_DELETES}
    if not specs or any(is_global(head.metadata.specs[i]) for i in specs):
        return None
    for columns in landed.data:
        if columns.spec_id not in specs:
            file = next(columns.entries(np.flatnonzero(columns.is_live)[:1])).data_file
            return CommitConflictError(
                "a data file landed under a partition spec that the equality deletes do not cover",
                kind="conflicting-data-file",
                file=file.file_path,
                field="spec_id",
                found=file.spec_id,
                expected=sorted(specs),
            )
    return None


def _rows_moved(
    planned: PlannedChange, landed: _Landed, touched: Mapping[str, tuple[ManifestEntry, ...]]
) -> CommitConflictError | None:
    """Deletes that landed on rows which this change writes anew, or which live on in a data file that landed with them.

    The second kind matters to a pure delete that has not compared its filter with what landed: the row it deletes may
    have been updated meanwhile (first committer wins).
    """
    unread = isinstance(planned.reads, AlwaysFalse) and landed.data
    if not planned.delta.added_data_files and not unread:
        return None
    for path, deletes in touched.items():
        return CommitConflictError(
            "a delete landed on rows that the change has read",
            kind="conflicting-delete",
            file=deletes[0].data_file.file_path,
            field="referenced_data_file",
            found=path,
        )
    return None


def _carried(
    planned: PlannedChange,
    head: Base,
    targets: Mapping[str, ManifestEntry],
    touched: Mapping[str, tuple[ManifestEntry, ...]],
) -> CommitConflictError | Carried:
    delta = planned.delta
    overlaps = []
    for ours in delta.added_delete_files:
        path = ours.referenced_data_file
        if not ours.is_deletion_vector or path is None:
            continue
        positional = [d for d in touched.get(path, ()) if _delete(d).content == FileContent.POSITION_DELETES]
        for theirs in positional:
            if not _delete(theirs).is_deletion_vector:
                return _not_live("a position delete file landed beside a deletion vector", theirs)
            overlaps.append(Overlap(targets[path], ours, theirs))
    covered = {o.data.data_file.file_path for o in overlaps} | {e.data_file.file_path for e in delta.removed_data_files}
    removed = delta.removed_delete_files
    live = {
        e.data_file.identity
        for e in LiveFiles(head.reader, head.snapshot, ManifestContent.DELETES).with_paths(
            e.data_file.file_path for e in removed
        )
    }
    for entry in removed:
        # A position delete file that someone else replaced is in what they replaced it by; so is a vector, if united.
        gone = entry.data_file.identity not in live
        kind = _delete(entry).kind
        if gone and (kind == "equality-delete" or (kind == "deletion-vector" and _about(entry) not in covered)):
            return _not_live("a delete file that the change replaces was removed meanwhile", entry)
    kept = tuple(e for e in removed if e.data_file.identity in live)
    return Carried(replace(delta, removed_delete_files=kept), tuple(overlaps), planned.granularity)


def _not_live(message: str, entry: ManifestEntry) -> CommitConflictError:
    return CommitConflictError(message, kind="conflicting-delete", file=entry.data_file.file_path)


def _about(entry: ManifestEntry) -> str | None:
    return referenced_path(_delete(entry))


def _delete(entry: ManifestEntry) -> Any:
    assert isinstance(entry.data_file, DeleteFile)
    return entry.data_file
