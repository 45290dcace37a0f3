"""Set a sink to a batch number by hand, after its source lost its own count (a lost checkpoint)."""

from __future__ import annotations

from dataclasses import replace

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
from deletekit.table.sink_batches import SINK_TAG, Marker, history, sink_tag
from deletekit.table.table import Table


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
    if marker.files_total is not None or "deletekit.source-position" in marker.snapshot.summary:
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
