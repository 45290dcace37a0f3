"""Processes that append to one table are killed: what was committed stays, each row once.

Those that live, and do everything else, are in tests/commit/test_concurrency.py.
"""

import json
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import deletekit as dk
from tests.catalogs.conftest import make_store, params
from tests.catalogs.stores import Store
from tests.catalogs.writer import Job

ROOT = Path(__file__).parents[2]
SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("value", pa.float64())])
WRITERS = 3
SHARED = 60
"""Rows that are there before."""
PROPERTIES = {
    "commit.retry.num-retries": "100",
    "commit.retry.min-wait-ms": "5",
    "commit.retry.max-wait-ms": "100",
    # A metadata file that fell out of the log would look like one that was left over.
    "write.metadata.previous-versions-max": "100000",
}


@pytest.fixture(params=params(("local", "postgres", "rest")))
def shared(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """Give each kind of catalog that processes can share."""
    store = make_store(request, request.param, tmp_path)
    yield store
    store.close()


def jobs(store: Store) -> list[Job]:
    place = (store.kind, str(store.folder), store.properties, store.name, store.namespace)
    return [Job(*place, number=n, writers=WRITERS) for n in range(WRITERS)]


class Writer:
    """A writer's process, and what it says."""

    def __init__(self, job: Job) -> None:
        self.log = Path(job.folder) / f"writer-{job.number}.jsonl"
        command = [sys.executable, "-m", "tests.catalogs.writer", json.dumps(asdict(job))]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log)

    def lines(self) -> list[dict[str, Any]]:
        """All it has said so far; a line that a kill cut off was not said."""
        return [json.loads(line) for line in self.log.read_text().split("\n")[:-1]]


def seeded(store: Store, version: int) -> dk.Table:
    table = store.create("t", SCHEMA, format_version=version, properties=PROPERTIES)
    dk.append(table, [{"id": i, "value": 0.0} for i in range(SHARED)])
    return table


def rows_of(table: dk.Table) -> dict[int, float]:
    rows = dk.scan(table).to_arrow().to_pylist()
    assert len({r["id"] for r in rows}) == len(rows), "a row is there twice"
    return {r["id"]: r["value"] for r in rows}


def check_history(table: dk.Table, commits: int) -> None:
    """One line of snapshots, each the child of the one before; the numbers are handed out without gap or repeat."""
    snapshots = sorted(table.metadata.snapshots.values(), key=lambda s: s.sequence_number)
    assert len(snapshots) == commits
    assert [s.sequence_number for s in snapshots] == list(range(1, commits + 1))
    assert [s.parent_snapshot_id for s in snapshots[1:]] == [s.snapshot_id for s in snapshots[:-1]]
    if table.format_version == 3:
        assert [s.first_row_id for s in snapshots[1:]] == [s.first_row_id + s.added_rows for s in snapshots[:-1]]
        ids = dk.scan(table, columns=["_row_id"]).to_arrow()["_row_id"].to_pylist()
        assert len(set(ids)) == len(ids)
        assert max(ids) < table.metadata.next_row_id


@pytest.mark.slow
def test_writers_that_are_killed(shared: Store) -> None:
    """What a writer was told is there; what it was not told may be; the table is whole."""
    seeded(shared, 3)
    writers = [Writer(job) for job in jobs(shared)]
    deadline = time.monotonic() + 60
    while not all(writer.lines() for writer in writers):  # each has come as far as its first commit
        assert time.monotonic() < deadline
        time.sleep(0.05)
    time.sleep(random.uniform(0.5, 1.0))
    for writer in writers:
        writer.process.kill()
        writer.process.wait()
    lines = [line for writer in writers for line in writer.lines()]
    told = {i for line in lines for i in line.get("done", ())}
    tried = {i for line in lines for i in line.get("start", ())}
    table = shared.load("t")
    there = set(rows_of(table)) - set(range(SHARED))
    assert told <= there <= tried
    assert len(there - told) <= 2 * WRITERS  # of each, the commit it was at
    dk.append(table, [{"id": -1, "value": 0.0}])
    check_history(table, len(table.metadata.snapshots))
    print(f"\n{shared.kind}: {WRITERS} killed, {len(told)} rows told, {len(there - told)} landed untold")
