"""Part `stream`: sums by streaming batches, and their peak memory beside that of pyarrow's own streaming scan."""

# ruff: noqa: PLC0415  # each engine is imported in its own process alone

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable
from typing import Any

from tests.benchmarks.measure import Stopped, Worker
from tests.benchmarks.readers import Facts, Job
from tests.benchmarks.report import megabytes, ms, table_of, verdict
from tests.benchmarks.scan import LABELS, job_of, wrong
from tests.benchmarks.settings import Settings

__all__ = ["open_stream", "run"]

TABLES = ("none", "dv_10", "pos_part_10", "eq_id_10", "eq_grp_name_10")
TARGET = 1.5
PROCESSES = 3


def run(settings: Settings) -> str:
    """Peak memory and time of both, each the median of fresh processes."""
    tables = settings.tables()
    whole = tables["none"].expected
    rows = []
    processes = 1 if settings.small else PROCESSES
    for name in filter(settings.wants_table, TABLES):
        job = job_of(tables[name], settings)
        theirs = [_once("pyarrow", job, whole, settings) for _ in range(processes)]
        ours = [_once("deletekit", job, tables[name].expected, settings) for _ in range(processes)]
        memory, raw = (_median(peaks for _, peaks in runs) for runs in (ours, theirs))
        ratio = memory / raw if memory and raw else None
        rows.append(
            [
                LABELS[name], megabytes(raw), megabytes(memory), f"**{ratio:.2f}**" if ratio else "",
                f"{TARGET:.2f}", verdict(ratio, TARGET),
                ms(_median(s for s, _ in theirs)), ms(_median(s for s, _ in ours)),
            ]
        )  # fmt: skip
        settings.say(f"stream {name}: {rows[-1][1:]}")
    header = [
        "deletes", "pyarrow's peak", "deletekit's peak", "ratio", "target", "", "pyarrow's first run", "deletekit's",
    ]  # fmt: skip
    about = f"Peak memory above that after imports, median of {processes} fresh processes."
    return f"{about}\n\n{table_of(header, rows)}"


def open_stream(engine: str) -> Callable[[Job], Facts]:
    """In the worker: sums over the batches that the engine streams."""
    import pyarrow.compute as pc

    def sums(batches: Iterable[Any]) -> Facts:
        rows, ids, values = 0, 0, 0.0
        for batch in batches:
            rows += len(batch)
            ids += pc.sum(batch.column(0)).as_py() or 0
            values += pc.sum(batch.column(1)).as_py() or 0.0
        return {"rows": rows, "sum_id": ids, "sum_value": values}

    if engine == "pyarrow":
        import pyarrow.dataset as ds

        return lambda job: sums(ds.dataset(job["paths"]).scanner(columns=job["columns"]).to_batches())
    import pandas  # noqa: F401, ICN001  # pyarrow imports it as soon as it meets it
    import polars  # noqa: F401, ICN001  # the keys of a scan need it

    import deletekit as dk

    _ = dk.scan, dk.from_metadata  # imported when first named
    return lambda job: sums(dk.scan(dk.from_metadata(job["location"]), columns=job["columns"]).to_batches())


def _once(engine: str, job: Job, expected: Any, settings: Settings) -> tuple[float, int | None]:
    worker = Worker("tests.benchmarks.stream:open_stream", engine, seconds=settings.seconds)
    try:
        seconds, facts, peak = worker.run_with_memory(job)
    finally:
        worker.stop()
    problem = wrong(expected, facts)
    if problem:
        raise Stopped("wrong", f"{engine}: {problem}")
    return seconds, peak


def _median(values: Iterable[float | None]) -> float | None:
    known = [v for v in values if v is not None]
    return statistics.median(known) if known else None
