"""Verbs on two executors of their own: `python -m tests.engines.cluster FOLDER`.

An attempt that hangs after its files landed is overtaken by a speculative one; an executor is killed in the middle of
an update, and another together with the shuffle that its merge had written.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import TaskContext

import deletekit as dk
from deletekit import spark
from deletekit.engines.spark import SparkEngine
from tests.invariants import check_table
from tests.tables import expected, live, make

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("value", pa.float64())])
FILES = [[{"id": 10 * f + i, "value": 0.0} for i in range(10)] for f in range(8)]
SETTINGS = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.multiplier": "1.5",
    "spark.speculation.minTaskRuntime": "1s",
    "spark.executor.memory": "512m",
    "spark.python.task.killTimeout": "100ms",
    "spark.jars.packages": "",
    "spark.sql.extensions": "",
    "spark.sql.shuffle.partitions": "4",
}


def main(folder: Path) -> None:
    session = spark.session(folder, master="local-cluster[2,1,512]", settings=SETTINGS)
    catalog = dk.local_catalog(folder)
    engine = SparkEngine(session, 4)
    try:
        for mode in ("copy-on-write", "deletion-vector"):
            marker = folder / f"hung-{mode}"
            table = make(catalog, *FILES, schema=SCHEMA, format_version=3)
            dk.update(table, {"value": at_the_last_file(once(marker, hang))}, where="true", mode=mode, engine=engine)
            check(table)
            assert marker.exists()
            print("speculation: a second attempt won", flush=True)
        marker = folder / "executor"
        table = make(catalog, *FILES, schema=SCHEMA, format_version=3)
        dk.update(table, {"value": at_the_last_file(once(marker, kill_executor))}, where="true", engine=engine)
        assert marker.exists()
        check(table, orphans=False)
        print("executor: lost", flush=True)
        merge_that_loses_a_shuffle(session, catalog, folder / "shuffle", engine)
        print("executor: lost, and its shuffle with it", flush=True)
    finally:
        session.stop()
        catalog.pyiceberg.engine.dispose()  # type: ignore[attr-defined]


def merge_that_loses_a_shuffle(session: Any, catalog: dk.Catalog, marker: Path, engine: SparkEngine) -> None:
    """The function that fails runs in the stage that writes: it is patched into a column of the source."""
    table = make(catalog, *FILES, schema=SCHEMA, format_version=3)
    source = session.range(0, 100, 1, 4).selectExpr("id", "1.0D as value")
    lose = once(marker, kill_executor)
    run = engine.map_partitions

    def losing(frame: Any, fn: Callable[[Iterator[pa.RecordBatch]], Any]) -> Any:
        def work(batches: Iterator[pa.RecordBatch]) -> Any:
            done = fn(batches)
            if done.added_data_files:
                lose()
            return done

        return run(frame, work)

    engine.map_partitions = losing  # type: ignore[method-assign]
    dk.merge(table, source, on=["id"], mode="deletion-vector", engine=engine)
    assert marker.exists()
    assert live(table) == expected([{"id": i, "value": 1.0} for i in range(100)])
    assert not dk.verify(table).findings


def check(table: dk.Table, *, orphans: bool = True) -> None:
    rows = [{"id": row["id"], "value": 1.0} for file in FILES for row in file]
    assert live(table) == expected(rows)
    check_table(table, orphans=orphans)


def at_the_last_file(act: Callable[[], None]) -> Callable[[pa.Table], Any]:
    def assign(rows: pa.Table) -> Any:
        # The data file that is changed last, for the newest manifest comes first: others were written before.
        if 5 in rows["id"].to_pylist():
            act()
        return [1.0] * len(rows)

    return assign


def once(marker: Path, act: Callable[[], None]) -> Callable[[], None]:
    def acting() -> None:
        try:
            marker.touch(exist_ok=False)
        except FileExistsError:
            return
        act()

    return acting


def hang() -> None:
    time.sleep(600)


def kill_executor() -> None:
    """Kill the JVM of this task's executor: the parent of the daemon that is this worker's parent."""
    assert TaskContext.get() is not None
    status = Path(f"/proc/{os.getppid()}/stat").read_text()
    executor = int(status.rpartition(")")[2].split()[1])
    os.kill(executor, signal.SIGKILL)
    time.sleep(600)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
