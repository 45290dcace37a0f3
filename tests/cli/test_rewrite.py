"""Rewriting on the command line: it says what it did, and does what it says."""

from __future__ import annotations

from pathlib import Path

import pytest

import deletekit as dk
from tests.cli.conftest import Run
from tests.cli.test_maintenance import answer, files, rows, snapshots
from tests.tables import new_catalog


@pytest.fixture
def busy(fresh: Path) -> Path:
    """Give a warehouse whose `demo.users` has a vector and an equality delete: rows 3 and 4 are left."""
    with new_catalog(fresh) as catalog:
        table = dk.load_table(catalog, "demo.users")
        dk.delete(table, "id = 1", mode="deletion-vector")
        dk.delete_keys(table, [{"id": 2}])
    return fresh


def test_compact(run: Run, busy: Path) -> None:
    command = ("compact", "--warehouse", busy, "demo.users", "--rewrite-all")
    before = files(busy)
    tried = run(*command, "--dry-run")
    assert "of demo.users would be rewritten" in tried.output
    assert "Nothing was changed." in tried.output
    assert files(busy) == before
    done = answer(run, *command, "--min-input-files", "2", "--where", "id > 0")
    assert len(done["commits"]) == 1
    assert set(done["rewritten_data_files"]) <= before
    assert not set(done["added_data_files"]) & before
    assert rows(busy) == [3, 4]
    assert "bad option" in run(*command, "--target-file-size-bytes", "0").output


def test_deletes(run: Run, busy: Path) -> None:
    where = ("--warehouse", busy, "demo.users")
    assert (
        "1 equality delete file of demo.users would be converted"
        in run("convert-equality-deletes", *where, "--dry-run").output
    )
    assert len(answer(run, "convert-equality-deletes", *where)["converted_delete_files"]) == 1
    assert "0 position delete files of demo.users rewritten" in run("rewrite-position-deletes", *where).output
    assert "0 dangling deletes of demo.users removed" in run("remove-dangling-deletes", *where).output
    assert rows(busy) == [3, 4]


def test_erase(run: Run, busy: Path) -> None:
    command = ("erase", "--warehouse", busy, "demo.users", "id = 1")
    before = snapshots(busy)
    tried = run(*command, "--dry-run")
    assert "Still in main" in tried.output
    assert snapshots(busy) == before
    assert "Erased from demo.users" in run(*command).output
    assert rows(busy) == [3, 4]
    assert answer(run, *command)["is_erased"] is True
    with new_catalog(busy) as catalog:
        table = dk.load_table(catalog, "demo.users")
        dk.create_tag(table, "v1")
    assert run(*command[:-1], "id = 3", "--ref", "v1").exit_code == 1
    tagged = run(*command[:-1], "id = 3")
    assert tagged.exit_code == 1
    assert "Not erased" in tagged.output
    assert "Still in v1" in tagged.output
    told = run(*command[:-1], "id = 3", "--all-refs")
    assert (told.exit_code, "Erased from demo.users" in told.output, "Tags dropped (1)" in told.output) == (
        0,
        True,
        True,
    )
    assert rows(busy) == [4]
