"""Streams on the command line: files once, made-up changes, and a promotion."""

import json
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import deletekit as dk
from tests.cli.conftest import Run
from tests.tables import live, new_catalog

USERS = pa.schema([("id", pa.int64()), ("name", pa.string())])


def make(folder: Path) -> tuple[str, ...]:
    with new_catalog(folder / "wh") as catalog:
        table = dk.create_table(catalog, "demo.users", USERS, format_version=3)
        dk.append(table, [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}])
        dk.create_branch(table, "ingestion")
    changes = [("UPDATE_AFTER", 1, "new"), ("DELETE", 2, None), ("INSERT", 3, "c")]
    for number, (kind, key, name) in enumerate(changes):
        row = {"_change_type": kind, "id": key, "name": name}
        if number % 2:
            (folder / f"{number}.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
        else:
            pq.write_table(pa.Table.from_pylist([row]), folder / f"{number}.parquet")
    return tuple(str(folder / name) for name in ("2.parquet", "0.parquet", "1.jsonl"))


def rows(folder: Path, ref: str = "main") -> list[tuple[int, str]]:
    with new_catalog(folder / "wh") as catalog:
        return [(r["id"], r["name"]) for r in live(dk.load_table(catalog, "demo.users"), ref=ref)]


def test_files_are_applied_once(run: Run, tmp_path: Path) -> None:
    command = ("stream", "--warehouse", tmp_path / "wh", "demo.users", *make(tmp_path), "--on", "id")
    first = run(*command)
    assert first.exit_code == 0, first.output
    assert re.search(r"batch id 1 · status committed · rows 1 · keys 1 · hits 1 .*0\.parquet", first.output)
    assert rows(tmp_path) == [(1, "new"), (3, "c")]
    again = json.loads(run(*command, "--json").output)
    assert [b["status"] for b in again["batches"]] == ["skipped"] * 3
    fewer = json.loads(run(*command[:5], *command[6:], "--json").output)
    assert [b["status"] for b in fewer["batches"]] == ["skipped"] * 2, "a file is known by its path"
    assert [Path(b["file"]).name for b in fewer["batches"]] == ["2.parquet", "1.jsonl"]
    pq.write_table(pa.Table.from_pylist([{"_change_type": "INSERT", "id": 3, "name": "d"}]), tmp_path / "2.parquet")
    changed = run(*command)
    assert changed.exit_code == 1
    assert "a file that is in the table has another content now" in changed.output


def test_a_later_file_of_the_same_keys_is_not_taken_for_an_old_one(run: Run, tmp_path: Path) -> None:
    command = ("stream", "--warehouse", tmp_path / "wh", "demo.users", "--on", "id")
    make(tmp_path)
    for number, name in enumerate("xyz"):
        row = {"_change_type": "UPDATE_AFTER", "id": 1, "name": name}
        pq.write_table(pa.Table.from_pylist([row]), tmp_path / f"{number}.parquet")
    assert run(*command, tmp_path / "0.parquet", tmp_path / "1.parquet").exit_code == 0
    later = run(*command, tmp_path / "2.parquet")
    assert re.search(r"batch id 2 · status committed .*2\.parquet", later.output)
    assert rows(tmp_path)[0] == (1, "z")
    with new_catalog(tmp_path / "wh") as catalog:
        dk.expire_snapshots(dk.load_table(catalog, "demo.users"), older_than=2**62, retain_last=1)
    again = run(*command, *(tmp_path / f"{n}.parquet" for n in range(3)))
    assert again.output.count("status skipped") == 3
    assert rows(tmp_path)[0] == (1, "z")


def test_the_order_of_files(run: Run, tmp_path: Path) -> None:
    command = ("stream", "--warehouse", tmp_path / "wh", "demo.users", "--on", "id")
    make(tmp_path)
    for number in (2, 10):
        (tmp_path / "csv").mkdir(exist_ok=True)
        text = f"_change_type,id,name\nUPDATE_AFTER,1,00{number}\n"
        (tmp_path / "csv" / f"{number}.csv").write_text(text, encoding="utf-8")
    files = [tmp_path / "csv" / f"{n}.csv" for n in (2, 10)]
    asked = run(*command, *files[::-1])
    assert asked.exit_code == 1
    assert "10.csv before 2.csv" in asked.output
    for number, given in enumerate((files, [tmp_path / "csv"], [tmp_path / "csv" / "*.csv"])):
        done = run(*command, *given, "--sink-id", f"s{number}")
        assert done.output.index("/2.csv") < done.output.index("/10.csv")
        assert rows(tmp_path)[0] == (1, "0010")
    assert run(*command, *files[::-1], "--as-given").exit_code == 0
    assert rows(tmp_path)[0] == (1, "002")


def test_made_up_changes(run: Run, tmp_path: Path) -> None:
    command = ("stream", "--warehouse", tmp_path / "wh", "demo.rate", "--rate", "50", "--batches", "3")
    done = run(*command)
    assert done.exit_code == 0, done.output
    assert "batch id 2 · status committed · rows 50 ·" in done.output
    assert "batch id 2 · status skipped" in run(*command).output


def test_what_cannot_be_streamed(run: Run, tmp_path: Path) -> None:
    make(tmp_path)
    for name, words in (("x.parquet", "rows cannot be read"), ("x.txt", "Parquet, Arrow, CSV and JSON")):
        (tmp_path / name).write_bytes(b"x")
        done = run("stream", "--warehouse", tmp_path / "wh", "demo.users", tmp_path / name, "--on", "id")
        assert (done.exit_code, words in done.stderr) == (1, True), done.output
    assert rows(tmp_path) == [(1, "a"), (2, "b")]


def test_sinks_are_listed_and_dropped(run: Run, tmp_path: Path) -> None:
    files = make(tmp_path)
    where = ("--warehouse", tmp_path / "wh", "demo.users")
    for sink_id in ("one", "two"):
        assert run("stream", *where, *files, "--on", "id", "--sink-id", sink_id).exit_code == 0
    shown = run("sinks", *where).output
    assert shown.index("two") < shown.index("one")
    listed = json.loads(run("sinks", *where, "--json").output)["sinks"]
    assert [(s["sink_id"], s["batch_id"], s["key"], s["file"]) for s in listed] == [
        (name, 2, ["id"], files[2]) for name in ("two", "one")
    ]
    assert json.loads(run("sinks", *where, "--drop", "one", "--json").output)["dropped"] == "one"
    assert run("sinks", *where, "--drop", "one").exit_code == 1


def test_files_of_messages(run: Run, tmp_path: Path) -> None:
    make(tmp_path)
    events = [
        {"before": None, "after": {"id": 4, "name": "d"}, "op": "c", "source": {"connector": "postgresql"}},
        {"before": {"id": 1, "name": None}, "after": None, "op": "d", "source": {"connector": "postgresql"}},
    ]
    file = tmp_path / "events.jsonl"
    file.write_text("".join(json.dumps(e) + "\n" for e in events), encoding="utf-8")
    command = ("stream", "--warehouse", tmp_path / "wh", "demo.users", "--on", "id", "--format")
    assert "batch id 0 · status committed" in run(*command, "debezium-json", file).stdout
    assert rows(tmp_path) == [(2, "b"), (4, "d")]
    assert "batch id 0 · status skipped" in run(*command, "debezium-json", file).stdout
    assert run(*command, "debezium-json", "--rate", "3").exit_code == 2
    assert run(*command, "debezium-avro", file).exit_code == 2
    assert run(*command, "maxwell", file, "--sink-id", "other").exit_code == 2


def test_options_of_a_format(run: Run, tmp_path: Path) -> None:
    """They are those of `stream.decoder`, which refuses a wrong one by its name."""
    make(tmp_path)
    file = tmp_path / "events.jsonl"
    row = {"id": 9, "name": "z", "secret": "no column of the table"}
    events = [{"op": "t"}, {"op": "c", "before": None, "after": row}]
    file.write_text("".join(json.dumps({**e, "source": {"connector": "postgresql"}}) + "\n" for e in events))
    command = ("stream", "--warehouse", tmp_path / "wh", "demo.users", "--on", "id", file)
    debezium = (*command, "--format", "debezium-json", "--format-option")
    assert run(*command, "--format-option", "truncate=apply").exit_code == 2
    assert "each is NAME=VALUE" in run(*debezium, "truncate").stderr
    assert "given twice" in run(*debezium, "truncate=apply", "--format-option", "truncate=apply").stderr
    for wrong in ("registry=http://localhost", "truncate=maybe", "assume_utc=1"):
        assert wrong.split("=")[0] in run(*debezium, wrong).stderr, wrong
    assert "truncated" in run(*debezium, "ignore=secret").stderr
    before = rows(tmp_path)
    assert before[0] == (1, "a")
    more = ("--format-option", "ignore=other,secret", "--format-option", "assume_utc=true")
    done = run(*debezium, "truncate=apply", *more)
    assert done.exit_code == 0, done.output
    assert rows(tmp_path) == [(9, "z")]


def test_a_sink_is_reset(run: Run, tmp_path: Path) -> None:
    make(tmp_path)
    where = ("--warehouse", tmp_path / "wh", "demo.users")
    rows = [{"_change_type": "INSERT", "id": 9, "name": "z"}]
    with new_catalog(tmp_path / "wh") as catalog:
        table = dk.load_table(catalog, "demo.users")
        with dk.stream.sink(table, "numbers", on=["id"]) as sink:
            sink.write(rows, 0, query_id="lost")
    done = run("sinks", *where, "--reset", "numbers", "--batch", "41", "--query", "new", "--sizes")
    assert done.exit_code == 0, done.output
    assert re.search(r"^reset +numbers$", done.output, re.MULTILINE)
    assert "pinned bytes" in done.output
    [listed] = json.loads(run("sinks", *where, "--json").output)["sinks"]
    assert (listed["batch_id"], listed["query_id"], listed["is_reset"]) == (41, "new", True)
    with new_catalog(tmp_path / "wh") as catalog:
        table = dk.load_table(catalog, "demo.users")
        with dk.stream.sink(table, "numbers", on=["id"]) as sink:
            assert sink.write(rows, 42, query_id="new").status == "committed"
