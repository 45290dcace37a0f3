"""Part `count`: how long `count()` takes, and which files it opens."""

# ruff: noqa: PLC0415  # each engine is imported in its own process alone

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from tests.benchmarks.measure import Cell, Worker, in_turns
from tests.benchmarks.readers import Facts, Job, duckdb_query, spark_session
from tests.benchmarks.report import ms, notes_of, table_of
from tests.benchmarks.scan import LABELS, job_of, warm_ups
from tests.benchmarks.settings import Settings

__all__ = ["open_counter", "run", "watch_files"]

TABLES = ("none", "dv_10", "pos_file_10", "pos_part_10", "eq_id_10")
FROM_METADATA = ("none", "dv_10")
TARGET_SECONDS = 0.05
"""What "milliseconds" is taken to mean."""


def run(settings: Settings) -> str:
    """Time of count() by engine, and the files deletekit opens for it."""
    tables = settings.tables()
    engines = ["deletekit", *(name for name in COUNTERS if name in settings.peers)]
    cells: dict[str, dict[str, Cell]] = {}
    rows = []
    for name in filter(settings.wants_table, TABLES):
        job, expected = job_of(tables[name], settings), tables[name].expected.rows
        workers: dict[str, Callable[[], Worker]] = {
            e: partial(Worker, "tests.benchmarks.count:open_counter", e, job, seconds=settings.seconds) for e in engines
        }
        check = partial(_check, expected)
        cells[name] = in_turns(workers, job, runs=settings.runs, check=check, warm_ups=warm_ups)
        facts = opened(job)
        files = f"{facts['metadata']} metadata, {facts['deletes']} delete, {facts['data']} data"
        seconds = cells[name]["deletekit"].median
        kept = seconds is not None and seconds <= TARGET_SECONDS and facts["data"] == 0
        target = ("met" if kept else "MISSED") if name in FROM_METADATA else ""
        rows.append([LABELS[name], *(_shown(cells[name][e]) for e in engines), files, f"{facts['bytes']:,}", target])
        settings.say(f"count {name}: {rows[-1][1:]}")
    header = ["deletes", *engines, "deletekit's files opened", "bytes read", f"no data file, {ms(TARGET_SECONDS)}"]
    return "\n\n".join(part for part in (table_of(header, rows), notes_of(cells)) if part)


def opened(job: Job) -> Facts:
    """The files that one count() opens, in a process of its own."""
    worker = Worker("tests.benchmarks.count:watched_count")
    try:
        return worker.run(job)[1]
    finally:
        worker.stop()


def watched_count() -> Callable[[Job], Facts]:
    """In the worker: count() with every open and read of a file noted."""
    import deletekit as dk

    def count(job: Job) -> Facts:
        paths, before = watch_files(), bytes_read()
        rows = dk.scan(dk.from_metadata(job["location"])).count()
        after = bytes_read()
        data = {path for path in paths if path in job["paths"]}
        metadata = {path for path in paths if "/metadata/" in path}
        deletes = len(paths - data - metadata)
        return {
            "rows": rows, "data": len(data), "metadata": len(metadata), "deletes": deletes, "bytes": after - before,
        }  # fmt: skip

    return count


def watch_files() -> set[str]:
    """From now on, the paths that deletekit's storage opens or reads in this process."""
    from deletekit.table.file_io import PyIcebergIO

    paths: set[str] = set()

    def noting(method: Callable[..., Any]) -> Callable[..., Any]:
        def noted(self: PyIcebergIO, path: str, *arguments: Any, **named: Any) -> Any:
            paths.add(path.removeprefix("file://"))
            return method(self, path, *arguments, **named)

        return noted

    for name in ("open", "read"):
        setattr(PyIcebergIO, name, noting(getattr(PyIcebergIO, name)))
    return paths


def bytes_read() -> int:
    """Bytes this process has read so far by any call but a memory map's; 0 where there is no /proc."""
    try:
        return int(Path("/proc/self/io").read_text(encoding="ascii").split()[1])
    except OSError:
        return 0


def _deletekit(job: Job) -> Callable[[Job], Facts]:
    import deletekit as dk

    del job
    return lambda job: {"rows": dk.scan(dk.from_metadata(job["location"])).count()}


def _polars(job: Job) -> Callable[[Job], Facts]:
    import polars as pl

    del job
    return lambda job: {"rows": pl.scan_iceberg(job["location"]).select(pl.len()).collect().item()}


def _duckdb(job: Job) -> Callable[[Job], Facts]:
    query = duckdb_query()
    del job
    return lambda job: {"rows": query(f"SELECT count(*) FROM iceberg_scan('{job['location']}')")[0][0].as_py()}


def _pyiceberg(job: Job) -> Callable[[Job], Facts]:
    from pyiceberg.table import StaticTable

    del job
    return lambda job: {"rows": StaticTable.from_metadata(job["location"]).scan().count()}


def _spark(job: Job) -> Callable[[Job], Facts]:
    session = spark_session(job["warehouse"])
    return lambda job: {"rows": session.sql(f"SELECT count(*) FROM local.{job['name']}").collect()[0][0]}


COUNTERS = {
    "deletekit": _deletekit, "polars": _polars, "duckdb": _duckdb, "pyiceberg": _pyiceberg, "Spark": _spark,
}  # fmt: skip


def open_counter(name: str, job: Job) -> Callable[[Job], Facts]:
    """In the worker: the engine's count."""
    return COUNTERS[name](job)


def _check(expected: int, _: str, facts: Facts) -> str | None:
    return None if facts["rows"] == expected else f"rows is {facts['rows']}, not {expected}"


def _shown(cell: Cell) -> str:
    return ms(cell.median) if cell.median is not None else cell.verdict or ""
