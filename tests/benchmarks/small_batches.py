"""Part `small_batches`: what the last of many small batches costs beside the first, with a sink's defaults and without.

Each batch is 20 upserts of 10,000 keys. The first ones after a warm-up are compared with the last, in processor time,
which others on the machine disturb less.
"""

# ruff: noqa: PLC0415  # imported in the worker alone

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.benchmarks.measure import Worker
from tests.benchmarks.readers import Facts, Job
from tests.benchmarks.report import megabytes, ms, table_of, verdict
from tests.benchmarks.settings import Settings

__all__ = ["open_batches", "run"]

ROWS, KEYS, WINDOW, WARM = 20, 10_000, 20, 100
FLAT, MOST = 1.5, 100e6


def run(settings: Settings) -> str:
    """A line for each way to maintain."""
    batches = 2 * WINDOW if settings.small else 2000
    home = settings.work / "small_batches"
    lines = []
    for label, maintain in (("by default", "auto"), ("`maintain=None`", None)):
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir(parents=True)
        worker = Worker("tests.benchmarks.small_batches:open_batches", str(home), seconds=3600)
        try:
            _, facts = worker.run({"batches": batches, "maintain": maintain, "warm": 0 if settings.small else WARM})
        finally:
            worker.stop()
        first, last, size = facts["first"], facts["last"], facts["size"]
        ratio = last / first
        judged = [verdict(ratio, FLAT), verdict(size, MOST)] if maintain else ["", ""]
        lines.append([label, ms(first), ms(last), f"**{ratio:.2f}**", judged[0], megabytes(size), judged[1]])
        settings.say(f"small_batches {lines[-1]}")
    shutil.rmtree(home, ignore_errors=True)
    header = ["sink", f"first {WINDOW}, each", f"last {WINDOW}, each", "ratio", f"target {FLAT}"]
    header += ["warehouse", "target 100 MB"]
    about = (
        f"{batches:,} batches of {ROWS} upserts of {KEYS:,} keys; processor time of a batch, after {WARM} batches. By "
        "default a sink compacts after every 20 batches, and keeps ten earlier metadata files and all snapshots of 5 "
        "days."
    )
    return f"{about}\n\n{table_of(header, lines)}"


def open_batches(home: str) -> Callable[[Job], Facts]:
    """In the worker: the stream."""
    import numpy as np
    import pyarrow as pa

    import deletekit as dk

    def stream(job: Job) -> Facts:
        schema = pa.schema([("id", pa.int64()), ("name", pa.string()), ("value", pa.float64())])
        table = dk.create_table(dk.local_catalog(home), "test.small", schema, format_version=3)
        random = np.random.default_rng(7)
        times: list[float] = []
        options: dict[str, Any] = {"equality_fields": "id", "change_type": None, "maintain": job["maintain"]}
        with dk.stream.sink(table, "small", **options) as sink:
            for number in range(job["batches"]):
                ids = random.integers(0, KEYS, ROWS)
                rows = pa.table({"id": ids, "name": [f"name {i}" for i in ids], "value": random.random(ROWS)})
                begin = time.process_time()
                sink.write(rows, number)
                times.append(time.process_time() - begin)
        first, last = times[job["warm"] :][:WINDOW], times[-WINDOW:]
        size = sum(path.stat().st_size for path in Path(home).rglob("*") if path.is_file())
        return {"first": sum(first) / WINDOW, "last": sum(last) / WINDOW, "size": size}

    return stream
