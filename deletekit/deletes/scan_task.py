"""Hold scan tasks: one data file and the deletes that apply to it, and sequences and parts of such tasks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from deletekit.deletes.delete_file_index import DeleteFileIndex
from deletekit.formats.content_file import DataFile, DeleteFile, ManifestEntry
from deletekit.formats.manifest_columns import ManifestColumns
from deletekit.formats.tabular import RowGroup

_AT_ONCE = 1024


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
        return tuple(d.data_file for d in self.deletes if isinstance(d.data_file, DeleteFile))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PlannedFiles:
    """Data files of one manifest to read.

    Attributes
    ----------
    rows: their rows in `columns`.
    vectors: the number of each one's deletion vector in the index, -1 for none.
    deletes: all deletes of each file that has others than a deletion vector, by its place in `rows`.
    """

    columns: ManifestColumns
    rows: npt.NDArray[np.int64]
    vectors: npt.NDArray[np.int64]
    deletes: Mapping[int, tuple[ManifestEntry, ...]] = field(default_factory=dict)

    def tasks(self, index: DeleteFileIndex, start: int, stop: int) -> Iterator[ScanTask]:
        """Yield the tasks of some places in `rows`."""
        vectors = self.vectors[start:stop]
        found = iter(index.vectors(vectors[vectors >= 0]))
        entries = self.columns.entries(self.rows[start:stop])
        for place, (entry, vector) in enumerate(zip(entries, vectors.tolist(), strict=True), start):
            deletes = (next(found),) if vector >= 0 else ()
            yield ScanTask(entry, self.deletes.get(place, deletes))


class ScanTasks(Sequence[ScanTask]):
    """The tasks of a scan, in manifest order, equal to any sequence of equal tasks.

    Each task is made when it is read, so that a million of them take little memory.
    """

    def __init__(self, index: DeleteFileIndex | None = None, planned: Sequence[PlannedFiles] = ()) -> None:
        self._index = index
        self._planned = [p for p in planned if len(p.rows)]
        self._ends = np.cumsum([len(p.rows) for p in self._planned], dtype=np.int64)

    def __len__(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else 0

    def __iter__(self) -> Iterator[ScanTask]:
        assert self._index is not None or not self._planned
        for planned in self._planned:
            for start in range(0, len(planned.rows), _AT_ONCE):
                yield from planned.tasks(self._index, start, min(start + _AT_ONCE, len(planned.rows)))  # type: ignore[arg-type]

    @overload
    def __getitem__(self, index: int) -> ScanTask: ...

    @overload
    def __getitem__(self, index: slice) -> list[ScanTask]: ...

    def __getitem__(self, index: int | slice) -> ScanTask | list[ScanTask]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        place = range(len(self))[index]
        number = int(np.searchsorted(self._ends, place, side="right"))
        planned = self._planned[number]
        place -= int(self._ends[number]) - len(planned.rows)
        assert self._index is not None
        return next(planned.tasks(self._index, place, place + 1))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]  # a sequence that compares by value is not hashable

    def __repr__(self) -> str:
        return f"<{len(self)} scan tasks>"

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (list(self),)


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
