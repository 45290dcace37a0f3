"""Find the snapshots between two snapshots of a table: the steps in which it changed from one to the other.

Spec: "Snapshots", https://iceberg.apache.org/spec/#snapshots
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from deletekit.errors import DeletekitError, InvalidInputError, NotFoundError
from deletekit.table.metadata import Snapshot, TableMetadata


@dataclass(frozen=True, slots=True)
class ChangeStep:
    """Two snapshots to compare.

    Attributes
    ----------
    ordinal: the number of the step, from 0.
    commit: the snapshot that made the change, or whose change is undone.
    before, after: what to compare; None is a table without rows.
    """

    ordinal: int
    commit: Snapshot
    before: Snapshot | None
    after: Snapshot | None

    @property
    def end(self) -> int | None:
        """The snapshot that a copy is at which has applied the step; None is a table before its first row."""
        return None if self.after is None else self.after.snapshot_id


def net_step(metadata: TableMetadata, start: Snapshot | None, end: Snapshot, *, inverse: bool) -> list[ChangeStep]:
    """Return the one step from a snapshot to another, none if they are the same.

    Snapshots between them may have expired. Raises InvalidInputError as `commit_steps` does for other branches.
    """
    if start is None or start.snapshot_id == end.snapshot_id:
        return [] if start is not None else [ChangeStep(0, end, None, end)]
    if not inverse and not metadata.is_ancestor(end.snapshot_id, start.snapshot_id):
        line = list(metadata.ancestors(end.snapshot_id))
        if not _may_precede(metadata, start, line):
            raise _not_before(metadata, start, end)
    return [ChangeStep(0, end, start, end)]


def commit_steps(metadata: TableMetadata, start: Snapshot | None, end: Snapshot, *, inverse: bool) -> list[ChangeStep]:
    """Return a step for each snapshot after `start` up to `end`, oldest first; `replace` snapshots change nothing.

    Parameters
    ----------
    start: None begins with a table without rows.
    inverse: if `start` is not an ancestor of `end`, first undo the snapshots down to their common ancestor.

    Raises InvalidInputError if `start` is not an ancestor of `end`, NotFoundError if a snapshot in between has expired.
    """
    line = list(metadata.ancestors(end.snapshot_id))
    ids = [s.snapshot_id for s in line]
    undone: list[Snapshot] = []
    if start is not None and start.snapshot_id not in ids:
        back = list(metadata.ancestors(start.snapshot_id))
        common = next((s.snapshot_id for s in back if s.snapshot_id in ids), None)
        if _may_precede(metadata, start, line):
            raise _expired(line, start.snapshot_id)
        if not inverse:
            raise _not_before(metadata, start, end)
        for one in (line, back):
            if common is None and one[-1].parent_snapshot_id is not None:
                raise _expired(one, None)
        undone = back[: [s.snapshot_id for s in back].index(common)] if common is not None else back
        line = line[: ids.index(common)] if common is not None else line
    elif start is not None:
        line = line[: ids.index(start.snapshot_id)]
    elif line[-1].parent_snapshot_id is not None:
        raise _expired(line, None)
    parents = metadata.snapshots
    pairs: list[tuple[Snapshot, Snapshot | None, Snapshot | None]]
    pairs = [(s, s, parents.get(s.parent_snapshot_id or 0)) for s in undone]
    pairs += [(s, parents.get(s.parent_snapshot_id or 0), s) for s in reversed(line)]
    kept = (pair for pair in pairs if pair[0].operation != "replace")
    return [ChangeStep(number, *pair) for number, pair in enumerate(kept)]


def start_snapshot(metadata: TableMetadata, snapshot_id: int | None, end: Snapshot | None) -> Snapshot | None:
    """Return the snapshot with an id. Raises NotFoundError, with the oldest start that works."""
    if snapshot_id is None:
        return None
    try:
        start = metadata.snapshot_by_id(snapshot_id)
    except NotFoundError as e:
        line = list(metadata.ancestors(None if end is None else end.snapshot_id))
        raise _with(e, field="from_snapshot", expected=_oldest_start(line)) from e
    if end is None:
        message = "the branch has no snapshot that comes after from_snapshot"
        raise InvalidInputError(message, "snapshot-branch", "from_snapshot", snapshot_id)
    return start


def _may_precede(metadata: TableMetadata, start: Snapshot, line: Sequence[Snapshot]) -> bool:
    """Tell whether a snapshot that is not in `line` may be an ancestor of it that is known no longer."""
    oldest, ids = line[-1], {s.snapshot_id for s in line}
    is_newer = oldest.sequence_number > 0 and start.sequence_number >= oldest.sequence_number
    if oldest.parent_snapshot_id is None or is_newer:
        return False
    return not any(s.snapshot_id in ids for s in metadata.ancestors(start.snapshot_id))


def _expired(line: Sequence[Snapshot], start: int | None) -> NotFoundError:
    return NotFoundError(
        "a snapshot between the two has expired",
        "snapshot-expired",
        "from_snapshot",
        start,
        f"{_oldest_start(line)}, or mode='net', which needs no snapshot in between",
    )


def _oldest_start(line: Sequence[Snapshot]) -> str | None:
    """Say from which snapshot on every change can be told."""
    if not line:
        return None
    return "None" if line[-1].parent_snapshot_id is None else f"{line[-1].snapshot_id} or a later one"


def _not_before(metadata: TableMetadata, start: Snapshot, end: Snapshot) -> InvalidInputError:
    is_after = metadata.is_ancestor(start.snapshot_id, end.snapshot_id)
    ours = [s.snapshot_id for s in metadata.ancestors(start.snapshot_id)]
    common = next((s.snapshot_id for s in metadata.ancestors(end.snapshot_id) if s.snapshot_id in ours), None)
    return InvalidInputError(
        "from_snapshot is after to_snapshot" if is_after else "from_snapshot is not an ancestor of to_snapshot",
        "snapshot-order" if is_after else "snapshot-branch",
        "from_snapshot",
        f"{start.snapshot_id}, to {end.snapshot_id}; both come from {common}",
        f"an ancestor of {end.snapshot_id}, or inverse=True, which undoes what the branch went back on",
    )


def _with(error: DeletekitError, **details: Any) -> DeletekitError:
    known = {name: getattr(error, name) for name in ("kind", "file", "field", "found", "expected")}
    return type(error)(error.message, **known | details)
