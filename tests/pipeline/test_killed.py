"""`kill -9` of the driver, again and again in one directory: each step is done once, and the rows are right."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import deletekit as dk
from data.pipeline.delivery import deliver
from data.pipeline.done_steps import STEP
from data.pipeline.expected import difference, expected_rows
from tests.invariants import check_table
from tests.pipeline.flights import some_flights
from tests.tables import new_catalog

ROOT = Path(__file__).parents[2]
DAY = "2014-01-01"
STEPS = (
    "load", f"{DAY} corrections", f"{DAY} cancellations", f"{DAY} privacy_requests", "compact",
    "remove dangling deletes",
)  # fmt: skip
EVERYWHERE = [("deliver", "during"), ("create", "before"), ("create", "after")] + [
    (step, when) for step in STEPS for when in ("during", "before", "after")
]
# A step that writes no data file cannot be caught while it does.
EVERYWHERE = [
    (step, when) for step, when in EVERYWHERE if when != "during" or step in ("deliver", "load", STEPS[1], "compact")
]
CHOSEN = [("load", "during"), ("load", "after"), (STEPS[1], "before"), (STEPS[3], "after"), ("compact", "after")]
KILLS = EVERYWHERE if os.environ.get("DELETEKIT_KILL_EVERYWHERE") else CHOSEN


def drive(directory: Path, step: str, when: str) -> int:
    command = [sys.executable, "-m", "tests.pipeline.killed_driver", str(directory), step, when]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode in (0, -signal.SIGKILL), done.stderr[-3000:]
    return done.returncode


@contextmanager
def table_of(directory: Path) -> Iterator[dk.Table]:
    with new_catalog(directory / "warehouse") as catalog:
        yield dk.load_table(catalog, "pipeline.flights")


@pytest.mark.spark
@pytest.mark.long
def test_every_step_is_done_once(own_spark: None, tmp_path: Path) -> None:
    directory = tmp_path / "run"
    for step, when in KILLS:
        assert drive(directory, step, when) == -signal.SIGKILL, f"not killed {when} {step}"
    assert drive(directory, "", "never") == 0
    report = json.loads((directory / "report.json").read_text())
    assert report["ok"], report["checks"]
    with table_of(directory) as table:
        snapshots = sorted(table.metadata.snapshots.values(), key=lambda s: s.sequence_number)
        assert [s.summary.get(STEP) for s in snapshots] == list(STEPS)
        delivery = deliver(directory, 1, some_flights())
        assert difference(dk.scan(table).to_arrow(), expected_rows(delivery)) is None
        # What the dead drivers wrote and did not commit is not part of the table, and goes.
        assert dk.remove_orphan_files(table, older_than="2100-01-01", force=True).orphan_files
        check_table(table)
        assert difference(dk.scan(table).to_arrow(), expected_rows(delivery)) is None
        before = table.metadata_location
    assert drive(directory, "", "never") == 0
    again = json.loads((directory / "report.json").read_text())
    assert {step["status"] for step in again["steps"]} == {"done before"}
    assert [s["snapshot_id"] for s in again["steps"]] == [s["snapshot_id"] for s in report["steps"]]
    with table_of(directory) as table:
        assert table.metadata_location == before
