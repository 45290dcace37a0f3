"""`deletekit delete`: its options, its errors, and a table opened by its path. test_results.py has its modes."""

import json
from pathlib import Path

import deletekit as dk
from tests.cli.conftest import Run
from tests.tables import ids, new_catalog


def rows(warehouse: Path, name: str, ref: str = "main") -> list[int]:
    with new_catalog(warehouse) as catalog:
        return sorted(ids(dk.load_table(catalog, name), ref=ref))


def test_options_reach_the_verb(run: Run, fresh: Path) -> None:
    with new_catalog(fresh) as catalog:
        dk.create_branch(dk.load_table(catalog, "demo.old"), "dev")
    where = ["delete", "--warehouse", fresh, "demo.old"]
    by_keys = run(*where, "id = 1 and name = 'User-1'", "--mode", "equality-delete", "--on", "id", "--json")
    assert json.loads(by_keys.stdout)["added_delete_files"][0]["equality_ids"] == [1]
    two = ["--on", "id", "--on", "name"]
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
    assert "1 row matched" in tried.stdout
    assert tried.stdout.endswith("Nothing was changed.\n")
    assert rows(fresh, "demo.users") == [1, 2, 3, 4]
