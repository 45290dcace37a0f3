"""List the sinks of a table, and drop those that are finished.

The sinks of a table are known by their tags, which keep their newest batches from expiring. Without its tag nothing is
kept for a sink.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from deletekit.errors import InvalidInputError, NotFoundError
from deletekit.public import public
from deletekit.stream.applied_batches import check_sink_id
from deletekit.table.metadata import TableMetadata
from deletekit.table.sink_batches import SINK_TAG, sink_tag, tagged_marker
from deletekit.table.snapshot import SnapshotReader
from deletekit.table.table import Table
from deletekit.verbs.refs import drop_ref


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
        raise InvalidInputError(
            "a branch has the name of the sink's tag", kind="ref", field="sink_id", found=sink_tag(sink_id)
        )
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
