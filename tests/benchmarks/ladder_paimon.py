"""pypaimon's upsert by key on the rows of the part `ladder`: a script that an environment of its own runs."""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from ladder_rows import base, batch_of
from pypaimon import CatalogFactory, Schema


def main() -> None:
    job = json.loads(sys.argv[1])
    home = Path(job["home"]) / "wh" / "paimon"
    catalog = CatalogFactory.create({"warehouse": str(home)})
    catalog.create_database("test", True)
    options = {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}
    first = next(iter(base(job)))
    catalog.create_table("test.t", Schema.from_pyarrow_schema(first.schema, options=options), True)
    table = catalog.get_table("test.t")
    write(table, base(job))
    times = []
    held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    before = io_of()
    for number in range(job["batches"]):
        rows = batch_of(job, number)
        begin = time.perf_counter()
        builder = table.new_batch_write_builder()
        messages = builder.new_update().upsert_by_arrow_with_key(rows, ["id"])
        commit = builder.new_commit()
        commit.commit(messages)
        commit.close()
        times.append(time.perf_counter() - begin)
    read, written = ((b - a) / job["batches"] for a, b in zip(before, io_of(), strict=True))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    builder = table.new_read_builder().with_projection(["id"])
    found = builder.new_read().to_arrow(builder.new_scan().plan().splits())
    facts = {"times": times, "rows": found.num_rows, "read": read, "written": written, "peak": max(peak, held)}
    print(json.dumps(facts))


def write(table: Any, parts: Iterable[Any]) -> None:
    builder = table.new_batch_write_builder()
    writer, commit = builder.new_write(), builder.new_commit()
    for part in parts:
        writer.write_arrow(part)
    commit.commit(writer.prepare_commit())
    writer.close()
    commit.close()


def io_of() -> tuple[int, int]:
    lines = Path("/proc/self/io").read_text(encoding="ascii").splitlines()
    found = dict(line.split(": ") for line in lines)
    return int(found["rchar"]), int(found["wchar"])


if __name__ == "__main__":
    main()
