"""List the sinks of a table, drop those that are finished, and set one to a batch number by hand.

The sinks of a table are known by their tags, which keep their newest batches from expiring. Without its tag nothing is
kept for a sink.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from deletekit.commit.change import Base, ReadSet, RowDelta
from deletekit.commit.planned_change import check_request, plan_change
from deletekit.commit.swap import Commit, commit
from deletekit.errors import InvalidInputError, NotFoundError
from deletekit.public import public
from deletekit.stream.applied_batches import (
    check_owner,
    check_sink_id,
    last_marker,
    newest_marker,
    reset_summary,
    tag_update,
)
from deletekit.table.metadata import MAIN, TableMetadata
from deletekit.table.sinks.batches import SINK_TAG, Marker, history, sink_tag, tagged_marker
from deletekit.table.snapshot import SnapshotReader
from deletekit.table.table import Table
from deletekit.tools.refs import drop_ref


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkInfo:
    """A sink of a table.

    Attributes
    ----------
    tag: its tag, which keeps `snapshot_id`, the snapshot of its newest batch.
    committed_at: when that batch was committed, in UTC.
    query_id, batch_id, file: of that batch; None if the tag's snapshot holds no batch. After a reset `batch_id` is the
        number that it was set to.
    key: names of the key columns; empty if the snapshot does not tell them.
    is_reset: whether `reset_sink` made the newest marker.
    age_ms: milliseconds since that commit.
    lag_ms: milliseconds since the newest time in the order column of that batch; None if it is not a time.
    is_pinned: whether only the tag keeps the snapshot: it is the head of no branch.
    pinned_files, pinned_bytes: the data and delete files that only the tag keeps from expiring, and their bytes on
        disk; None unless `sizes` was asked for.
    """

    sink_id: str
    tag: str
    snapshot_id: int
    committed_at: datetime
    query_id: str | None = None
    batch_id: int | None = None
    file: str | None = None
    key: tuple[str, ...] = ()
    is_reset: bool = False
    age_ms: int = 0
    lag_ms: int | None = None
    is_pinned: bool = False
    pinned_files: int | None = None
    pinned_bytes: int | None = None


@public
def sinks(table: Table, *, sizes: bool = False) -> tuple[SinkInfo, ...]:
    """List the sinks that have a tag in the table, newest batch first.

    Parameters
    ----------
    sizes: also read manifests, to tell which files would be free to expire without a sink's tag.
    """
    metadata = table.refresh().metadata
    names = [name for name, ref in metadata.refs.items() if name.startswith(SINK_TAG) and ref.get("type") == "tag"]
    found = sorted((_info(metadata, name) for name in names), key=lambda s: s.committed_at, reverse=True)
    if sizes:
        reader = SnapshotReader(table.io, metadata)
        found = [_with_sizes(metadata, reader, info) for info in found]
    return tuple(found)


@public
def drop_sink(table: Table, sink_id: str) -> None:
    """Drop the tag of a finished sink, so that its newest snapshot can expire. The rows stay.

    Never drop a sink that still runs: when the snapshots of its batches expire, the table forgets which batches it has.

    Raises NotFoundError if the table has no such sink; InvalidInputError for an invalid id.
    """
    check_sink_id(sink_id)
    ref = table.refresh().metadata.refs.get(sink_tag(sink_id))
    if ref is None:
        known = ", ".join(s.sink_id for s in sinks(table)) or "the table has none"
        raise NotFoundError("no such sink", kind="sink-not-found", field="sink_id", found=sink_id, expected=known)
    if ref.get("type") != "tag":
        raise InvalidInputError("a branch has the name of the sink's tag", "ref", "sink_id", sink_tag(sink_id))
    drop_ref(table, sink_tag(sink_id))


def _info(metadata: TableMetadata, tag: str) -> SinkInfo:
    snapshot = metadata.snapshot_by_id(int(metadata.refs[tag]["snapshot-id"]))
    sink_id = tag.removeprefix(SINK_TAG)
    marker = tagged_marker(metadata, sink_id)
    now, newest = int(time.time() * 1000), marker.newest_ms if marker else None
    return SinkInfo(
        sink_id=sink_id,
        tag=tag,
        snapshot_id=snapshot.snapshot_id,
        committed_at=datetime.fromtimestamp(snapshot.timestamp_ms / 1000, UTC),
        query_id=marker.query_id if marker else None,
        batch_id=marker.batch_id if marker else None,
        file=marker.file if marker else None,
        key=tuple(metadata.schema.find_column_name(i) or f"field {i}" for i in (marker.key or ())) if marker else (),
        is_reset=marker is not None and marker.is_reset,
        age_ms=max(0, now - snapshot.timestamp_ms),
        lag_ms=None if newest is None else now - newest,
        is_pinned=snapshot.snapshot_id not in _others(metadata, tag),
    )


def _others(metadata: TableMetadata, tag: str) -> set[int]:
    """Return the snapshots that other refs keep."""
    return {int(ref["snapshot-id"]) for name, ref in metadata.refs.items() if name != tag}


def _with_sizes(metadata: TableMetadata, reader: SnapshotReader, info: SinkInfo) -> SinkInfo:
    """Return a sink with the files that no other ref has live. Manifests that others have too are not read."""
    if not info.is_pinned:
        return replace(info, pinned_files=0, pinned_bytes=0)
    own = {m.manifest_path: m for m in reader.manifests(metadata.snapshot_by_id(info.snapshot_id))}
    others = {
        m.manifest_path: m
        for snapshot_id in _others(metadata, info.tag)
        for m in reader.manifests(metadata.snapshot_by_id(snapshot_id))
    }
    mine, theirs = (
        {e.data_file.file_path: e.data_file.file_size_in_bytes for m in listed for e in reader.entries(m) if e.is_live}
        for listed in (
            [m for path, m in own.items() if path not in others],
            [m for path, m in others.items() if path not in own],
        )
    )
    only = {path: size for path, size in mine.items() if path not in theirs}
    return replace(info, pinned_files=len(only), pinned_bytes=sum(only.values()))


@public
def reset_sink(
    table: Table, sink_id: str, *, batch_id: int = -1, query_id: str | None = None, ref: str = MAIN
) -> Commit:
    """Set a sink to a known state: all batches up to a number are in the table, and the next one has the next number.

    Use it when the source has lost its count of batches, and refuses or is refused: a new checkpoint of Spark begins
    with batch 0 of a new query. No row is changed. What the source sends next is applied, so begin there with what the
    table does not have. Changes of rows that the table already has are safe if they come in their order up to the
    newest one. Stop the sink before.

    Parameters
    ----------
    batch_id: the number of the last batch that counts as applied; -1: the next batch is batch 0.
    query_id: the source of the next batches; None: any source, that of the batch that comes next.
    ref: the branch that the sink writes to.

    Raises NotFoundError if the table has no such sink; InvalidInputError for a number that no batch has, for another
    branch than that of the sink (`sink-branch`), and for a sink that needs no reset, because the table itself keeps
    what was applied: that of files or of a source (`sink-source`); and as every commit.
    """
    check_sink_id(sink_id)
    if not -1 <= batch_id < 2**63 - 1:
        message = "the next batch would have no number"
        raise InvalidInputError(message, kind="batch-id", field="batch_id", found=batch_id, expected="-1 or more")
    check_request(table.refresh(), ref)

    def plan(base: Base) -> RowDelta:
        metadata = base.metadata
        marker = _marker(metadata, sink_id, ref)
        summary = reset_summary(marker, metadata, base.snapshot, batch_id, query_id)
        delta = RowDelta(summary=summary, refs=(tag_update(metadata, sink_tag(sink_id)),))
        return replace(delta, read_set=ReadSet())

    _marker(table.metadata, sink_id, ref)
    return commit(plan_change(table, plan, ref=ref))


def _marker(metadata: TableMetadata, sink_id: str, ref: str) -> Marker:
    """Return the newest batch of a sink that can be reset. Raise NotFoundError, InvalidInputError."""
    head = metadata.snapshot_of_ref(ref)
    marker = newest_marker(metadata, head, sink_id)
    if marker is None:
        known = ", ".join(name.removeprefix(SINK_TAG) for name in metadata.refs if name.startswith(SINK_TAG))
        message, expected = "no such sink", known or "the table has none"
        raise NotFoundError(message, kind="sink-not-found", field="sink_id", found=sink_id, expected=expected)
    check_owner(metadata, marker, marker.key or ())
    if marker.logs or "deletekit.source-position" in marker.snapshot.summary:
        raise InvalidInputError(
            "the table itself keeps what this sink has applied, so there is no count of batches to set",
            kind="sink-source",
            field="sink_id",
            found=sink_id,
            expected="a sink whose batches come by number; allow_rewind=True applies files again",
        )
    if last_marker(metadata, head, sink_id) is None:
        branches = [name for name, entry in metadata.refs.items() if entry.get("type") == "branch" and name != ref]
        for name in branches:
            heads = history(metadata, metadata.snapshot_of_ref(name))
            if any(s.snapshot_id == marker.snapshot.snapshot_id for s in heads):
                message = "this sink writes to another branch"
                raise InvalidInputError(message, kind="sink-branch", field="ref", found=ref, expected=name)
    return marker
