"""A driver whose executors are killed: `python -m tests.engines.lossy_driver MASTER FOLDER VERBS...` prints JSON.

Each verb runs on the cluster until a Python worker is about to write a file; then that worker's executor is killed with
`kill -9`, and the file may be written by the orphaned worker all the same.
"""

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

import deletekit as dk
from deletekit.spark.releases import JARS, to_arrow
from tests.engines.gated_io import GATE, forget_waiting, waiting
from tests.optional_types import DataFrame, SparkSession
from tests.spark_cluster import EXECUTOR

FILES, ROWS = 6, 5_000
# Rows of the frames: they change the rows of one file, or are new.
CHANGED, NEW = range(2 * ROWS + 100, 2 * ROWS + 600), range(100_000, 100_500)
OTHERS = [{"id": -i, "grp": 6} for i in NEW]
Frames = Callable[[range, int], "DataFrame"]
VERBS: dict[str, tuple[Callable[[dk.Table, Frames], Any], Callable[[int, int], bool], dict[int, int]]] = {
    "delete": (lambda t, _: dk.delete(t, "grp = 3", mode="deletion-vector"), lambda _, grp: grp == 3, {}),
    "compact": (lambda t, _: dk.compact(t, rewrite_all=True), lambda *_: False, {}),
    "append": (lambda t, of: dk.append(t, of(NEW, 20)), lambda *_: False, dict.fromkeys(NEW, 20)),
    "merge": (lambda t, of: dk.merge(t, of(CHANGED, 21), on=["id"]), lambda *_: False, dict.fromkeys(CHANGED, 21)),
    "update": (lambda t, _: dk.update(t, {"grp": 22}, where="grp = 20"), lambda *_: False, dict.fromkeys(NEW, 22)),
    "upsert": (lambda t, of: dk.upsert(t, of(CHANGED, 23), on="id"), lambda *_: False, dict.fromkeys(CHANGED, 23)),
    "delete_keys": (lambda t, of: dk.delete_keys(t, of(CHANGED, 0).select("id")), lambda i, _: i in CHANGED, {}),
    "overwrite": (lambda t, _: dk.overwrite(t, OTHERS, "grp = 6"), lambda _, grp: grp == 6, {-i: 6 for i in NEW}),
}
"""By name what runs, which rows go then, and which come or change; in this order each has rows to change."""


def executor_of(pid: int) -> int | None:
    """The executor that a Python worker belongs to."""
    while pid > 1:
        try:
            if EXECUTOR in Path(f"/proc/{pid}/cmdline").read_bytes():
                return pid
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            return None
    return None


def killing(gate: Path, verb: Callable[[], Any]) -> int:
    """Run the verb while the gate is closed, until an executor was killed whose worker waits at it; return its pid."""
    gate.touch()
    forget_waiting(gate)
    killed: list[int] = []

    def kill() -> None:
        while not killed:
            for pid in waiting(gate):
                executor = executor_of(pid)
                if executor is not None:
                    os.kill(executor, signal.SIGKILL)
                    killed.append(executor)
                    break
            time.sleep(0.02)
        gate.unlink()

    thread = threading.Thread(target=kill, daemon=True)
    thread.start()
    verb()
    thread.join(10)
    return killed[0]


def rows(number: int) -> pa.Table:
    ids = range(number * ROWS, (number + 1) * ROWS)
    return pa.table({"id": pa.array(ids, pa.int64()), "grp": pa.array([i % 10 for i in ids], pa.int32())})


def opened(
    master: str, root: Path, io: str, schema: pa.Schema, settings: dict[str, str]
) -> tuple[SparkSession, dk.Table, Path]:
    """Start a session on a catalog in a folder. Return it, an empty table, and the gate of its FileIO."""
    properties = {"type": "sql", "uri": f"sqlite:///{root / 'catalog.db'}", "warehouse": str(root), "py-io-impl": io}
    properties[GATE] = str(root / "gate")
    session = dk.spark.session(catalog=properties, master=master, driver_memory="512m", settings=settings)
    catalog = dk.load_catalog("local", **properties)
    return session, dk.create_table(catalog, "demo.lossy", schema, format_version=3), root / "gate"


def read_by_spark(session: SparkSession) -> pa.Table:
    """Return the table by Iceberg's reader, or by ours where Iceberg has none for this Spark."""
    frame = session.table("local.demo.lossy") if JARS else session.read.format("deletekit").load("demo.lossy")
    return to_arrow(frame)


def main(master: str, folder: str, *verbs: str) -> None:
    start = time.monotonic()
    session, table, gate = opened(master, Path(folder), "tests.engines.gated_io.GatedIO", rows(0).schema, {})
    for number in range(FILES):
        dk.append(table, rows(number))
    model = {i: i % 10 for i in range(FILES * ROWS)}
    lost, wrong = {}, []

    def frame(ids: range, group: int) -> DataFrame:
        return session.range(ids.start, ids.stop, 1, 2).selectExpr("id", f"{group} as grp")

    def right(found: pa.Table) -> bool:
        return sorted(zip(found["id"].to_pylist(), found["grp"].to_pylist(), strict=True)) == sorted(model.items())

    with dk.engine.spark(session):
        for name in verbs:
            run, goes, put = VERBS[name]
            lost[name] = killing(gate, partial(run, table, frame))
            model = {key: grp for key, grp in model.items() if not goes(key, grp)} | put
            if not right(dk.scan(table).to_arrow()):
                wrong.append(name)
            print(name, round(time.monotonic() - start, 1), "s", file=sys.stderr, flush=True)
    if not right(read_by_spark(session)):
        wrong.append("read by Spark")
    errors = [str(finding) for finding in dk.verify(table, level="data").findings]
    session.stop()
    print(json.dumps({"lost": lost, "wrong": wrong, "errors": errors}))


if __name__ == "__main__":
    main(*sys.argv[1:])
