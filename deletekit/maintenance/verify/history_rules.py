"""Check the snapshots that table metadata lists: their order, the logs, and the row ids that they take.

Spec: "Snapshots", "Table Metadata Fields", "Row Lineage", https://iceberg.apache.org/spec/#snapshots
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from deletekit.maintenance.verify.report import Finding, error, warning
from deletekit.table.metadata import TableMetadata

CLOCK_SKEW_MS = 60_000
"""How much Java's TableMetadata lets the clocks of two writers differ."""


def check_history(metadata: TableMetadata) -> Iterator[Finding]:
    """Check every rule of the snapshots as the metadata lists them."""
    yield from _snapshots(metadata)
    yield from _times(metadata)
    yield from _snapshot_log(metadata)
    yield from _row_ids(metadata)


def _snapshots(metadata: TableMetadata) -> Iterator[Finding]:
    numbers = Counter(s.sequence_number for s in metadata.snapshots.values() if s.sequence_number)
    for snapshot in metadata.snapshots.values():
        number, parent, ids = snapshot.sequence_number, snapshot.parent_snapshot_id, (snapshot.snapshot_id,)
        if numbers[number] > 1:
            message, expected = "sequence number is that of another snapshot", "one of its own"
            yield error("snapshot-sequence", message, "sequence-number", number, expected, snapshot_ids=ids)
        if metadata.version.has_manifest_lists and snapshot.manifest_list is None:
            message = "snapshot lacks a field"
            yield error("metadata-field", message, "manifest-list", expected="a value", snapshot_ids=ids)
        if any(s is snapshot for s in metadata.ancestors(parent)):
            message = "snapshot is its own ancestor"
            yield error("snapshot-parent", message, "parent-snapshot-id", parent, snapshot_ids=ids)


def _times(metadata: TableMetadata) -> Iterator[Finding]:
    raw = metadata.raw
    updated = raw.get("last-updated-ms")
    logs = ("snapshot-log", "metadata-log")
    ordered = [(name, [e["timestamp-ms"] for e in raw.get(name) or ()]) for name in logs]
    for snapshot in metadata.snapshots.values():
        parent = metadata.snapshots.get(snapshot.parent_snapshot_id or 0)
        if parent is not None:
            ordered.append((f"snapshots.{snapshot.snapshot_id}", [parent.timestamp_ms, snapshot.timestamp_ms]))
    for name, times in ordered:
        tail = [*times, updated] if isinstance(updated, int) else times
        for earlier, later in pairwise(tail):
            if later - earlier < -CLOCK_SKEW_MS:
                message = "a time lies before the one it follows"
                yield error("timestamp-order", message, f"{name}.timestamp-ms", later, f">= {earlier}")


def _snapshot_log(metadata: TableMetadata) -> Iterator[Finding]:
    name = "snapshot-log"
    log: Sequence[Mapping[str, Any]] = metadata.raw.get(name) or ()
    logged = [entry["snapshot-id"] for entry in log]
    for snapshot_id in logged:
        if snapshot_id not in metadata.snapshots:
            yield warning(name, "logged snapshot is not there", name, snapshot_id)
    current = metadata.raw.get("current-snapshot-id")
    if logged and current is not None and logged[-1] != current:
        yield error(name, "snapshot log does not end with the current snapshot", name, logged[-1], current)


def _row_ids(metadata: TableMetadata) -> Iterator[Finding]:
    """Check that v3 snapshots take row ids that no other takes. Those from before the upgrade take none."""
    if not metadata.version.has_row_lineage:
        return
    kind = "snapshot-row-ids"
    taken: list[tuple[int, int, int]] = []
    for snapshot in sorted(metadata.snapshots.values(), key=lambda s: s.sequence_number):
        first, added, ids = snapshot.first_row_id, snapshot.added_rows, (snapshot.snapshot_id,)
        if first is not None and added is not None:
            taken.append((first, first + added, snapshot.snapshot_id))
        elif taken or (first is None) != (added is None):
            field = "first-row-id" if first is None else "added-rows"
            yield error(kind, "snapshot takes no row ids", field, expected="a number", snapshot_ids=ids)
    used = sorted(t for t in taken if t[1] > t[0])
    for (_, stop, other), (start, _, snapshot_id) in pairwise(used):
        if start < stop:
            message, expected = "two snapshots take the same row ids", f">= {stop}, above those of snapshot {other}"
            yield error(kind, message, "first-row-id", start, expected, snapshot_ids=(snapshot_id,))
