"""Part `lazy`: a query of polars with a filter and columns, by `scan_polars` and over a table that was loaded whole."""

# ruff: noqa: PLC0415  # each way is imported in its own process alone

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from tests.benchmarks.measure import Cell, Worker, in_turns
from tests.benchmarks.readers import Facts, Job
from tests.benchmarks.report import megabytes, ms, notes_of, table_of
from tests.benchmarks.scan import LABELS, job_of
from tests.benchmarks.settings import Settings

__all__ = ["open_way", "run"]

TABLES = ("none", "dv_10", "pos_part_10", "eq_id_10")
WAYS = ("scan_polars", "to_arrow", "polars")
QUERIES = {"1 % of the ids": 100, "half of the ids": 2}


def run(settings: Settings) -> str:
    """Measure each table and query: time and peak memory of each way, and the ratio of `to_arrow` to `scan_polars`."""
    tables, rows = settings.tables(), []
    ways = [way for way in WAYS if way != "polars" or way in settings.peers]
    cells: dict[str, dict[str, Cell]] = {}
    for name in filter(settings.wants_table, TABLES):
        for query, part in QUERIES.items():
            job = job_of(tables[name], settings) | {"below": settings.rows // part}
            workers: dict[str, Callable[[], Worker]] = {
                way: partial(Worker, "tests.benchmarks.lazy:open_way", way, seconds=settings.seconds) for way in ways
            }
            found = in_turns(workers, job, runs=settings.runs, check=_Same())
            cells[f"{name}, {query}"] = found
            lazy, whole = found["scan_polars"].median, found["to_arrow"].median
            ratio = f"{whole / lazy:.1f}" if lazy and whole else ""
            rows.append([LABELS[name], query, *(_shown(found[way]) for way in ways), ratio])
            settings.say(f"lazy {rows[-1]}")
    header = ["deletes", "filter", *ways, "to_arrow / scan_polars"]
    return "\n\n".join(part for part in (table_of(header, rows), notes_of(cells)) if part)


def open_way(name: str) -> Callable[[Job], Facts]:
    """In the worker: the sum of `value` below an id, from a table of four columns."""
    import polars as pl

    import deletekit as dk

    def frame(job: Job) -> pl.LazyFrame:
        if name == "polars":
            return pl.scan_iceberg(job["location"])
        table = dk.from_metadata(job["location"])
        if name == "scan_polars":
            return dk.scan_polars(table)
        whole = pl.from_arrow(dk.scan(table).to_arrow())
        assert isinstance(whole, pl.DataFrame)
        return whole.lazy()

    def query(job: Job) -> Facts:
        chosen = frame(job).filter(pl.col("id") < job["below"]).select("id", "value").collect()
        return {"rows": len(chosen), "sum": round(float(chosen["value"].sum()), 3)}

    return query


class _Same:
    """Tell what differs from the facts of the way that ran first."""

    def __init__(self) -> None:
        self._right: Facts | None = None

    def __call__(self, _: str, facts: dict[str, Any]) -> str | None:
        self._right = self._right or facts
        return (
            None
            if abs(facts["sum"] - self._right["sum"]) < 1e-6 * abs(self._right["sum"])
            and facts["rows"] == (self._right["rows"])
            else f"{facts}, not {self._right}"
        )


def _shown(cell: Cell) -> str:
    if cell.median is None:
        return cell.verdict or ""
    return f"{ms(cell.median)} · {megabytes(cell.peak_bytes)}"
