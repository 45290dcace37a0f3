"""`deletekit verify`: findings as text and JSON, and the exit code."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import deletekit as dk
from tests.cli.conftest import Run
from tests.maintenance.damage import edit_file
from tests.storage import stored_at
from tests.tables import new_catalog


@pytest.fixture
def damaged(fresh: Path) -> tuple[Path, str]:
    """A warehouse whose table `demo.users` has a vector of another cardinality; and the vector's path."""
    with new_catalog(fresh) as catalog:
        table = dk.load_table(catalog, "demo.users")
        dk.delete(table, "id in (1, 3)", mode="deletion-vector")
        return fresh, edit_file(table, 1, record_count=1)


def test_a_sound_table(run: Run, warehouse: Path) -> None:
    for name in ("users", "history", "parts", "types", "empty"):
        result = run("verify", "--warehouse", warehouse, f"demo.{name}", "--level", "data")
        assert result.exit_code == 0, result.output
        assert f"No errors, 0 warnings in demo.{name}." in result.stdout


def test_errors_are_exit_code_1_and_named(run: Run, damaged: tuple[Path, str]) -> None:
    warehouse, vector = damaged
    result = run("verify", "--warehouse", warehouse, "demo.users")
    assert result.exit_code == 1
    assert result.stderr == ""
    lines = [line.strip() for line in result.stdout.splitlines()]
    at = lines.index("error  record-count")
    assert lines[at + 1] == "deletion vector has another cardinality"
    assert vector.endswith(lines[at + 2])
    assert lines[at + 3 : at + 6] == ["field      record_count", "found      1", "expected   2"]
    as_json = run("verify", "--warehouse", warehouse, "demo.users", "--json")
    assert as_json.exit_code == 1
    document = json.loads(as_json.stdout)
    assert (document["table"], document["ok"], document["level"]) == ("demo.users", False, "deletes")
    assert document["checked"]["delete_files"] == 1
    found = [f for f in document["findings"] if f["kind"] == "record-count"]
    assert [(f["severity"], f["file"], f["found"], f["expected"]) for f in found] == [("error", vector, 1, 2)]


def test_levels_and_snapshots(run: Run, damaged: tuple[Path, str]) -> None:
    warehouse, _ = damaged
    with new_catalog(warehouse) as catalog:
        first, *_ = sorted(
            dk.load_table(catalog, "demo.users").metadata.snapshots.values(), key=lambda s: s.timestamp_ms
        )
    kinds = {}
    for options in (["--level", "metadata"], ["--heads"], ["--snapshot", str(first.snapshot_id)]):
        shown = json.loads(run("verify", "--warehouse", warehouse, "demo.users", "--json", *options).stdout)
        kinds[options[0]] = {f["kind"] for f in shown["findings"]}, shown["checked"]["snapshots"]
    assert "record-count" not in kinds["--level"][0]
    assert "record-count" in kinds["--heads"][0]
    assert kinds["--heads"][1] == 1
    assert kinds["--snapshot"] == (set(), 1)


def test_a_limit_says_what_it_leaves_out(run: Run, damaged: tuple[Path, str]) -> None:
    warehouse, _ = damaged
    shown = run("verify", "--warehouse", warehouse, "demo.users", "--limit", "1").stdout
    assert "more finding" in shown
    assert "more finding" not in run("verify", "--warehouse", warehouse, "demo.users", "--limit", "0").stdout


def test_what_can_be_repaired_is_said(run: Run, fresh: Path) -> None:
    with new_catalog(fresh) as catalog:
        table = dk.load_table(catalog, "demo.users")
        dk.delete_keys(table, [{"id": 1}])
        dk.delete(table, "true", mode="copy-on-write")
    result = run("verify", "--warehouse", fresh, "demo.users", "--heads")
    assert result.exit_code == 0
    assert "warning  dangling-equality-delete" in result.stdout
    assert "`deletekit repair --dry-run`" in result.stdout


def test_a_read_of_metadata_that_contradicts_itself_warns(fresh: Path) -> None:
    """A process of its own, because here warnings are errors. What is read is on stdout, whole."""
    with new_catalog(fresh) as catalog:
        location = dk.load_table(catalog, "demo.users").metadata_location
    raw = json.loads(stored_at(location).read_bytes())
    stored_at(location).write_bytes(json.dumps(raw | {"last-column-id": 1}).encode())
    command = [sys.executable, "-m", "deletekit.cli", "explain", location, "id = 1", "--json"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["versions"]
    (line,) = done.stderr.splitlines()
    assert line.startswith("warning: metadata of the table at ")
    assert "field last-column-id; found 1" in line
