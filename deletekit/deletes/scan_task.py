"""Hold scan tasks: one data file and the deletes that apply to it, and parts of such tasks."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from deletekit.formats.content_file import DataFile, DeleteFile, ManifestEntry
from deletekit.formats.tabular import JOINED_BYTES, JOINED_ROWS, RowGroup


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

    The parts in order are the whole file, whatever the manifest says of its row groups: part `index` of `count` has
    `groups` of them, and the last part has all that are left.
    """

    task: ScanTask
    index: int = 0
    count: int = 1
    groups: int = 1

    def of(self, row_groups: Sequence[RowGroup]) -> Sequence[RowGroup]:
        """Return the row groups of this part."""
        return row_groups[self._first : self._stop]

    @property
    def size(self) -> int:
        """The bytes of the row groups, as the manifest has it."""
        file = self.task.data_file
        edges = [*(file.split_offsets or (0,)), file.file_size_in_bytes]
        return edges[-1 if self._stop is None else self._stop] - edges[self._first]

    @property
    def _first(self) -> int:
        return self.index * self.groups

    @property
    def _stop(self) -> int | None:
        return None if self.index == self.count - 1 else self._first + self.groups


def task_parts(tasks: Iterable[ScanTask], *, join: bool = True) -> Iterator[TaskPart]:
    """Yield a part for each row group that the manifest lists (`split_offsets`), or with `join` for some small ones.

    To begin with a part takes as long as to read thousands of rows.
    """
    for task in tasks:
        file = task.data_file
        listed = max(len(file.split_offsets or ()), 1)
        most = min(JOINED_ROWS / max(file.record_count, 1), JOINED_BYTES / max(file.file_size_in_bytes, 1))
        groups = max(int(most * listed), 1) if join else 1
        count = -(-listed // groups)
        yield from (TaskPart(task, i, count, groups) for i in range(count))
