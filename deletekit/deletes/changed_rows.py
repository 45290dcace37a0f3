"""Read the rows of a data file that are live in one of two snapshots, and not in the other.

Spec: "Row-level Deletes", https://iceberg.apache.org/spec/#row-level-deletes
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pyarrow as pa

from deletekit.deletes.changed_files import FileChange
from deletekit.deletes.read import FileBatch, ReadContext, ReadRequest, deleted_positions, read_task
from deletekit.deletes.scan_task import ScanTask, TaskPart, task_parts
from deletekit.filters.filter import keep_rows
from deletekit.formats.content_file import FileContent
from deletekit.formats.deletion_vector import PositionBitmap


@dataclass(frozen=True, slots=True)
class RowsToRead:
    """A part of a data file, and which of its rows left or came.

    Attributes
    ----------
    is_delete: whether the rows left the table. Otherwise they came to it.
    positions: the rows; None for all rows that are live under the deletes of `part`.
    """

    part: TaskPart
    is_delete: bool
    positions: PositionBitmap | None = None

    @property
    def most(self) -> int:
        """The number of rows, or more where deletes have not been counted."""
        file = self.part.task.data_file
        return file.record_count // self.part.count + 1 if self.positions is None else len(self.positions)


def rows_to_read(context: ReadContext, change: FileChange) -> list[RowsToRead]:
    """Return what to read for one changed data file.

    Deletes by position are loaded for it. Key columns are read where an equality delete applies.
    Raises FormatError or NotFoundError, naming the file that is damaged or missing.
    """
    before, after = change.before, change.after
    if before is None or after is None:
        task = before or after
        assert task is not None
        return [RowsToRead(part, is_delete=after is None) for part in task_parts([task])]
    left, came = _moved(context, before, after)
    found = [RowsToRead(TaskPart(before), True, left)] if left else []
    return found + ([RowsToRead(TaskPart(after), False, came)] if came else [])


def read_rows(context: ReadContext, rows: RowsToRead, request: ReadRequest) -> Iterator[pa.Table]:
    """Yield the rows for which the request's filter is true, with its columns."""
    part, positions = rows.part, rows.positions
    if positions is None:
        for batch in read_task(context, part, replace(request, only_live=True)):
            yield _kept(batch, batch.live_mask)
        return
    # Which rows these are is known: no delete is applied again.
    for batch in read_task(context, replace(part.task, deletes=()), request, positions):
        mask = positions.to_arrow(batch.first_position, len(batch))
        yield _kept(replace(batch, deleted_mask=None), mask)


def _kept(batch: FileBatch, mask: pa.BooleanArray | None) -> pa.Table:
    selected = batch.selected_mask
    if mask is not None and selected is not None and mask is not selected:
        mask = pa.array(mask.to_numpy(zero_copy_only=False) & batch.selected)
    if mask is None or mask.true_count == len(mask):
        return batch.table
    return pa.Table.from_arrays(keep_rows(batch.table.columns, mask), schema=batch.table.schema)


def _moved(context: ReadContext, before: ScanTask, after: ScanTask) -> tuple[PositionBitmap, PositionBitmap]:
    """Return the positions that the newer deletes hide and the older do not, and the other way round.

    Rows that an equality delete of both hides are neither: it is asked only about rows on which the others disagree.
    """
    old, new = (_hidden_by_some(context, task, other) for task, other in ((before, after), (after, before)))
    left = (new - old).below(before.data_file.record_count)
    came = (old - new).below(after.data_file.record_count)
    both = _equality(before, common_with=after)
    doubtful = left | came
    if both.deletes and doubtful:
        hidden = deleted_positions(context, both, doubtful)
        left, came = left - hidden, came - hidden
    return left, came


def _hidden_by_some(context: ReadContext, task: ScanTask, other: ScanTask) -> PositionBitmap:
    """Return the positions that a task's deletes hide, apart from the equality deletes that `other` has too."""
    hidden = context.loader.positions(task)
    own = _equality(task, not_in=other)
    return hidden | deleted_positions(context, own) if own.deletes else hidden


def _equality(task: ScanTask, *, common_with: ScanTask | None = None, not_in: ScanTask | None = None) -> ScanTask:
    """Return a task with those of its equality deletes alone that another task has, or has not."""
    other = {d.identity for d in (common_with or not_in or task).delete_files}
    wanted = common_with is not None
    deletes = (d for d in task.deletes if d.data_file.content == FileContent.EQUALITY_DELETES)
    return replace(task, deletes=tuple(d for d in deletes if (d.data_file.identity in other) is wanted))
