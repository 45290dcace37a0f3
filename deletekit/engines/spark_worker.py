"""Run one group of tasks in a Python worker of Spark, and return their results as rows of bytes.

An error that a second attempt would repeat is a result. After an error of storage or of the machine Spark tries again.
A failed attempt deletes its files, unless the process was killed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa
from pyspark import Accumulator, TaskContext

from deletekit.deletes.write_context import WriteContext
from deletekit.engines.serialization import pack_result, told_in_text, unpack
from deletekit.engines.worker_path import forget_archives

RESULT_SCHEMA = "group long, place long, part long, data binary"
"""For each task its place in the group and its result in parts; at place -1 the attempt's name and written files."""

_ARROW_SCHEMA = pa.schema([("group", pa.int64()), ("place", pa.int64()), ("part", pa.int64()), ("data", pa.binary())])
_PART_BYTES = 8 << 20
# Errors that may not happen again. Of our own only StorageError is one of them, not NotFoundError.
_TRANSIENT = (OSError, MemoryError)


class Worker:
    """The function of `mapInArrow` over numbers of groups: yields the results of each group's tasks.

    Parameters
    ----------
    fn, groups: packed by the Sender of the job; a group is a list of tasks.
    written: collects the files of successful attempts, in case the job fails later.
    most_attempts: the last attempt returns every error as a result.
    """

    def __init__(self, job: str, fn: bytes, groups: list[bytes], written: Accumulator[Any], most_attempts: int) -> None:
        self._job = job
        self._fn = fn
        self._groups = groups
        self._written = written
        self._most_attempts = most_attempts

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        forget_archives()
        number = _task().attemptNumber()
        for batch in batches:
            for group in batch.column(0).to_pylist():
                attempt = _TaskAttempt(self._job, group, number, is_last=number + 1 >= self._most_attempts)
                yield from attempt.run(self._fn, self._groups[group], self._written)


class PartitionWorker:
    """The function of `mapInArrow` over rows: yields one result for each partition.

    Parameters
    ----------
    fn: packed; takes an iterator of the rows in Arrow batches.
    """

    def __init__(self, job: str, fn: bytes, written: Accumulator[Any], most_attempts: int) -> None:
        self._job = job
        self._fn = fn
        self._written = written
        self._most_attempts = most_attempts

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        forget_archives()
        # By the task's id: attempt numbers start at 0 again when a stage runs again after a lost shuffle.
        task = _task()
        is_last = task.attemptNumber() + 1 >= self._most_attempts
        attempt = _TaskAttempt(self._job, task.partitionId(), task.taskAttemptId(), is_last=is_last)
        yield from attempt.run(self._fn, [iter(batches)], self._written)


class RowsWorker:
    """The function of `mapInArrow` over numbers of groups: yields the rows of each group's tasks."""

    def __init__(self, fn: bytes, groups: list[bytes]) -> None:
        self._fn = fn
        self._groups = groups

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        forget_archives()
        with told_in_text():
            fn = unpack(self._fn, "", {})
            for batch in batches:
                for group in batch.column(0).to_pylist():
                    for task in unpack(self._groups[group], "", {}):
                        yield from fn(task)


class _TaskAttempt:
    """One attempt at a group of tasks. Its name is in the name of every file it writes."""

    def __init__(self, job: str, group: int, number: int, *, is_last: bool) -> None:
        self._job = job
        self._group = group
        self._name = f"{job}-{group}-{number}"
        self._is_last = is_last

    def run(self, fn: bytes, tasks: bytes | list[Any], heard: Accumulator[Any]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of RESULT_SCHEMA."""
        contexts: dict[int, WriteContext] = {}
        try:
            function = unpack(fn, self._name, contexts)
            todo = unpack(tasks, self._name, contexts) if isinstance(tasks, bytes) else tasks
            for place, task in enumerate(todo):
                result = self._result(function, task)
                yield from self._rows(place, result)
                if result[1] is not None:
                    break
            written = [(i, path) for i, context in contexts.items() for path in context.written]
            yield from self._rows(-1, (self._name, written))
            heard.add({self._job: written})
        except BaseException:
            for context in contexts.values():
                context.discard()
            raise

    def _result(self, fn: Callable[[Any], Any], task: Any) -> tuple[Any, Exception | None]:
        try:
            return fn(task), None
        except _TRANSIENT as e:
            if not self._is_last:
                raise
            return None, e
        except Exception as e:  # noqa: BLE001  # whatever it is, the driver raises it
            return None, e

    def _rows(self, place: int, value: Any) -> Iterator[pa.RecordBatch]:
        data = pack_result(value)
        for part, at in enumerate(range(0, len(data), _PART_BYTES)):
            columns = [[self._group], [place], [part], [data[at : at + _PART_BYTES]]]
            arrays = [pa.array(c, f.type) for c, f in zip(columns, _ARROW_SCHEMA, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, schema=_ARROW_SCHEMA)


def _task() -> TaskContext:
    task = TaskContext.get()
    assert task is not None, "runs in a task"
    return task
