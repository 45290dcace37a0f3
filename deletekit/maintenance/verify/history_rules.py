"""Rules of the snapshots that table metadata lists: their order, the logs, and the row ids they take.

Spec: "Snapshots", "Table Metadata Fields", "Row Lineage", https://iceberg.apache.org/spec/#snapshots
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from deletekit.maintenance.verify.report import Finding, error, warning
from deletekit.table.metadata import Snapshot, TableMetadata

__all__ = ["check_history"]

CLOCK_SKEW_MS = 60_000
"""What Java's TableMetadata forgives between the clocks of two writers."""


def check_history(metadata: TableMetadata) -> Iterator[Finding]:
    """Every rule of the snapshots as the metadata lists them."""
    yield from _snapshot_order(metadata)
    yield from _times(metadata)
    yield from _snapshot_log(metadata)
    yield from _row_ids(metadata)


def _snapshot_order(metadata: TableMetadata) -> Iterator[Finding]:
    numbers = Counter(s.sequence_number for s in metadata.snapshots.values() if s.sequence_number)
    for snapshot in metadata.snapshots.values():
        number = snapshot.sequence_number
        if numbers[number] > 1:
            yield error(
                "snapshot-sequence",
                "sequence number is that of another snapshot",
                field="sequence-number",
                found=number,
                expected="one of its own",
                snapshot_ids=(snapshot.snapshot_id,),
            )
        if metadata.version.has_manifest_lists and snapshot.manifest_list is None:
            yield error(
                "metadata-field",
                "snapshot lacks a field",
                field="manifest-list",
                expected="a value",
                snapshot_ids=(snapshot.snapshot_id,),
            )
        if _is_circular(snapshot, metadata.snapshots):
            yield error(
                "snapshot-parent",
                "snapshot is its own ancestor",
                field="parent-snapshot-id",
                found=snapshot.parent_snapshot_id,
                snapshot_ids=(snapshot.snapshot_id,),
            )


def _is_circular(snapshot: Snapshot, known: Mapping[int, Snapshot]) -> bool:
    seen, at = set(), known.get(snapshot.parent_snapshot_id or 0)
    while at is not None and at.snapshot_id not in seen:
        if at.snapshot_id == snapshot.snapshot_id:
            return True
        seen.add(at.snapshot_id)
        at = known.get(at.parent_snapshot_id or 0)
    return False


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
                yield error(
                    "timestamp-order",
                    "a time lies before the one it follows",
                    field=f"{name}.timestamp-ms",
                    found=later,
                    expected=f">= {earlier}",
                )


def _snapshot_log(metadata: TableMetadata) -> Iterator[Finding]:
    log: Sequence[Mapping[str, Any]] = metadata.raw.get("snapshot-log") or ()
    for entry in log:
        if entry["snapshot-id"] not in metadata.snapshots:
            yield warning(
                "snapshot-log", "logged snapshot is not there", field="snapshot-log", found=entry["snapshot-id"]
            )
    current = metadata.raw.get("current-snapshot-id")
    if log and current is not None and log[-1]["snapshot-id"] != current:
        yield error(
            "snapshot-log",
            "snapshot log does not end with the current snapshot",
            field="snapshot-log",
            found=log[-1]["snapshot-id"],
            expected=current,
        )


def _row_ids(metadata: TableMetadata) -> Iterator[Finding]:
    """v3 snapshots take `first-row-id` .. `first-row-id + added-rows`; those before the upgrade take none."""
    if not metadata.version.has_row_lineage:
        return
    taken: list[tuple[int, int, int]] = []
    started = False
    for snapshot in sorted(metadata.snapshots.values(), key=lambda s: s.sequence_number):
        first, added = snapshot.first_row_id, snapshot.added_rows
        if first is None or added is None:
            if started or (first is None) != (added is None):
                yield error(
                    "snapshot-row-ids",
                    "snapshot takes no row ids",
                    field="first-row-id" if first is None else "added-rows",
                    expected="a number",
                    snapshot_ids=(snapshot.snapshot_id,),
                )
            continue
        started = True
        taken.append((first, first + added, snapshot.snapshot_id))
    used = sorted(t for t in taken if t[1] > t[0])
    for (_, stop, other), (start, _, snapshot_id) in pairwise(used):
        if start < stop:
            yield error(
                "snapshot-row-ids",
                "two snapshots take the same row ids",
                field="first-row-id",
                found=start,
                expected=f">= {stop}, above those of snapshot {other}",
                snapshot_ids=(snapshot_id,),
            )
