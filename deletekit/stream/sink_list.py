"""List the sinks of a table, and drop those that are finished.

The sinks of a table are known by their tags, which keep their newest batches from expiring. Without its tag nothing is
kept for a sink.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from deletekit.errors import InvalidInputError, NotFoundError
from deletekit.public import public
from deletekit.stream.applied_batches import check_sink_id
from deletekit.table.metadata import TableMetadata
from deletekit.table.sink_batches import SINK_TAG, sink_tag, tagged_marker
from deletekit.table.table import Table
from deletekit.verbs.refs import drop_ref


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkInfo:
    """A sink of a table.

    Attributes
    ----------
    tag: its tag, which keeps `snapshot_id`, the snapshot of its newest batch.
    committed_at: when that batch was committed, in UTC.
    query_id, batch_id, file: of that batch; None if the tag's snapshot holds no batch.
    key: names of the key columns; empty if the snapshot does not tell them.
    """

    sink_id: str
    tag: str
    snapshot_id: int
    committed_at: datetime
    query_id: str | None = None
    batch_id: int | None = None
    file: str | None = None
    key: tuple[str, ...] = ()


@public
def sinks(table: Table) -> tuple[SinkInfo, ...]:
    """List the sinks that have a tag in the table, newest batch first."""
    metadata = table.refresh().metadata
    names = [name for name, ref in metadata.refs.items() if name.startswith(SINK_TAG) and ref.get("type") == "tag"]
    return tuple(sorted((_info(metadata, name) for name in names), key=lambda s: s.committed_at, reverse=True))


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
    return SinkInfo(
        sink_id=sink_id,
        tag=tag,
        snapshot_id=snapshot.snapshot_id,
        committed_at=datetime.fromtimestamp(snapshot.timestamp_ms / 1000, UTC),
        query_id=marker.query_id if marker else None,
        batch_id=marker.batch_id if marker else None,
        file=marker.file if marker else None,
        key=tuple(metadata.schema.find_column_name(i) or f"field {i}" for i in (marker.key or ())) if marker else (),
    )
