"""Hold scan tasks: one data file and the deletes that apply to it, and parts of such tasks."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from deletekit.formats.content_file import DataFile, DeleteFile, ManifestEntry
from deletekit.formats.tabular import RowGroup


@dataclass(frozen=True, slots=True)
class ScanTask:
    """One data file and every delete that applies to it: a value that can be pickled and run anywhere."""

    data: ManifestEntry
    deletes: tuple[ManifestEntry, ...] = ()

    @property
    def data_file(self) -> DataFile:
        file = self.data.data_file
        assert isinstance(file, DataFile)
        return file

    @property
    def delete_files(self) -> tuple[DeleteFile, ...]:
        return tuple([file for d in self.deletes if isinstance(file := d.data_file, DeleteFile)])  # a list is faster


@dataclass(frozen=True, slots=True)
class TaskPart:
    """Row groups of one scan task, so that several threads can read one large file.

    The parts in order are the whole file, whatever the manifest says of its row groups: part `index` of `count` has one
    row group, and the last part has all that are left.
    """

    task: ScanTask
    index: int = 0
    count: int = 1

    def of(self, row_groups: Sequence[RowGroup]) -> Sequence[RowGroup]:
        """Return the row groups of this part."""
        is_last = self.index == self.count - 1
        return row_groups[self.index :] if is_last else row_groups[self.index : self.index + 1]


def task_parts(tasks: Iterable[ScanTask]) -> Iterator[TaskPart]:
    """Yield one part for each row group that the manifest lists (`split_offsets`), or the whole file."""
    for task in tasks:
        count = max(len(task.data_file.split_offsets or ()), 1)
        yield from (TaskPart(task, i, count) for i in range(count))
