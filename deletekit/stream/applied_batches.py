"""Which batches of a sink are in a table: the snapshots say it, and a tag keeps the newest of them.

Law: a batch that is in the table is never applied again, and one that is not is never taken for one that is; where
neither can be known, nothing is done and the error says why. A snapshot and its marker are one commit.

A batch is named by sink, query and number, in the summary of its snapshot. The tag `deletekit-sink-<sink id>` moves in
the same commit to that snapshot, so that expiry spares it. History is that of the branch, and behind a promotion also
that of the branch which was promoted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pyiceberg.schema import Schema

from deletekit.commit.change import RefUpdate
from deletekit.errors import InvalidInputError
from deletekit.stream.change_files import highest_name, name_total
from deletekit.table.metadata import Snapshot, TableMetadata
from deletekit.table.sink_batches import (
    BATCH_ID,
    DIGEST,
    FILE,
    FILES_TOTAL,
    HIGHEST_FILE,
    KEPT_FOR_EVER,
    KEY,
    QUERY_ID,
    SINK_ID,
    TABLE_UUID,
    Marker,
    history,
    markers,
    sink_tag,
    tagged_marker,
)

__all__ = [
    "BatchId",
    "check_owner",
    "check_sink_id",
    "is_committed",
    "last_marker",
    "newest_marker",
    "summary_of",
    "tag_update",
]


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
