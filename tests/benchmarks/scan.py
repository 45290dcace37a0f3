"""Part `scan`: two columns of every table to Arrow, by every engine, beside the fastest raw scan of the same files."""

import math
import statistics
from collections.abc import Callable
from functools import partial
from typing import Any

from tests.benchmarks.measure import Cell, Worker, in_turns
from tests.benchmarks.readers import COLUMNS, raw_ways
from tests.benchmarks.report import megabytes, ms, notes_of, table_of, verdict
from tests.benchmarks.settings import Settings
from tests.benchmarks.tables import BenchTable, Expected

LABELS = {
    "none": "none",
    **{f"dv_{s}": f"DVs, {s} %" for s in (1, 10, 50)},
    **{f"pos_file_{s}": f"position deletes by file, {s} %" for s in (1, 10, 50)},
    **{f"pos_part_{s}": f"position deletes by partition, {s} %" for s in (1, 10, 50)},
    **{f"eq_id_{n}": f"equality on id, {n} files" for n in (1, 10, 100)},
    **{f"eq_grp_name_{n}": f"equality on (grp, name), {n} files" for n in (1, 10, 100)},
}
TARGETS = {"none": 1.0, "dv": 1.08, "pos": 1.15, "eq_id": 1.5, "eq_grp_name": 2.5}
"""By how the name of a table begins."""
OURS, RAW = "deletekit", "raw"


def run(settings: Settings) -> str:
    """Measure every table; the table of the report, and why cells are empty."""
    tables = settings.tables()
    chosen = [name for name in LABELS if settings.wants_table(name)]
    way = fastest_raw(job_of(tables["none"], settings))
    settings.say(f"raw: {way}")
    cells: dict[str, dict[str, Cell]] = {}
    for name in chosen:
        cells[name] = compare(tables[name], settings, way)
        settings.say(f"scan {name}: " + ", ".join(f"{e} {c.verdict or ms(c.median)}" for e, c in cells[name].items()))
    engines = [RAW, OURS, *settings.peers]
    header = ["deletes", *engines, "target", "", "next best"]
    rows = [[LABELS[n], *(shown(cells[n], e) for e in engines), *judged(n, cells)] for n in chosen]
    peaks = [[LABELS[n], *(megabytes(cells[n][e].peak_bytes) for e in engines)] for n in chosen]
    about = (
        f"Columns {' and '.join(COLUMNS)} of {settings.rows:,} rows in 8 zstd Parquet files to Arrow; median "
        f"of {settings.runs} runs after a warm-up (Spark: 3), by turns, in brackets the ratio to the raw scans. "
        "Raw: the data files alone, without "
        f"deletes, by `{way}`, the fastest of {len(raw_ways())} ways of pyarrow and polars."
    )
    memory = (
        "Peak memory of the first run above that after imports (its children's too: Spark's JVM has a heap of up to "
        f"6 GB):\n\n{table_of(header[: len(engines) + 1], peaks)}"
    )
    return "\n\n".join(part for part in (about, table_of(header, rows), notes_of(cells), memory) if part)


def compare(table: BenchTable, settings: Settings, way: str) -> dict[str, Cell]:
    """A cell per engine for one table."""
    job = job_of(table, settings) | {"raw_way": way}
    workers: dict[str, Callable[[], Worker]] = {
        name: partial(Worker, "tests.benchmarks.readers:open_reader", name, job, seconds=settings.seconds)
        for name in (RAW, OURS, *settings.peers)
    }
    whole = settings.tables()["none"].expected

    def check(name: str, facts: dict[str, Any]) -> str | None:
        return wrong(whole if name == RAW else table.expected, facts)

    return in_turns(workers, job, runs=settings.runs, check=check, warm_ups=warm_ups, say=settings.say)


def warm_ups(engine: str) -> int:
    """Runs before those that count; Java compiles while it runs."""
    return 3 if engine.startswith("Spark") else 1


def fastest_raw(job: dict[str, Any]) -> str:
    """The name of the fastest way to load this job's columns on this machine."""
    times: dict[str, list[float]] = {way: [] for way in raw_ways()}
    worker = Worker("tests.benchmarks.readers:raw")
    try:
        for _ in range(4):
            for way, seconds in times.items():
                seconds.append(worker.run(job | {"raw_way": way})[0])
    finally:
        worker.stop()
    return min(times, key=lambda way: statistics.median(times[way][1:]))


def job_of(table: BenchTable, settings: Settings) -> dict[str, Any]:
    return {
        "location": table.location,
        "name": table.name,
        "folder": table.folder,
        "paths": table.paths,
        "warehouse": str(settings.tables().warehouse),
        "columns": COLUMNS,
    }


def wrong(expected: Expected, facts: dict[str, Any]) -> str | None:
    """What differs from the expected rows and sums."""
    for name in ("rows", "sum_id", "sum_value"):
        found, right = facts[name], getattr(expected, name)
        if found is None or not math.isclose(found, right, rel_tol=1e-9 if name == "sum_value" else 0):
            return f"{name} is {found}, not {right}"
    return None


def shown(cells: dict[str, Cell], engine: str) -> str:
    cell, ratio = cells[engine], cells[engine].ratio_to(cells[RAW])
    if cell.median is None:
        return cell.verdict or ""
    return ms(cell.median) + (f" ({ratio:.2f})" if ratio and engine != RAW else "")


def judged(name: str, cells: dict[str, dict[str, Cell]]) -> list[str]:
    """Target, whether it is met, and the fastest peer with its ratio."""
    ratios = {e: ratio for e, c in cells[name].items() if (ratio := c.ratio_to(cells[name][RAW]))}
    ours = ratios.get(OURS)
    peers = {e: ratio for e, ratio in ratios.items() if e not in (OURS, RAW)}
    best = min(peers, key=lambda e: peers[e]) if peers else None
    rival = f"{best} {peers[best]:.2f}" if best else "none"
    target = next(target for kind, target in TARGETS.items() if name.startswith(kind))
    behind = ours is not None and best is not None and ours > peers[best]
    return [f"{target:.2f}", f"MISSED, behind {best}" if behind else verdict(ours, target), rival]
