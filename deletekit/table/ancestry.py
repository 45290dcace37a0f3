"""Follow the parents of snapshots. An expired parent ends the known history.

Spec: "Snapshots"; Java SnapshotUtil.
"""

from __future__ import annotations

from collections.abc import Iterator

from deletekit.table.metadata import Snapshot, TableMetadata


def ancestors(metadata: TableMetadata, snapshot_id: int | None) -> Iterator[Snapshot]:
    """Yield a snapshot, its parent, its parent's parent, as far as the table still has them."""
    seen: set[int] = set()
    while snapshot_id in metadata.snapshots and snapshot_id not in seen:
        seen.add(snapshot_id)
        yield metadata.snapshots[snapshot_id]
        snapshot_id = metadata.snapshots[snapshot_id].parent_snapshot_id


def is_ancestor(metadata: TableMetadata, snapshot_id: int, ancestor_id: int) -> bool:
    """Tell whether `ancestor_id` is `snapshot_id` or one of its ancestors."""
    return any(s.snapshot_id == ancestor_id for s in ancestors(metadata, snapshot_id))
