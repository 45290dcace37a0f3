"""What Spark does with a stream reader, without a JVM: offsets and commits are logged, and a query can die anywhere.

The order of calls is that of Spark 4.1, as a reader that wrote down its calls showed.
"""

import json
import pickle
from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa

from deletekit.spark.data_source.source import DefaultSource

Row = dict[str, Any]


class DiedError(Exception):
    """A process that is no more."""


def sent(value: Any) -> Any:
    """Return what another process gets."""
    return pickle.loads(pickle.dumps(value))  # noqa: S301  # as Spark sends it


def loaded(path: str, options: dict[str, str]) -> tuple[DefaultSource, Any]:
    """Return the source and its columns, as `load()` does."""
    source = DefaultSource({**options, "path": path})
    schema = source.schema()
    return sent(source), schema


def rows_of(reader: Any, partitions: Iterable[Any]) -> list[Row]:
    """Read partitions in tasks, to each of which the reader and the partition are sent."""
    batches = [batch for p in partitions for batch in sent(reader).read(sent(p))]
    return pa.Table.from_batches(batches).to_pylist() if batches else []


def read(path: str, **options: str) -> list[Row]:
    """Return the rows of a batch read."""
    source, schema = loaded(path, {k.replace("_", "-"): v for k, v in options.items()})
    reader = source.reader(schema)
    return rows_of(reader, reader.partitions())


class Query:
    """A query with a checkpoint and a sink that replaces a batch by its number."""

    def __init__(self, path: str, **options: str) -> None:
        self.path, self.options = path, {k.replace("_", "-"): v for k, v in options.items()}
        self.offsets: list[str] = []
        self.committed = 0
        self.sink: dict[int, list[Row]] = {}

    @property
    def rows(self) -> list[Row]:
        return [row for number in sorted(self.sink) for row in self.sink[number]]

    def run(self, alive: Callable[[], None] = lambda: None, most: int = 1000) -> None:
        """Start the query, and run until nothing is new. `alive` is called between any two steps."""
        source, schema = loaded(self.path, self.options)
        alive()
        reader = sent(source).streamReader(schema)
        in_tasks = sent(source).streamReader(schema)
        alive()
        if self.offsets:
            last = json.loads(self.offsets[-1])
            assert list(reader.partitions(last, last)) == []
        if self.committed < len(self.offsets):
            self._batch(reader, in_tasks, alive)
        for _ in range(most):
            end = json.dumps(reader.latestOffset())
            alive()
            if self.offsets and end == self.offsets[-1]:
                break
            self.offsets.append(end)
            alive()
            self._batch(reader, in_tasks, alive)
        reader.stop()

    def _batch(self, reader: Any, in_tasks: Any, alive: Callable[[], None]) -> None:
        number = len(self.offsets) - 1
        start = json.loads(self.offsets[number - 1]) if number else json.loads(json.dumps(reader.initialOffset()))
        alive()
        partitions = reader.partitions(start, json.loads(self.offsets[number]))
        alive()
        rows = rows_of(in_tasks, partitions)
        alive()
        assert self.sink.setdefault(number, rows) == rows, "a batch that runs again is the same batch"
        alive()
        self.committed = number + 1
        reader.commit(json.loads(self.offsets[number]))
        alive()
