"""Read the changes of another Iceberg table, so that a sink makes a copy of it: each snapshot is a batch."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deletekit.errors import InvalidInputError, NotFoundError
from deletekit.filters.filter import Filter
from deletekit.public import public, public_methods
from deletekit.rows.row_pairs import unique_keys
from deletekit.stream.sources.messages import CHANGE_TYPE
from deletekit.stream.sources.source import SourceBatch, Until, check_same, lost, position_text, read_position
from deletekit.table.metadata import MAIN
from deletekit.table.table import Table
from deletekit.tools.change_reader import CHANGE_COLUMNS, ROW_ID
from deletekit.tools.changes import Changes, Mode, changes_in_schema
from deletekit.tools.snapshot_range import ChangeStep, commit_steps


@public
def table_changes(
    table: Table,
    *,
    from_snapshot: int | None = None,
    ref: str = MAIN,
    on: str | Sequence[str] | None = None,
    columns: str | Sequence[str] | None = None,
    where: Filter = None,
    inverse: bool = False,
    poll_seconds: float = 2.0,
) -> TableChanges:
    """Return a source with the changes of a table, for `Sink.run_source`: what `changes` gives of each snapshot.

    Each snapshot is a batch, with the schema that the snapshot has. Its id is the position of the batch, so a restart
    goes on behind the newest snapshot that the sink has, exactly once. The rows of a batch are held in memory.
    A compaction is not a batch. If one is the newest, an empty batch moves the position to it, so that those
    before it may expire.

    Parameters
    ----------
    from_snapshot: begin with the changes after this snapshot. None begins with the rows of the oldest snapshot that has
        not expired, as one batch. Once the sink has a batch, that says where to go on.
    ref: the branch that is followed, or a tag.
    on: the columns that the sink has as its key, which must be unique in the table; of the rows of a batch that is
        checked. None is the schema's identifier fields.
    columns, where: as in `changes`: the copy is one of this view of the table. It must have the sink's key.
    inverse: undo the snapshots that the branch went back on. Otherwise a branch that went back is refused.
    poll_seconds: without an end, how long to wait until the table is asked again.

    `Sink.run_source` then raises InvalidInputError of kind `source-lost` if the snapshot that it goes on from, or one
    after it, has expired, `snapshot-branch` if the branch went back, `key-not-unique`; and otherwise as `changes`.
    """
    if poll_seconds < 0:
        message, field = "a time to wait is not below 0", "poll_seconds"
        raise InvalidInputError(message, kind="argument", field=field, found=poll_seconds, expected=">= 0")
    asked = {"on": on, "columns": columns, "where": where}
    return TableChanges(table, from_snapshot, ref, asked, inverse=inverse, poll_seconds=poll_seconds)


@public_methods
class TableChanges:
    """The changes of a table as a source; made by `table_changes`."""

    kind = "table"

    def __init__(
        self,
        table: Table,
        from_snapshot: int | None,
        ref: str,
        asked: dict[str, Any],
        *,
        inverse: bool,
        poll_seconds: float,
    ) -> None:
        self._table, self._from, self._ref, self._asked = table, from_snapshot, ref, asked
        self._inverse, self._poll_seconds = inverse, poll_seconds

    def __repr__(self) -> str:
        return f"TableChanges({self._table.name}, {self._ref})"

    def batches(self, position: str | None, *, until: Until = "end") -> Iterator[SourceBatch]:
        """Yield a batch for each snapshot after a position; see `Source`."""
        at = self._from
        if position is not None:
            place = read_position(position, self.kind)
            check_same(place, table=self._table.metadata.table_uuid)
            at = place.get("snapshot")
        while True:
            steps = steps_after(self._table, at, self._ref, inverse=self._inverse)
            for number, step in enumerate(steps, 1):
                rows = self._rows(step)
                at = step.end
                after = position_text(self.kind, {"table": self._table.metadata.table_uuid, "snapshot": at})
                yield SourceBatch(position=after, decode=lambda *_, rows=rows: rows, behind=len(steps) - number)
            if until == "end":
                return
            time.sleep(self._poll_seconds)

    def committed(self, position: str) -> None:
        """Do nothing: the table keeps its snapshots as its own settings say."""

    def _rows(self, step: ChangeStep) -> pa.Table:
        result = changes_of_step(self._table, step, **self._asked)
        found = result.to_arrow()
        kinds = pc.utf8_upper(found.column(CHANGE_TYPE))
        found = found.drop_columns([name for name in (*CHANGE_COLUMNS, ROW_ID) if name in found.column_names])
        if result.pairing.key and {*result.pairing.key} <= {*found.column_names}:
            # A sink would keep one of several rows that come with one key.
            gone = pc.is_in(kinds, pa.array(["DELETE", "UPDATE_BEFORE"]))
            unique_keys(found.filter(gone), found.filter(pc.invert(gone)), result.pairing.key)
        return found.append_column(CHANGE_TYPE, kinds)


def steps_after(table: Table, at: int | None, ref: str, *, inverse: bool) -> list[ChangeStep]:
    """Return the steps from a snapshot to the newest now; None is a table before its first row.

    The snapshot to go on from is the `end` of the last step. Raises InvalidInputError (`source-lost`) if a snapshot
    between the two has expired, and as `commit_steps` does.
    """
    metadata = table.refresh().metadata
    end = metadata.snapshot_of_ref(ref)
    if end is None or end.snapshot_id == at:
        return []
    line = list(metadata.ancestors(end.snapshot_id))
    steps = [ChangeStep(0, line[-1], None, line[-1])] if at is None else []
    try:
        start = line[-1] if at is None else metadata.snapshot_by_id(at)
        steps += commit_steps(metadata, start, end, inverse=inverse)
    except NotFoundError as e:
        message = f"the changes after a snapshot are not there: {e.message}"
        expected = f"{line[-1].snapshot_id} or a later one; a copy that is at another must be made again"
        raise lost(message, "from_snapshot", at, expected) from e
    if end.operation == "replace" and (not steps or steps[-1].after != end):
        steps.append(ChangeStep(0, end, end, end))
    return steps


def changes_of_step(table: Table, step: ChangeStep, mode: Mode = "net", **asked: Any) -> Changes:
    """Return the changes of one step of `steps_after`, with the schema that its snapshot has.

    Parameters
    ----------
    asked: the key, columns, where and engine of `changes`.
    """
    shown = step.after or step.before
    assert shown is not None
    # An older schema cannot read files that were written with a newer one.
    schema = table.metadata.schema if step.commit == step.before else table.metadata.schema_of(shown)
    steps = [] if step.before == step.after else [step]
    return replace(changes_in_schema(table, None, shown, schema, mode, **asked), steps=steps)
