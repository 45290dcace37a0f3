"""Cherry-pick: apply the change of one snapshot to a branch without it. This publishes a staged commit.

What was checked when the snapshot was made is checked again on the new head, on every base. What would be a guess is
refused: a snapshot with deletes is picked only by fast-forward, if its parent is the head.
Spec: none; Java CherryPickOperation and WapUtil.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from deletekit.commit.change import Base, RowDelta
from deletekit.commit.planned_change import check_request, plan_change
from deletekit.commit.swap import Commit, commit, commit_metadata
from deletekit.deletes.which_apply import Scope, scope_of
from deletekit.errors import InvalidInputError
from deletekit.formats.content_file import DataFile, EntryStatus
from deletekit.formats.manifest_list import ManifestContent
from deletekit.notebook_html import result
from deletekit.table.metadata import MAIN, Snapshot, TableMetadata
from deletekit.table.table import Table
from deletekit.tools.refs import move_updates
from deletekit.verbs.shared.guards import Guards

_STAGED_WAP_ID = "wap.id"
_PUBLISHED_WAP_ID = "published-wap-id"
_SOURCE_SNAPSHOT_ID = "source-snapshot-id"
_REPLACE_PARTITIONS = "replace-partitions"


@result
class CherryPick:
    """What `cherry_pick` did; in a dry run, what it would do.

    Attributes
    ----------
    source_snapshot_id: the snapshot that was picked.
    current_snapshot_id: the branch's new head. After a fast-forward the source itself; None in a dry run that would
        make a new snapshot.
    fast_forward: whether the branch only moved to the source.
    added_data_files, removed_data_files: how many files the pick adds and removes.
    commit: the commit of the new snapshot. None after a fast-forward and in a dry run.
    """

    ref: str
    source_snapshot_id: int
    current_snapshot_id: int | None
    fast_forward: bool
    added_data_files: int = 0
    removed_data_files: int = 0
    commit: Commit | None = None
    dry_run: bool = False


def cherry_pick(table: Table, snapshot_id: int, *, ref: str = MAIN, dry_run: bool = False) -> CherryPick:
    """Apply the change of a snapshot to a branch that does not have it in its history.

    Parameters
    ----------
    snapshot_id: the snapshot, of another branch or staged without one (`wap.id`).
    ref: the branch.
    dry_run: check everything, change nothing.

    If the snapshot's parent is the head, the branch moves to it (fast-forward), whatever it did. Otherwise an append is
    appended again, and a dynamic overwrite (`replace-partitions`) replaces its partitions again, if nothing was added
    to them since its parent. Other snapshots are refused. Rows get new row ids (v3), as in Java.

    Raises InvalidInputError for a snapshot that is in the branch's history, was picked before, may have been picked by
    a snapshot that has expired, whose `wap.id` was published, or that cannot be picked; for a tag or a read-only table;
    NotFoundError for an unknown snapshot; CommitConflictError, CommitStateUnknownError as every commit.
    """
    check_request(table.refresh(), ref)
    source = table.metadata.snapshot_by_id(snapshot_id)
    moved = _fast_forward(table, snapshot_id, ref, dry_run=dry_run)
    if moved is not None:
        return moved
    change = plan_change(
        table,
        partial(_delta, snapshot_id=snapshot_id),
        ref=ref,
        properties=_properties(source),
        check=Guards().readable(table.properties),
        pinned_snapshot_id=snapshot_id,  # a concurrent commit may expire it and delete its files, and move no branch
        dry_run=dry_run,
    )
    done = commit(change)
    return CherryPick(
        ref=ref,
        source_snapshot_id=source.snapshot_id,
        current_snapshot_id=done.snapshot_id,
        fast_forward=False,
        added_data_files=len(done.added_data_files),
        removed_data_files=len(done.removed_data_files),
        commit=None if dry_run else done,
        dry_run=dry_run,
    )


def _fast_forward(table: Table, snapshot_id: int, ref: str, *, dry_run: bool) -> CherryPick | None:
    """Move the branch to the snapshot. Return None if the head is not its parent, but its change can be applied."""
    moves: list[bool] = []

    def build(metadata: TableMetadata) -> list[Mapping[str, Any]]:
        source = metadata.snapshot_by_id(snapshot_id)
        moves.append(source.parent_snapshot_id == _head_id(metadata, ref))
        if not moves[-1]:
            _check_history(metadata, source, ref)
            if _is_repeatable(source):
                return []
            raise _refused(
                source,
                "neither an append, a dynamic overwrite nor the next after the head",
                found=f"operation {source.operation}, parent {source.parent_snapshot_id}",
                expected=f"parent {_head_id(metadata, ref)}, the head of {ref}",
            )
        _check_wap_id(metadata, source, ref)
        return move_updates(metadata, ref, snapshot_id)

    if dry_run:
        build(table.metadata)
    else:
        commit_metadata(table, build, unchanged_refs={ref})
    if not moves[-1]:
        return None
    return CherryPick(
        ref=ref, source_snapshot_id=snapshot_id, current_snapshot_id=snapshot_id, fast_forward=True, dry_run=dry_run
    )


def _delta(base: Base, snapshot_id: int) -> RowDelta:
    source = base.metadata.snapshot_by_id(snapshot_id)
    _check_history(base.metadata, source, base.ref)
    _check_wap_id(base.metadata, source, base.ref)
    changed = list(base.reader.changed_entries(source))
    # An append with deletes, or an overwrite that also deletes rows, would lose them: Java picks data files only.
    if any(not isinstance(e.data_file, DataFile) and e.status == EntryStatus.ADDED for e in changed):
        raise _refused(source, "it added delete files", found=source.operation, expected="data files only")
    data = [(e.status, e.data_file) for e in changed if isinstance(e.data_file, DataFile)]
    added = tuple(replace(file, first_row_id=None) for status, file in data if status == EntryStatus.ADDED)
    if source.operation == "append":
        return RowDelta(added_data_files=added)
    _check_partitions(base, source, {scope_of(file) for file in added})
    removed = {file.identity for status, file in data if status == EntryStatus.DELETED}
    live = base.reader.live_entries(base.snapshot, ManifestContent.DATA) if base.snapshot else ()
    found = tuple(e for e in live if e.data_file.identity in removed)
    missing = removed - {e.data_file.identity for e in found}
    if missing:
        raise _refused(source, "a file that it replaces is gone", found=min(missing)[0], expected=f"live on {base.ref}")
    return RowDelta(added_data_files=added, removed_data_files=found, operation="overwrite")


def _check_history(metadata: TableMetadata, source: Snapshot, ref: str) -> None:
    line = list(metadata.ancestors(_head_id(metadata, ref)))
    for ancestor in line:
        if ancestor.snapshot_id == source.snapshot_id:
            raise _refused(source, "it is in the branch's history", found=source.snapshot_id)
        if ancestor.summary.get(_SOURCE_SNAPSHOT_ID) == str(source.snapshot_id):
            raise _refused(source, "it was picked before", found=f"as {ancestor.snapshot_id}")
    oldest = line[-1] if line else None
    # What expired below the snapshot that the source was made on is older than the source.
    is_whole = oldest is None or oldest.parent_snapshot_id in (None, source.parent_snapshot_id)
    if oldest is not None and not is_whole and _is_younger(oldest, source):
        # One that expired may have been the source, or have picked it, and compaction may have renamed its files since.
        raise _refused(
            source,
            "snapshots of the branch that are younger than it have expired, so it is not known whether it was picked",
            found=f"{oldest.parent_snapshot_id}, the parent of {oldest.snapshot_id}, has expired",
            expected=f"if it was not, append its rows: the scan of snapshot {source.snapshot_id}",
        )


def _is_younger(snapshot: Snapshot, than: Snapshot) -> bool:
    """Tell whether a snapshot was made after another; in v1 by the times, which never go back."""
    if snapshot.sequence_number and than.sequence_number:
        return snapshot.sequence_number > than.sequence_number
    return snapshot.timestamp_ms >= than.timestamp_ms


def _check_wap_id(metadata: TableMetadata, source: Snapshot, ref: str) -> None:
    wap_id = source.summary.get(_STAGED_WAP_ID)
    if not wap_id:
        return
    for ancestor in metadata.ancestors(_head_id(metadata, ref)):
        if wap_id in (ancestor.summary.get(_STAGED_WAP_ID), ancestor.summary.get(_PUBLISHED_WAP_ID)):
            raise _refused(source, "its wap.id was published", found=f"{wap_id}, as {ancestor.snapshot_id}")


def _check_partitions(base: Base, source: Snapshot, replaced: set[Scope]) -> None:
    """Refuse a dynamic overwrite of partitions that got files after its parent: they would be lost silently."""
    parent, head = source.parent_snapshot_id, _head_id(base.metadata, base.ref)
    if parent is not None and (head is None or not base.metadata.is_ancestor(head, parent)):
        raise _refused(source, "the branch does not have the snapshot that it was made on", found=parent)
    for snapshot in base.metadata.ancestors(head):
        if snapshot.snapshot_id == parent:
            return
        for entry in base.reader.changed_entries(snapshot):
            file, place = entry.data_file, scope_of(entry.data_file)
            if entry.status == EntryStatus.ADDED and isinstance(file, DataFile) and place in replaced:
                found = f"{file.file_path}, of {place}"
                raise _refused(source, "a partition that it replaces has new files", found=found)


def _is_repeatable(source: Snapshot) -> bool:
    dynamic = source.summary.get(_REPLACE_PARTITIONS, "false").lower() == "true"
    return source.operation == "append" or (source.operation == "overwrite" and dynamic)


def _head_id(metadata: TableMetadata, ref: str) -> int | None:
    head = metadata.snapshot_of_ref(ref)
    return head.snapshot_id if head else None


def _properties(source: Snapshot) -> dict[str, str]:
    wap_id = source.summary.get(_STAGED_WAP_ID)
    out = {_SOURCE_SNAPSHOT_ID: str(source.snapshot_id)}
    if source.operation == "overwrite":
        out[_REPLACE_PARTITIONS] = "true"
    return out | ({_PUBLISHED_WAP_ID: wap_id} if wap_id else {})


def _refused(source: Snapshot, why: str, *, found: Any, expected: Any = None) -> InvalidInputError:
    return InvalidInputError(
        f"snapshot {source.snapshot_id} cannot be cherry-picked: {why}", "cherry-pick", "snapshot_id", found, expected
    )
