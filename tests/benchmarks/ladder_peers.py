"""Spark's MERGE INTO and pyiceberg's upsert on the rows of the part `ladder`, each in the worker alone."""

# ruff: noqa: PLC0415

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.benchmarks.ladder_rows import Job, batch_of
from tests.benchmarks.measure import tree_of


def _spark(job: Job) -> dict[str, Any]:
    """MERGE INTO with deletion vectors; the source is a Parquet file."""
    import os

    import pyarrow.parquet as pq

    from deletekit.spark import sessions

    home = Path(job["home"])
    spark = sessions.session(home / "wh", driver_memory="4g", settings={"spark.sql.shuffle.partitions": "2"})
    times = []
    before = _io(os.getpid())
    for number in range(job["batches"]):
        path = home / "wh" / f"batch{number}.parquet"
        pq.write_table(batch_of(job, number), path)
        spark.read.parquet(str(path)).createOrReplaceTempView("batch")
        begin = time.perf_counter()
        spark.sql(
            "MERGE INTO local.test.ladder t USING batch s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )
        times.append(time.perf_counter() - begin)
    read, written = _a_batch(before, _io(os.getpid()), job)
    rows = spark.table("local.test.ladder").count()
    spark.stop()
    return {"times": times, "rows": rows, "read": read, "written": written}


def _pyiceberg(job: Job) -> dict[str, Any]:
    """pyiceberg's upsert, which knows format version 2."""
    import os

    from pyiceberg.catalog.sql import SqlCatalog

    home = Path(job["home"]) / "wh"
    table = SqlCatalog("local", uri=f"sqlite:///{home}/catalog.db", warehouse=str(home)).load_table("test.theirs")
    times = []
    before = _io(os.getpid())
    for number in range(job["batches"]):
        rows = batch_of(job, number)
        begin = time.perf_counter()
        table.upsert(rows, join_cols=["id"])
        times.append(time.perf_counter() - begin)
    read, written = _a_batch(before, _io(os.getpid()), job)
    return {
        "times": times,
        "rows": len(table.scan(selected_fields=("id",)).to_arrow()),
        "read": read,
        "written": written,
    }


def _io(pid: int) -> tuple[int, int]:
    """Bytes that a process and those below it have read and written."""
    read = written = 0
    for one in tree_of(pid):
        lines = Path(f"/proc/{one}/io").read_text(encoding="ascii").splitlines()
        found = dict(line.split(": ") for line in lines)
        read, written = read + int(found["rchar"]), written + int(found["wchar"])
    return read, written


def _a_batch(before: tuple[int, int], after: tuple[int, int], job: Job) -> tuple[float, float]:
    return (after[0] - before[0]) / job["batches"], (after[1] - before[1]) / job["batches"]


OPENED: dict[str, Callable[[Job], dict[str, Any]]] = {"Spark's MERGE INTO": _spark, "pyiceberg's upsert": _pyiceberg}
PEERS = tuple(OPENED)
