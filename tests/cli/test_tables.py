"""Tables, snapshots and refs on the command line: as the library sees them."""

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import deletekit as dk
from tests.cli.conftest import Run
from tests.tables import new_catalog

Load = Callable[[str], dk.Table]


def test_tables(run: Run, warehouse: Path, tmp_path: Path) -> None:
    expected = ["demo.empty", "demo.evil", "demo.history", "demo.parts", "demo.types", "demo.users"]
    assert run("tables", "--warehouse", warehouse).stdout.splitlines() == expected
    found = json.loads(run("tables", "--warehouse", warehouse, "demo", "--json").stdout)
    assert found == {"catalog": "local", "tables": expected}
    assert run("tables", "--warehouse", warehouse, "nope").exit_code == 1
    missing = run("tables", "--warehouse", tmp_path / "none")
    assert (missing.exit_code, "no embedded catalog here" in missing.stderr) == (1, True)
    assert list(tmp_path.iterdir()) == []  # looking makes no catalog
    assert run("tables").exit_code == 1


def test_create(run: Run, tmp_path: Path) -> None:
    rows = tmp_path / "people.csv"
    rows.write_text("id,born\n1,2001-02-03\n2,2001-03-04\n", encoding="utf-8")
    made = run("create", "--warehouse", tmp_path / "wh", "demo.people", rows, "--partition-by", "month(born)", "--json")
    document = json.loads(made.stdout)
    new = {"rows": 2, "columns": ["id", "born"], "new_warehouse": str(tmp_path / "wh")}
    assert {name: document[name] for name in new} == new
    assert run("create", "--warehouse", tmp_path / "wh", "demo.people", rows).exit_code == 1
    assert "new_warehouse" not in run("create", "--warehouse", tmp_path / "wh", "demo.others", rows, "--json").stdout
    assert '"2"' not in run("scan", "--warehouse", tmp_path / "wh", "demo.people", "born < '2001-03-01'").stdout


def test_tables_of_nested_namespaces(run: Run, tmp_path: Path) -> None:
    with new_catalog(tmp_path) as catalog:
        names = ["a.b.c.t", "a.b.t", "a.t", "other.t"]
        for name in names:
            dk.create_table(catalog, name, pa.schema([("id", pa.int64())]))
        assert catalog.list_tables(("a", "b")) == catalog.list_tables("a.b") == [("a", "b", "t")]
    assert run("tables", "--warehouse", tmp_path).stdout.splitlines() == names
    assert run("tables", "--warehouse", tmp_path, "a.b").stdout.splitlines() == ["a.b.t"]
    assert "a.b.c.t, a.b.t" in run("inspect", "--warehouse", tmp_path, "a.nope").stderr


def test_snapshots(run: Run, warehouse: Path, table: Load) -> None:
    metadata = table("demo.history").metadata
    document = json.loads(run("snapshots", "--warehouse", warehouse, "demo.history", "--json").stdout)
    assert [s["snapshot-id"] for s in document["snapshots"]] == list(metadata.snapshots)[::-1]
    assert document["snapshots"][0]["summary"] == metadata.snapshots[document["current-snapshot-id"]].summary
    assert set(document["refs"]) == {"main", "loaded", "dev"}
    text = run("snapshots", warehouse / "demo" / "history").stdout
    assert [str(s) in text for s in metadata.snapshots] == [True] * 3
    loaded = run("snapshots", "--warehouse", warehouse, "demo.history", "--ref", "loaded", "--json")
    assert len(json.loads(loaded.stdout)["snapshots"]) == 1
    one = run("snapshots", "--warehouse", warehouse, "demo.history", "--limit", "1", "--json")
    assert len(json.loads(one.stdout)["snapshots"]) == 1
    assert "nothing was ever committed" in run("snapshots", "--warehouse", warehouse, "demo.empty").stdout


def test_all_snapshots_are_in_the_json(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deletekit.cli.tables._SNAPSHOTS", 1)
    with new_catalog(tmp_path) as catalog:
        table = dk.create_table(catalog, "n.many", pa.schema([("id", pa.int64())]))
        for number in range(3):
            dk.append(table, [{"id": number}])
    where = ["snapshots", "--warehouse", tmp_path, "n.many"]
    assert len(json.loads(run(*where, "--json").stdout)["snapshots"]) == 3
    assert "2 older" in run(*where).stdout
    assert "older" not in run(*where, "--limit", "0").stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_as_the_help_says(run: Run, monkeypatch: pytest.MonkeyPatch, shell: str) -> None:
    assert f"_DELETEKIT_COMPLETE={shell}_source deletekit" in run("--help").stdout
    words = {"COMP_WORDS": "deletekit up", "COMP_CWORD": "up" if shell == "fish" else "1"}
    for name, value in {"_DELETEKIT_COMPLETE": f"{shell}_complete", **words}.items():
        monkeypatch.setenv(name, value)
    assert {"update", "upgrade"} <= set(run().stdout.replace(",", "\n").replace("\t", "\n").split())


def test_names_of_tables_complete(run: Run, warehouse: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def offered(*words: object) -> list[str]:
        monkeypatch.setenv("COMP_WORDS", " ".join(map(str, ("deletekit", *words))))
        monkeypatch.setenv("COMP_CWORD", str(len(words)))
        return [line.partition(",")[2] for line in run().stdout.splitlines() if line]

    monkeypatch.setenv("_DELETEKIT_COMPLETE", "bash_complete")
    assert offered("scan", "--warehouse", warehouse, "demo.p") == ["demo.parts"]
    assert offered("scan", "--warehouse", warehouse / "none", "demo.p") == []
    assert not (warehouse / "none").exists()
