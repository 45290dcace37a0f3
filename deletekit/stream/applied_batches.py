"""Decide whether a batch of a sink is already in a table, and write the marker that says so.

A batch that is in the table is never applied again, and a batch that is not in it is never skipped. If neither is
certain, nothing is written and the error says why. A batch and its marker are one commit. `table.sink_batches` reads
the markers.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from pyiceberg.schema import Schema

from deletekit.commit.change import RefUpdate
from deletekit.errors import InvalidInputError
from deletekit.table.metadata import Snapshot, TableMetadata
from deletekit.table.sinks.batches import (
    BATCH_ID,
    DIGEST,
    FILE,
    KEPT_FOR_EVER,
    KEY,
    POSITION,
    QUERY_ID,
    RESET,
    SINK_ID,
    TABLE_UUID,
    Marker,
    history,
    markers,
    sink_tag,
    tagged_marker,
)
from deletekit.table.sinks.file_logs import AppliedFile
from deletekit.table.sinks.files import KEY_INDEX, SEQUENCE_BY, SEQUENCE_DELETES, SEQUENCE_SERVERS


class PositionMovedError(Exception):
    """Another process wrote batches of the same source, so this batch does not follow the newest one any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The step that a batch makes in its source: from the position before it to the position after it."""

    source: str
    before: str | None
    after: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchId:
    """A batch of a stream.

    Attributes
    ----------
    query_id: the source of the batch numbers: a Spark query, which keeps its id as long as it keeps its checkpoint.
    digest: of everything that the batch writes.
    key: field ids of the sink's key columns.
    applied: the file that the batch comes from, or None.
    step: the step in the batch's source, or None if it has none.
    """

    sink_id: str
    batch_id: int
    query_id: str = ""
    digest: str = ""
    key: tuple[int, ...] = ()
    step: Step | None = None
    applied: AppliedFile | None = None

    @property
    def file(self) -> str | None:
        """The path of the file that the batch comes from, or None."""
        return None if self.applied is None else self.applied.path

    def is_in(self, marker: Marker) -> bool:
        """Return whether a marker with this batch's number is the marker of this batch."""
        after = None if self.step is None else self.step.after
        return marker.file in (None, self.file) and marker.position == after and marker.digest == self.digest


def check_sink_id(sink_id: str) -> None:
    """Raise InvalidInputError for an id that cannot be part of a tag's name."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}", str(sink_id)):
        message = "a sink id is letters, digits, dots, dashes and underscores"
        raise InvalidInputError(message, "sink-id", "sink_id", sink_id, "at most 100 of them")


def last_marker(metadata: TableMetadata, head: Snapshot | None, sink_id: str) -> Marker | None:
    """Return the newest batch of a sink in the history of a head."""
    return next(markers(metadata, head, sink_id), None)


def newest_marker(metadata: TableMetadata, head: Snapshot | None, sink_id: str) -> Marker | None:
    """Return the newest batch of a sink: from the history of a head or, if that has expired, from the sink's tag."""
    return last_marker(metadata, head, sink_id) or tagged_marker(metadata, sink_id)


def check_owner(metadata: TableMetadata, marker: Marker, key: tuple[int, ...]) -> None:
    """Raise InvalidInputError for a marker of a sink with another key (`key-changed`) or table (`table-changed`)."""
    if marker.key is not None and marker.key != key:
        message = "the sink of this id has another key, and would not find the rows that it wrote"
        names, known = _names(metadata.schema, key), _names(metadata.schema, marker.key)
        raise InvalidInputError(message, "key-changed", "on", names, f"{known}, or another sink id")
    if marker.table_uuid is not None and marker.table_uuid != metadata.table_uuid:
        message = "the batches of this sink id were written to another table; this one is a copy of it"
        found = f"batch {marker.batch_id} of table {marker.table_uuid}"
        expected = f"batches of table {metadata.table_uuid}, or another sink id"
        raise InvalidInputError(message, "table-changed", "sink_id", found, expected)


def summary_of(batch: BatchId, metadata: TableMetadata) -> Mapping[str, str]:
    """Return the summary entries of a batch's snapshot."""
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
    if batch.step is not None:
        entries[POSITION] = batch.step.after
    return entries


def reset_summary(
    marker: Marker, metadata: TableMetadata, head: Snapshot | None, batch_id: int, query_id: str | None
) -> Mapping[str, str]:
    """Return the summary entries of a commit that sets a sink to a number; `marker` is the newest one until then.

    Only the count is set. The guard of `sequence_by` goes on, and so does what it remembers of a head.
    """
    known = marker.snapshot.summary
    entries = {name: known[name] for name in (SEQUENCE_BY, SEQUENCE_SERVERS, KEY_INDEX) if name in known}
    if SEQUENCE_DELETES in known and not (
        last_marker(metadata, head, marker.sink_id) is None and _is_complete(metadata, head)
    ):  # else the branch was rolled back from all deletes
        entries[SEQUENCE_DELETES] = known[SEQUENCE_DELETES]
    entries |= {SINK_ID: marker.sink_id, BATCH_ID: str(batch_id), DIGEST: RESET}
    if query_id is not None:
        entries[QUERY_ID] = query_id
    if marker.key is not None:
        entries[KEY] = ",".join(map(str, marker.key))
    if metadata.table_uuid is not None:
        entries[TABLE_UUID] = metadata.table_uuid
    return entries


def is_committed(
    metadata: TableMetadata,
    head: Snapshot | None,
    batch: BatchId,
    *,
    allow_rewind: bool = False,
    allow_gaps: bool = False,
    starts_anywhere: bool = False,
) -> bool:
    """Return whether a batch is in the history of a head. If not, it must be applied.

    A batch before the newest one counts as applied if the history that would show it has expired.

    Parameters
    ----------
    allow_rewind: apply a batch even if the stream or the branch seems to have gone back. It then upserts rows that may
        be in the table already.
    allow_gaps: apply a batch even if batches between the last one and it are missing.
    starts_anywhere: the stream gives a table a batch only if it has rows for it. So a table without a batch of the
        sink, and without its tag, which no expiry removes, has never had one, whatever its number is.

    Raises InvalidInputError of these kinds: `batch-changed`, the batch was committed with other data; `batch-gap`,
    batches before it are missing; `batch-rewound`, it comes before the last batch and is not in the table;
    `query-changed`, another query wrote the last batch (its checkpoint was lost); `branch-rewound`, the branch no
    longer has the sink's last batch; `progress-lost`, the sink's batches may have expired; and as `check_owner`.
    Raises PositionMovedError if the newest batch does not end where a batch of a source begins.
    """
    last, tagged = last_marker(metadata, head, batch.sink_id), tagged_marker(metadata, batch.sink_id)
    for marker in filter(None, (last, tagged)):
        check_owner(metadata, marker, batch.key)
    if _is_overtaken(metadata, head, batch, last if allow_rewind else last or tagged):
        return True
    if allow_rewind:
        return last is not None and _has_number(last, batch) and batch.is_in(last)
    last = marker_in_branch(metadata, head, batch.sink_id)
    if last is None:
        if batch.batch_id > 0 and not starts_anywhere and not _is_complete(metadata, head):
            raise _unclear("the batches of this sink may have expired", "progress-lost", batch.batch_id, "batch 0")
    elif last.query_id not in (None, batch.query_id):
        raise _unclear("another query wrote with this sink id", "query-changed", batch.query_id, last.query_id)
    if last is None or batch.batch_id > last.batch_id:
        following = 0 if last is None else last.batch_id + 1
        if not allow_gaps and batch.batch_id > following:
            message = "batches before this one are not in the table; allow_gaps=True applies it without them"
            raise InvalidInputError(message, "batch-gap", "batch", batch.batch_id, f"batch {following}")
        return False
    return _is_among(metadata, head, last, batch)


def _is_overtaken(metadata: TableMetadata, head: Snapshot | None, batch: BatchId, newest: Marker | None) -> bool:
    """Return whether a batch of a source is in the table, though the newest batch does not end where it begins.

    Raises PositionMovedError if it is not: then it must not be applied.
    """
    if batch.step is None or newest is None or newest.position == batch.step.before:
        return False
    if any(_has_number(m, batch) and batch.is_in(m) for m in markers(metadata, head, batch.sink_id)):
        return True
    raise PositionMovedError


def marker_in_branch(metadata: TableMetadata, head: Snapshot | None, sink_id: str) -> Marker | None:
    """Return the newest batch of a sink, as `newest_marker`. Raise InvalidInputError if the branch was rolled back."""
    last, tagged = last_marker(metadata, head, sink_id), tagged_marker(metadata, sink_id)
    if tagged is None and sink_tag(sink_id) in metadata.refs:
        message, found = "the branch was rolled back from the last batch of this sink", last.batch_id if last else None
        raise _unclear(message, "branch-rewound", found, "a tag of the sink on its last batch")
    if tagged is not None and (last is None or last.snapshot.sequence_number < tagged.snapshot.sequence_number):
        if last is not None or _is_complete(metadata, head):
            message = "the branch no longer has the last batch of this sink"
            expected = f"batch {tagged.batch_id} of query {tagged.query_id}, snapshot {tagged.snapshot.snapshot_id}"
            raise _unclear(message, "branch-rewound", last.batch_id if last else None, expected)
        return tagged
    return last


def _is_among(metadata: TableMetadata, head: Snapshot | None, last: Marker, batch: BatchId) -> bool:
    """Return whether a batch that does not come after the last one is in the table."""
    for marker in (last, *markers(metadata, head, batch.sink_id)):
        if marker.is_reset and batch.batch_id <= marker.batch_id:
            return True
        if _has_number(marker, batch):
            if batch.is_in(marker):
                return True
            found = batch.digest if marker.file == batch.file else f"the data of {batch.file}"
            expected = f"{marker.digest}, the data of {marker.file or 'the batch that is in the table'}"
            raise _unclear("a batch was repeated with other data", "batch-changed", found, expected)
        if marker.query_id == batch.query_id and marker.batch_id < batch.batch_id:
            break  # it would have come before that one
    else:
        if not _is_complete(metadata, head):
            return True
    expected = f"a batch after {last.batch_id}"
    raise _unclear("the stream went back to a batch that was skipped", "batch-rewound", batch.batch_id, expected)


def tag_update(metadata: TableMetadata, name: str, snapshot_id: int | None = None) -> RefUpdate:
    """Return the update that moves a tag in a commit: to the commit's own snapshot, or to another."""
    tag = metadata.refs.get(name)
    found = None if tag is None else int(tag["snapshot-id"])
    return RefUpdate(name=name, type="tag", found=found, snapshot_id=snapshot_id, retention=KEPT_FOR_EVER)


def _has_number(marker: Marker, batch: BatchId) -> bool:
    return (marker.query_id, marker.batch_id) == (batch.query_id, batch.batch_id)


def _names(schema: Schema, key: tuple[int, ...]) -> str:
    return ", ".join(schema.find_column_name(i) or f"field {i}" for i in key)


def _is_complete(metadata: TableMetadata, head: Snapshot | None) -> bool:
    """Return whether no snapshot of a head's history has expired."""
    parents = [s.parent_snapshot_id for s in history(metadata, head)]
    return all(p is None or p in metadata.snapshots for p in parents)


def _unclear(message: str, kind: str, found: object, expected: str) -> InvalidInputError:
    return InvalidInputError(f"{message}; allow_rewind=True applies it", kind, "batch", found, expected)
