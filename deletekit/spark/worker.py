"""Run tasks in a Python worker of Spark: the functions of `mapInArrow`, which return rows of bytes or of a table.

An error that a second attempt would repeat is a result. After an error of storage or of the machine Spark tries again.
A failed attempt deletes its files, unless the process was killed.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark import Accumulator, TaskContext

from deletekit.engines.packing import pack_result, sendable, unpack
from deletekit.rows.write_context import WriteContext
from deletekit.spark.errors_in_text import told_in_text
from deletekit.spark.python_process import spare_chores

RESULT_SCHEMA = "group long, place long, part long, data binary"
"""For each task its place in the group and its result in parts; at place -1 the attempt's name and written files."""

_ARROW_SCHEMA = pa.schema([("group", pa.int64()), ("place", pa.int64()), ("part", pa.int64()), ("data", pa.binary())])
_PART_BYTES = 8 << 20
# Errors that may not happen again. Of our own only StorageError is one of them, not NotFoundError.
_TRANSIENT = (OSError, MemoryError)

Batches = Iterable[pa.RecordBatch]


@dataclass(frozen=True, kw_only=True)
class Worker:
    """Yields the results of tasks, in rows of RESULT_SCHEMA.

    Attributes
    ----------
    job: is in the name of every file that is written.
    fn: packed; it is called with each task.
    groups: packed lists of tasks, whose numbers are the rows that come; None: the rows of a partition are one task.
    written: collects the files of successful attempts, in case the job fails later.
    most_attempts: the last attempt returns every error as a result.
    """

    job: str
    fn: bytes
    groups: list[bytes] | None
    written: Accumulator[Any]
    most_attempts: int

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        spare_chores()
        task = TaskContext.get()
        assert task is not None, "runs in a task"
        number = task.attemptNumber()
        if self.groups is None:
            # By the task's id: attempt numbers start at 0 again when a stage runs again after a lost shuffle.
            yield from self._attempt(task.partitionId(), task.taskAttemptId(), iter(batches), number)
            return
        for group in _numbers(batches):
            yield from self._attempt(group, number, self.groups[group], number)

    def _attempt(self, group: int, name: int, tasks: bytes | Iterator[Any], number: int) -> Iterator[pa.RecordBatch]:
        """Run one attempt at a group of tasks. Its name is in the name of every file it writes."""
        attempt, contexts = f"{self.job}-{group}-{name}", dict[int, WriteContext]()
        try:
            fn = unpack(self.fn, attempt, contexts)
            todo = unpack(tasks, attempt, contexts) if isinstance(tasks, bytes) else [tasks]
            for place, task in enumerate(todo):
                result, error = None, None
                try:
                    result = fn(task)
                except Exception as e:
                    if isinstance(e, _TRANSIENT) and number + 1 < self.most_attempts:
                        raise
                    error = sendable(e)
                yield from _rows(group, place, (result, error))
                if error is not None:
                    break
            written = [(i, path) for i, context in contexts.items() for path in context.written]
            yield from _rows(group, -1, (attempt, written))
            self.written.add({self.job: written})
        except BaseException:
            for context in contexts.values():
                context.discard()
            raise


@dataclass(frozen=True, kw_only=True)
class RowsWorker:
    """Yields the rows that `fn` makes of each task; `fn` and `groups` are as in Worker."""

    fn: bytes
    groups: list[bytes]

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        spare_chores()
        with told_in_text():
            fn = unpack(self.fn, "", {})
            for group in _numbers(batches):
                for task in unpack(self.groups[group], "", {}):
                    yield from fn(task)


def _numbers(batches: Batches) -> Iterator[int]:
    for batch in batches:
        yield from batch.column(0).to_pylist()


def _rows(group: int, place: int, value: Any) -> Iterator[pa.RecordBatch]:
    data = pack_result(value)
    for part, at in enumerate(range(0, len(data), _PART_BYTES)):
        row = {"group": group, "place": place, "part": part, "data": data[at : at + _PART_BYTES]}
        yield pa.RecordBatch.from_pylist([row], _ARROW_SCHEMA)
