"""Read which batches of a sink a table holds: a marker in each snapshot's summary, and the tag that keeps the newest.

The sink writes a batch and its marker in one commit. The same commit moves the tag `deletekit-sink-<sink id>` to that
snapshot, so that expiry keeps it. The history of a branch includes that of each branch which was promoted to it.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from heapq import heappop, heappush

from deletekit.table.metadata import Snapshot, TableMetadata
from deletekit.table.sinks.files import FILE_LOG, is_name, sink_path

SINK_ID = "deletekit.sink-id"
QUERY_ID = "deletekit.query-id"
BATCH_ID = "deletekit.batch-id"
DIGEST = "deletekit.batch-digest"
FILE = "deletekit.batch-file"
FILE_LOGS = "deletekit.batch-files"
POSITION = "deletekit.source-position"
KEY = "deletekit.sink-key"
NEWEST_TIME = "deletekit.batch-newest-ms"
RESET = "reset"
"""Instead of a digest: of a batch number that was set by hand."""
TABLE_UUID = "deletekit.table-uuid"
PROMOTED_BRANCH = "deletekit.promoted-branch"
PROMOTED_SNAPSHOT = "deletekit.promoted-snapshot-id"
KEPT_FOR_EVER = {"max-ref-age-ms": 2**63 - 1}
SINK_TAG = "deletekit-sink-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Marker:
    """The batch that a snapshot holds, as its summary says.

    Attributes
    ----------
    query_id: the source of the batch numbers; None after a reset that leaves it open.
    batch_id: -1 after a reset to the beginning.
    key: field ids of the sink's key columns; None if the summary has none.
    table_uuid: the table that the batch was written to; None for a table without one.
    file: the path of the batch's file; None if it comes from none.
    position: the position of the batch's source after it; None if the batch is not of a source.
    logs: names of the logs of all files that were applied, the oldest first.
    newest_ms: the newest time in the sink's order column, in milliseconds since 1970; None if there is none.
    """

    snapshot: Snapshot
    sink_id: str
    query_id: str | None
    batch_id: int
    digest: str
    key: tuple[int, ...] | None
    table_uuid: str | None
    file: str | None
    position: str | None = None
    logs: tuple[str, ...] = ()
    newest_ms: int | None = None

    @property
    def is_reset(self) -> bool:
        """Whether it is a reset and not a batch: all batches up to its number count as applied."""
        return self.digest == RESET


def rewound_sinks(metadata: TableMetadata) -> Mapping[str, int]:
    """Find sinks whose newest batch is on no branch any more: their tags, each with the head that it must move to.

    Expiry removes the snapshots that show such a rollback. So does a tag on a snapshot without its sink's batch.
    """
    heads = [metadata.snapshot_of_ref(n) for n, ref in metadata.refs.items() if ref.get("type") == "branch"]
    tags: dict[str, int] = {}
    for name in metadata.refs:
        sink_id = name.removeprefix(SINK_TAG)
        marker = tagged_marker(metadata, sink_id) if name == sink_tag(sink_id) else None
        free = [h.snapshot_id for h in heads if h is not None and h.summary.get(SINK_ID) != sink_id]
        if marker is not None and free and all(_certainly_without(metadata, h, marker.snapshot) for h in heads):
            tags[name] = free[0]
    return tags


def sink_tag(sink_id: str) -> str:
    """Return the name of the tag on a sink's last batch."""
    return f"{SINK_TAG}{sink_id}"


def markers(metadata: TableMetadata, head: Snapshot | None, sink_id: str) -> Iterator[Marker]:
    """List the batches of a sink in the history of a head, newest first."""
    found = (marker_of(s) for s in history(metadata, head) if s.summary.get(SINK_ID) == sink_id)
    return (m for m in found if m is not None)


def history(metadata: TableMetadata, head: Snapshot | None) -> Iterator[Snapshot]:
    """List the snapshots whose changes are in a head, newest first, including those of promoted branches."""
    seen: set[int] = set()
    waiting: list[tuple[int, int]] = []

    def wait(snapshot_id: int | None) -> None:
        if snapshot_id in metadata.snapshots and snapshot_id not in seen:
            seen.add(snapshot_id)
            heappush(waiting, (-metadata.snapshots[snapshot_id].sequence_number, snapshot_id))

    wait(head.snapshot_id if head else None)
    while waiting:
        snapshot = metadata.snapshots[heappop(waiting)[1]]
        yield snapshot
        wait(snapshot.parent_snapshot_id)
        wait(promoted_snapshot(snapshot))


def file_logs(metadata: TableMetadata, snapshots: Iterable[Snapshot]) -> set[str]:
    """Return the paths of the logs of applied files that snapshots name."""
    named = {name for s in snapshots for name in s.summary.get(FILE_LOGS, "").split(",")}
    return {sink_path(metadata, name) for name in named if is_name(name) and name.endswith(FILE_LOG)}


def marker_of(snapshot: Snapshot) -> Marker | None:
    """Return the batch that a snapshot holds."""
    summary = snapshot.summary
    number, key, newest = (summary.get(name, "") for name in (BATCH_ID, KEY, NEWEST_TIME))
    is_reset = summary.get(DIGEST) == RESET
    if SINK_ID not in summary or not re.fullmatch(r"-1|[0-9]{1,19}" if is_reset else r"[0-9]{1,19}", number):
        return None
    return Marker(
        snapshot=snapshot,
        sink_id=summary[SINK_ID],
        query_id=summary.get(QUERY_ID, None if is_reset else ""),
        batch_id=int(number),
        digest=summary.get(DIGEST, ""),
        key=tuple(map(int, key.split(","))) if re.fullmatch(r"[0-9]{1,10}(,[0-9]{1,10})*", key) else None,
        table_uuid=summary.get(TABLE_UUID),
        file=summary.get(FILE),
        position=summary.get(POSITION),
        newest_ms=int(newest) if re.fullmatch(r"-?[0-9]{1,18}", newest) else None,
        logs=tuple(filter(None, summary.get(FILE_LOGS, "").split(","))),
    )


def tagged_marker(metadata: TableMetadata, sink_id: str) -> Marker | None:
    """Return the batch that a sink's tag keeps."""
    ref = metadata.refs.get(sink_tag(sink_id))
    snapshot = None if ref is None else metadata.snapshots.get(int(ref["snapshot-id"]))
    marker = None if snapshot is None else marker_of(snapshot)
    return marker if marker is not None and marker.sink_id == sink_id else None


def promoted_snapshot(snapshot: Snapshot) -> int | None:
    """Return the snapshot of another branch that a snapshot published, if it is a promotion."""
    text = snapshot.summary.get(PROMOTED_SNAPSHOT, "")
    return int(text) if re.fullmatch(r"[0-9]{1,19}", text) else None


def _certainly_without(metadata: TableMetadata, head: Snapshot | None, snapshot: Snapshot) -> bool:
    for older in history(metadata, head):
        if older.sequence_number < snapshot.sequence_number:
            return True
        known = (older.parent_snapshot_id, promoted_snapshot(older))
        has_expired = any(i is not None and i not in metadata.snapshots for i in known)
        if has_expired or older.snapshot_id == snapshot.snapshot_id:
            return False
    return True
