"""Maintenance on the command line: it says what it did, and does what it says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import deletekit as dk
from tests.cli.conftest import Run
from tests.tables import files_of, ids, metadata_json, new_catalog

SOON = "2100-01-01"


def snapshots(warehouse: Path, name: str = "demo.users") -> list[int]:
    with new_catalog(warehouse) as catalog:
        return [s["snapshot-id"] for s in metadata_json(dk.load_table(catalog, name))["snapshots"]]


def rows(warehouse: Path, name: str = "demo.users") -> list[int]:
    with new_catalog(warehouse) as catalog:
        return ids(dk.load_table(catalog, name))


def files(warehouse: Path, name: str = "demo.users") -> set[str]:
    with new_catalog(warehouse) as catalog:
        return files_of(dk.load_table(catalog, name))


@pytest.fixture
def busy(fresh: Path) -> Path:
    """Give a warehouse whose `demo.users` has three snapshots: four rows, three, and two."""
    with new_catalog(fresh) as catalog:
        table = dk.load_table(catalog, "demo.users")
        dk.delete(table, "id = 1", mode="deletion-vector")
        dk.delete(table, "id = 2", mode="deletion-vector")
    return fresh


def answer(run: Run, *arguments: object) -> dict[str, Any]:
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return dict(json.loads(result.stdout))


def test_expire_snapshots(run: Run, busy: Path) -> None:
    command = ("expire-snapshots", "--warehouse", busy, "demo.users", "--older-than", SOON)
    before, order = files(busy), snapshots(busy)
    tried = run(*command, "--dry-run")
    assert "2 snapshots of demo.users would expire" in tried.output
    assert "Puffin files to be removed (1)" in tried.output
    assert "Nothing was changed." in tried.output
    assert files(busy) == before
    assert answer(run, *command, "--dry-run")["snapshot_ids"] == order[:2]
    done = answer(run, *command)
    assert done["snapshot_ids"] == order[:2]
    assert set(done["deleted_manifest_lists"]) < before
    assert snapshots(busy) == order[2:]
    assert rows(busy) == [3, 4]
    assert "0 snapshots of demo.users expired" in run(*command).output


def test_expire_one_snapshot(run: Run, busy: Path) -> None:
    order = snapshots(busy)
    command = ("expire-snapshots", "--warehouse", busy, "demo.users", "--snapshot")
    assert "1 snapshot of demo.users expired" in run(*command, order[1]).output
    refused = run(*command, order[2])
    assert refused.exit_code == 1
    assert "referenced-snapshot" in refused.stderr
    assert snapshots(busy) == [order[0], order[2]]


def test_remove_orphan_files(run: Run, busy: Path) -> None:
    command = ("remove-orphan-files", "--warehouse", busy, "demo.users")
    stray = busy / "demo" / "users" / "data" / "stray.parquet"
    stray.write_bytes(b"x")
    assert "0 orphans of" in run(*command).output
    early = run(*command, "--older-than", SOON)
    assert (early.exit_code, "orphan-age" in early.stderr) == (1, True)
    tried = run(*command, "--older-than", SOON, "--force", "--dry-run")
    assert "data/stray.parquet" in tried.output
    assert stray.exists()
    done = answer(run, *command, "--older-than", SOON, "--force", "--equal-scheme", "a,b=c")
    assert done["orphan_files"] == [str(stray)]
    assert not stray.exists()
    assert rows(busy) == [3, 4]


def test_rewrite_manifests(run: Run, fresh: Path) -> None:
    with new_catalog(fresh) as catalog:
        table = dk.load_table(catalog, "demo.users")
        dk.append(table, dk.scan(table).to_arrow())
    command = ("rewrite-manifests", "--warehouse", fresh, "demo.users")
    before = files(fresh)
    assert "2 manifests of demo.users would become 1" in run(*command, "--dry-run").output
    assert files(fresh) == before
    assert "2 manifests of demo.users became 1" in run(*command).output
    assert answer(run, *command)["rewritten_manifests"] == []
    assert rows(fresh) == [1, 1, 2, 2, 3, 3, 4, 4]


def test_rollback_and_back(run: Run, busy: Path) -> None:
    order = snapshots(busy)
    place = ("--warehouse", busy, "demo.users")
    tried = run("rollback", *place, order[0], "--dry-run")
    assert "main of demo.users would move" in tried.output
    assert rows(busy) == [3, 4]
    assert "main of demo.users moved" in run("rollback", *place, order[0]).output
    assert rows(busy) == [1, 2, 3, 4]
    assert "is there already" in run("rollback", *place, "--as-of", SOON).output
    refused = run("rollback", *place, order[2])
    assert (refused.exit_code, "not-an-ancestor" in refused.stderr) == (1, True)
    done = answer(run, "set-current-snapshot", *place, order[2])
    assert (done["previous_snapshot_id"], done["snapshot_id"], done["moved"]) == (order[0], order[2], True)
    assert rows(busy) == [3, 4]
    for command in ("rollback", "set-current-snapshot"):
        assert run(command, *place).exit_code == 2


def test_cherry_pick_and_fast_forward(run: Run, fresh: Path) -> None:
    place = ("--warehouse", fresh, "demo.users")
    with new_catalog(fresh) as catalog:
        table = dk.load_table(catalog, "demo.users")
        dk.create_branch(table, "audit")
        source = dk.append(table, dk.scan(table).to_arrow(), ref="audit").snapshot_id
    assert "would move" in run("fast-forward", *place, "main", "audit", "--dry-run").output
    assert f"{source} would be picked by fast-forward" in run("cherry-pick", *place, source, "--dry-run").output
    run("delete", *place, "id = 1")
    assert run("fast-forward", *place, "main", "audit").exit_code == 1
    assert "as a new snapshot" in run("cherry-pick", *place, source).output
    assert rows(fresh) == [1, 2, 2, 3, 3, 4, 4]
    assert "picked before" in run("cherry-pick", *place, source).stderr
    assert "moved" in run("fast-forward", *place, "new", "audit").output
