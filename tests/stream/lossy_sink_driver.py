"""A sink that loses executors: `python -m tests.stream.lossy_sink_driver MASTER FOLDER` prints JSON.

In a batch whoever is about to write a file of one kind is killed with its executor (`kill -9`), or the first to write
one is held back until the batch is committed by a speculative attempt.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa

import deletekit as dk
from deletekit.stream import split_index, split_rows
from tests.engines.gated_io import GATE, waiting
from tests.engines.lossy_driver import killing
from tests.engines.straggling_driver import SPECULATION
from tests.stream.replay import Row, replay

KILLS = (".rows", ".parquet", ".puffin", ".run")
STRAGGLES = (".rows", ".parquet")
ROWS = 2_000
DDL = "id long, v long, _change_type string, _at long"


def batch_of(number: int) -> list[Row]:
    """Return updates of half of the keys of the batch before, new keys, and deletes."""
    first = number * ROWS // 2
    rows = [{"id": i, "v": number, "_change_type": "INSERT", "_at": 0} for i in range(first, first + ROWS)]
    return rows + [{"id": i, "v": None, "_change_type": "DELETE", "_at": 1} for i in range(first, first + ROWS, 7)]


def straggling(gate: Path, place: str, write: Any) -> int:
    """Run a batch while the first who writes a file is held back. Return how many waited."""
    for pid in waiting(gate):
        gate.with_name(f"waiting-{pid}").unlink()
    gate.with_name("straggler").unlink(missing_ok=True)
    gate.write_text(f"{place} first")
    try:
        write()
        return len(waiting(gate))
    finally:
        gate.unlink()
        time.sleep(2)


def main(master: str, folder: str) -> None:
    root = Path(folder)
    gate = root / "gate"
    properties = {
        "type": "sql",
        "uri": f"sqlite:///{root / 'catalog.db'}",
        "warehouse": str(root),
        "py-io-impl": "tests.stream.gated_rows.PlaceIO",
        GATE: str(gate),
    }
    catalog = dk.load_catalog("local", **properties)
    session = dk.spark.session(catalog=properties, master=master, driver_memory="512m", settings=SPECULATION)
    schema = pa.schema([("id", pa.int64()), ("v", pa.int64())])
    table = dk.create_table(catalog, "demo.lossy", schema, format_version=3)
    split_index._NEW_FILES = 1  # each batch writes a run of the index
    split_rows._GROUP_BYTES = split_rows._GROUP_HITS = 1  # a task that is alone has no twin
    batches: list[list[Row]] = []
    lost: dict[str, int] = {}
    waited: dict[str, int] = {}
    with dk.stream.sink(table, "lossy", equality_fields=["id"], mode="index-only", order="_at") as sink:

        def write() -> None:
            number = len(batches)
            batches.append(batch_of(number))
            sink.write(session.createDataFrame(batches[-1], DDL), number)  # type: ignore[type-var]

        write()
        for place in KILLS:
            gate.write_text(place)
            lost[place] = killing(gate, write)
        for place in STRAGGLES:
            waited[place] = straggling(gate, place, write)
        again = sink.write(session.createDataFrame(batches[-1], DDL), len(batches) - 1)  # type: ignore[type-var]
    wanted = {row["id"]: row["v"] for row in replay(batches).values()}
    ours = {row["id"]: row["v"] for row in dk.scan(table.refresh()).to_arrow().to_pylist()}
    iceberg = {row["id"]: row["v"] for row in session.table("local.demo.lossy").toArrow().to_pylist()}
    rows = dk.scan(table).count()
    session.stop()
    errors = [str(finding) for finding in dk.verify(table, level="data").findings]
    catalog.pyiceberg.close()
    right = {"deletekit": ours == wanted and rows == len(wanted), "iceberg": iceberg == wanted}
    print(json.dumps({"lost": lost, "waited": waited, "right": right, "again": again.status, "errors": errors}))


if __name__ == "__main__":
    main(*sys.argv[1:])
