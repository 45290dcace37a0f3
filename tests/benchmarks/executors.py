"""Part `executors`: batches of a stream as DataFrames on a Spark cluster of two executors, and everybody's memory.

The rows are those of the part `ladder`, as Parquet files that the executors read. Memory is the peak of a process and
its children, those of an executor with its Python workers; their shared pages count for each.
"""

# ruff: noqa: PLC0415  # imported in the worker alone

from __future__ import annotations

import shutil
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.benchmarks.ladder import NAME, restore
from tests.benchmarks.ladder_rows import Job, batch_of, new_keys
from tests.benchmarks.measure import Stopped, Worker, memory_of, tree_of
from tests.benchmarks.readers import Facts
from tests.benchmarks.report import megabytes, ms, table_of
from tests.benchmarks.settings import Settings
from tests.spark_cluster import SparkCluster

__all__ = ["open_executors", "run"]

BATCHES = 10
SECONDS = 3600
SAMPLE_SECONDS = 0.2


def run(settings: Settings) -> str:
    """Each line with a driver of its own; the cluster and its executors are new for each too."""
    home, lines = settings.work / "executors", []
    for keys in settings.keys:
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir(parents=True)
        job = {"home": str(home), "keys": keys, "rows": 0, "batches": BATCHES}
        worker = Worker("tests.benchmarks.ladder:open_ladder", "build", seconds=SECONDS)
        worker.run(job)
        worker.stop()
        for rows in settings.batch_rows:
            restore(home)
            lines.append(_line(home, job | {"rows": rows}, settings))
    shutil.rmtree(home, ignore_errors=True)
    header = ["keys, batch", "first batch", "a batch", "driver: Python", "driver: JVM", "each executor", "rows"]
    return f"Median of {BATCHES} batches, after one that builds the index.\n\n{table_of(header, lines)}"


def _line(home: Path, job: Job, settings: Settings) -> list[str]:
    what = f"{job['keys']:,}, {job['rows']:,}"
    _write_files(home, job)
    shutil.rmtree(home / "cluster", ignore_errors=True)
    cluster = SparkCluster(home / "cluster")
    cluster.start()
    try:
        worker = Worker("tests.benchmarks.executors:open_executors", cluster.master, seconds=SECONDS)
        try:
            with _peaks(cluster) as peaks:
                _, facts = worker.run(job)
        finally:
            worker.stop()
    except Stopped as stopped:
        return [what, f"{stopped}: {stopped.why}", *[""] * 5]
    finally:
        cluster.stop()
    right = facts["count"] == job["keys"] + (job["batches"] + 1) * new_keys(job)
    each = ", ".join(megabytes(peak) for peak in peaks.values())
    line = [
        what, ms(facts["first"]), ms(statistics.median(facts["times"])), megabytes(facts["python"]),
        megabytes(facts["jvm"]), each, "right" if right else f"WRONG: {facts['count']:,}",
    ]  # fmt: skip
    settings.say(f"executors {line}")
    return line


def _write_files(home: Path, job: Job) -> None:
    import pyarrow.parquet as pq

    shutil.rmtree(home / "batches", ignore_errors=True)
    (home / "batches").mkdir()
    for number in range(job["batches"] + 1):
        pq.write_table(batch_of(job, number), home / "batches" / f"{number}.parquet")


@contextmanager
def _peaks(cluster: SparkCluster) -> Iterator[dict[int, int]]:
    """Fill a mapping with the peak memory of each executor, by its pid, while the block runs."""
    found: dict[int, int] = {}
    ended = threading.Event()

    def look() -> None:
        while not ended.wait(SAMPLE_SECONDS):
            for pid in cluster.executors():
                found[pid] = max(found.get(pid, 0), memory_of(tree_of(pid), "VmHWM") or 0)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield found
    finally:
        ended.set()
        thread.join()


def open_executors(master: str) -> Callable[[Job], Facts]:
    """In the worker, which is the driver: the batches, its own memory and that of its JVM."""
    import os

    import deletekit as dk
    from deletekit.spark import sessions

    def stream(job: Job) -> Facts:
        home = Path(job["home"])
        spark = sessions.session(home / "wh", master=master, settings={"spark.sql.shuffle.partitions": "2"})
        table = dk.load_table(dk.local_catalog(home / "wh"), NAME)
        times = []
        with dk.stream.sink(table, "executors", equality_fields=["id"], change_type=None) as sink:
            for number in range(job["batches"] + 1):
                frame = spark.read.parquet(str(home / "batches" / f"{number}.parquet"))
                begin = time.perf_counter()
                sink.write(frame, number)
                times.append(time.perf_counter() - begin)
        own = os.getpid()
        python, jvm = memory_of([own], "VmHWM"), memory_of(tree_of(own)[1:], "VmHWM")
        count = dk.scan(table.refresh()).count()
        return {"first": times[0], "times": times[1:], "python": python, "jvm": jvm, "count": count}

    return stream
