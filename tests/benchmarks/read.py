"""Part `read`: tables of many shapes to Arrow, and with deletes, by every engine beside raw reads of the same files."""

import math
import statistics
from collections.abc import Callable
from functools import partial
from typing import Any

import pyarrow as pa

from tests.benchmarks.measure import Cell, Worker, facts_of, in_turns
from tests.benchmarks.read_tables import SHAPES, SHARES, ReadTables
from tests.benchmarks.readers import Job
from tests.benchmarks.report import ms, notes_of, table_of, verdict
from tests.benchmarks.settings import Settings

RAW, OURS, OURS_PLAIN = "pyarrow", "deletekit", "deletekit, no deletes"
LAZY, RAW_LAZY = "scan_polars", "polars, files alone"
SHAPE_TARGET, LAZY_TARGET, POSITIONS_TARGET = 1.1, 1.2, 1.15
KEYS_TARGETS = {1: 1.5, 2: 2.5}
"""By the number of key columns."""


def run(settings: Settings) -> str:
    """The table of shapes, and one of deletes for each data set that has keys."""
    tables = ReadTables(settings.work, min(settings.rows, 5_000_000))
    shapes, parts, cells = [], [], {}
    for name, shape in SHAPES.items():
        if not settings.wants_table(name):
            continue
        job, rows = tables.shape(name)
        found = compare(job, rows.select(job["columns"]), (RAW, OURS, RAW_LAZY, LAZY, *settings.peers), settings)
        cells[name] = found
        lazy = [ratio(found[LAZY], found[RAW_LAZY]), verdict(found[LAZY].ratio_to(found[RAW_LAZY]), LAZY_TARGET)]
        judged = verdict(found[OURS].ratio_to(found[RAW]), SHAPE_TARGET)
        shapes.append([name, *(shown(cell, found[RAW]) for cell in found.values()), judged, *lazy])
        if shape.keys:
            parts.append(deletes(tables, name, job, rows, settings))
    judged_by = [f"target {SHAPE_TARGET}", "scan_polars to polars", f"target {LAZY_TARGET}"]
    header = ["files", *next(iter(cells.values()), {}), *judged_by]
    about = (
        f"Columns of {tables.rows:,} rows to Arrow (scan_polars and its files alone: to polars): median of "
        f"{settings.runs} runs after a warm-up, by turns, and of their processor time; in brackets both to "
        "pyarrow's, by its fastest way that checks pages: of four, the fastest for each."
    )
    return "\n\n".join(part for part in (about, table_of(header, shapes), notes_of(cells), *parts) if part)


def deletes(tables: ReadTables, name: str, plain: Job, rows: pa.Table, settings: Settings) -> str:
    """The table of one data set with deletes: to the same scan without them, or to reading the key columns besides."""
    lines, cells = [], {}
    keys: list[tuple[str, Any, float, str]] = [
        ("keys", what, KEYS_TARGETS[len(what)], RAW) for what in SHAPES[name].keys
    ]
    kinds = [(kind, share, POSITIONS_TARGET, OURS_PLAIN) for kind in ("vectors", "positions") for share in SHARES]
    for kind, what, target, beside in (*kinds, *keys):
        job, left = tables.deleted(plain, name, rows, kind, what)
        label = f"{kind}, {what} %" if kind != "keys" else f"keys on {', '.join(what)}"
        found = compare(job, left, (RAW, OURS_PLAIN, OURS, *settings.peers), settings)
        cells[label] = found
        shares = [shown(found[e], found[beside]) for e in found]
        lines.append([label, *shares, f"{target:.2f}", verdict(found[OURS].ratio_to(found[beside]), target)])
    header = ["deletes", *next(iter(cells.values())), "target", ""]
    about = (
        f"With deletes, {name}. Ratios of vectors and positions are to the scan without deletes, those of keys to "
        "pyarrow's reading of the columns and the keys' besides."
    )
    return "\n\n".join(part for part in (about, table_of(header, lines), notes_of(cells)) if part)


def compare(job: Job, expected: pa.Table, engines: tuple[str, ...], settings: Settings) -> dict[str, Cell]:
    """A cell per engine for one table; each must read the expected rows."""
    workers: dict[str, Callable[[], Worker]] = {
        name: partial(Worker, "tests.benchmarks.readers:open_reader", name, job, seconds=settings.seconds)
        for name in engines
    }
    right = facts_of(expected)

    def check(name: str, facts: dict[str, Any]) -> str | None:
        return None if name in (RAW, OURS_PLAIN, RAW_LAZY) else wrong(right, facts)

    found = in_turns(workers, job, runs=settings.runs, check=check, warm_ups=warm_ups, say=settings.say)
    settings.say(f"read {job['table']}: " + ", ".join(f"{e} {shown(c, found[RAW])}" for e, c in found.items()))
    return found


def warm_ups(engine: str) -> int:
    """Runs before those that count; Java compiles while it runs."""
    return 3 if engine == "Spark" else 1


def wrong(right: dict[str, Any], facts: dict[str, Any]) -> str | None:
    """What differs from the right rows and sums."""
    for name, value in right.items():
        found = facts[name]
        if found is None or not math.isclose(found, value, rel_tol=1e-9 if isinstance(value, float) else 0):
            return f"{name} is {found}, not {value}"
    return None


def ratio(cell: Cell, other: Cell) -> str:
    """Both ratios of a cell to another: of seconds, and of processor time."""
    found = cell.ratio_to(other)
    return f"{found:.2f}, {statistics.median(cell.cpu) / statistics.median(other.cpu):.2f}" if found else ""


def shown(cell: Cell, other: Cell) -> str:
    if cell.median is None:
        return cell.verdict or ""
    return f"{ms(cell.median)}, {ms(statistics.median(cell.cpu))} ({ratio(cell, other)})"
