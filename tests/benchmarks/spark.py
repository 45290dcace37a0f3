"""Part `spark`: DELETE and an aggregate, deletekit beside Iceberg's own code in one session.

Both sides of a ratio run in turns in the same JVM, on `local[2]`, on tables with the same data files.
"""

import statistics
from collections.abc import Callable
from dataclasses import asdict

import deletekit as dk
from tests.benchmarks.measure import Worker
from tests.benchmarks.read import wrong
from tests.benchmarks.readers import AGGREGATES, Facts, Job, spark_session
from tests.benchmarks.report import ms, table_of, verdict
from tests.benchmarks.settings import Settings
from tests.benchmarks.tables import Tables

OURS, THEIRS = "deletekit", "Iceberg"
DELETES = {"1 %": ("grp = 7", range(7, 8)), "10 %": ("grp < 10", range(10))}
SCANS = {"none": "none", "dv_10": "DVs, 10 %"}
DELETE_TARGET, SCAN_TARGET = 1.0, 1.5
WARM_UPS = 2


def run(settings: Settings) -> str:
    """The two tables of the part."""
    tables = settings.tables()
    worker = Worker("tests.benchmarks.spark:open_session", str(tables.warehouse), seconds=settings.seconds)
    try:
        parts = [deletes(worker, tables, settings), scans(worker, tables, settings)]
    finally:
        worker.stop()
    return "\n\n".join(parts)


def deletes(worker: Worker, tables: Tables, settings: Settings) -> str:
    """DELETE as deletion vectors, every run on a fresh table."""
    rows = []
    for share, (where, groups) in DELETES.items():
        seconds: dict[str, list[float]] = {OURS: [], THEIRS: []}
        for number in range(WARM_UPS + settings.runs):
            for side, times in seconds.items():
                table = tables.fresh("distributed")
                dk.set_properties(table, {"write.delete.mode": "merge-on-read"})
                took, _ = worker.run({"what": "delete", "side": side, "name": "work.distributed", "where": where})
                problem = problem_of(table.refresh(), tables, groups)
                if problem:
                    raise AssertionError(f"{side}, DELETE of {share}: {problem}")
                if number >= WARM_UPS:
                    times.append(took)
        rows.append(row_of(f"DELETE of {share}: `{where}`", seconds, DELETE_TARGET))
        settings.say(f"spark: {rows[-1]}")
    return table_of(["as DVs", OURS, THEIRS, "ratio", f"target {DELETE_TARGET}"], rows)


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


def scans(worker: Worker, tables: Tables, settings: Settings) -> str:
    """An aggregate of two columns, through the data source and through Iceberg's reader."""
    rows = []
    for name in (name for name in SCANS if name in tables.by_name):
        table = tables[name]
        seconds: dict[str, list[float]] = {OURS: [], THEIRS: []}
        for number in range(WARM_UPS + settings.runs):
            for side, times in seconds.items():
                took, facts = worker.run({"what": "scan", "side": side, "name": table.name})
                problem = wrong(asdict(table.expected), facts)
                if problem:
                    raise AssertionError(f"{side}, scan of {name}: {problem}")
                if number >= WARM_UPS:
                    times.append(took)
        rows.append(row_of(f"{SCANS[name]}: `{AGGREGATES}`", seconds, SCAN_TARGET))
        settings.say(f"spark: {rows[-1]}")
    return table_of(["aggregate", 'format("deletekit")', THEIRS, "ratio", f"target {SCAN_TARGET}"], rows)


def row_of(label: str, seconds: dict[str, list[float]], target: float) -> list[str]:
    ours, theirs = (statistics.median(seconds[side]) for side in (OURS, THEIRS))
    return [label, ms(ours), ms(theirs), f"**{ours / theirs:.2f}**", verdict(ours / theirs, target)]


def open_session(warehouse: str) -> Callable[[Job], Facts]:
    """In the worker: both sides in one session."""
    session = spark_session(warehouse)
    catalog = dk.local_catalog(warehouse)

    def delete(job: Job) -> Facts:
        if job["side"] == THEIRS:
            session.sql(f"DELETE FROM local.{job['name']} WHERE {job['where']}")
            return {}
        with dk.engine.spark(session):
            dk.delete(dk.load_table(catalog, job["name"]), job["where"], mode="deletion-vector")
        return {}

    def scan(job: Job) -> Facts:
        frame = (
            session.table(f"local.{job['name']}")
            if job["side"] == THEIRS
            else session.read.format("deletekit").option("columns", '["id", "value"]').load(job["name"])
        )
        found = frame.selectExpr(*AGGREGATES.split(", ")).toArrow()
        return dict(zip(("rows", "sum_id", "sum_value"), (column[0].as_py() for column in found.columns), strict=True))

    return lambda job: delete(job) if job["what"] == "delete" else scan(job)
