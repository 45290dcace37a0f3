"""`deletekit sync-delta` of many tables, again and again, and as a dry run."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import deletekit as dk
from tests.cli.conftest import Run
from tests.delta.handmade import HandMade, remove, with_vector
from tests.tables import new_catalog


def ids(warehouse: Path, name: str) -> list[int]:
    with new_catalog(warehouse) as catalog:
        return sorted(dk.scan(dk.load_table(catalog, name)).to_arrow()["id"].to_pylist())


def config(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "tables.toml"
    path.write_text(text)
    return path


@pytest.fixture
def two(tmp_path: Path) -> tuple[HandMade, HandMade, Path]:
    """Two Delta tables of one version, and the file that names them and a third one that is missing."""
    one, other = (HandMade(tmp_path / name) for name in ("one", "other"))
    one.commit(one.data(range(3)))
    other.commit(other.data(range(5)))
    text = f"""
        [defaults]
        warehouse = "{tmp_path}/wh"
        [[tables]]
        source = "{one.path}"
        table = "demo.one"
        [[tables]]
        source = "{tmp_path}/missing"
        table = "demo.missing"
        [[tables]]
        source = "{other.path}"
        table = "demo.other"
        format_version = 2
    """
    return one, other, config(tmp_path, text)


def test_one_table_that_fails_does_not_stop_the_others(
    run: Run, tmp_path: Path, two: tuple[HandMade, HandMade, Path]
) -> None:
    done = run("sync-delta", "--config", two[2], "--json")
    assert done.exit_code == 1
    tables = json.loads(done.stdout)["tables"]
    assert [t.get("version") for t in tables] == [0, None, 0]
    assert tables[1]["kind"] == "delta-table-not-found"
    assert ids(tmp_path / "wh", "demo.other") == [0, 1, 2, 3, 4]
    again = run("sync-delta", "--config", two[2], "--verify")
    assert "table demo.one · previous version 0 · version 0" in again.output


@pytest.mark.parametrize(
    "error", [ValueError("odd"), RecursionError("deep"), KeyError("x"), MemoryError(), OSError(5, "io")]
)
def test_whatever_one_table_raises_stays_its_own(
    run: Run, tmp_path: Path, two: tuple[HandMade, HandMade, Path], error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also what no table should raise: it is reported by its class, and the others go on."""
    sync = dk.sync_delta

    def odd(source: Any, catalog: Any, name: Any, **options: Any) -> Any:
        if name == "demo.missing":
            raise error
        return sync(source, catalog, name, **options)

    monkeypatch.setattr(dk, "sync_delta", odd)
    done = run("sync-delta", "--config", two[2], "--json")
    assert done.exit_code == 1
    tables = json.loads(done.stdout)["tables"]
    assert [t.get("version") for t in tables] == [0, None, 0]
    assert tables[1]["error"].startswith(f"{type(error).__name__}: ")
    assert ids(tmp_path / "wh", "demo.other") == [0, 1, 2, 3, 4]


def test_void_columns_are_said(run: Run, tmp_path: Path) -> None:
    delta = HandMade(tmp_path / "delta")
    fields = json.loads(delta.schema)["fields"]
    delta.schema = json.dumps({"type": "struct", "fields": [*fields, {**fields[0], "name": "n", "type": "void"}]})
    delta.commit(delta.data(range(3)))
    done = run("sync-delta", delta.path, "--warehouse", tmp_path / "wh", "demo.t")
    assert re.search(r"^void columns  1\n  n$", done.output, re.MULTILINE)
    done = run("sync-delta", delta.path, "--warehouse", tmp_path / "wh", "demo.t", "--json")
    assert json.loads(done.stdout)["void_columns"] == ["n"]


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("[[tables]]\nsource = 'x'", "tables[1].table"),
        ("[[tables]]\nsource = 'x'\ntable = 'a.b'\nforce = true", "tables[1].force"),
        ("[[tables]]\nsource = 'x'\ntable = 'a.b'\nformat_version = '2'", "tables[1].format_version"),
        ("[[tables]]\nsource = 'x'\ntable = 'a.b'\nwarehouse = 'w'\ncatalog = 'c'", "tables[1]"),
        ("[[tables]]\nsource = 'x'\ntable = 'a.b'\n" * 2, "tables"),
        ("[tabels]\n", "tabels"),
        ("", "tables"),
        ("[[tables", "config"),
    ],
)
def test_what_a_file_of_tables_may_not_say(run: Run, tmp_path: Path, text: str, field: str) -> None:
    done = run("sync-delta", "--config", config(tmp_path, text))
    assert (done.exit_code, re.search(rf"field\s+{re.escape(field)}\n", done.stderr) is not None) == (1, True)


def test_one_name_in_two_catalogs(run: Run, tmp_path: Path, two: tuple[HandMade, HandMade, Path]) -> None:
    """Catalogs of one warehouse, told apart by their names."""
    table = f"[[tables]]\nsource = '{two[0].path}'\ntable = 'demo.t'\nwarehouse = '{tmp_path}/wh'\ncatalog_name = "
    path = config(tmp_path, f"{table}'a'\nlocation = '{tmp_path}/a'\n{table}'b'\nlocation = '{tmp_path}/b'\n")
    done = run("sync-delta", "--config", path, "--json")
    assert (done.exit_code, [t["version"] for t in json.loads(done.stdout)["tables"]]) == (0, [0, 0])


def test_usage(run: Run, tmp_path: Path) -> None:
    path = config(tmp_path, "")
    for arguments in (
        ("source-alone",),
        ("source", "a.b", "--config", path),
        ("source", "a.b", "--warehouse", "w", "--interval", "3"),
        ("source", "a.b", "--warehouse", "w", "--follow", "--dry-run"),
    ):
        assert run("sync-delta", *arguments).exit_code == 2, arguments


def test_a_dry_run_says_what_would_be_and_writes_nothing(run: Run, tmp_path: Path) -> None:
    delta, place = HandMade(tmp_path / "delta"), ("--warehouse", tmp_path / "wh", "demo.d")
    adds = [delta.data(range(i, i + 5), f"{i}.parquet") for i in (0, 10, 20)]
    delta.commit(*adds)
    first = json.loads(run("sync-delta", delta.path, *place, "--dry-run", "--json").stdout)
    assert [len(first["planned"][name]) for name in ("added", "replaced", "removed")] == [3, 0, 0]
    with new_catalog(tmp_path / "wh") as catalog, pytest.raises(dk.NotFoundError):
        dk.load_table(catalog, "demo.d")
    run("sync-delta", delta.path, *place)
    delta.commit(remove(adds[0]), delta.data(range(30, 31), "new.parquet"))
    delta.commit(remove(adds[1]), with_vector(adds[1], delta.vector([0])))
    before = {p: p.read_bytes() for p in (tmp_path / "wh").rglob("*") if p.is_file()}
    planned = json.loads(run("sync-delta", delta.path, *place, "--dry-run", "--json").stdout)
    names = {verb: [Path(p).name for p in paths] for verb, paths in planned["planned"].items()}
    assert names == {"added": ["new.parquet"], "replaced": ["10.parquet"], "removed": ["0.parquet"]}
    assert planned["version"] == 2
    told = run("sync-delta", delta.path, *place, "--dry-run").output
    assert re.search(r"^planned added  1\n  .*new.parquet$", told, re.MULTILINE)
    assert told.endswith("\nNothing was changed.\n")
    assert {p: p.read_bytes() for p in (tmp_path / "wh").rglob("*") if p.is_file()} == before
    done = run("sync-delta", delta.path, *place)
    assert re.search(r"^version +2$", done.output, re.MULTILINE)


def follower(path: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "deletekit.cli", "sync-delta", "--config", str(path)]
    more = ["--follow", "--interval", "0.05", "--json"]
    return subprocess.Popen([*command, *more], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def line_of(process: subprocess.Popen[str], **wanted: Any) -> dict[str, Any]:
    """The next line that has these values."""
    assert process.stdout is not None
    for line in process.stdout:
        found = json.loads(line)
        if all(found.get(name) == value for name, value in wanted.items()):
            return dict(found)
    raise AssertionError(process.stderr and process.stderr.read())


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_following_many_tables(tmp_path: Path, two: tuple[HandMade, HandMade, Path], number: signal.Signals) -> None:
    one, other, path = two
    process = follower(path)
    try:
        assert line_of(process, table="demo.missing")["kind"] == "delta-table-not-found"
        line_of(process, table="demo.other", version=0)
        one.commit(one.data(range(3, 6)))
        line_of(process, table="demo.one", version=1)
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
        other.commit(other.data(range(5, 6)))
        process = follower(path)
        line_of(process, table="demo.other", version=1)
        process.send_signal(number)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.communicate()
    assert ids(tmp_path / "wh", "demo.one") == list(range(6))
    assert ids(tmp_path / "wh", "demo.other") == list(range(6))
