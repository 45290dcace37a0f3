"""What a lesson on Spark takes of a small machine: `python -m tests.benchmarks.session_memory`.

The session of 512 MB and one thread; a table is made, 100,000 rows are written, some deleted by Spark and some by
deletekit, and what is left is read by both. Every 0.1 s the memory of this process, the JVM and the Python workers is
taken from /proc (proportional set size: what forks share is counted once).
"""

from __future__ import annotations

import json
import os
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pyarrow as pa

import deletekit as dk

ROWS = 100_000


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        watch = Watch()
        watch.start()
        lesson(folder, watch.show)
        watch.stop()


def lesson(folder: str, done: Callable[[str], None]) -> None:
    spark = dk.spark.session(folder, master="local[1]", driver_memory="512m")
    spark.sql("create table local.db.t (id bigint, word string) using iceberg tblproperties ('format-version'='3')")
    table = dk.load_table(dk.local_catalog(folder), "db.t")
    spark.range(ROWS // 2).selectExpr("id", "uuid() word").writeTo("local.db.t").append()
    words = [f"word {i}" for i in range(ROWS // 2, ROWS)]
    dk.append(table, pa.table({"id": pa.array(range(ROWS // 2, ROWS), pa.int64()), "word": words}))
    spark.sql("delete from local.db.t where id % 10 = 0")
    dk.delete(table, "id < 1000", mode="deletion-vector")
    left = ROWS - ROWS // 10 - 900
    assert dk.scan(table.refresh()).count() == left
    read = spark.read.format("deletekit").load("db.t")
    assert read.where("length(word) > 0").count() == left
    done("read")
    new = read.where("id < 2000").selectExpr("id", "'new' as word")
    dk.upsert(table, new, key="id", mode="deletion-vector")
    assert spark.sql("select count(*) from local.db.t where word = 'new'").collect()[0][0] == 900
    done("read and upserted at once")
    spark.stop()


class Watch(threading.Thread):
    """The most memory that this process and those below it had at one time, by what they run."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peak: dict[str, int] = {"all": 0}
        self._ended = threading.Event()

    def run(self) -> None:
        while not self._ended.wait(0.1):
            now: dict[str, int] = {}
            for pid in family(os.getpid()):
                with suppress(OSError):
                    kind = "driver" if pid == os.getpid() else "jvm" if name_of(pid) == "java" else "workers"
                    now[kind] = now.get(kind, 0) + proportional_size(pid)
            now["all"] = sum(now.values())
            self.peak.update({k: max(v, self.peak.get(k, 0)) for k, v in now.items()})

    def show(self, step: str) -> None:
        print(json.dumps({"up to": step, **{k: f"{v >> 20} MiB" for k, v in self.peak.items()}}), flush=True)

    def stop(self) -> None:
        self._ended.set()
        self.join()


def family(root: int) -> list[int]:
    """A process and all below it."""
    children: dict[int, list[int]] = {}
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            parent = int((place / "stat").read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(place.name))
    found = [root]
    for pid in found:
        found += children.get(pid, [])
    return found


def name_of(pid: int) -> str:
    return Path(f"/proc/{pid}/comm").read_text().strip()


def proportional_size(pid: int) -> int:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) * 1024


if __name__ == "__main__":
    main()
