"""Create and drop branches and tags, and move a branch to another snapshot: rollback, set current, fast-forward.

The branch and the other ref must still point where they did when the new head was chosen.
Spec: "Snapshot References"; Java SetSnapshotOperation, UpdateSnapshotReferencesOperation.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from deletekit.commit.planned_change import check_request
from deletekit.commit.swap import commit_metadata
from deletekit.errors import InvalidInputError, NotFoundError
from deletekit.notebook_html import result
from deletekit.table.column_names import check_name
from deletekit.table.metadata import MAIN, TableMetadata
from deletekit.table.table import Table
from deletekit.verbs.shared.read_options import milliseconds


@result
class MovedRef:
    """Where a branch was and is; in a dry run, where it would be.

    `previous_snapshot_id` is None for a branch that was created, or `main` without a snapshot. `moved` is False when
    the branch was there already.
    """

    ref: str
    previous_snapshot_id: int | None
    snapshot_id: int
    dry_run: bool = False

    @property
    def moved(self) -> bool:
        return self.previous_snapshot_id != self.snapshot_id


def rollback(
    table: Table,
    snapshot_id: int | None = None,
    *,
    as_of: int | str | datetime | None = None,
    ref: str = MAIN,
    dry_run: bool = False,
) -> MovedRef:
    """Make an ancestor the head of a branch again.

    Parameters
    ----------
    snapshot_id: the ancestor.
    as_of: instead, the newest ancestor that was made before this time (milliseconds, a datetime or ISO 8601), as in
        Iceberg's `rollback_to_timestamp`.
    ref: the branch.
    dry_run: decide, change nothing.

    What came after stays in the table, without a ref, until it expires.

    Raises InvalidInputError unless exactly one of the two is given, for a snapshot that is not an ancestor, a tag or a
    read-only table; NotFoundError for an unknown snapshot, or when no ancestor is that old; CommitConflictError,
    CommitStateUnknownError as every commit.
    """
    _check_one("rollback", snapshot_id=snapshot_id, as_of=as_of)
    before = None if as_of is None else milliseconds(as_of, "as_of")

    def target(metadata: TableMetadata) -> int:
        head = metadata.snapshot_of_ref(ref)
        line = list(metadata.ancestors(head.snapshot_id if head else None))
        if before is not None:
            older = [s for s in line if s.timestamp_ms < before]
            if not older:
                raise NotFoundError("no ancestor was made before this time", "snapshot-not-found", "as_of", as_of)
            return max(older, key=lambda s: s.timestamp_ms).snapshot_id
        assert snapshot_id is not None
        metadata.snapshot_by_id(snapshot_id)
        if all(s.snapshot_id != snapshot_id for s in line):
            raise InvalidInputError(
                "not an ancestor of the branch's head",
                "not-an-ancestor",
                "snapshot_id",
                snapshot_id,
                f"an ancestor of {head.snapshot_id if head else 'nothing'} on {ref}",
            )
        return snapshot_id

    return _move(table, ref, target, dry_run=dry_run)


def set_current_snapshot(
    table: Table,
    snapshot_id: int | None = None,
    *,
    ref: str | None = None,
    branch: str = MAIN,
    dry_run: bool = False,
) -> MovedRef:
    """Make any snapshot of the table the head of a branch, an ancestor or not.

    Parameters
    ----------
    snapshot_id: the snapshot.
    ref: instead, the head of this branch or tag.
    branch: which branch changes.
    dry_run: decide, change nothing.

    Raises InvalidInputError unless exactly one of the two is given, for a tag as `branch` or a read-only table;
    NotFoundError for an unknown snapshot or ref; CommitConflictError, CommitStateUnknownError as every commit.
    """
    _check_one("set-snapshot", snapshot_id=snapshot_id, ref=ref)

    def target(metadata: TableMetadata) -> int:
        return metadata.snapshot_by_id(snapshot_id).snapshot_id if snapshot_id is not None else _head(metadata, ref)

    return _move(table, branch, target, dry_run=dry_run, sources=[] if ref is None else [ref])


def fast_forward(table: Table, branch: str, to: str, *, dry_run: bool = False) -> MovedRef:
    """Move a branch forward to the head of another branch or tag that descends from it.

    Parameters
    ----------
    branch: the branch that moves; created when there is none of this name. Its retention settings stay.
    to: the ref whose head it gets.
    dry_run: decide, change nothing.

    Raises InvalidInputError when the branch's head is not an ancestor of `to`, for a tag as `branch`,
    or a read-only table; NotFoundError for an unknown `to`; CommitConflictError and CommitStateUnknownError as every
    commit does.
    """

    def target(metadata: TableMetadata) -> int:
        wanted = _head(metadata, to)
        if branch in metadata.refs:
            here = int(metadata.refs[branch]["snapshot-id"])
            if not metadata.is_ancestor(wanted, here):
                raise InvalidInputError(
                    "branch cannot be fast-forwarded: it has snapshots that the other has not",
                    "not-an-ancestor",
                    "to",
                    f"{wanted}, of {to}",
                    f"a descendant of {here}, of {branch}",
                )
        return wanted

    return _move(table, branch, target, dry_run=dry_run, sources=[to], create=True)


def move_updates(metadata: TableMetadata, ref: str, snapshot_id: int) -> list[Mapping[str, Any]]:
    """Return the updates that make a snapshot the head of a branch, which keeps its retention settings."""
    settings = {**metadata.refs.get(ref, {}), "type": "branch", "snapshot-id": snapshot_id}
    return [{"action": "set-snapshot-ref", "ref-name": ref, **settings}]


def _check_one(kind: str, **arguments: object) -> None:
    """Raise InvalidInputError unless exactly one of the arguments is given."""
    if sum(value is not None for value in arguments.values()) != 1:
        message = f"name one of {' and '.join(arguments)}"
        raise InvalidInputError(message, kind, ", ".join(arguments), expected="one of them")


def _move(
    table: Table,
    ref: str,
    target: Callable[[TableMetadata], int],
    *,
    dry_run: bool,
    sources: Sequence[str] = (),
    create: bool = False,
) -> MovedRef:
    """Move branch `ref` to what `target` makes of the metadata; `sources` are other refs that it looks at."""
    moves: list[MovedRef] = []

    def build(metadata: TableMetadata) -> list[Mapping[str, Any]]:
        if not create or ref in metadata.refs:
            check_request(table, ref)
        head = metadata.snapshot_of_ref(ref) if ref in metadata.refs else None
        before, wanted = head.snapshot_id if head else None, target(metadata)
        moves.append(MovedRef(ref=ref, previous_snapshot_id=before, snapshot_id=wanted, dry_run=dry_run))
        return move_updates(metadata, ref, wanted) if moves[-1].moved else []

    table.require_catalog().check_writable(table.format_version)
    if dry_run:
        build(table.refresh().metadata)
    else:
        commit_metadata(table, build, unchanged_refs={ref, *sources})
    return moves[-1]


def _head(metadata: TableMetadata, ref: str | None) -> int:
    found = metadata.snapshot_of_ref(ref or MAIN)
    if found is None:
        raise NotFoundError("the ref has no snapshot yet", "ref-not-found", "ref", ref)
    return found.snapshot_id


def create_branch(table: Table, name: str, snapshot_id: int | None = None) -> None:
    """Create a branch at a snapshot (default the head of main). Raises InvalidInputError, NotFoundError."""
    _create_ref(table, name, snapshot_id, "branch")


def create_tag(table: Table, name: str, snapshot_id: int | None = None) -> None:
    """Create a tag at a snapshot (default the head of main). Raises InvalidInputError, NotFoundError."""
    _create_ref(table, name, snapshot_id, "tag")


def drop_ref(table: Table, name: str) -> None:
    """Drop a branch or tag; its snapshots stay until they expire. Raises NotFoundError; InvalidInputError for main."""

    def build(metadata: TableMetadata) -> list[Mapping[str, Any]]:
        if name == MAIN:
            raise InvalidInputError("main cannot be dropped", "ref", "name", name)
        metadata.snapshot_of_ref(name)
        return [{"action": "remove-snapshot-ref", "ref-name": name}]

    commit_metadata(table, build, unchanged_refs=[name])


def _create_ref(table: Table, name: str, snapshot_id: int | None, kind: str) -> None:
    check_name(name, "name")

    def build(metadata: TableMetadata) -> list[Mapping[str, Any]]:
        if name in metadata.refs:
            raise InvalidInputError("branch or tag exists already", "ref", "name", name)
        snapshot = metadata.current_snapshot if snapshot_id is None else metadata.snapshot_by_id(snapshot_id)
        if snapshot is None:
            raise InvalidInputError("table has no snapshot yet", "ref", "name", name)
        return [{"action": "set-snapshot-ref", "ref-name": name, "type": kind, "snapshot-id": snapshot.snapshot_id}]

    commit_metadata(table, build, unchanged_refs=[name])
