"""A driver with a straggler in each verb: `python -m tests.engines.straggling_driver MASTER FOLDER` prints JSON.

The first attempt to write a file is held back until its verb has returned, so it returns by a speculative attempt
alone; then the straggler may go on, and writes its file if Spark has not killed it.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deletekit as dk
from tests.engines.gated_io import GATE, forget_waiting, held_back
from tests.engines.lossy_driver import FILES, facts, rows

# Spark's defaults wait for most of the tasks, and for longer.
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.multiplier": "1.5",
    "spark.speculation.efficiency.enabled": "false",
}
LATE_SECONDS = 3


def with_a_straggler(gate: Path, verb: Callable[[], Any]) -> int:
    """Run the verb while its first attempt to write a file is held back; how many were so until its end."""
    forget_waiting(gate)
    gate.touch()
    try:
        verb()
        return len(held_back(gate))
    finally:
        gate.unlink()
        time.sleep(LATE_SECONDS)


def main(master: str, folder: str) -> None:
    root = Path(folder)
    gate = root / "gate"
    properties = {
        "type": "sql",
        "uri": f"sqlite:///{root / 'catalog.db'}",
        "warehouse": str(root),
        "py-io-impl": "tests.engines.gated_io.StragglingIO",
        GATE: str(gate),
    }
    catalog = dk.load_catalog("local", **properties)
    session = dk.spark.session(catalog=properties, master=master, driver_memory="512m", settings=SPECULATION)
    table = dk.create_table(catalog, "demo.straggling", rows(0).schema, format_version=3)
    for number in range(FILES):
        dk.append(table, rows(number))
    waited = {}
    with dk.engine.spark(session):
        dk.scan(table).to_arrow()  # both workers have Python running, so that none is slow but the straggler
        waited["delete"] = with_a_straggler(gate, lambda: dk.delete(table, "grp = 3", mode="deletion-vector"))
        waited["copy-on-write"] = with_a_straggler(gate, lambda: dk.delete(table, "grp = 4", mode="copy-on-write"))
        waited["compact"] = with_a_straggler(gate, lambda: dk.compact(table, rewrite_all=True))
        ours = facts(dk.scan(table).to_arrow())
    iceberg = facts(session.table("local.demo.straggling").toArrow())
    session.stop()
    late = dk.remove_orphan_files(table, force=True, older_than=2**62).orphan_files
    errors = [str(finding) for finding in dk.verify(table, level="data").findings]
    catalog.pyiceberg.close()
    print(json.dumps({"waited": waited, "deletekit": ours, "iceberg": iceberg, "errors": errors, "late": len(late)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
