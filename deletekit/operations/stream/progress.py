"""Which batches of a sink are in a table: the snapshots say it, and a tag keeps the newest of them.

Law: a batch that is in the table is never applied again, and one that is not is never taken for one that is; where
neither can be known, nothing is done and the error says why. A snapshot and its marker are one commit.

A batch is named by sink, query and number, in the summary of its snapshot. The tag `deletekit-sink-<sink id>` moves in
the same commit to that snapshot, so that expiry spares it. History is that of the branch, and behind a promotion also
that of the branch which was promoted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from heapq import heappop, heappush

from deletekit.commit.row_delta import RefUpdate
from deletekit.errors import InvalidInputError
from deletekit.table.metadata import Snapshot, TableMetadata

__all__ = ["BatchId", "Marker", "check_sink_id", "is_committed", "last_marker", "tag_update"]

SINK_ID = "deletekit.sink-id"
QUERY_ID = "deletekit.query-id"
BATCH_ID = "deletekit.batch-id"
DIGEST = "deletekit.batch-digest"
PROMOTED_BRANCH = "deletekit.promoted-branch"
PROMOTED_SNAPSHOT = "deletekit.promoted-snapshot-id"
KEPT_FOR_EVER = {"max-ref-age-ms": 2**63 - 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchId:
    """A batch of a stream.

    Attributes
    ----------
    query_id: who numbers the batches: a Spark query, which keeps its id as long as it keeps its checkpoint.
    digest: of its keys and changes.
    """

    sink_id: str
    query_id: str
    batch_id: int
    digest: str

    def summary(self) -> Mapping[str, str]:
        """Entries of the snapshot's summary."""
        return {
            SINK_ID: self.sink_id,
            QUERY_ID: self.query_id,
            BATCH_ID: str(self.batch_id),
            DIGEST: self.digest,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Marker:
    """A snapshot that holds a batch."""

    snapshot: Snapshot
    query_id: str
    batch_id: int
    digest: str


def check_sink_id(sink_id: str) -> None:
    """Raise InvalidInputError for an id that cannot be part of a tag's name."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}", str(sink_id)):
        raise InvalidInputError(
            "a sink id is letters, digits, dots, dashes and underscores",
            kind="sink-id",
            field="sink_id",
            found=sink_id,
            expected="at most 100 of them",
        )


def last_marker(metadata: TableMetadata, head: Snapshot | None, sink_id: str) -> Marker | None:
    """The newest batch of a sink in the history of a head."""
    return next(_markers(metadata, head, sink_id), None)


def is_committed(metadata: TableMetadata, head: Snapshot | None, batch: BatchId, *, allow_rewind: bool = False) -> bool:
    """Whether a batch is in the history of a head; False: it is to be applied.

    Parameters
    ----------
    allow_rewind: apply a batch though the stream, or the branch, seems to have gone back: by upserts of what is there
        already, or of what is there no more.

    Raises InvalidInputError of kind `batch-changed` for a batch that was committed with other changes, `batch-rewound`
    for one that comes before the last, `query-changed` for one of another query (its checkpoint was lost),
    `branch-rewound` when the branch no longer has the sink's last batch, `progress-lost` when nothing is known of the
    sink's batches and they may have expired.
    """
    last = last_marker(metadata, head, batch.sink_id)
    if allow_rewind:
        return last is not None and _is(last, batch) and last.digest == batch.digest
    tagged = _tagged(metadata, batch.sink_id)
    if tagged is not None and (last is None or last.snapshot.sequence_number < tagged.snapshot.sequence_number):
        if last is not None or _is_complete(metadata, head):
            raise _error(
                "the branch no longer has the last batch of this sink",
                "branch-rewound",
                None if last is None else last.batch_id,
                f"batch {tagged.batch_id} of query {tagged.query_id}, snapshot {tagged.snapshot.snapshot_id}",
            )
        last = tagged
    if last is None:
        if batch.batch_id > 0 and not _is_complete(metadata, head):
            raise _error("what batches the table has may have expired", "progress-lost", batch.batch_id, "batch 0")
        return False
    if last.query_id != batch.query_id:
        raise _error("another query wrote with this sink id", "query-changed", batch.query_id, last.query_id)
    if batch.batch_id > last.batch_id:
        return False
    found = next((m for m in (last, *_markers(metadata, head, batch.sink_id)) if _is(m, batch)), None)
    if found is None:
        expected = f"a batch after {last.batch_id}"
        raise _error("the stream went back behind its last batch", "batch-rewound", batch.batch_id, expected)
    if found.digest != batch.digest:
        raise _error("a batch came again with other changes", "batch-changed", batch.digest, found.digest)
    return True


def tag_update(metadata: TableMetadata, name: str, snapshot_id: int | None = None) -> RefUpdate:
    """A tag that moves with a commit: to the commit's own snapshot, or to another."""
    there = metadata.refs.get(name)
    found = None if there is None else int(there["snapshot-id"])
    return RefUpdate(name=name, type="tag", found=found, snapshot_id=snapshot_id, retention=KEPT_FOR_EVER)


def sink_tag(sink_id: str) -> str:
    """The tag of a sink's last batch."""
    return f"deletekit-sink-{sink_id}"


def history(metadata: TableMetadata, head: Snapshot | None) -> Iterator[Snapshot]:
    """Snapshots whose changes are in a head, newest first, those of promoted branches among them."""
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


def promoted_snapshot(snapshot: Snapshot) -> int | None:
    """The snapshot of another branch that a snapshot brought, if it is a promotion."""
    text = snapshot.summary.get(PROMOTED_SNAPSHOT, "")
    return int(text) if re.fullmatch(r"[0-9]{1,19}", text) else None


def _markers(metadata: TableMetadata, head: Snapshot | None, sink_id: str) -> Iterator[Marker]:
    return (m for s in history(metadata, head) if (m := _marker(s, sink_id)) is not None)


def _marker(snapshot: Snapshot, sink_id: str) -> Marker | None:
    summary = snapshot.summary
    number = summary.get(BATCH_ID, "")
    if summary.get(SINK_ID) != sink_id or not re.fullmatch(r"[0-9]{1,19}", number):
        return None
    return Marker(
        snapshot=snapshot,
        query_id=summary.get(QUERY_ID, ""),
        batch_id=int(number),
        digest=summary.get(DIGEST, ""),
    )


def _tagged(metadata: TableMetadata, sink_id: str) -> Marker | None:
    ref = metadata.refs.get(sink_tag(sink_id))
    snapshot = None if ref is None else metadata.snapshots.get(int(ref["snapshot-id"]))
    return None if snapshot is None else _marker(snapshot, sink_id)


def _is(marker: Marker, batch: BatchId) -> bool:
    return (marker.query_id, marker.batch_id) == (batch.query_id, batch.batch_id)


def _is_complete(metadata: TableMetadata, head: Snapshot | None) -> bool:
    """Whether no snapshot of a head's history has expired."""
    parents = [s.parent_snapshot_id for s in history(metadata, head)]
    return all(p is None or p in metadata.snapshots for p in parents)


def _error(message: str, kind: str, found: object, expected: object) -> InvalidInputError:
    return InvalidInputError(
        f"{message}; allow_rewind=True applies it all the same",
        kind=kind,
        field="batch",
        found=found,
        expected=expected,
    )
