"""Part `delete`: DELETE by a filter as deletion vectors, and delete_keys beside writing its file."""

# ruff: noqa: PLC0415  # each engine is imported in its own process alone

from __future__ import annotations

import statistics
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import deletekit as dk
from tests.benchmarks.measure import Cell, Stopped, Worker
from tests.benchmarks.readers import Facts, Job, spark_session
from tests.benchmarks.report import ms, notes_of, table_of
from tests.benchmarks.settings import Settings
from tests.benchmarks.tables import Tables

__all__ = ["open_delete", "open_keys", "problem_of", "run"]

FILTERS = {"1 %": ("grp = 7", range(7, 8)), "10 %": ("grp < 10", range(10))}
TIMES_FASTER = 3.0
KEYS = 1_000_000
KEYS_TO_FILE = 2.0
"""What "bounded by writing the file" is taken to mean."""
WARM_UPS = {"deletekit": 1, "Spark": 3}


def run(settings: Settings) -> str:
    """Both tables of the part."""
    return "\n\n".join([by_filter(settings), by_keys(settings)])


def by_filter(settings: Settings) -> str:
    """DELETE of 1 % and 10 %, every run on a fresh table; who deletes what is checked by count and sum."""
    tables = settings.tables()
    engines = ["deletekit", *(["Spark"] if "Spark" in settings.peers else [])]
    cells = {share: {e: Cell() for e in engines} for share in FILTERS}
    with ExitStack() as stack:
        workers = {e: Worker("tests.benchmarks.delete:open_delete", e, str(tables.warehouse)) for e in engines}
        for worker in workers.values():
            stack.callback(worker.stop)
        for share, (where, groups) in FILTERS.items():
            for number in range(max(WARM_UPS.values()) + settings.runs):
                for engine, cell in cells[share].items():
                    if cell.verdict is None and number >= max(WARM_UPS.values()) - WARM_UPS[engine]:
                        warm = number >= max(WARM_UPS.values())
                        _delete_once(cell, workers[engine], tables, where, groups, settings, timed=warm)
            settings.say(f"delete {share}: { ({e: c.verdict or ms(c.median) for e, c in cells[share].items()}) }")
    rows = []
    for share, (where, _) in FILTERS.items():
        ours = cells[share]["deletekit"].median
        theirs = cells[share]["Spark"].median if "Spark" in engines else None
        faster = theirs / ours if ours and theirs else None
        judged = ["", ""] if faster is None else [f"**{faster:.2f}**", "met" if faster >= TIMES_FASTER else "MISSED"]
        shown = [ms(c.median) if c.median else c.verdict or "" for c in cells[share].values()]
        rows.append([f"{share}: `{where}`", *shown, *judged])
    header = ["DELETE as DVs", *engines, "times faster", f"target {TIMES_FASTER:.0f}"]
    return "\n\n".join(part for part in (table_of(header, rows), notes_of(cells)) if part)


def _delete_once(
    cell: Cell, worker: Worker, tables: Tables, where: str, groups: range, settings: Settings, *, timed: bool
) -> None:
    table = tables.fresh("deletes")
    dk.set_properties(table, {"write.delete.mode": "merge-on-read"})
    try:
        seconds, _ = worker.run({"name": "work.deletes", "where": where}, settings.seconds)
        problem = problem_of(table.refresh(), tables, groups)
        if problem:
            raise Stopped("wrong", problem)
    except Stopped as e:
        cell.verdict, cell.why = str(e), e.why
        return
    if timed:
        cell.seconds.append(seconds)


def problem_of(table: dk.Table, tables: Tables, groups: range) -> str | None:
    """What is wrong with a table after its DELETE: rows by numpy, and that all deletes are vectors."""
    expected = tables["none"].expected.rows - sum(tables.group_rows[g] for g in groups)
    found = dk.scan(table).count()
    if found != expected:
        return f"rows is {found}, not {expected}"
    if dk.scan(table, f"grp >= {groups.start} and grp < {groups.stop}").count():
        return "rows that should be gone are there"
    kinds = {d.kind for task in dk.scan(table).plan() for d in task.delete_files}
    return None if kinds == {"deletion-vector"} else f"deletes are {kinds}"


def open_delete(engine: str, warehouse: str) -> Callable[[Job], Facts]:
    """In the worker: the engine's DELETE, from opening the table to the commit."""
    if engine == "Spark":
        session = spark_session(warehouse)

        def by_spark(job: Job) -> Facts:
            session.sql(f"DELETE FROM local.{job['name']} WHERE {job['where']}")
            return {}

        return by_spark

    def ours(job: Job) -> Facts:
        table = dk.load_table(dk.local_catalog(warehouse), job["name"])
        return {"rows": dk.delete(table, job["where"], mode="deletion-vector").summary["added-position-deletes"]}

    return ours


def by_keys(settings: Settings) -> str:
    """delete_keys of a million keys, in turns with writing them as Parquet."""
    count = KEYS if not settings.small else KEYS // 100
    tables = settings.tables()
    times: dict[str, list[float]] = {"file": [], "keys": []}
    worker = Worker("tests.benchmarks.delete:open_keys", str(tables.warehouse), count)
    try:
        for number in range(settings.runs + 1):
            for what, seconds in times.items():
                tables.fresh("keyed", 2)
                took = worker.run(what)[0]
                if number:
                    seconds.append(took)
    finally:
        worker.stop()
    file, keys = (statistics.median(seconds) for seconds in times.values())
    verdict = "met" if keys <= KEYS_TO_FILE * file else "MISSED"
    row = [f"{count:,} random bigint keys", ms(file), ms(keys), f"**{keys / file:.2f}**", verdict]
    header = ["delete_keys", "pq.write_table, zstd", "delete_keys", "ratio", f"target {KEYS_TO_FILE}"]
    return table_of(header, [row])


def open_keys(warehouse: str, count: int) -> Callable[[str], Facts]:
    """In the worker: the keys, written as a Parquet file or deleted."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    keys = pa.table({"id": np.random.default_rng(1).permutation(count * 20)[:count]})

    def run_one(what: str) -> Facts:
        if what == "file":
            pq.write_table(keys, f"{warehouse}/keys.parquet", compression="zstd")
            return {}
        commit = dk.delete_keys(dk.load_table(dk.local_catalog(warehouse), "work.keyed"), keys)
        written: Any = commit.added_delete_files
        return {"rows": sum(f.record_count for f in written)}

    return run_one
