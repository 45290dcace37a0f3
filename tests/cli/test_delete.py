"""`deletekit delete`: what it did is what it says, and --dry-run says it without doing it."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest

import deletekit as dk
from tests.cli.conftest import Run, RunProgram
from tests.tables import new_catalog

MODES = [
    ("demo.users", "copy-on-write"),
    ("demo.users", "equality-delete"),
    ("demo.users", "deletion-vector"),
    ("demo.users", "merge-on-read"),
    ("demo.old", "copy-on-write"),
    ("demo.old", "equality-delete"),
    ("demo.old", "position-delete"),
    ("demo.old", "merge-on-read"),
]


def ids(warehouse: Path, name: str, ref: str = "main") -> list[int]:
    with new_catalog(warehouse) as catalog:
        return sorted(dk.scan(dk.load_table(catalog, name), ref=ref).to_arrow()["id"].to_pylist())


def fingerprint(warehouse: Path) -> dict[str, str]:
    return {str(f): hashlib.sha256(f.read_bytes()).hexdigest() for f in sorted(warehouse.rglob("*")) if f.is_file()}


@pytest.mark.parametrize(("name", "mode"), MODES)
def test_rows_go_and_the_commit_is_told(run: Run, fresh: Path, name: str, mode: str) -> None:
    result = run("delete", "--warehouse", fresh, name, "id in (1, 3)", "--mode", mode)
    assert result.exit_code == 0, result.stderr
    assert ids(fresh, name) == [2, 4]
    with new_catalog(fresh) as catalog:
        head = dk.load_table(catalog, name).current_snapshot
    assert head is not None
    assert f"Deleted from {name}\n" in result.stdout
    assert re.search(rf"^  snapshot +{head.snapshot_id} on main$", result.stdout, re.MULTILINE)
    assert re.search(rf"^  operation +{head.operation}$", result.stdout, re.MULTILINE)
    for key, value in head.summary.items():
        assert key == "operation" or re.search(rf"^  {key} +{value}$", result.stdout, re.MULTILINE)


def test_files_are_told(run: Run, fresh: Path) -> None:
    text = run("delete", "--warehouse", fresh, "demo.users", "id = 1", "--mode", "deletion-vector").stdout
    added = text.partition("Delete files added (1)\n")[2].splitlines()
    assert re.fullmatch(r"  data/\S+\.puffin", added[0])
    assert re.fullmatch(r"  deletion vector: 1 position · \d+ bytes at offset 4", added[1])
    assert re.fullmatch(r"  of data/\S+\.parquet", added[2])
    text = run("delete", "--warehouse", fresh, "demo.users", "id = 2", "--mode", "copy-on-write").stdout
    assert re.search(r"Delete files removed \(1\)\n  data/\S+\.puffin\n", text)
    assert re.search(r"Data files added \(1\)\n  data/\S+\.parquet\n  2 rows · parquet, ", text)
    assert re.search(r"Data files removed \(1\)\n  data/\S+\.parquet\n  4 rows · parquet, ", text)


def test_json(run: Run, fresh: Path) -> None:
    result = run("delete", "--warehouse", fresh, "demo.users", "id = 1", "--mode", "deletion-vector", "--json")
    document = json.loads(result.stdout)
    with new_catalog(fresh) as catalog:
        table = dk.load_table(catalog, "demo.users")
        entries = [e for m in dk.inspect(table)["manifests"] if m["content"] == 1 for e in m["entries"]]
    head = table.current_snapshot
    assert head is not None
    assert document["snapshot_id"] == head.snapshot_id
    assert document["summary"] == head.summary
    assert document["sequence_number"] == 2
    assert document["attempts"] == 1
    assert document["added_delete_files"] == [e["data_file"] for e in entries]
    assert document["removed_data_files"] == []


def test_nothing_to_delete(run: Run, fresh: Path) -> None:
    before = fingerprint(fresh / "demo")
    result = run("delete", "--warehouse", fresh, "demo.users", "id = 99")
    assert result.exit_code == 0
    assert result.stdout == "No row of demo.users matches: nothing was committed.\n"
    assert fingerprint(fresh / "demo") == before
    document = json.loads(run("delete", "--warehouse", fresh, "demo.users", "id = 99", "--json").stdout)
    assert document["snapshot_id"] is None


def test_options_reach_the_verb(run: Run, fresh: Path) -> None:
    with new_catalog(fresh) as catalog:
        dk.create_branch(dk.load_table(catalog, "demo.old"), "dev")
    where = ["delete", "--warehouse", fresh, "demo.old"]
    by_keys = run(*where, "id = 1 and name = 'User-1'", "--mode", "equality-delete", "--equality-field", "id", "--json")
    assert json.loads(by_keys.stdout)["added_delete_files"][0]["equality_ids"] == [1]
    two = ["--equality-field", "id", "--equality-field", "name"]
    both = run(*where, "id = 2 and name = 'User-2'", "--mode", "equality-delete", *two, "--ref", "dev", "--json")
    assert json.loads(both.stdout)["added_delete_files"][0]["equality_ids"] == [1, 2]
    assert (ids(fresh, "demo.old"), ids(fresh, "demo.old", "dev")) == ([2, 3, 4], [1, 3, 4])
    rows = run(*where, "id = 3", "--mode", "position-delete", "--granularity", "file", "--with-rows", "--json")
    file = json.loads(rows.stdout)["added_delete_files"][0]
    assert {1, 2, 3} <= {pair["key"] for pair in file["column_sizes"]}
    assert "referenced_data_file" in file


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        (["id = 1", "--with-rows"], "mode"),
        (["id = 1", "--equality-field", "id"], "mode"),
        (["id = 1", "--mode", "position-delete"], "format-version"),
        (["nope = 1"], "column-not-found"),
        ([""], "filter"),
        (["id = 1", "--ref", "nope"], "ref-not-found"),
        (["value = 1", "--mode", "equality-delete"], "equality-field"),
    ],
)
@pytest.mark.parametrize("dry", [False, True])
def test_refused_alike_with_and_without_dry_run(
    run: Run, fresh: Path, arguments: list[str], kind: str, dry: bool
) -> None:
    before = fingerprint(fresh)
    result = run("delete", "--warehouse", fresh, "demo.users", *arguments, *(["--dry-run"] if dry else []))
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.startswith("Error: ")
    assert fingerprint(fresh) == before
    assert "kind " in result.stderr, kind


def test_a_filter_that_cannot_be_read_is_shown_with_its_place(run: Run, fresh: Path) -> None:
    """pyparsing's grammar, thousands of letters of it, said nothing."""
    result = run("delete", "--warehouse", fresh, "demo.users", "id = = 1")
    assert result.stderr.splitlines() == [
        "Error: bad filter:",
        "    id = = 1",
        "         ^",
        "not understood at character 6",
        "  kind      filter",
        "  field     where",
        "  found     =",
        "  expected  a column, a number, 'text' in single quotes, true or false",
    ]


def test_a_table_opened_by_its_path_is_read_only(run: Run, fresh: Path) -> None:
    result = run("delete", fresh / "demo" / "users", "id = 1")
    assert result.exit_code == 1
    assert "kind  read-only" in result.stderr
    assert ids(fresh, "demo.users") == [1, 2, 3, 4]


# --- dry run ----------------------------------------------------------------------------------------------------------


def without_names(document: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in document["summary"].items() if not k.endswith("files-size")}


@pytest.mark.parametrize(("name", "mode"), MODES)
def test_dry_run_foretells_the_delete(run: Run, fresh: Path, name: str, mode: str) -> None:
    arguments = ["delete", "--warehouse", fresh, name, "id in (1, 3)", "--mode", mode, "--json"]
    before = fingerprint(fresh)
    rehearsed = json.loads(run(*arguments, "--dry-run").stdout)
    assert fingerprint(fresh) == before
    assert (rehearsed["rows"], rehearsed["data_files"], rehearsed["dry_run"]) == (2, 1, True)
    assert list(rehearsed["rows_by_data_file"].values()) == [2]
    real = json.loads(run(*arguments).stdout)
    assert rehearsed["operation"] == real["operation"]
    assert without_names(rehearsed) == without_names(real)
    assert rehearsed["removed_data_files"] == real["removed_data_files"]


def test_dry_run_in_words(run: Run, fresh: Path) -> None:
    result = run("delete", "--warehouse", fresh, "demo.users", "id in (1, 3)", "--dry-run")
    assert result.stdout.startswith("2 rows in 1 data file of demo.users would be deleted\n  2 rows of data/")
    assert "Data files would be removed (1)" in result.stdout
    assert result.stdout.endswith("\nNothing was written.\n")


def test_dry_run_counts_live_rows_only(run: Run, fresh: Path) -> None:
    run("delete", "--warehouse", fresh, "demo.users", "id = 1", "--mode", "deletion-vector")
    document = json.loads(run("delete", "--warehouse", fresh, "demo.users", "id < 3", "--dry-run", "--json").stdout)
    assert document["rows"] == 1


def test_dry_run_of_a_read_only_table(run: Run, fresh: Path) -> None:
    result = run("delete", fresh / "demo" / "users", "id = 1", "--dry-run")
    assert result.exit_code == 0, result.stderr
    assert "1 row in 1 data file" in result.stdout
    assert "--warehouse or --catalog" in result.stdout
    document = json.loads(run("delete", fresh / "demo" / "users", "id = 1", "--dry-run", "--json").stdout)
    assert document["read_only"] is True


def test_dry_run_of_nothing(run: Run, fresh: Path) -> None:
    result = run("delete", "--warehouse", fresh, "demo.users", "id = 99", "--dry-run")
    assert result.stdout == "0 rows in 0 data files of demo.users would be deleted\n\nNothing was written.\n"


def test_dry_run_refuses_keys_that_would_take_more_rows_along(run: Run, fresh: Path) -> None:
    # Only the rehearsal can know: it takes reading the rows.
    with new_catalog(fresh) as catalog:
        rows = dk.scan(dk.load_table(catalog, "demo.old")).to_arrow()
        dk.append(dk.load_table(catalog, "demo.old"), rows.set_column(1, "name", [["other"] * 4]))
    arguments = ["demo.old", "name = 'other'", "--mode", "equality-delete", "--equality-field", "id"]
    before = fingerprint(fresh)
    results = [run("delete", "--warehouse", fresh, *arguments, *dry) for dry in (["--dry-run"], [])]
    assert [r.exit_code for r in results] == [1, 1]
    assert results[0].stderr == results[1].stderr
    assert fingerprint(fresh) == before


def test_quiet_is_for_progress(program: RunProgram, fresh: Path) -> None:
    done = program("delete", "--warehouse", fresh, "demo.users", "id = 1", "--quiet")
    assert (done.returncode, done.stderr) == (0, "")
    assert "Deleted from demo.users" in done.stdout
