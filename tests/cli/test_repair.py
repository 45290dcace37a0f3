"""`deletekit repair`: what would be done, what was done, what was refused."""

import json
from pathlib import Path

import pytest

import deletekit as dk
from tests.cli.conftest import Run
from tests.maintenance.damage import edit_bytes, edit_list
from tests.storage import stored_at
from tests.stored import live_files, manifest_list
from tests.tables import ITEMS, ids, items, new_catalog, unchanged


@pytest.fixture
def broken(fresh: Path) -> Path:
    """A warehouse whose table `demo.users` has two vectors for its data file: of ids 1 and 2."""
    with new_catalog(fresh) as catalog:
        table = dk.load_table(catalog, "demo.users")
        dk.create_branch(table, "dev")
        dk.delete(table, "id = 1", mode="deletion-vector", ref="dev")
        dk.delete(table, "id = 2", mode="deletion-vector")
        edit_list(table, lambda rows: rows.extend(r for r in manifest_list(table, "dev") if r["content"] == 1))
    return fresh


def test_a_dry_run_writes_nothing(run: Run, broken: Path) -> None:
    with new_catalog(broken) as catalog:
        table = dk.load_table(catalog, "demo.users")
        with unchanged(table):
            result = run("repair", "--warehouse", broken, "demo.users", "--dry-run")
            by_path = run("repair", table.metadata_location, "--dry-run")
    assert result.exit_code == by_path.exit_code == 0
    assert "Would be done" in result.stdout
    assert "duplicate-deletion-vector" in result.stdout
    assert "with 2 positions" in result.stdout
    assert result.stdout.endswith("Nothing was written.\n")
    assert "/warehouse/" not in result.stdout, "paths are below the table's location"


def test_a_repair(run: Run, broken: Path) -> None:
    assert run("verify", "--warehouse", broken, "demo.users").exit_code == 1
    result = run("repair", "--warehouse", broken, "demo.users")
    assert result.exit_code == 0
    assert "Done" in result.stdout
    assert "replace" in result.stdout
    with new_catalog(broken) as catalog:
        assert ids(dk.load_table(catalog, "demo.users")) == [3, 4]
    assert run("verify", "--warehouse", broken, "demo.users", "--heads").exit_code == 0
    again = run("repair", "--warehouse", broken, "demo.users")
    assert again.stdout.startswith("Nothing to repair in demo.users.\nWrong metrics of data files (bounds,")
    assert "compact(rewrite_all=True)" in again.stdout


def test_as_json(run: Run, broken: Path) -> None:
    kind = ["--kind", "duplicate-deletion-vector", "--json"]
    document = json.loads(run("repair", "--warehouse", broken, "demo.users", *kind).stdout)
    assert (document["table"], document["ref"], document["dry_run"]) == ("demo.users", "main", False)
    assert [a["kind"] for a in document["actions"]] == ["duplicate-deletion-vector"]
    assert document["refused"] == []
    assert document["commit"]["operation"] == "replace"


def test_what_is_refused_is_said(run: Run, broken: Path) -> None:
    with new_catalog(broken) as catalog:
        table = dk.load_table(catalog, "demo.users")
        vector = live_files(table, 1)[0]
        edit_bytes(vector["file_path"], lambda data: data.__setitem__(vector["content_offset"] + 4, 0))
    result = run("repair", "--warehouse", broken, "demo.users", "--kind", "duplicate-deletion-vector")
    assert result.exit_code == 1
    assert "Refused" in result.stdout
    assert "refused: not a deletion vector" in result.stdout


def test_errors(run: Run, broken: Path) -> None:
    with new_catalog(broken) as catalog:
        location = dk.load_table(catalog, "demo.users").metadata_location
    assert "read-only" in run("repair", location).stderr
    assert run("repair", "--warehouse", broken, "demo.users", "--kind", "manifest-count").exit_code == 2
    assert run("repair", "--warehouse", broken, "demo.users", "--ref", "nothing").exit_code == 1


def test_a_file_that_is_gone_is_told_by_repair_inspect_and_explain(run: Run, tmp_path: Path) -> None:
    """One damaged file: the exit code is 1, its name is there, and so is what is sound."""
    with new_catalog(tmp_path) as catalog:
        table = dk.create_table(catalog, "demo.users", ITEMS, format_version=3)
        dk.append(table, items((1, "a", 1.0), (2, "a", 2.0)))
        dk.delete(table, "id = 1", mode="deletion-vector")
        (vector,) = live_files(table, 1)
        stored_at(vector["file_path"]).unlink()
    name = vector["file_path"].rsplit("/", 1)[-1]
    for command in (
        ["repair", "--dry-run"],
        ["inspect", "--deletes"],
        ["explain", "id >= 1"],
    ):
        shown = run(command[0], "--warehouse", tmp_path, "demo.users", *command[1:])
        assert shown.exit_code == 1, shown.output
        assert name in shown.stdout.replace("\n", "").replace(" ", ""), command
        as_json = run(command[0], "--warehouse", tmp_path, "demo.users", *command[1:], "--json")
        assert as_json.exit_code == 1
        assert name in json.dumps(json.loads(as_json.stdout))
    assert "Cannot be repaired" in run("repair", "--warehouse", tmp_path, "demo.users").stdout
    explain = ("explain", "--warehouse", tmp_path, "demo.users", "id = 1")
    assert "UNKNOWN" in run(*explain).stdout
    assert [v["live"] for v in json.loads(run(*explain, "--json").stdout)["versions"]] == [None]
