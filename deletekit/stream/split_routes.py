"""Split a Spark DataFrame of changes by table: each part is a filter of it, and its rows stay on the executors.

The DataFrame is kept by Spark while a batch is written, so that its source is read once. Tasks tell which tables it
names, how many rows each has, and which columns have a value there.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import polars as pl
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StringType

from deletekit.errors import InvalidInputError
from deletekit.spark.columns import column_of, with_arrow_column
from deletekit.spark.data_frames import SparkRows
from deletekit.spark.engine import SparkEngine
from deletekit.stream.routes import Router, no_route, others
from deletekit.stream.split_rows import SplitRows

_ROUTE, _ROWS = "__deletekit_route", "__deletekit_rows"
_MOST_TABLES = 10_000
"""A batch that names more tables has the wrong column as its route."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """What is known of the rows of a table: names of the table, how many rows, and the columns with a value."""

    names: frozenset[str] = frozenset()
    rows: int = 0
    columns: frozenset[str] = frozenset()

    def __add__(self, other: _Seen) -> _Seen:
        names, columns = self.names | other.names, self.columns | other.columns
        return _Seen(names=names, rows=self.rows + other.rows, columns=columns)


@dataclass(frozen=True, slots=True)
class FramePart:
    """The rows of one table."""

    frame: DataFrame
    route: str
    seen: _Seen

    def without_others(self, known: Container[str], aside: Container[str | None]) -> DataFrame:
        """Return the rows without the columns of other tables and the route, as `routes.without_others` does."""
        valueless = {n for n in self.frame.columns if n not in self.seen.columns}
        gone = {*others([*valueless, self.route], known, aside), _ROUTE}
        mine = self.frame.filter(column_of(self.frame, self.route).isin(*self.seen.names))
        return mine.select(*(column_of(mine, name) for name in mine.columns if name not in gone))

    def check(self, rows: object) -> None:
        """Raise InvalidInputError if the DataFrame gave other rows when it was read again."""
        if isinstance(rows, SplitRows) and rows.given != self.seen.rows:
            message, expected = "a DataFrame has other rows each time it is read", f"{self.seen.rows} rows"
            raise InvalidInputError(message, kind="fan-out-rows", field="changes", found=rows.given, expected=expected)


@contextmanager
def frame_parts(router: Router, frame: DataFrame, engine: SparkEngine) -> Iterator[Mapping[str, FramePart]]:
    """Give the rows of each table, by `namespace.table`. Raises InvalidInputError as `Router.parts`."""
    SparkRows(frame, engine).empty("changes")  # refuses two columns of one name
    names, route = frame.columns, router.column
    if route is None:
        route = _ROUTE
        frame = with_arrow_column(frame, _ROUTE, StringType(), lambda *columns: _routed(router, names, columns), names)
    elif route not in names:
        raise no_route("changes lack the column of their table", None, route)

    def look(batches: Iterator[pa.RecordBatch]) -> dict[str, _Seen]:
        return _sum(_seen(router, batch, route) for batch in batches)

    frame = frame.persist()
    try:
        found = _sum(engine.map_partitions(frame, look))
        yield {name: FramePart(frame, route, seen) for name, seen in found.items()}
    finally:
        frame.unpersist()


def _routed(router: Router, names: list[str], columns: tuple[pa.Array, ...]) -> pa.Array:
    given = router.names(pa.table(dict(zip(names, columns, strict=True))))
    for name in set(given):
        router.identifier(name)
    return pa.array(given, pa.string())


def _seen(router: Router, batch: pa.RecordBatch, route: str) -> dict[str, _Seen]:
    """Return what is known of the tables that some rows name."""
    columns: dict[str, Any] = {str(i): column.is_valid() for i, column in enumerate(batch.columns)}
    frame = pl.DataFrame({**columns, "route": batch.column(route)})
    found: dict[str, _Seen] = {}
    for row in frame.group_by("route").agg(pl.all().any(), pl.len().alias(_ROWS)).iter_rows(named=True):
        name = router.identifier(row["route"])
        valid = frozenset(n for i, n in enumerate(batch.schema.names) if row[str(i)])
        found[name] = found.get(name, _Seen()) + _Seen(names=frozenset([row["route"]]), rows=row[_ROWS], columns=valid)
    return found


def _sum(some: Any) -> dict[str, _Seen]:
    total: dict[str, _Seen] = {}
    for found in some:
        for name, seen in found.items():
            total[name] = total.get(name, _Seen()) + seen
        if len(total) > _MOST_TABLES:
            raise no_route(
                "a batch names too many tables", f"more than {_MOST_TABLES}", "a column with names of tables"
            )
    return total
