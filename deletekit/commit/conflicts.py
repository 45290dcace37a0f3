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

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from pyiceberg.expressions import AlwaysFalse

from deletekit.commit.change import Base, ReadSet, RowDelta
from deletekit.commit.head import find_live, reach_of
from deletekit.deletes.delete_file_index import DeleteFileIndex
from deletekit.deletes.delete_loader import DeleteLoader
from deletekit.deletes.merge_previous_deletes import HiddenRows, replace_deletes
from deletekit.deletes.plan import files_that_may_match
from deletekit.deletes.scan_task import ScanTask
from deletekit.deletes.which_apply import Scope, is_global, partition_scopes, referenced_path
from deletekit.errors import CommitConflictError
from deletekit.formats.content_file import DeleteFile, EntryStatus, FileContent, ManifestEntry
from deletekit.formats.manifest_columns import ManifestColumns
from deletekit.formats.manifest_list import ManifestContent
from deletekit.rows.write_context import WriteContext
from deletekit.table.metadata import TableMetadata

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


@dataclass(frozen=True, slots=True)
class Overlap:
    """Two deletion vectors of one data file: the one of the change, and the one that a concurrent commit added."""

    data: ManifestEntry
    ours: DeleteFile
    theirs: ManifestEntry


def judge(delta: RowDelta, reads: ReadSet, base: Base, head: Base) -> tuple[RowDelta, tuple[Overlap, ...]]:
    """Return a change that was planned on `base` for `head`, if it needs no new plan, and the vectors to merge first.

    Raises CommitConflictError if it must be planned again, naming the file and the reason; FormatError, NotFoundError
    for metadata that cannot be read.
    """
    window = _window(base, head)
    if not window:
        return delta, ()
    data, deletes = (tuple(_added(head, content, window)) for content in ManifestContent)
    paths = {*reads.data_files, *(path for _, path in delta.covered_data_files), *delta.removed_data_paths}
    removed = {e.data_file.file_path for e in delta.removed_delete_files}
    reaches = reach_of(head.metadata, delta)
    _, live_data = find_live(head, ManifestContent.DATA, reaches, paths)
    _, live_deletes = find_live(head, ManifestContent.DELETES, reaches, removed)
    # A file that a concurrent commit added again is not the one that was read.
    targets = {e.data_file.file_path: e for _, e in live_data if e.snapshot_id not in window}
    for path in paths - targets.keys():
        raise CommitConflictError(
            "a data file that the change is about was removed meanwhile", "missing-data-file", file=path
        )
    _check_reads(delta, reads, data, head.metadata)
    metadata = head.metadata
    index = DeleteFileIndex(deletes, metadata.specs, metadata.all_fields, metadata.untrusted_bounds)
    touched = {path: found for path, entry in targets.items() if (found := index.for_data_file(entry))}
    # Rows that the change writes again may not come back. A pure delete that has not compared its filter with the
    # concurrent data files may have lost its row to an update among them, and the first committer wins.
    if touched and (delta.added_data_files or (data and isinstance(reads.where, AlwaysFalse))):
        path, found = next(iter(touched.items()))
        message, file = "a delete landed on rows that the change has read", found[0].data_file.file_path
        raise CommitConflictError(message, "conflicting-delete", "referenced_data_file", path, file=file)
    overlaps = tuple(_overlaps(delta, targets, touched))
    kept = {e.data_file.identity for _, e in live_deletes}
    return _without_lost(delta, overlaps, kept), overlaps


def merge_vectors(
    delta: RowDelta, overlaps: Collection[Overlap], write: WriteContext, loader: DeleteLoader
) -> RowDelta:
    """Return a judged change with each overlapping vector written again as the union, and the other one removed.

    A vector that adds no position to the concurrent one is left out. A data file without a live row left is removed.
    """
    overlapping = []
    for overlap in overlaps:
        ours, theirs = loader.vector(overlap.ours), loader.vector(_delete(overlap.theirs))
        if ours - theirs:
            overlapping.append(HiddenRows(ScanTask(overlap.data, (overlap.theirs,)), ours, theirs))
    done = replace_deletes(write, loader, overlapping, granularity=delta.granularity)
    merged = {o.ours.identity for o in overlaps}
    kept = [f for f in delta.added_delete_files if f.identity not in merged]
    return replace(
        delta,
        removed_data_files=(*delta.removed_data_files, *done.removed_data_files),
        added_delete_files=(*kept, *done.added_delete_files),
        removed_delete_files=(*delta.removed_delete_files, *done.removed_delete_files),
    )


def _window(base: Base, head: Base) -> frozenset[int]:
    """Return the ids of the snapshots between two heads of a branch. Raises CommitConflictError if they are unknown."""
    for name in sorted({*base.metadata.raw, *head.metadata.raw} - _MOVING):
        if base.metadata.raw.get(name) != head.metadata.raw.get(name):
            raise CommitConflictError("the table was changed meanwhile", "changed-metadata", name)
    if base.snapshot and head.snapshot and (base.snapshot.first_row_id is None) != (head.snapshot.first_row_id is None):
        # The first commit after an upgrade to v3: rows that were read without an id have one now.
        raise CommitConflictError("rows were given their ids meanwhile", "changed-metadata", "first-row-id")
    start, newest = (each.snapshot.snapshot_id if each.snapshot else None for each in (base, head))
    window: set[int] = set()
    if newest == start:
        return frozenset()
    for snapshot in head.metadata.ancestors(newest):
        window.add(snapshot.snapshot_id)
        if snapshot.parent_snapshot_id == start:  # which itself may have expired
            return frozenset(window)
    message, expected = "the branch was moved to another history meanwhile", f"a descendant of {start}"
    raise CommitConflictError(message, "changed-history", f"ref {head.ref}", newest, expected)


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


def _check_reads(delta: RowDelta, reads: ReadSet, landed: Sequence[ManifestColumns], metadata: TableMetadata) -> None:
    """Raise CommitConflictError if concurrent data files may hold rows that the change would have to include."""
    kind = "conflicting-data-file"
    for entry in (*files_that_may_match(metadata, reads.where, landed), *_in_partitions(reads.partitions, landed)):
        message = "a data file landed that may hold rows which the change is about"
        expected = "none under serializable isolation, or for keys that were looked up"
        raise CommitConflictError(message, kind, "isolation-level", expected=expected, file=entry.data_file.file_path)
    specs = {f.spec_id for f in delta.added_delete_files if f.content == FileContent.EQUALITY_DELETES}
    if not specs or any(is_global(metadata.specs[i]) for i in specs):
        return
    for columns in landed:
        if columns.spec_id not in specs:
            file = next(columns.entries(np.flatnonzero(columns.is_live)[:1])).data_file
            message = "a data file landed under a partition spec that the equality deletes do not cover"
            raise CommitConflictError(message, kind, "spec_id", file.spec_id, sorted(specs), file=file.file_path)


def _in_partitions(partitions: Collection[Scope], landed: Sequence[ManifestColumns]) -> Iterator[ManifestEntry]:
    """Yield the concurrent data files in partitions that were read as a whole."""
    for columns in landed if partitions else ():
        inside = np.array([scope in partitions for scope in partition_scopes(columns)], np.bool_)
        rows = np.flatnonzero(columns.is_live)
        yield from columns.entries(rows[inside[columns.partition_code[rows]]])


def _overlaps(
    delta: RowDelta, targets: Mapping[str, ManifestEntry], touched: Mapping[str, tuple[ManifestEntry, ...]]
) -> Iterator[Overlap]:
    """Yield the vectors of the change that concurrent vectors overlap. Raises CommitConflictError."""
    for ours, path in delta.covered_data_files:
        for theirs in touched.get(path, ()) if ours.is_deletion_vector else ():
            if _delete(theirs).is_deletion_vector:
                yield Overlap(targets[path], ours, theirs)
            elif _delete(theirs).content == FileContent.POSITION_DELETES:
                message = "a position delete file landed beside a deletion vector"
                raise CommitConflictError(message, "conflicting-delete", file=theirs.data_file.file_path)


def _without_lost(delta: RowDelta, overlaps: Collection[Overlap], live: Collection[tuple[Any, ...]]) -> RowDelta:
    """Return the change without the removals that happened meanwhile. Raises CommitConflictError if one matters."""
    covered = {o.data.data_file.file_path for o in overlaps} | delta.removed_data_paths
    kept = tuple(e for e in delta.removed_delete_files if e.data_file.identity in live)
    for entry in delta.removed_delete_files:
        # A position delete file that someone replaced is in its replacement; so is a vector, if it is merged here.
        kind = _delete(entry).kind
        is_merged = kind == "deletion-vector" and referenced_path(_delete(entry)) in covered
        if entry not in kept and kind != "position-delete" and not is_merged:
            message = "a delete file that the change replaces was removed meanwhile"
            raise CommitConflictError(message, "conflicting-delete", file=entry.data_file.file_path)
    return replace(delta, removed_delete_files=kept)


def _delete(entry: ManifestEntry) -> DeleteFile:
    assert isinstance(entry.data_file, DeleteFile)
    return entry.data_file
