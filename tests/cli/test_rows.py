"""Rows on the command line: written as Arrow and a Python list read them, and a refusal writes nothing."""

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import BinaryType, FixedType, NestedField, StringType, TimestampType, TimestamptzType

import deletekit as dk
from tests.cli.conftest import Run
from tests.tables import new_catalog

NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)
LEFT = [{"id": 2, "name": "User-2", "value": 200.0}, {"id": 4, "name": None, "value": 400.0}]


def rows(warehouse: Path, name: str = "demo.users", ref: str = "main") -> dict[int, tuple[Any, Any]]:
    with new_catalog(warehouse) as catalog:
        found = dk.scan(dk.load_table(catalog, name), ref=ref).to_arrow().to_pylist()
    return {row["id"]: (row["name"], row["value"]) for row in found}


def snapshots(warehouse: Path) -> int:
    with new_catalog(warehouse) as catalog:
        return len(dk.load_table(catalog, "demo.users").metadata.snapshots)


# --- scan -------------------------------------------------------------------------------------------------------------


def test_rows_on_the_screen(run: Run, warehouse: Path) -> None:
    shown = run("scan", warehouse / "demo" / "users").stdout.splitlines()
    assert [line.split() for line in shown] == [
        ["id", "name", "value"],
        ["2", "'User-2'", "200.0"],
        ["4", "NULL", "400.0"],
    ]
    document = json.loads(run("scan", "--warehouse", warehouse, "demo.users", "--json").stdout)
    assert (document["rows"], document["columns"], document["more"]) == (LEFT, ["id", "name", "value"], False)


def test_columns_that_do_not_fit_are_left_out_and_no_number_is_broken(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = {f"column_{i}": 1234567890123 + i for i in range(14)} | {"名前": "川" * 30}
    with new_catalog(tmp_path) as catalog:
        dk.create_table(catalog, "n.wide", [row], rows=True)
    monkeypatch.setenv("COLUMNS", "80")
    shown = run("scan", "--warehouse", tmp_path, "n.wide").stdout.splitlines()
    assert [line.split() for line in shown[:2]] == [[*row][:5], [str(value) for value in row.values()][:5]]
    assert shown[2:] == ["… and 10 more columns; --column chooses them, --json has all"]
    alone = run("scan", "--warehouse", tmp_path, "n.wide", "--column", "column_0", "--column", "名前").stdout
    assert "川" * 30 in alone


def test_a_commit_is_told_in_three_lines(run: Run, fresh: Path) -> None:
    told = run("delete", "--warehouse", fresh, "demo.users", "id = 2").stdout.splitlines()
    assert len(told) == 3
    assert "1 row matched" in told[0]
    assert " 0" not in " ".join(told)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"8,x,wrong,", "value: CSV conversion error to double: invalid value 'wrong'"),
        (b"8,x,,2024-01-01T00:00:00", "at: CSV conversion error to timestamp[us, tz=UTC]: expected a zone offset in "),
        (b"8,\xff,,", "name: CSV conversion error to string: invalid UTF8 data"),
        (b"\xff,x,,", "id: CSV conversion error to int32: invalid value"),
    ],
)
def test_a_value_of_csv_that_does_not_fit_is_named_by_line_and_column(
    run: Run, fresh: Path, tmp_path: Path, line: bytes, words: str
) -> None:
    with new_catalog(fresh) as catalog:
        dk.add_column(dk.load_table(catalog, "demo.users"), "at", "timestamptz")
    file = tmp_path / "rows.csv"
    file.write_bytes(b'id,name,value,at\n7,"two\nlines",1.5,\n' + line + b"\n")
    failed = run("append", "--warehouse", fresh, "demo.users", file)
    assert failed.exit_code == 1
    assert f"line 4, column {words}" in failed.stderr


def test_what_is_asked_for(run: Run, warehouse: Path) -> None:
    where = ["scan", "--warehouse", warehouse, "demo.parts", "id > 90", "--column", "kind", "--column", "id"]
    document = json.loads(run(*where, "--limit", "2", "--json").stdout)
    assert (document["columns"], len(document["rows"]), document["more"]) == (["kind", "id"], 2, True)
    assert "--limit 0 shows all" in run(*where, "--limit", "2").stdout
    assert len(json.loads(run(*where, "--limit", "0", "--json").stdout)["rows"]) == 9
    old = json.loads(run("scan", "--warehouse", warehouse, "demo.history", "--ref", "loaded", "--json").stdout)
    assert [row["id"] for row in old["rows"]] == [1, 2, 3, 4]
    assert "No rows." in run("scan", "--warehouse", warehouse, "demo.empty").stdout
    assert run("scan", "--warehouse", warehouse, "demo.parts", "id > 90", "--count").stdout == "9\n"


def read_json(file: Path) -> pa.Table:
    return pa.Table.from_pylist([json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()])


READERS: dict[str, Any] = {
    "parquet": pq.read_table,
    "csv": lambda file: pa_csv.read_csv(
        file, convert_options=pa_csv.ConvertOptions(strings_can_be_null=True, quoted_strings_can_be_null=False)
    ),
    "json": read_json,
    "arrow": lambda file: pa.ipc.open_file(file).read_all(),
}


@pytest.mark.parametrize("kind", READERS)
def test_rows_in_a_file(run: Run, warehouse: Path, tmp_path: Path, kind: str) -> None:
    target = tmp_path / f"users.{kind}"
    command = ["scan", "--warehouse", warehouse, "demo.users", "-o", target]
    done = json.loads(run(*command, "--json").stdout)
    assert (done["rows"], done["bytes"], done["file"]) == (2, target.stat().st_size, str(target))
    assert READERS[kind](target).to_pylist() == LEFT
    assert [f.name for f in tmp_path.iterdir()] == [target.name]
    again = run(*command)
    assert (again.exit_code, "file exists already" in again.stderr) == (1, True)
    assert re.search(r"^rows +1$", run(*command, "--overwrite", "--limit", "1").stdout, re.MULTILINE)
    assert READERS[kind](target).num_rows == 1


def test_a_file_that_cannot_be_written_is_refused_before_it_is_there(run: Run, warehouse: Path, tmp_path: Path) -> None:
    for name, table, words in (
        ("t.csv", "demo.types", "CSV cannot hold this column"),
        ("t.xml", "demo.users", "does not tell the format"),
        ("no/t.csv", "demo.users", "storage"),
    ):
        done = run("scan", "--warehouse", warehouse, table, "-o", tmp_path / name)
        assert (done.exit_code, words in done.stderr) == (1, True), done.output
    assert list(tmp_path.iterdir()) == []
    assert run("scan", "--warehouse", warehouse, "demo.users", "--format", "csv").exit_code == 2
    types = tmp_path / "types.json"
    assert run("scan", "--warehouse", warehouse, "demo.types", "-o", types).exit_code == 0
    assert [json.loads(line)["id"] for line in types.read_text(encoding="utf-8").splitlines()] == [2]


# --- append, update, merge --------------------------------------------------------------------------------------------


NEW = [{"id": 7, "name": "007", "value": 0.5}, {"id": 8, "name": None, "value": None}]


def file_of(folder: Path, kind: str) -> Path:
    file = folder / f"new.{kind}"
    if kind == "csv":
        file.write_text("value,id,name\n0.5,7,007\n,8,\n", encoding="utf-8")
    elif kind == "json":
        file.write_text("".join(json.dumps(row) + "\n" for row in NEW), encoding="utf-8")
    elif kind == "arrow":
        table = pa.Table.from_pylist(NEW)
        with pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table)
    else:
        pq.write_table(pa.Table.from_pylist(NEW), file)
    return file


@pytest.mark.parametrize("kind", READERS)
def test_append(run: Run, fresh: Path, tmp_path: Path, kind: str) -> None:
    file = file_of(tmp_path, kind)
    done = run("append", "--warehouse", fresh, "demo.users", file)
    assert done.exit_code == 0, done.stderr
    found = rows(fresh)
    assert (found[7], found[8], len(found)) == (("007", 0.5), (None, None), 6)


def test_append_several_files_in_one_commit(run: Run, fresh: Path, tmp_path: Path) -> None:
    for number in range(10, 14):
        (tmp_path / f"{number}.csv").write_text(f"id\n{number}\n")
    done = run("append", "--warehouse", fresh, "demo.users", file_of(tmp_path, "parquet"), tmp_path / "1[0-2].csv")
    assert done.exit_code == 0, done.stderr
    assert (sorted(rows(fresh))[2:], snapshots(fresh)) == ([3, 4, 7, 8, 10, 11, 12], 2)


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_folders_are_no_columns(run: Run, fresh: Path, tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "name=other" / "day=1"
    folder.mkdir(parents=True)
    done = run("append", "--warehouse", fresh, "demo.users", file_of(folder, kind))
    assert done.exit_code == 0, done.stderr
    assert rows(fresh)[7] == ("007", 0.5)


COPIED: list[dict[str, Any]] = [
    {"text": None, "bytes": b"\0\xff", "three": b"abc", "naive": NOON.replace(tzinfo=None), "zoned": NOON},
    {"text": "", "bytes": b"", "three": None, "naive": None, "zoned": None},
]


@pytest.mark.parametrize("columns", [["text"], ["text", "bytes", "three", "naive", "zoned"]])
@pytest.mark.parametrize("kind", ["csv", "json"])
def test_what_scan_writes_append_reads(run: Run, tmp_path: Path, kind: str, columns: list[str]) -> None:
    columns = columns if kind == "json" else [c for c in columns if c not in ("bytes", "three")]
    schema = Schema(
        NestedField(1, "text", StringType(), required=False),
        NestedField(2, "bytes", BinaryType(), required=False),
        NestedField(3, "three", FixedType(3), required=False),
        NestedField(4, "naive", TimestampType(), required=False),
        NestedField(5, "zoned", TimestamptzType(), required=False),
    )
    with new_catalog(tmp_path) as catalog:
        dk.append(dk.create_table(catalog, "n.old", schema), COPIED)
        dk.create_table(catalog, "n.new", schema)
    file, named = tmp_path / f"rows.{kind}", [part for c in columns for part in ("--column", c)]
    assert run("scan", "--warehouse", tmp_path, "n.old", "-o", file, *named).exit_code == 0
    done = run("append", "--warehouse", tmp_path, "n.new", file)
    assert done.exit_code == 0, done.stderr
    with new_catalog(tmp_path) as catalog:
        found = dk.scan(dk.load_table(catalog, "n.new"), columns=columns).to_arrow().to_pylist()
    assert found == [{name: row[name] for name in columns} for row in COPIED]
    for text in ('{"bytes": "no"}', '{"naive": "2024-01-01T00:00:00+02:00"}', '{"zoned": "2024-01-01T00:00:00"}'):
        file.with_suffix(".json").write_text(text, encoding="utf-8")
        refused = run("append", "--warehouse", tmp_path, "n.new", file.with_suffix(".json"))
        assert (refused.exit_code, "rows cannot be read" in refused.stderr) == (1, True), refused.output


@pytest.mark.parametrize(("kind", "text"), [("csv", "f\n{}\n"), ("json", '{{"f": {}}}')])
def test_a_number_that_is_too_large_for_float_is_refused(run: Run, tmp_path: Path, kind: str, text: str) -> None:
    with new_catalog(tmp_path) as catalog:
        dk.create_table(catalog, "n.floats", pa.schema([("f", pa.float32())]))
    file = tmp_path / f"rows.{kind}"
    for number, code in (("1e39", 1), ("0.1", 0)):
        file.write_text(text.format(number), encoding="utf-8")
        done = run("append", "--warehouse", tmp_path, "n.floats", file)
        assert (done.exit_code, "unexpected" in done.stderr) == (code, False), done.output
    with new_catalog(tmp_path) as catalog:
        found = dk.scan(dk.load_table(catalog, "n.floats")).to_arrow()
    assert found["f"].to_pylist() == pa.array([0.1], pa.float32()).to_pylist()


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("x.csv", "id,nope\n1,2\n", "nope"),
        ("x.csv", "id,name\nten,a\n", "ten"),
        ("x.json", "{", "rows cannot be read"),
        ("x.parquet", "PAR", "rows cannot be read"),
        ("x.xlsx", "", "Parquet, Arrow, CSV and JSON lines"),
    ],
)
def test_a_file_that_does_not_fit_is_refused(
    run: Run, fresh: Path, tmp_path: Path, name: str, text: str, words: str
) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    for command in (["append"], ["merge", "--on", "id"]):
        done = run(command[0], "--warehouse", fresh, "demo.users", tmp_path / name, *command[1:])
        assert (done.exit_code, words in done.stderr) == (1, True), done.output
        assert "unexpected" not in done.stderr
    assert snapshots(fresh) == 1


def test_values_of_update_and_merge(run: Run, fresh: Path, tmp_path: Path) -> None:
    where = ["--warehouse", fresh, "demo.users"]
    done = run("update", *where, "id in (1, 4)", "--set", "name='Ann=' || 'Bo'", "--set", "value=id * 0 + 1e3")
    assert done.exit_code == 0, done.stderr
    assert run("update", *where, "id = 2", "--set", "name=null").exit_code == 0
    found = rows(fresh)
    assert (found[1], found[4], found[2]) == (("Ann=Bo", 1000.0), ("Ann=Bo", 1000.0), (None, 200.0))
    file = tmp_path / "changes.csv"
    file.write_text("id,name\n1,Ann\n9,New\n", encoding="utf-8")
    assert run("merge", *where, file, "--on", "id").exit_code == 0
    assert (rows(fresh)[1], rows(fresh)[9]) == (("Ann", 1000.0), ("New", None))
