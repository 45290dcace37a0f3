"""TABLE: a path, a table of the embedded catalog, a table of any pyiceberg catalog."""

import json
import re
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

import deletekit as dk
from tests.cli.conftest import ROOT, Run, RunProgram

GOLDEN = ROOT / "tests" / "golden" / "metadata"

Load = Callable[[str], dk.Table]


def test_each_way_opens_the_same_table(run: Run, warehouse: Path, table: Load) -> None:
    metadata_file = table("demo.users").metadata_location
    sql = ["-p", "type=sql", "-p", f"uri=sqlite:///{warehouse / 'catalog.db'}", "-p", f"warehouse={warehouse}"]
    ways = [
        [metadata_file],
        [f"file://{metadata_file}"],
        [warehouse / "demo" / "users"],
        [f"file://{warehouse / 'demo' / 'users'}"],
        [warehouse / "demo" / "users" / "metadata"],
        ["demo.users", "--warehouse", warehouse],
        ["demo.users", "--warehouse", warehouse, "--catalog-name", "local"],
        ["demo.users", "--catalog", "local", *sql],
    ]
    shown = []
    for way in ways:
        result = run("inspect", *way, "--json")
        assert result.exit_code == 0, result.stderr
        document = json.loads(result.stdout)
        location = document.pop("metadata-location")
        assert location.removeprefix("file://") == metadata_file
        shown.append(document)
    assert all(document == shown[0] for document in shown)


@pytest.mark.parametrize("name", ["v1_new", "v2_new", "v3_new", "v2_no_current_snapshot"])
def test_metadata_that_java_wrote(run: Run, name: str) -> None:
    file = GOLDEN / f"{name}.metadata.json"
    as_json = run("inspect", file, "--json")
    assert json.loads(as_json.stdout) == dk.inspect(dk.from_metadata(file))
    text = run("inspect", file)
    assert text.exit_code == 0
    assert re.search(rf"^  format version +{name[1]}$", text.stdout, re.MULTILINE)
    for field in json.loads(as_json.stdout)["metadata"]["schemas"][-1]["fields"]:
        assert field["name"] in text.stdout


def test_sort_orders_properties_and_refs_of_java_are_shown(run: Run) -> None:
    new = run("inspect", GOLDEN / "v2_new.metadata.json").stdout
    assert "Sort order 1  default" in new
    assert 'größe "x"' in new
    refs = run("inspect", GOLDEN / "v2_no_current_snapshot.metadata.json").stdout
    assert "audit" in refs


def test_a_rest_catalog(run: Run, rest_catalog: dict[str, str]) -> None:
    catalog = dk.load_catalog("cli", **rest_catalog)
    rows = dk.datasets.animals()
    dk.append(dk.create_table(catalog, "cli_test.animals", rows.schema, format_version=3), rows)
    where = ["--catalog", "cli", *(a for k, v in rest_catalog.items() for a in ("-p", f"{k}={v}")), "cli_test.animals"]
    deleted = run("delete", *where, "category is null", "--mode", "deletion-vector", "--json")
    assert deleted.exit_code == 0, deleted.stderr
    assert json.loads(deleted.stdout)["summary"]["added-position-deletes"] == "2"
    assert dk.scan(dk.load_table(catalog, "cli_test.animals")).count() == 2
    catalog.pyiceberg.close()


# --- what is not there ------------------------------------------------------------------------------------------------


def test_a_path_that_is_not_there_says_what_else_TABLE_can_be(run: Run, tmp_path: Path) -> None:  # noqa: N802
    result = run("inspect", "demo.users")
    assert result.exit_code == 1
    assert "--warehouse DIR or --catalog NAME" in result.stderr
    result = run("inspect", tmp_path)
    assert result.exit_code == 1
    assert "no table metadata here" in result.stderr


def test_a_remote_directory_cannot_be_searched(run: Run) -> None:
    result = run("inspect", "s3://bucket/table")
    assert result.exit_code == 1
    assert "*.metadata.json" in result.stderr


@pytest.mark.parametrize("content", [b"", b"not a database, whatever its name says" * 10, None])
def test_a_file_that_is_no_catalog_stays_as_it_is(run: Run, tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "catalog.db"
    if content is None:
        with closing(sqlite3.connect(file)) as connection:
            connection.execute("CREATE TABLE mine (x)")
    else:
        file.write_bytes(content)
    before = file.read_bytes()
    for command in (["inspect", "demo.users"], ["delete", "demo.users", "true"]):
        assert "catalog-not-found" in run(*command, "--warehouse", tmp_path).stderr
    assert file.read_bytes() == before


def test_a_missing_table_is_answered_with_those_there(run: Run, warehouse: Path) -> None:
    result = run("inspect", "demo.user", "--warehouse", warehouse)
    assert result.exit_code == 1
    assert "demo.users" in result.stderr
    assert "demo.history" in result.stderr


def test_a_wrong_catalog_name_is_answered_with_the_right_one(run: Run, fresh: Path) -> None:
    result = run("inspect", "demo.users", "--warehouse", fresh, "--catalog-name", "prod")
    assert result.exit_code == 1
    assert "--catalog-name local" in result.stderr


def test_a_name_without_a_namespace(run: Run, warehouse: Path) -> None:
    assert "namespace.table" in run("inspect", "users", "--warehouse", warehouse).stderr


def test_catalogs_that_cannot_be_opened(run: Run) -> None:
    for properties in (["type=rest"], ["type=nothing"], ["type=rest", "uri=http://127.0.0.1:9"]):
        result = run("inspect", "a.b", "--catalog", "c", *(x for p in properties for x in ("-p", p)))
        assert result.exit_code == 1
        assert result.stderr.startswith("Error: ")
        assert "Traceback" not in result.stderr


def test_a_warehouse_whose_name_needs_quoting(program: RunProgram, fresh: Path, tmp_path: Path) -> None:
    odd = tmp_path / "a b?c#d%41"
    shutil.copytree(fresh, odd)
    assert program("inspect", "demo.users", "--warehouse", odd, "--json").returncode == 0
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([odd.name, fresh.name])
