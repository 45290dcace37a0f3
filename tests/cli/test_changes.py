"""Changes on the command line: read back by others in every format, and followed without a loss, whatever dies."""

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import deletekit as dk
from tests.cli.conftest import Run, environment
from tests.tables import new_catalog

NAMES = pa.schema([("id", pa.int64()), ("name", pa.string())])
Rows = list[dict[str, Any]]


@pytest.fixture
def history(tmp_path: Path) -> Iterator[dk.Table]:
    """Table `demo.users` of the warehouse `wh`: two rows, one renamed, one deleted, another inserted."""
    with new_catalog(tmp_path / "wh") as catalog:
        table = dk.create_table(catalog, "demo.users", NAMES, format_version=3)
        dk.append(table, [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}])
        dk.update(table, {"name": "ü"}, where="id = 2", mode="deletion-vector")
        dk.delete(table, "id = 1", mode="equality-delete", on=["id"])
        dk.append(table, [{"id": 3, "name": None}])
        yield table


CHANGES = [
    ("insert", 1, "a", 0),
    ("insert", 2, "b", 0),
    ("update_before", 2, "b", 1),
    ("update_after", 2, "ü", 1),
    ("delete", 1, "a", 2),
    ("insert", 3, None, 3),
]


def command(folder: Path, *more: object) -> list[str]:
    return ["changes", "--warehouse", str(folder / "wh"), "demo.users", *map(str, more)]


def line_of(table: dk.Table) -> list[int]:
    """The ids of the table's snapshots, oldest first."""
    head = table.refresh().current_snapshot
    assert head is not None
    return [s.snapshot_id for s in table.metadata.ancestors(head.snapshot_id)][::-1]


def told(rows: Rows) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in ("_change_type", "id", "name", "_change_ordinal")) for row in rows]


def json_rows(text: str) -> Rows:
    return [json.loads(line) for line in text.splitlines()]


def live(table: dk.Table) -> dict[int, Any]:
    return {row["id"]: row["name"] for row in dk.scan(table.refresh()).to_arrow().to_pylist()}


def replay(rows: Rows) -> dict[int, Any]:
    """What a dict holds that has applied the changes, in their order; each must fit what is there."""
    state: dict[int, Any] = {}
    for row in rows:
        if row["_change_type"] in ("delete", "update_before"):
            assert state.pop(row["id"]) == row["name"]
        else:
            assert row["id"] not in state
            state[row["id"]] = row["name"]
    return state


# --- formats ----------------------------------------------------------------------------------------------------------


def test_changes_on_the_screen(run: Run, history: dk.Table, tmp_path: Path) -> None:
    lines = run(*command(tmp_path, "--column", "id", "--column", "name")).stdout.splitlines()
    assert [line.split()[:3] for line in lines[1:]] == [
        [repr(kind), str(number), "NULL" if name is None else repr(name)] for kind, number, name, _ in CHANGES
    ]
    assert "… and more rows" in run(*command(tmp_path, "--limit", "2")).stdout
    ids = line_of(history)
    document = json.loads(run(*command(tmp_path, "--from", ids[1], "--to", ids[2], "--json")).stdout)
    assert (document["from_snapshot"], document["to_snapshot"], document["mode"]) == (ids[1], ids[2], "all")
    assert (told(document["rows"]), document["more"]) == ([("delete", 1, "a", 0)], False)
    assert "No changes." in run(*command(tmp_path, "--from", ids[-1])).stdout


@pytest.mark.parametrize("kind", ["parquet", "jsonl"])
def test_changes_in_a_file(run: Run, history: dk.Table, tmp_path: Path, kind: str) -> None:
    target = tmp_path / f"changes.{kind}"
    done = json.loads(run(*command(tmp_path, "-o", target, "--json")).stdout)
    assert (done["rows"], done["bytes"], done["format"]) == (6, target.stat().st_size, kind)
    read = "read_parquet" if kind == "parquet" else "read_json"
    query = f"select * from {read}('{target}')"
    found = duckdb.connect().sql(query).to_arrow_table().to_pylist()
    assert told(found) == CHANGES
    assert [row["_commit_snapshot_id"] for row in found] == [line_of(history)[row[3]] for row in CHANGES]
    if kind == "parquet":
        assert pq.read_schema(target).equals(dk.changes(history).arrow_schema)
    else:
        assert run(*command(tmp_path, "--format", "jsonl")).stdout == target.read_text()
    assert sorted(f.name for f in tmp_path.iterdir()) == [target.name, "wh"]
    again = run(*command(tmp_path, "-o", target))
    assert (again.exit_code, "file exists already" in again.stderr) == (1, True)
    assert run(*command(tmp_path, "-o", target, "--overwrite", "--from", line_of(history)[-1])).exit_code == 0
    assert duckdb.connect().sql(query).fetchall() == []


def test_a_table_that_applies_the_events_is_equal(run: Run, history: dk.Table, tmp_path: Path) -> None:
    assert history.catalog is not None
    for number, options in enumerate(((), ("--on", "id"), ("--on", "id", "--mode", "upsert"), ("--mode", "net"))):
        events = tmp_path / f"{number}.jsonl"
        assert run(*command(tmp_path, "--format", "debezium", "-o", events, *options)).exit_code == 0
        assert run(*command(tmp_path, "--format", "debezium", *options)).stdout == events.read_text()
        copy = dk.create_table(history.catalog, f"demo.copy{number}", NAMES, format_version=3)
        form = ("--on", "id", "--format", "debezium-json")
        assert run("stream", "--warehouse", tmp_path / "wh", f"demo.copy{number}", events, *form).exit_code == 0
        assert live(copy) == live(history)


def test_what_cannot_be_read_leaves_no_file(run: Run, history: dk.Table, tmp_path: Path) -> None:
    files = (tmp_path / "wh" / "demo" / "users" / "data").glob("**/*.parquet")
    max(files, key=lambda file: file.stat().st_mtime_ns).unlink()  # with the row that was inserted last
    for kind in ("parquet", "jsonl", "debezium"):
        failed = run(*command(tmp_path, "--format", kind, "-o", tmp_path / f"x.{kind}"))
        assert (failed.exit_code, "file-not-found" in failed.stderr) == (1, True)
    assert [f.name for f in tmp_path.iterdir()] == ["wh"]


# --- follow -----------------------------------------------------------------------------------------------------------


@contextmanager
def following(folder: Path, *more: object) -> Iterator[subprocess.Popen[str]]:
    """Run the command in a process of its own, which is killed at the end if it still runs."""
    with subprocess.Popen(
        [sys.executable, "-m", "deletekit.cli", *command(folder, "--follow", "--poll", "0.05", *more)],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        limit = threading.Timer(120, process.kill)
        limit.start()
        try:
            yield process
        finally:
            limit.cancel()
            process.kill()


def some_lines(process: subprocess.Popen[str], number: int) -> Rows:
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(number)]
    assert all(lines), process.stderr.read() if process.stderr else ""
    return [json.loads(line) for line in lines]


def test_lines_come_as_the_table_changes(run: Run, history: dk.Table, tmp_path: Path) -> None:
    with following(tmp_path) as process:
        rows = some_lines(process, len(CHANGES))
        assert told(rows) == CHANGES
        dk.update(history, {"name": "new"}, where="true")
        rows += some_lines(process, 4)
        dk.compact(history, rewrite_all=True)  # no line, but a snapshot to go on from
        assert process.stderr is not None
        done = [process.stderr.readline() for _ in range(6)]
        assert done[-1] == f"snapshot {line_of(history)[-1]}: 0 changes\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        said = process.stderr.read().split()
    start = said[said.index("--from") + 1].rstrip(".")
    assert int(start) == line_of(history)[-1]
    dk.delete(history, "id = 2")
    rest = run(*command(tmp_path, "--follow", "--from", start, "--until-idle", "0"))
    assert rest.exit_code == 0
    assert rest.stderr == f"snapshot {line_of(history)[-1]}: 1 change\n"
    assert replay(rows + json_rows(rest.stdout)) == live(history)


def test_a_folder_gets_each_snapshot_once(run: Run, history: dk.Table, tmp_path: Path) -> None:
    """A follower is killed while another process commits; afterwards the folder is as if it never had been."""
    folder, whole = tmp_path / "changes", tmp_path / "whole"
    writer = threading.Thread(target=commits, args=(tmp_path,))
    with following(tmp_path, "--format", "debezium", "-o", folder) as process:
        writer.start()
        assert process.stderr is not None
        for _ in range(5):
            process.stderr.readline()
        process.kill()
    writer.join()
    end = ("--follow", "--until-idle", "0", "--format", "debezium")
    assert run(*command(tmp_path, *end, "-o", folder)).exit_code == 0
    ids = line_of(history)
    again = json.loads(run(*command(tmp_path, *end, "-o", folder, "--json")).stdout)
    assert (again["snapshots"], again["rows"], again["snapshot_id"]) == (0, 0, ids[-1])
    assert json.loads(run(*command(tmp_path, *end, "-o", whole, "--json")).stdout)["snapshots"] == len(ids)
    files = {f.name: f.read_bytes() for f in sorted(whole.iterdir())}
    assert [name.split(".")[0] for name in files] == [f"{n:09}-{i}" for n, i in enumerate(ids, 1)]
    assert {f.name: f.read_bytes() for f in folder.iterdir() if not f.name.startswith(".")} == files
    assert history.catalog is not None
    copy = dk.create_table(history.catalog, "demo.copy", NAMES, format_version=3)
    apply = ("stream", "--warehouse", tmp_path / "wh", "demo.copy", folder, "--on", "id", "--format", "debezium-json")
    applied = run(*apply)
    assert applied.exit_code == 0, applied.output
    assert live(copy) == live(history)
    dk.delete(history, "id > 2")
    assert run(*command(tmp_path, *end, "-o", folder)).exit_code == 0
    assert run(*apply).output.count("skipped") == len(ids)
    assert live(copy) == live(history)


@pytest.mark.parametrize("kind", ["parquet", "jsonl"])
def test_a_folder_goes_on_where_it_is(run: Run, history: dk.Table, tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "changes"
    end = ("--follow", "--snapshots", "2", "--format", kind, "-o", folder)
    assert run(*command(tmp_path, *end)).exit_code == 0
    ids = line_of(history)
    wrong = run(*command(tmp_path, *end, "--from", ids[0]))
    assert (wrong.exit_code, "change-folder" in wrong.stderr, str(ids[1]) in wrong.stderr) == (1, True, True)
    assert run(*command(tmp_path, *end, "--from", ids[1])).exit_code == 0
    reader = "read_parquet" if kind == "parquet" else "read_json"
    files = sorted(map(str, folder.iterdir()))
    rows = [r for f in files for r in duckdb.connect().sql(f"from {reader}('{f}')").to_arrow_table().to_pylist()]
    assert (len(files), told(rows)) == (4, CHANGES)
    other = run(*command(tmp_path, "--follow", "--format", "debezium", "-o", folder))
    assert (other.exit_code, "another format" in other.stderr) == (1, True)


def commits(folder: Path) -> None:
    """Change the table, as another process would."""
    with new_catalog(folder / "wh") as catalog:
        table = dk.load_table(catalog, "demo.users")
        for number in range(4):
            dk.append(table, [{"id": 10 + number, "name": "x"}])
            dk.update(table, {"name": f"{number}"}, where="id > 2")


def test_a_snapshot_without_changes_in_the_view_is_a_file_too(run: Run, history: dk.Table, tmp_path: Path) -> None:
    folder = tmp_path / "changes"
    view = ("--where", "id = 2", "--on", "id", "--mode", "upsert", "--format", "debezium", "-o", folder)
    assert run(*command(tmp_path, "--follow", "--until-idle", "0", *view)).exit_code == 0
    sizes = {f.name.split("-")[0][-1]: len(f.read_text().splitlines()) for f in folder.iterdir()}
    assert sizes == {"1": 1, "2": 1, "3": 0, "4": 0}
    assert history.catalog is not None
    copy = dk.create_table(history.catalog, "demo.copy", NAMES, format_version=3)
    form = ("--on", "id", "--format", "debezium-json")
    applied = run("stream", "--warehouse", tmp_path / "wh", "demo.copy", folder, *form)
    assert applied.exit_code == 0, applied.output
    assert live(copy) == {2: "ü"}


def test_a_branch_that_goes_back_ends_it(run: Run, history: dk.Table, tmp_path: Path) -> None:
    ids, folder = line_of(history), tmp_path / "changes"
    dk.rollback(history, ids[1])
    failed = run(*command(tmp_path, "--follow", "--from", ids[-1]))
    assert (failed.exit_code, failed.stdout, "snapshot-order" in failed.stderr) == (1, "", True)
    end = ("--follow", "--until-idle", "0", "-o", folder)
    assert run(*command(tmp_path, *end, "--from", ids[2])).exit_code == 1
    assert not [*folder.iterdir()]
    assert run(*command(tmp_path, *end)).exit_code == 0
    dk.rollback(history, ids[0])
    assert run(*command(tmp_path, *end)).exit_code == 1
    assert run(*command(tmp_path, *end, "--inverse")).exit_code == 0
    files = sorted(folder.iterdir())
    assert [f.name.split("-")[1].split(".")[0] for f in files] == [str(i) for i in (ids[0], ids[1], ids[0])]
    assert replay([row for f in files for row in json_rows(f.read_text())]) == live(history)


def test_what_expired_ends_it(run: Run, history: dk.Table, tmp_path: Path) -> None:
    ids = line_of(history)
    dk.expire_snapshots(history, older_than=2**62, retain_last=1)
    failed = run(*command(tmp_path, "--follow", "--from", ids[0]))
    assert (failed.exit_code, failed.stdout) == (1, "")
    assert "source-lost" in failed.stderr
    assert f"{ids[-1]} or a later one" in failed.stderr
    fresh = run(*command(tmp_path, "--follow", "--until-idle", "0"))  # begins with the rows that are there
    assert replay(json_rows(fresh.stdout)) == live(history)


# --- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--follow", "--format", "table"], "--follow gives jsonl, debezium, or parquet in a folder"),
        (["--follow", "--format", "parquet"], "--format parquet needs -o"),
        (["--follow", "--mode", "net"], "--mode net compares two"),
        (["--follow", "--to", "1"], "--to names an end"),
        (["--format", "parquet"], "--format parquet needs -o"),
        (["--format", "table", "-o", "x.parquet"], "--format table is for the screen"),
        (["--format", "jsonl", "--json"], "--json has no place"),
        (["--format", "jsonl", "--limit", "1"], "--limit is about the screen"),
        (["--overwrite"], "--overwrite is about the FILE"),
        (["--snapshots", "1"], "need --follow"),
        (["--until-idle", "1"], "need --follow"),
        (["--to", "1", "--ref", "main"], "give one of them"),
        (["--from", "x"], "not a valid integer"),
    ],
)
def test_wrong_usage(run: Run, tmp_path: Path, options: list[str], said: str) -> None:
    result = run(*command(tmp_path, *options))
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in result.stderr
    assert not [*tmp_path.iterdir()]


def test_a_table_opened_by_its_path_is_not_followed(run: Run, history: dk.Table) -> None:
    path = history.location.removeprefix("file://")
    assert told(json_rows(run("changes", path, "--format", "jsonl").stdout)) == CHANGES
    result = run("changes", path, "--follow")
    assert (result.exit_code, "read-only" in result.stderr) == (1, True)


def test_a_reader_that_has_seen_enough(history: dk.Table, tmp_path: Path) -> None:
    dk.append(history, pa.table({"id": range(10, 20_000), "name": ["x"] * 19_990}))
    with following(tmp_path) as process:
        some_lines(process, 1)
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        errors = process.stderr.read()
        assert process.wait(60) == 1
    assert "Traceback" not in errors
    assert "Error" not in errors
    assert "ipe" not in errors
