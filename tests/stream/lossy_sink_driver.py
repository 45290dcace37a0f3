"""A sink that loses executors: `python -m tests.stream.lossy_sink_driver MASTER FOLDER STEPS...` prints JSON.

Each step is a batch. `kill=.rows`: whoever is about to write such a file is killed with its executor (`kill -9`).
`hold=.rows`: the first to write one is held back, so that the batch is committed by a speculative attempt.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa

import deletekit as dk
from deletekit.stream import batch_delta, saved_index, split_rows
from tests.engines.gated_io import forget_waiting, held_back
from tests.engines.lossy_driver import killing, opened, read_by_spark
from tests.stream.replay import Row, replay

# Spark's defaults wait for most of the tasks, and for longer.
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.multiplier": "1.5",
    "spark.speculation.efficiency.enabled": "false",
}
ROWS = 2_000
DDL = "id long, v long, _change_type string, _at long"


def batch_of(number: int) -> list[Row]:
    """Return updates of half of the keys of the batch before, new keys, and deletes."""
    first = number * ROWS // 2
    rows = [{"id": i, "v": number, "_change_type": "INSERT", "_at": 0} for i in range(first, first + ROWS)]
    return rows + [{"id": i, "v": None, "_change_type": "DELETE", "_at": 1} for i in range(first, first + ROWS, 7)]


def straggling(gate: Path, place: str, write: Any) -> int:
    """Run a batch while the first who writes a file is held back. Return how many were so until its commit."""
    forget_waiting(gate)
    gate.write_text(f"{place} first")
    try:
        write()
        return len(held_back(gate))
    finally:
        gate.unlink()
        time.sleep(2)  # for the straggler to write its file, if Spark has not ended it


def main(master: str, folder: str, *steps: str) -> None:
    start, schema = time.monotonic(), pa.schema([("id", pa.int64()), ("v", pa.int64())])
    session, table, gate = opened(master, Path(folder), "tests.stream.gated_rows.PlaceIO", schema, SPECULATION)
    saved_index._NEW_FILES = 1  # each batch writes a run of the index
    split_rows._GROUP_BYTES = batch_delta._GROUP_HITS = 1  # a task that is alone has no twin
    batches: list[list[Row]] = []
    lost: dict[str, int] = {}
    held: dict[str, int] = {}
    with dk.stream.sink(table, "lossy", on=["id"], mode="index-only", order="_at") as sink:

        def write() -> None:
            number = len(batches)
            batches.append(batch_of(number))
            sink.write(session.createDataFrame(batches[-1], DDL), number)  # type: ignore[type-var]

        write()
        print("ready", round(time.monotonic() - start, 1), "s", file=sys.stderr, flush=True)
        for step in steps:
            deed, _, place = step.partition("=")
            if deed == "kill":
                gate.write_text(place)
                lost[place] = killing(gate, write)
            else:
                held[place] = straggling(gate, place, write)
            print(step, round(time.monotonic() - start, 1), "s", file=sys.stderr, flush=True)
        again = sink.write(session.createDataFrame(batches[-1], DDL), len(batches) - 1)  # type: ignore[type-var]
    wanted = {row["id"]: row["v"] for row in replay(batches).values()}
    ours = {row["id"]: row["v"] for row in dk.scan(table.refresh()).to_arrow().to_pylist()}
    iceberg = {row["id"]: row["v"] for row in read_by_spark(session).to_pylist()}
    rows = dk.scan(table).count()
    session.stop()
    errors = [str(finding) for finding in dk.verify(table, level="data").findings]
    right = {"deletekit": ours == wanted and rows == len(wanted), "iceberg": iceberg == wanted}
    print(json.dumps({"lost": lost, "held": held, "right": right, "again": again.status, "errors": errors}))


if __name__ == "__main__":
    main(*sys.argv[1:])
