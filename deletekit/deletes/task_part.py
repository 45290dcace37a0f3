"""Parts of a scan task that can be read apart, so that one large file keeps several threads busy.

Law: pure. Parts in order are the whole file, row group by row group, whatever the manifest says of its row groups.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from deletekit.deletes.plan import ScanTask
from deletekit.formats.tabular import RowGroup

__all__ = ["TaskPart", "task_parts"]


@dataclass(frozen=True, slots=True)
class TaskPart:
    """The row groups of one task from the `index`th of `count` on; the last part has all that are left."""

    task: ScanTask
    index: int = 0
    count: int = 1

    def of(self, row_groups: Sequence[RowGroup]) -> Sequence[RowGroup]:
        """The row groups of this part."""
        if self.index == self.count - 1:
            return row_groups[self.index :]
        return row_groups[self.index : self.index + 1]


def task_parts(tasks: Iterable[ScanTask]) -> Iterator[TaskPart]:
    """One part for each row group that the manifest knows of (`split_offsets`), or the whole file."""
    for task in tasks:
        count = max(len(task.data_file.split_offsets or ()), 1)
        yield from (TaskPart(task, i, count) for i in range(count))
