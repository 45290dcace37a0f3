"""The process ends at every call that changes something, and another one goes on: the rows are those of the dict."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import deletekit as dk
from tests.commit.crashing import CASES, NAME, make_table, run
from tests.commit.faults import KILLED, WHEN, Faults
from tests.invariants import check_table
from tests.tables import live, new_catalog, snapshots_json

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def dying() -> Iterator[subprocess.Popen[str]]:
    """Give the process whose children die."""
    command = [sys.executable, "-m", "tests.commit.crashing"]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(60) == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in CASES if n.startswith("stream.") and "race" not in n])
def test_another_process_goes_on(tmp_path: Path, name: str, dying: subprocess.Popen[str]) -> None:
    assert dying.stdin is not None
    assert dying.stdout is not None
    case, home, kept = CASES[name], tmp_path / "warehouse", tmp_path / "kept"
    with new_catalog(home) as catalog:
        make_table(catalog, case)
    shutil.copytree(home, kept)
    dry = Faults()
    run(home, case, dry)
    with new_catalog(home) as catalog:
        expected, commits = seen(dk.load_table(catalog, NAME))
    kills = 0
    for at, call in enumerate(dry.names, 1):
        for when in WHEN.get(call, ()):
            shutil.rmtree(home)
            shutil.copytree(kept, home)
            dying.stdin.write(json.dumps([str(home), name, at, when]) + "\n")
            dying.stdin.flush()
            assert int(dying.stdout.readline()) == KILLED
            with new_catalog(home) as catalog:
                table = dk.load_table(catalog, NAME)
                case.verb(table)
                assert seen(table.refresh()) == (expected, commits), f"killed at {call}, call {at}, {when}"
                check_table(table, orphans=False)
            kills += 1
    assert kills > 10
    print(f"\n{name}: killed {kills} times")


def seen(table: dk.Table) -> tuple[dict[str, object], int]:
    return {ref: live(table, ref=ref) for ref in table.metadata.refs}, len(snapshots_json(table))
