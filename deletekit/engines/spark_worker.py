"""What runs in a Python worker of Spark: one group of tasks, and its results as rows of bytes.

Law: an error that a second attempt would repeat is a result; one of storage or of the machine is Spark's to try again.
Whatever ends an attempt, the files it wrote are removed, but by a kill, which nobody survives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa
from pyspark import Accumulator, TaskContext

from deletekit.deletes.write_context import WriteContext
from deletekit.engines.parcel import pack_result, unpack

__all__ = ["RESULT_SCHEMA", "Worker"]

RESULT_SCHEMA = "group long, place long, part long, data binary"
"""Of each task its place in the group and its result in parts; at place -1, the attempt's name and written files."""

_ARROW_SCHEMA = pa.schema([("group", pa.int64()), ("place", pa.int64()), ("part", pa.int64()), ("data", pa.binary())])
_PART_BYTES = 8 << 20
# What may go well the next time; ours are not among them, though a NotFoundError tells of storage too.
_TRANSIENT = (OSError, MemoryError)


class Worker:
    """The function of `mapInArrow`: takes the number of a group, gives its results.

    Parameters
    ----------
    fn, groups: packed by the Sender of the job; a group is a list of tasks.
    written: hears of the files of an attempt that succeeded, should the job fail all the same.
    most_attempts: the last attempt gives back whatever happened.
    """

    def __init__(self, job: str, fn: bytes, groups: list[bytes], written: Accumulator[Any], most_attempts: int) -> None:
        self._job = job
        self._fn = fn
        self._groups = groups
        self._written = written
        self._most_attempts = most_attempts

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for group in batch.column(0).to_pylist():
                yield from self._attempt(group)

    def _attempt(self, group: int) -> Iterator[pa.RecordBatch]:
        task = TaskContext.get()
        assert task is not None
        number = task.attemptNumber()
        name = f"{self._job}-{group}-{number}"
        contexts: dict[int, WriteContext] = {}
        try:
            fn = unpack(self._fn, name, contexts)
            tasks = unpack(self._groups[group], name, contexts)
            for place, value in enumerate(tasks):
                result = _result(fn, value, is_last=number + 1 >= self._most_attempts)
                yield from _rows(group, place, pack_result(result))
                if result[1] is not None:
                    break
            written = [(i, path) for i, context in contexts.items() for path in context.written]
            yield from _rows(group, -1, pack_result((name, written)))
            self._written.add({self._job: written})
        except BaseException:
            for context in contexts.values():
                context.discard()
            raise


def _result(fn: Callable[[Any], Any], task: Any, *, is_last: bool) -> tuple[Any, Exception | None]:
    try:
        return fn(task), None
    except _TRANSIENT as e:
        if not is_last:
            raise
        return None, e
    except Exception as e:  # noqa: BLE001  # whatever it is, the driver raises it
        return None, e


def _rows(group: int, place: int, data: bytes) -> Iterator[pa.RecordBatch]:
    for part, at in enumerate(range(0, len(data), _PART_BYTES)):
        columns = [[group], [place], [part], [data[at : at + _PART_BYTES]]]
        arrays = [pa.array(c, f.type) for c, f in zip(columns, _ARROW_SCHEMA, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=_ARROW_SCHEMA)
