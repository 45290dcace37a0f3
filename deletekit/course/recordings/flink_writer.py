"""Write checkpoints of a stream as Flink's upsert sink does, with this library's writers; Flink itself does not run.

The writer reads nothing. It deletes each key by value, because an older row may have it, and writes every row. Rows
that a later change of the same checkpoint replaces are hidden by position.
Flink: BaseEqualityDeltaWriter, IcebergFilesCommitter.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from deletekit.commit.change import Base, RowDelta
from deletekit.commit.planned_change import plan_change
from deletekit.commit.swap import commit
from deletekit.deletes.merge_previous_deletes import FilePositions, write_positions
from deletekit.errors import CommitStateUnknownError
from deletekit.formats.deletion_vector import PositionBitmap
from deletekit.stream.batch_delta import write_rows
from deletekit.stream.batch_run import BatchProgress
from deletekit.stream.change_rows import ChangeFormat, read_changes
from deletekit.table.table import Table
from deletekit.verbs.shared.equality_keys import specs_in_use, write_key_deletes
from deletekit.verbs.shared.key_fields import equality_fields_of

_CHECKPOINT = "flink.max-committed-checkpoint-id"


def write_checkpoint(table: Table, changes: Any, checkpoint: int, *, key: Sequence[str] = ("id",)) -> BatchProgress:
    """Commit the changes of one checkpoint, unless the table has it already.

    Parameters
    ----------
    changes: rows in order, as `Sink.write` takes them, with the column `_change_type`.
    checkpoint: its number, which the snapshot's summary keeps; lower ones are in the table.
    """
    schema = table.refresh().metadata.schema
    form = ChangeFormat(fields=equality_fields_of(schema, list(key)), change_type="_change_type", order=None)
    parsed = read_changes(changes, schema, form)
    last, numbers = parsed.last, parsed.put_of[parsed.order]
    numbers = numbers[numbers >= 0]

    def build(base: Base) -> RowDelta:
        files, hidden = [], []
        for file, rows in write_rows(base.write, parsed.puts.take(pa.array(numbers))):
            files.append(file)
            hidden.append(FilePositions(file, PositionBitmap(np.flatnonzero(~np.isin(numbers[rows], last.put)))))
        keys = pa.table({str(f.field_id): column for f, column in zip(form.fields, last.keys, strict=True)})
        deletes = write_key_deletes(base.write, specs_in_use(base), keys, form.fields, None)
        deletes += write_positions(base.write, hidden, None)
        summary = {_CHECKPOINT: str(checkpoint)}
        return RowDelta(added_data_files=tuple(files), added_delete_files=tuple(deletes), summary=summary)

    progress = {"sink_id": "flink", "query_id": "", "batch_id": checkpoint, "rows": len(parsed), "keys": len(last)}
    if _newest(table) >= checkpoint:
        return BatchProgress(status="skipped", **progress)  # type: ignore[arg-type]
    try:
        return BatchProgress(status="committed", commit=commit(plan_change(table, build)), **progress)  # type: ignore[arg-type]
    except CommitStateUnknownError:
        if _newest(table.refresh()) < checkpoint:
            raise
        return BatchProgress(status="skipped", **progress)  # type: ignore[arg-type]


def _newest(table: Table) -> int:
    """Return the newest checkpoint in the history of `main`; -1 if there is none."""
    head = table.current_snapshot
    history = table.metadata.ancestors(head.snapshot_id if head else None)
    return next((int(s.summary[_CHECKPOINT]) for s in history if _CHECKPOINT in s.summary), -1)
