"""Hold that a driver gets no row: its collects are those of task results, and small."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import pyarrow as pa
from pyspark.sql import DataFrame

try:
    from pyspark.sql.classic.dataframe import DataFrame as Classic
except ImportError:  # Spark 3.5 has one class
    Classic = DataFrame  # type: ignore[misc]

RESULTS = ["group", "place", "part", "data"]


@contextmanager
def nothing_is_collected() -> Iterator[list[int]]:
    """Refuse to collect anything but the results of tasks, whose sizes the list gets, and no rows at all."""
    collect, sizes = Classic.toArrow, list[int]()

    def to_arrow(frame: DataFrame) -> pa.Table:
        found = collect(frame)
        assert frame.columns == RESULTS or not len(found), frame.columns
        sizes.append(found.nbytes)
        return found

    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("rows are collected on the driver")

    refused = dict.fromkeys(("collect", "toPandas", "toLocalIterator", "take", "head", "first"), refuse)
    with mock.patch.multiple(Classic, toArrow=to_arrow, **refused):
        yield sizes
