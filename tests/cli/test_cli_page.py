"""The page of all commands is current, and what it says of all of them is true."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from deletekit.cli import main
from tests.cli.conftest import Run
from tests.tools.build_cli_page import PAGE, cli_page

FOR_PEOPLE = {"explore", "lab", "tour", "workshop-bundle"}


def test_the_page_is_current(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert PAGE.read_text(encoding="utf-8") == cli_page(), "run `python -m tests.tools.build_cli_page`"


def test_every_answer_can_be_json() -> None:
    without = {n for n, c in main.commands.items() if all("--json" not in p.opts for p in c.params)}
    assert without == FOR_PEOPLE
    assert all(f"`{name}`" in PAGE.read_text(encoding="utf-8").partition("## ")[0] for name in FOR_PEOPLE)


ON_A_TABLE: dict[str, list[str]] = {
    "append": ["new.csv"],
    "branch": ["audit"],
    "changes": [],
    "compact": ["--rewrite-all"],
    "convert-equality-deletes": [],
    "delete": ["id = 1"],
    "erase": ["id = 2", "--all-refs"],
    "expire-snapshots": ["--retain-last", "1"],
    "explain": ["id = 3"],
    "inspect": ["--deletes"],
    "make-readable": ["--engine", "snowflake"],
    "merge": ["new.csv", "--on", "id"],
    "readers": ["--engine", "snowflake"],
    "remove-dangling-deletes": [],
    "remove-orphan-files": [],
    "repack": [],
    "repair": [],
    "rewrite-manifests": [],
    "rewrite-position-deletes": [],
    "scan": [],
    "set-current-snapshot": ["--ref", "main"],
    "sinks": [],
    "snapshots": [],
    "stream": ["--key", "id", "changes.csv"],
    "update": ["id = 4", "--set", "value=1"],
    "upgrade": ["3"],
    "verify": [],
}
ELSEWHERE = {
    "add-files",
    "cherry-pick",
    "clean-up-delta",
    "doctor",
    "fast-forward",
    "promote",
    "rollback",
    "sync-delta",
}
"""They need more than a table; their own tests ask for JSON."""


def test_each_command_is_one_of_these() -> None:
    assert set(main.commands) == ON_A_TABLE.keys() | ELSEWHERE | FOR_PEOPLE | {"tables"}


def test_json_is_all_that_is_on_standard_output(
    run: Run, fresh: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("new.csv").write_text("id,name,value\n9,Ann,1.5\n", encoding="utf-8")
    Path("changes.csv").write_text("id,name,value,_change_type\n9,Bo,2.5,insert\n", encoding="utf-8")
    assert set(json.loads(run("tables", "--warehouse", fresh, "--json").stdout)) == {"catalog", "tables"}
    for name, arguments in ON_A_TABLE.items():
        done = run(name, "--warehouse", fresh, "demo.users", *arguments, "--json")
        assert done.exit_code == 0, f"{name}: {done.stderr}"
        assert isinstance(json.loads(done.stdout), dict), name
        assert done.stdout.isascii()
        assert done.stderr == "", name
