"""`deletekit sync-delta`, `repack` and `clean-up-delta`: what they do, and say they do."""

import json
import re
from pathlib import Path

import deletekit as dk
from tests.cli.conftest import Run
from tests.delta.handmade import HandMade, remove, with_vector
from tests.tables import new_catalog


def ids(warehouse: Path) -> list[int]:
    with new_catalog(warehouse) as catalog:
        return sorted(dk.scan(dk.load_table(catalog, "demo.d")).to_arrow()["id"].to_pylist())


def test_from_the_first_sync_to_the_clean_up(run: Run, tmp_path: Path) -> None:
    delta, warehouse = HandMade(tmp_path / "delta"), tmp_path / "warehouse"
    place = ("--warehouse", warehouse, "demo.d")
    add = delta.data(range(10))
    first = with_vector(add, delta.vector([0]))
    delta.commit(first)
    done = run("sync-delta", delta.path, *place, "--deletion-vectors", "reference")
    assert done.exit_code == 0, done.output
    assert re.search(r"^version +0$", done.output, re.MULTILINE)
    assert "pyiceberg" in run("sync-delta", "--help").output, "who reads such a table"
    assert ids(warehouse) == list(range(1, 10))
    assert re.search(r"^vectors +1$", run("repack", *place).output, re.MULTILINE)
    delta.commit(with_vector(add, delta.vector([0, 1])), remove(first))
    answer = json.loads(run("sync-delta", delta.path, *place, "--json").output)
    assert (answer["previous_version"], answer["version"], len(answer["snapshot_ids"])) == (0, 1, 1)
    assert answer["summary"]["added-dvs"] == "1"
    again = json.loads(run("sync-delta", delta.path, *place, "--json").output)
    assert (again["previous_version"], again["version"], again["snapshot_ids"]) == (1, 1, [])
    tried = run("clean-up-delta", *place, "--older-than", str(2**61), "--dry-run")
    assert (tried.exit_code, tried.output.endswith("Nothing was changed.\n")) == (0, True)
    cleaned = json.loads(run("clean-up-delta", *place, "--older-than", str(2**61), "--json").output)
    assert len(cleaned["snapshot_ids"]) == 2
    assert ids(warehouse) == list(range(2, 10))


def test_a_table_of_no_catalog_is_refused(run: Run, tmp_path: Path) -> None:
    nowhere = run("sync-delta", tmp_path / "nothing", "demo.d")
    assert (nowhere.exit_code, "--warehouse" in nowhere.stderr) == (1, True)
