"""Which batches of a sink are in a table: the snapshots say it, and a tag keeps the newest of them.

Law: a batch that is in the table is never applied again, and one that is not is never taken for one that is; where
neither can be known, nothing is done and the error says why. A snapshot and its marker are one commit.

A batch is named by sink, query and number, in the summary of its snapshot. The tag `deletekit-sink-<sink id>` moves in
the same commit to that snapshot, so that expiry spares it. History is that of the branch, and behind a promotion also
that of the branch which was promoted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from heapq import heappop, heappush

from pyiceberg.schema import Schema

from deletekit.commit.change import RefUpdate
from deletekit.errors import InvalidInputError
from deletekit.stream.file_names import highest_name, name_total
from deletekit.table.metadata import Snapshot, TableMetadata

__all__ = [
    "SINK_TAG",
    "BatchId",
    "Marker",
    "check_owner",
    "check_sink_id",
    "is_committed",
    "last_marker",
    "marker_of",
    "markers",
    "newest_marker",
    "rewound_sinks",
    "sink_tag",
    "summary_of",
    "tag_update",
]

SINK_ID = "deletekit.sink-id"
QUERY_ID = "deletekit.query-id"
BATCH_ID = "deletekit.batch-id"
DIGEST = "deletekit.batch-digest"
FILE = "deletekit.batch-file"
HIGHEST_FILE = "deletekit.batch-file-highest"
FILES_TOTAL = "deletekit.batch-files-total"
KEY = "deletekit.sink-key"
TABLE_UUID = "deletekit.table-uuid"
PROMOTED_BRANCH = "deletekit.promoted-branch"
PROMOTED_SNAPSHOT = "deletekit.promoted-snapshot-id"
KEPT_FOR_EVER = {"max-ref-age-ms": 2**63 - 1}
SINK_TAG = "deletekit-sink-"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchId:
    """A batch of a stream.

    Attributes
    ----------
    query_id: who numbers the batches: a Spark query, which keeps its id as long as it keeps its checkpoint.
    digest: of all that it writes; `old_digest` is the one that earlier versions left in their markers.
    key: field ids of the sink's key columns.
    file: the path of the file that it comes from; None: it comes from no file.
    before: the stream's files before it, in case that its markers do not name them.
    """

    sink_id: str
    query_id: str
    batch_id: int
    digest: str
    old_digest: Callable[[], str]
    key: tuple[int, ...]
    file: str | None = None
    before: tuple[str, ...] = ()

    def is_in(self, marker: Marker) -> bool:
        """Whether a marker of this number is that of this batch."""
        own = self.digest if "-" in marker.digest else self.old_digest()
        return own == marker.digest and (marker.file is None or marker.file == self.file)


@dataclass(frozen=True, slots=True, kw_only=True)
class Marker:
    """A snapshot that holds a batch.

    Attributes
    ----------
    key: field ids of the sink's key columns; None in markers of earlier versions, which had no `table_uuid` either.
    file: the path of the batch's file; `highest` is the last one, by its name, of all files up to it, and `files_total`
        their `name_total`; None where no batch came from a file.
    """

    snapshot: Snapshot
    sink_id: str
    query_id: str
    batch_id: int
    digest: str
    key: tuple[int, ...] | None
    table_uuid: str | None
    file: str | None
    highest: str | None
    files_total: int | None


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
    return next(markers(metadata, head, sink_id), None)


def newest_marker(metadata: TableMetadata, head: Snapshot | None, sink_id: str) -> Marker | None:
    """The newest batch of a sink: in the history of a head, or where that has expired, the one that its tag keeps."""
    return last_marker(metadata, head, sink_id) or tagged_marker(metadata, sink_id)


def check_owner(metadata: TableMetadata, marker: Marker, key: tuple[int, ...]) -> None:
    """Raise InvalidInputError for a marker that a sink of another key (`key-changed`) or table left."""
    if marker.key is not None and marker.key != key:
        raise InvalidInputError(
            "the sink of this id has another key, and would not find the rows that it has written",
            kind="key-changed",
            field="equality_fields",
            found=_names(metadata.schema, key),
            expected=f"{_names(metadata.schema, marker.key)}, or another sink id",
        )
    if marker.table_uuid is not None and marker.table_uuid != metadata.table_uuid:
        raise InvalidInputError(
            "the batches of this sink id were written to another table, of which this one is a copy",
            kind="table-changed",
            field="sink_id",
            found=f"batch {marker.batch_id} of table {marker.table_uuid}",
            expected=f"batches of table {metadata.table_uuid}, or another sink id",
        )


def summary_of(batch: BatchId, metadata: TableMetadata, head: Snapshot | None) -> Mapping[str, str]:
    """Entries of the summary of a batch's snapshot, which comes after a head."""
    entries = {
        SINK_ID: batch.sink_id,
        QUERY_ID: batch.query_id,
        BATCH_ID: str(batch.batch_id),
        DIGEST: batch.digest,
        KEY: ",".join(map(str, batch.key)),
    }
    if metadata.table_uuid is not None:
        entries[TABLE_UUID] = metadata.table_uuid
    if batch.file is not None:
        entries[FILE] = batch.file
    last = newest_marker(metadata, head, batch.sink_id)
    own = [] if batch.file is None else [batch.file]
    if last is not None and last.files_total is not None:
        highest, total = highest_name(*own, last.highest), name_total(own, last.files_total)
    else:
        highest, total = highest_name(*own, *batch.before), name_total([*own, *batch.before])
    if highest is not None:
        entries[FILES_TOTAL] = f"{total:032x}"
        if highest != batch.file:
            entries[HIGHEST_FILE] = highest
    return entries


def is_committed(
    metadata: TableMetadata,
    head: Snapshot | None,
    batch: BatchId,
    *,
    allow_rewind: bool = False,
    allow_gaps: bool = False,
) -> bool:
    """Whether a batch is in the history of a head; False: it is to be applied.

    A batch that comes before the newest one, and behind which history has expired, is one of those that were applied.

    Parameters
    ----------
    allow_rewind: apply a batch though the stream, or the branch, seems to have gone back: by upserts of what is there
        already, or of what is there no more.
    allow_gaps: apply a batch though those between the last one and it are not there.

    Raises InvalidInputError of kind `batch-changed` for a batch that was committed with other data, `batch-gap` for one
    that comes after others which are not there, `batch-rewound` for one that comes before the last and is not there,
    `query-changed` for one of another query (its checkpoint was lost), `branch-rewound` when the branch no longer has
    the sink's last batch, `progress-lost` when nothing is known of the sink's batches and they may have expired; and as
    `check_owner`.
    """
    last, tagged = last_marker(metadata, head, batch.sink_id), tagged_marker(metadata, batch.sink_id)
    for marker in filter(None, (last, tagged)):
        check_owner(metadata, marker, batch.key)
    if allow_rewind:
        return last is not None and _has_number(last, batch) and batch.is_in(last)
    if tagged is None and sink_tag(batch.sink_id) in metadata.refs:
        raise _error(
            "the branch was rolled back from the last batch of this sink",
            "branch-rewound",
            None if last is None else last.batch_id,
            "a tag of the sink on its last batch",
        )
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
    elif last.query_id != batch.query_id:
        raise _error("another query wrote with this sink id", "query-changed", batch.query_id, last.query_id)
    if last is None or batch.batch_id > last.batch_id:
        if not allow_gaps:
            _check_gap(last, batch)
        return False
    return _is_among(metadata, head, last, batch)


def _check_gap(last: Marker | None, batch: BatchId) -> None:
    following = 0 if last is None else last.batch_id + 1
    # Versions that left no key in a marker left no marker of a batch without rows.
    if batch.batch_id > following and (last is None or last.key is not None):
        raise InvalidInputError(
            "batches before this one are not in the table; allow_gaps=True applies it without them",
            kind="batch-gap",
            field="batch",
            found=batch.batch_id,
            expected=f"batch {following}",
        )


def _is_among(metadata: TableMetadata, head: Snapshot | None, last: Marker, batch: BatchId) -> bool:
    """Whether a batch that does not come after the last one is in the table."""
    for marker in (last, *markers(metadata, head, batch.sink_id)):
        if _has_number(marker, batch):
            if batch.is_in(marker):
                return True
            found = batch.digest if marker.file == batch.file else f"the data of {batch.file}"
            expected = f"{marker.digest}, the data of {marker.file or 'the batch that is in the table'}"
            raise _error("a batch came again with other data", "batch-changed", found, expected)
        if marker.query_id == batch.query_id and marker.batch_id < batch.batch_id:
            break  # it would have come before that one
    else:
        if not _is_complete(metadata, head):
            return True
    expected = f"a batch after {last.batch_id}"
    raise _error("the stream went back to a batch that was left out", "batch-rewound", batch.batch_id, expected)


def tag_update(metadata: TableMetadata, name: str, snapshot_id: int | None = None) -> RefUpdate:
    """A tag that moves with a commit: to the commit's own snapshot, or to another."""
    there = metadata.refs.get(name)
    found = None if there is None else int(there["snapshot-id"])
    return RefUpdate(name=name, type="tag", found=found, snapshot_id=snapshot_id, retention=KEPT_FOR_EVER)


def rewound_sinks(metadata: TableMetadata) -> Mapping[str, int]:
    """Tags of sinks whose newest batch no branch has any more, and where they remember it when history expires.

    A tag that is there and whose snapshot holds no batch of its sink says that the branch was rolled back.
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
    """The tag of a sink's last batch."""
    return f"{SINK_TAG}{sink_id}"


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


def markers(metadata: TableMetadata, head: Snapshot | None, sink_id: str) -> Iterator[Marker]:
    """The batches of a sink in the history of a head, newest first."""
    found = (marker_of(s) for s in history(metadata, head) if s.summary.get(SINK_ID) == sink_id)
    return (m for m in found if m is not None)


def marker_of(snapshot: Snapshot) -> Marker | None:
    """The batch that a snapshot holds."""
    summary = snapshot.summary
    number, key, total = (summary.get(name, "") for name in (BATCH_ID, KEY, FILES_TOTAL))
    if SINK_ID not in summary or not re.fullmatch(r"[0-9]{1,19}", number):
        return None
    return Marker(
        snapshot=snapshot,
        sink_id=summary[SINK_ID],
        query_id=summary.get(QUERY_ID, ""),
        batch_id=int(number),
        digest=summary.get(DIGEST, ""),
        key=tuple(map(int, key.split(","))) if re.fullmatch(r"[0-9]{1,10}(,[0-9]{1,10})*", key) else None,
        table_uuid=summary.get(TABLE_UUID),
        file=summary.get(FILE),
        highest=summary.get(HIGHEST_FILE, summary.get(FILE)),
        files_total=int(total, 16) if re.fullmatch(r"[0-9a-f]{32}", total) else None,
    )


def tagged_marker(metadata: TableMetadata, sink_id: str) -> Marker | None:
    """The batch that a sink's tag keeps."""
    ref = metadata.refs.get(sink_tag(sink_id))
    snapshot = None if ref is None else metadata.snapshots.get(int(ref["snapshot-id"]))
    marker = None if snapshot is None else marker_of(snapshot)
    return marker if marker is not None and marker.sink_id == sink_id else None


def _certainly_without(metadata: TableMetadata, head: Snapshot | None, snapshot: Snapshot) -> bool:
    for older in history(metadata, head):
        if older.sequence_number < snapshot.sequence_number:
            return True
        known = (older.parent_snapshot_id, promoted_snapshot(older))
        has_expired = any(i is not None and i not in metadata.snapshots for i in known)
        if has_expired or older.snapshot_id == snapshot.snapshot_id:
            return False
    return True


def _has_number(marker: Marker, batch: BatchId) -> bool:
    return (marker.query_id, marker.batch_id) == (batch.query_id, batch.batch_id)


def _names(schema: Schema, key: tuple[int, ...]) -> str:
    return ", ".join(schema.find_column_name(i) or f"field {i}" for i in key)


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
