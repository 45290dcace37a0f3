"""The sinks of a table: what each has done last, and forgetting one that is over.

Law: a sink is known by its tag, which keeps its newest batch from expiring; without the tag nothing is kept for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from deletekit.errors import InvalidInputError, NotFoundError
from deletekit.public import public
from deletekit.stream.applied_batches import SINK_TAG, Marker, check_sink_id, marker_of, sink_tag
from deletekit.table.metadata import TableMetadata
from deletekit.table.table import Table
from deletekit.verbs.refs import drop_ref

__all__ = ["SinkInfo", "drop_sink", "sinks"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkInfo:
    """A sink of a table.

    Attributes
    ----------
    tag: its tag, which keeps `snapshot_id`, that of its newest batch.
    committed_at: when that batch was committed, in UTC.
    query_id, batch_id, file: of that batch; None where the tag's snapshot holds none.
    key: names of the key columns; empty where versions wrote it that did not say so.
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
    """The sinks that have a tag in the table, the one that wrote last first."""
    metadata = table.refresh().metadata
    names = [name for name, ref in metadata.refs.items() if name.startswith(SINK_TAG) and ref.get("type") == "tag"]
    return tuple(sorted((_info(metadata, name) for name in names), key=lambda s: s.committed_at, reverse=True))


@public
def drop_sink(table: Table, sink_id: str) -> None:
    """Drop the tag of a sink that is over, so that its newest snapshot can expire. The rows stay.

    A sink that is not over must not be dropped: once the snapshots of its batches have expired, the table does not know
    them any more.

    Raises NotFoundError when the table has no such sink; InvalidInputError for an id that cannot be one.
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
    marker: Marker | None = marker_of(snapshot)
    own = marker if marker is not None and marker.sink_id == sink_id else None
    return SinkInfo(
        sink_id=sink_id,
        tag=tag,
        snapshot_id=snapshot.snapshot_id,
        committed_at=datetime.fromtimestamp(snapshot.timestamp_ms / 1000, UTC),
        query_id=own.query_id if own else None,
        batch_id=own.batch_id if own else None,
        file=own.file if own else None,
        key=tuple(metadata.schema.find_column_name(i) or f"field {i}" for i in (own.key or ())) if own else (),
    )
