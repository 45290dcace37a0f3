"""Judge whether a change may be rebased: put on a new head, with its files, after another commit won the race.

The change says which files and rows it has read; the concurrent commits are the difference of two heads of one branch.
Whatever is not certainly harmless is a conflict, and the change is planned again. This module reads and plans nothing
new.
Spec: "Commit Conflict Resolution and Retry"; Java BaseRowDelta, MergingSnapshotProducer. Where Java looks at a user's
filter or at the operations in between, this looks at the files concerned and at the two states.

What the isolation levels do about

- a concurrent data file that may hold rows of the filter. Serializable: the change is planned again and includes them.
  Snapshot: they stay.
- a concurrent delete of rows in a data file of the change. Both: a pure delete is merged with it (vectors) or added to
  it. A change that writes rows again (an update, a merge, copy-on-write) is planned again, or a deleted row would come
  back. Snapshot also plans a pure delete again if data files were added, for they may hold the rows that it deletes.
- a data file of the change that a concurrent commit removed. Both: the change is planned again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from pyiceberg.expressions import AlwaysFalse

from deletekit.commit.change import Base, ReadSet, RowDelta
from deletekit.deletes.delete_file_index import DeleteFileIndex
from deletekit.deletes.delete_loader import DeleteLoader
from deletekit.deletes.merge_previous_deletes import HiddenRows, replace_deletes
from deletekit.deletes.plan import files_that_may_match
from deletekit.deletes.scan_task import ScanTask
from deletekit.deletes.which_apply import is_global, referenced_path
from deletekit.deletes.write_context import WriteContext
from deletekit.errors import CommitConflictError
from deletekit.formats.content_file import DeleteFile, EntryStatus, FileContent, ManifestEntry
from deletekit.formats.manifest_columns import ManifestColumns
from deletekit.formats.manifest_list import ManifestContent
from deletekit.table.live_files import find_live_files
from deletekit.table.metadata import TableMetadata
from deletekit.table.properties import value_of

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
"""Fields of table metadata that every commit may change. A change depends on all the others."""


def isolation_level(metadata: TableMetadata, verb: str) -> IsolationLevel:
    """Return `write.<verb>.isolation-level`, by default `serializable`. Raises InvalidInputError for another value."""
    level: IsolationLevel = value_of(metadata.properties, f"write.{verb}.isolation-level")
    return level


@dataclass(frozen=True, slots=True)
class Overlap:
    """Two deletion vectors of one data file: the one of the change, and the one that a concurrent commit added."""

    data: ManifestEntry
    ours: DeleteFile
    theirs: ManifestEntry


@dataclass(frozen=True, slots=True)
class Rebased:
    """A change that may be committed on a new head with its files, once its overlapping vectors are merged."""

    delta: RowDelta
    overlaps: tuple[Overlap, ...] = ()


def judge(delta: RowDelta, base: Base, head: Base) -> CommitConflictError | Rebased:
    """Return the change for `head` if it needs no new plan; else the conflict, naming the file and the reason.

    Parameters
    ----------
    delta: a change with a read set, planned on `base`.

    Raises FormatError, NotFoundError for metadata that cannot be read.
    """
    reads = delta.read_set or ReadSet()
    window = _window(base, head)
    if isinstance(window, CommitConflictError):
        return window
    if not window:
        return Rebased(delta)
    data, deletes = (tuple(_added(head, content, window)) for content in ManifestContent)
    paths = {*reads.data_files, *(path for _, path in delta.covered_data_files)}
    paths |= {e.data_file.file_path for e in delta.removed_data_files}
    removed = [e.data_file.file_path for e in delta.removed_delete_files]
    live = find_live_files(head.reader, head.snapshot, data=paths, deletes=removed)
    # A file that a concurrent commit added again is not the one that was read.
    targets = {e.data_file.file_path: e for e in live.data if e.snapshot_id not in window}
    for path in paths - set(targets):
        return CommitConflictError(
            "a data file that the change is about was removed meanwhile", kind="missing-data-file", file=path
        )
    metadata = head.metadata
    index = DeleteFileIndex(deletes, metadata.specs, metadata.all_fields, metadata.untrusted_bounds)
    touched = {path: found for path, entry in targets.items() if (found := index.for_data_file(entry))}
    return (
        _stale_reads(delta, reads, data, metadata)
        or _deleted_rows(delta, reads, data, touched)
        or _rebased(delta, targets, touched, {e.data_file.identity for e in live.deletes})
    )


def merge_vectors(rebased: Rebased, write: WriteContext, loader: DeleteLoader) -> RowDelta:
    """Return the change for the new head: write each overlapping vector again as the union, and remove the other one.

    A vector that adds no position to the concurrent one is left out. A data file without a live row left is removed.
    """
    overlapping = []
    for overlap in rebased.overlaps:
        ours, theirs = loader.vector(overlap.ours), loader.vector(_delete(overlap.theirs))
        if ours - theirs:
            overlapping.append(HiddenRows(ScanTask(overlap.data, (overlap.theirs,)), ours, theirs))
    delta = rebased.delta
    done = replace_deletes(write, loader, overlapping, granularity=delta.granularity)
    merged = {o.ours.identity for o in rebased.overlaps}
    kept = [f for f in delta.added_delete_files if f.identity not in merged]
    return replace(
        delta,
        removed_data_files=(*delta.removed_data_files, *done.removed_data_files),
        added_delete_files=(*kept, *done.added_delete_files),
        removed_delete_files=(*delta.removed_delete_files, *done.removed_delete_files),
    )


def _window(base: Base, head: Base) -> frozenset[int] | CommitConflictError:
    """Return the ids of the snapshots between two heads of a branch, or a conflict if they cannot be known."""
    for name in sorted({*base.metadata.raw, *head.metadata.raw} - _MOVING):
        if base.metadata.raw.get(name) != head.metadata.raw.get(name):
            return CommitConflictError("the table was changed meanwhile", kind="changed-metadata", field=name)
    if base.snapshot and head.snapshot and (base.snapshot.first_row_id is None) != (head.snapshot.first_row_id is None):
        # The first commit after an upgrade to v3: rows that were read without an id have one now.
        return CommitConflictError("rows were given their ids meanwhile", kind="changed-metadata", field="first-row-id")
    start = base.snapshot.snapshot_id if base.snapshot else None
    newest = head.snapshot.snapshot_id if head.snapshot else None
    window: set[int] = set()
    if newest == start:
        return frozenset()
    for snapshot in head.metadata.ancestors(newest):
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


def _added(head: Base, content: ManifestContent, window: frozenset[int]) -> Iterator[ManifestColumns]:
    """Yield the manifests of the head, with only the files live that the snapshots of `window` added.

    A file that a rewritten manifest lists again is not new: it has the id of the snapshot that added it.
    """
    ids = np.array(sorted(window), np.int64)
    for listed in head.manifests:
        if listed.content == content and listed.has_live_files and listed.added_snapshot_id in (0, *window):
            columns = head.reader.columns(listed)
            new = columns.is_live & np.isin(columns.snapshot_id, ids)
            if new.any():
                status = np.where(new, columns.status, EntryStatus.DELETED).astype(np.int8)
                yield replace(columns, status=status)


def _stale_reads(
    delta: RowDelta, reads: ReadSet, landed: Sequence[ManifestColumns], metadata: TableMetadata
) -> CommitConflictError | None:
    """Return a conflict if concurrent data files may hold rows that the change would have to include."""
    for entry in files_that_may_match(metadata, reads.where, landed):
        return CommitConflictError(
            "a data file landed that may hold rows which the change is about",
            kind="conflicting-data-file",
            file=entry.data_file.file_path,
            field="isolation-level",
            expected="none under serializable isolation, or for keys that were looked up",
        )
    specs = {f.spec_id for f in delta.added_delete_files if f.content == FileContent.EQUALITY_DELETES}
    if not specs or any(is_global(metadata.specs[i]) for i in specs):
        return None
    for columns in landed:
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


def _deleted_rows(
    delta: RowDelta,
    reads: ReadSet,
    landed: Sequence[ManifestColumns],
    touched: Mapping[str, tuple[ManifestEntry, ...]],
) -> CommitConflictError | None:
    """Return a conflict for concurrent deletes of rows that this change rewrites, or that a concurrent commit rewrote.

    The second kind matters to a pure delete that has not compared its filter with concurrent data files: the row it
    deletes may have been updated meanwhile, and the first committer wins.
    """
    unread = isinstance(reads.where, AlwaysFalse) and landed
    if not delta.added_data_files and not unread:
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


def _rebased(
    delta: RowDelta,
    targets: Mapping[str, ManifestEntry],
    touched: Mapping[str, tuple[ManifestEntry, ...]],
    live: Collection[tuple[Any, ...]],
) -> CommitConflictError | Rebased:
    """Return the change without the removals that happened meanwhile, and with the vectors to merge."""
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
    kept = tuple(e for e in delta.removed_delete_files if e.data_file.identity in live)
    for entry in delta.removed_delete_files:
        # A position delete file that someone replaced is in its replacement; so is a vector, if it is merged here.
        kind = _delete(entry).kind
        lost = kind == "equality-delete" or (kind == "deletion-vector" and _data_file_of(entry) not in covered)
        if lost and entry not in kept:
            return _not_live("a delete file that the change replaces was removed meanwhile", entry)
    return Rebased(replace(delta, removed_delete_files=kept), tuple(overlaps))


def _not_live(message: str, entry: ManifestEntry) -> CommitConflictError:
    return CommitConflictError(message, kind="conflicting-delete", file=entry.data_file.file_path)


def _data_file_of(entry: ManifestEntry) -> str | None:
    return referenced_path(_delete(entry))


def _delete(entry: ManifestEntry) -> Any:
    assert isinstance(entry.data_file, DeleteFile)
    return entry.data_file
