"""Part `maintain`: actions that write, beside pyarrow reading and writing the same bytes, and Spark's procedures.

Each run has a fresh table on links to the same data files. What an action read and wrote is then read and written by
pyarrow alone, file by file on as many threads: nothing that reads and writes these files can be much faster.
"""

# ruff: noqa: PLC0415  # each engine is imported in its own process alone

import resource
import statistics
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import deletekit as dk
from tests.benchmarks.measure import Cell, Stopped, Worker
from tests.benchmarks.readers import Facts, Job, spark_session
from tests.benchmarks.report import megabytes, ms, table_of, verdict
from tests.benchmarks.settings import Settings
from tests.benchmarks.tables import ROWS_PER_KEY, Tables, local_path

OURS, SPARK = "deletekit", "Spark"
TO_LIMIT, TIMES_FASTER = 1.2, 3.0
SECONDS = 600
GONE, ERASED = "grp < 10", "grp = 7"
ACTIONS = (
    "append",
    "delete",
    "compact",
    "convert_equality_deletes",
    "rewrite_position_deletes",
    "erase",
    "expire_snapshots",
    "upsert",
    "merge",
)
_MERGE = (
    "MERGE INTO {table} t USING given s ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
)
_EXPIRE = (
    "CALL local.system.expire_snapshots(table => '{table}', older_than => TIMESTAMP '2100-01-01', retain_last => 1)"
)
_CALL = "CALL local.system.{}(table => '{{table}}', options => map({}))"
PROCEDURES = {
    "append": ("INSERT INTO {table} SELECT * FROM given",),
    "delete": (f"DELETE FROM {{table}} WHERE {GONE}",),
    "compact": (_CALL.format("rewrite_data_files", "'delete-file-threshold', '1', 'min-input-files', '1'"),),
    "rewrite_position_deletes": (_CALL.format("rewrite_position_delete_files", "'rewrite-all', 'true'"),),
    "erase": (f"DELETE FROM {{table}} WHERE {ERASED}", _EXPIRE),
    "expire_snapshots": (_EXPIRE,),
    "upsert": _MERGE,
    "merge": _MERGE,
}
"""What Spark does for the same. It converts no equality deletes."""


def run(settings: Settings) -> str:
    """A line for each action."""
    tables = settings.tables()
    workers = {OURS: Worker("tests.benchmarks.maintain:open_actions", str(tables.warehouse), seconds=SECONDS)}
    try:
        if SPARK in settings.peers:
            workers[SPARK] = Worker("tests.benchmarks.maintain:open_procedures", str(tables.warehouse), seconds=SECONDS)
        lines = [_line(action, workers, tables, settings) for action in ACTIONS]
    finally:
        for worker in workers.values():
            worker.stop()
    header = ["action", "deletekit", "peak", "limit", "ratio", f"target {TO_LIMIT}", "of processor time"]
    header += ["Spark", "times faster", f"target {TIMES_FASTER:.0f}"]
    about = (
        f"{settings.rows:,} rows in 8 files; median of {settings.runs} runs after a warm-up. The limit: pyarrow reads "
        "the columns that the action needs of the same files, and writes the same files. `expire_snapshots` removes "
        "the files of a compaction, so it has none. Spark: its procedure or statement, warm, its source in memory; for "
        "`erase` a DELETE by copy-on-write and `expire_snapshots`, for `upsert` MERGE. It converts no equality deletes."
    )
    return f"{about}\n\n{table_of(header, lines)}"


def _line(action: str, workers: dict[str, Worker], tables: Tables, settings: Settings) -> list[str]:
    job = {"action": action, "rows": settings.rows, "paths": tables["none"].paths}
    runs: list[Facts] = []
    beside = Cell(verdict=None if SPARK in workers else "")
    if SPARK in workers and action not in PROCEDURES:
        beside.verdict = "has none"
    peak = None
    for number in range(settings.runs + 1):
        table = prepare(action, tables, "maintained")
        _, facts, held = workers[OURS].run_with_memory(job)
        runs += [facts] if number else []
        peak = peak if number else held
        if beside.verdict is None:
            _beside(beside, workers[SPARK], job, tables, dk.scan(table.refresh()).count(), warm=number > 0)
    took = statistics.median(r["seconds"] for r in runs)
    has_limit = action != "expire_snapshots"
    ratios = [_ratio(runs, name) if has_limit else None for name in ("seconds", "cpu")]
    to_limit = ["" if r is None else f"**{r:.2f}**" for r in ratios]
    met = "" if ratios[0] is None else verdict(ratios[0], TO_LIMIT)
    limit = ms(statistics.median(r["limit_seconds"] for r in runs)) if has_limit else ""
    times = beside.median / took if beside.median else None
    faster = [f"**{times:.1f}**", "met" if times >= TIMES_FASTER else "MISSED"] if times else ["", ""]
    shown = [ms(beside.median) or beside.verdict or "", *faster]
    line = [f"`{action}`", ms(took), megabytes(peak), limit, to_limit[0], met, to_limit[1], *shown]
    settings.say(f"maintain {line} {beside.why}")
    return line


def _beside(cell: Cell, worker: Worker, job: Job, tables: Tables, rows: int, *, warm: bool) -> None:
    """Spark's run on a table of its own, which must have as many rows as ours after it."""
    table = prepare(job["action"], tables, "maintained")
    try:
        took = worker.run(job)[0]
        found = dk.scan(table.refresh()).count()
        if found != rows:
            raise Stopped("wrong", f"{found} rows, not {rows}")
    except (Stopped, OSError) as e:
        # A worker that took too long is ended, and every later action finds its pipe closed.
        cell.verdict, cell.why = (str(e), e.why) if isinstance(e, Stopped) else ("ended before", str(e))
        return
    cell.seconds += [took] if warm else []


def _ratio(runs: list[Facts], name: str) -> float:
    return statistics.median(r[name] / r[f"limit_{name}"] for r in runs)


def prepare(action: str, tables: Tables, name: str) -> dk.Table:
    """A fresh table with what the action is to work on."""
    table = tables.fresh(name, 2 if action in ("convert_equality_deletes", "rewrite_position_deletes") else 3)
    mode = "copy-on-write" if action == "erase" else "merge-on-read"
    dk.set_properties(table, {"write.merge.mode": mode, "write.delete.mode": mode})
    if action in ("compact", "expire_snapshots"):
        dk.delete(table, GONE, mode="deletion-vector")
    if action == "expire_snapshots":
        dk.compact(table, delete_file_threshold=1)
    if action == "convert_equality_deletes":
        dk.delete_keys(table, given(tables.rows).select(["id"]))
    if action == "rewrite_position_deletes":
        for group in range(10):  # so many small files
            dk.delete(table, f"grp = {group}", mode="position-delete")
    return table.refresh()


def given(rows: int) -> Any:
    """Rows with keys of the table, as many as its key tables delete, and as many new ones."""
    import numpy as np
    import pyarrow as pa

    count = max(1, rows // ROWS_PER_KEY)
    rng = np.random.default_rng(3)
    ids = np.concatenate([rng.choice(rows, count, replace=False), np.arange(rows, rows + count)])
    names = pa.array([f"name {i}" for i in ids])
    ts = pa.array(ids * 1000).cast(pa.timestamp("us"))
    grp = pa.array(rng.integers(0, 100, len(ids), dtype=np.int32))
    return pa.table({"id": ids, "grp": grp, "name": names, "value": rng.random(len(ids)), "ts": ts})


def open_actions(warehouse: str) -> Callable[[Job], Facts]:
    """In the worker: one action, and then what pyarrow needs for the same bytes."""
    import pyarrow.parquet as pq

    _ = dk.append, dk.compact, dk.erase, dk.merge, dk.upsert  # imported when first named

    def act(job: Job) -> Facts:
        action, paths = job["action"], job["paths"]
        source = pq.read_table(paths[0]) if action == "append" else given(job["rows"])
        table = dk.load_table(dk.local_catalog(warehouse), "work.maintained")
        data, deletes = _files(table)
        with _timed() as took:
            perform(table, action, source)
        after = _files(table.refresh())
        written = [p for p in (*after[0], *after[1]) if p not in data | deletes and p.endswith(".parquet")]
        keys = {"delete": ["grp"], "convert_equality_deletes": ["id"], "upsert": ["id"], "merge": ["id"]}.get(action)
        read = [(p, keys) for p in paths if keys or action in ("compact", "erase")]
        read += [(p, None) for p in deletes if p.endswith(".parquet")]
        if action == "expire_snapshots":
            read = written = []
        return took | {f"limit_{name}": value for name, value in limit_of(read, written).items()}

    return act


def perform(table: dk.Table, action: str, source: Any) -> None:
    """Do what is measured."""
    match action:
        case "append":
            dk.append(table, source)
        case "delete":
            dk.delete(table, GONE, mode="deletion-vector")
        case "compact":
            dk.compact(table, delete_file_threshold=1)
        case "convert_equality_deletes":
            dk.convert_equality_deletes(table)
        case "rewrite_position_deletes":
            dk.rewrite_position_deletes(table, rewrite_all=True)
        case "erase":
            dk.erase(table, ERASED)
        case "expire_snapshots":
            dk.expire_snapshots(table, older_than=int(time.time() * 1000) + 1, retain_last=1)
        case "upsert":
            dk.upsert(table, source, on="id", mode="merge-on-read")
        case "merge":
            dk.merge(table, source, on="id", mode="merge-on-read")


def open_procedures(warehouse: str) -> Callable[[Job], Facts]:
    """In the worker: Spark's procedure or statement for an action."""
    session = spark_session(warehouse)

    def act(job: Job) -> Facts:
        action = job["action"]
        if action in ("append", "upsert", "merge"):
            append = action == "append"
            frame = session.read.parquet(job["paths"][0]) if append else session.createDataFrame(given(job["rows"]))
            frame.cache().count()  # in memory, as ours has its rows
            frame.createOrReplaceTempView("given")
        with _timed() as took:
            for statement in PROCEDURES[action]:
                session.sql(statement.format(table="local.work.maintained")).collect()
        session.catalog.clearCache()
        return took

    return act


def _files(table: dk.Table) -> tuple[set[str], set[str]]:
    """The paths of the live data files, and of the delete files that apply to them."""
    tasks = dk.scan(table).plan()
    deletes = {local_path(d.file_path) for task in tasks for d in task.delete_files}
    return {local_path(task.data_file.file_path) for task in tasks}, deletes


@contextmanager
def _timed() -> Iterator[Facts]:
    """Give a dict that has the seconds of the block, and its processor time, after it."""
    out: Facts = {}
    begin, used = time.perf_counter(), _processor_time()
    yield out
    out |= {"seconds": time.perf_counter() - begin, "cpu": _processor_time() - used}


def _processor_time() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def limit_of(read: list[tuple[str, list[str] | None]], written: list[str]) -> Facts:
    """What pyarrow alone takes to read columns of these files, and to write those files again."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    tables = [pq.read_table(path) for path in written]
    with _timed() as took, ThreadPoolExecutor() as pool:
        deque(pool.map(lambda one: len(pq.read_table(one[0], columns=one[1], use_threads=False)), read), 0)
        deque(pool.map(lambda t: pq.write_table(t, pa.BufferOutputStream(), compression="zstd"), tables), 0)
    return took
