"""`deletekit delete`: its sentences, its options, and a table opened by its path. test_results.py has its modes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import deletekit as dk
from tests.cli.conftest import Run, RunProgram
from tests.tables import ids, new_catalog


def rows(warehouse: Path, name: str, ref: str = "main") -> list[int]:
    with new_catalog(warehouse) as catalog:
        return sorted(ids(dk.load_table(catalog, name), ref=ref))


@pytest.mark.parametrize("mode", ["copy-on-write", "deletion-vector", "equality-delete"])
def test_the_sentence_and_the_commit(run: Run, fresh: Path, mode: str) -> None:
    command = ["delete", "--warehouse", fresh, "demo.users", "id in (1, 3)", "--mode", mode]
    what = "Rows with the keys" if mode == "equality-delete" else "2 rows"
    tried = run(*command, "--dry-run").stdout
    assert tried.startswith(f"{what} of demo.users would be deleted.\n")
    assert tried.endswith("\nNothing was changed.\n")
    done = run(*command).stdout
    assert done.startswith(f"{what} of demo.users deleted.\n")
    assert rows(fresh, "demo.users") == [2, 4]
    with new_catalog(fresh) as catalog:
        head = dk.load_table(catalog, "demo.users").current_snapshot
    assert head is not None
    assert re.search(rf"^snapshot id +{head.snapshot_id}$", done, re.MULTILINE)
    for key, value in head.summary.items():
        for text in (tried, done):
            assert re.search(rf"^  {key.replace('-', ' ')} +{value}$", text, re.MULTILINE), key
    again = run(*command[:-3], "id = 1").stdout
    assert again == "No row of demo.users matches: there is nothing to commit.\n"


def test_json(run: Run, fresh: Path) -> None:
    result = run("delete", "--warehouse", fresh, "demo.users", "id = 1", "--mode", "deletion-vector", "--json")
    document = json.loads(result.stdout)
    with new_catalog(fresh) as catalog:
        table = dk.load_table(catalog, "demo.users")
        entries = [e for m in dk.inspect(table)["manifests"] if m["content"] == 1 for e in m["entries"]]
    head = table.current_snapshot
    assert head is not None
    assert (document["snapshot_id"], document["summary"]) == (head.snapshot_id, head.summary)
    assert document["added_delete_files"] == [e["data_file"] for e in entries]


def test_options_reach_the_verb(run: Run, fresh: Path) -> None:
    with new_catalog(fresh) as catalog:
        dk.create_branch(dk.load_table(catalog, "demo.old"), "dev")
    where = ["delete", "--warehouse", fresh, "demo.old"]
    by_keys = run(*where, "id = 1 and name = 'User-1'", "--mode", "equality-delete", "--equality-field", "id", "--json")
    assert json.loads(by_keys.stdout)["added_delete_files"][0]["equality_ids"] == [1]
    two = ["--equality-field", "id", "--equality-field", "name"]
    both = run(*where, "id = 2 and name = 'User-2'", "--mode", "equality-delete", *two, "--ref", "dev", "--json")
    assert json.loads(both.stdout)["added_delete_files"][0]["equality_ids"] == [1, 2]
    assert (rows(fresh, "demo.old"), rows(fresh, "demo.old", "dev")) == ([2, 3, 4], [1, 3, 4])
    done = run(*where, "id = 3", "--mode", "position-delete", "--granularity", "file", "--with-rows", "--json")
    file = json.loads(done.stdout)["added_delete_files"][0]
    assert {1, 2, 3} <= {pair["key"] for pair in file["column_sizes"]}
    assert "referenced_data_file" in file


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
    where = ("delete", fresh / "demo" / "users", "id = 1")
    refused = run(*where)
    assert (refused.exit_code, "kind  read-only" in refused.stderr) == (1, True)
    tried = run(*where, "--dry-run")
    assert tried.exit_code == 0, tried.stderr
    assert "1 row of" in tried.stdout
    assert "--warehouse or --catalog" in tried.stdout
    assert rows(fresh, "demo.users") == [1, 2, 3, 4]


def test_quiet_is_for_progress(program: RunProgram, fresh: Path) -> None:
    done = program("delete", "--warehouse", fresh, "demo.users", "id = 1", "--quiet")
    assert (done.returncode, done.stderr) == (0, "")
    assert "1 row of demo.users deleted." in done.stdout
