"""A driver whose executors are killed: `python -m tests.engines.lossy_driver MASTER FOLDER` prints JSON.

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
from pathlib import Path
from typing import Any

import pyarrow as pa

import deletekit as dk
from tests.engines.gated_io import GATE, forget_waiting, waiting
from tests.spark_cluster import EXECUTOR

FILES, ROWS = 6, 5_000


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
    first = number * ROWS
    ids = range(first, first + ROWS)
    return pa.table({"id": pa.array(ids, pa.int64()), "grp": pa.array([i % 10 for i in ids], pa.int32())})


def facts(found: pa.Table) -> dict[str, int]:
    ids = found["id"].to_pylist()
    return {"rows": len(ids), "distinct": len(set(ids)), "sum": sum(ids)}


def main(master: str, folder: str) -> None:
    root = Path(folder)
    gate = root / "gate"
    properties = {
        "type": "sql",
        "uri": f"sqlite:///{root / 'catalog.db'}",
        "warehouse": str(root),
        "py-io-impl": "tests.engines.gated_io.GatedIO",
        GATE: str(gate),
    }
    catalog = dk.load_catalog("local", **properties)
    session = dk.spark.session(catalog=properties, master=master, driver_memory="512m")
    table = dk.create_table(catalog, "demo.lossy", rows(0).schema, format_version=3)
    for number in range(FILES):
        dk.append(table, rows(number))
    lost = {}
    with dk.engine.spark(session):
        lost["delete"] = killing(gate, lambda: dk.delete(table, "grp = 3", mode="deletion-vector"))
        lost["compact"] = killing(gate, lambda: dk.compact(table, rewrite_all=True))
        ours = facts(dk.scan(table).to_arrow())
    iceberg = facts(session.table("local.demo.lossy").toArrow())
    errors = [str(finding) for finding in dk.verify(table, level="data").findings]
    session.stop()
    catalog.pyiceberg.close()
    print(json.dumps({"lost": lost, "deletekit": ours, "iceberg": iceberg, "errors": errors}))


if __name__ == "__main__":
    main(*sys.argv[1:])
