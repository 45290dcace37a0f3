"""The log: what a service needs to follow, in the words of the specification, and nothing by itself."""

import logging
import subprocess
import sys
from typing import Any

import pyarrow as pa
import pytest

import deletekit as dk
from deletekit import log
from deletekit.table.catalog import SqlStore

ROWS = pa.table({"id": [1, 2, 3], "name": ["a", "b", "c"]})


@pytest.fixture
def table(catalog: dk.Catalog) -> dk.Table:
    return dk.create_table(catalog, "w.t", ROWS.schema, format_version=3, properties={"commit.retry.min-wait-ms": "1"})


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.DEBUG, "deletekit")
    return caplog


def facts(told: pytest.LogCaptureFixture) -> list[tuple[int, dict[str, Any]]]:
    return [(record.levelno, vars(record)["deletekit"]) for record in told.records]


def test_a_commit_is_one_line_with_its_files_bytes_and_seconds(table: dk.Table, told: pytest.LogCaptureFixture) -> None:
    done = dk.append(table, ROWS)
    ((level, said),) = facts(told)
    assert level == logging.INFO
    assert {
        name: said[name] for name in ("event", "table", "ref", "operation", "snapshot_id", "attempts", "plans")
    } == {
        "event": "commit",
        "table": "w.t",
        "ref": "main",
        "operation": "append",
        "snapshot_id": done.snapshot_id,
        "attempts": 1,
        "plans": 1,
    }
    assert (said["added-data-files"], said["added-records"]) == ("1", "3")
    assert int(said["added-files-size"]) == done.added_data_files[0].file_size_in_bytes
    assert 0 <= said["seconds"] < 60
    assert told.messages[0].startswith(f"commit table=w.t ref=main operation=append snapshot_id={done.snapshot_id} ")


def test_changes_of_metadata_and_new_tables(catalog: dk.Catalog, told: pytest.LogCaptureFixture) -> None:
    table = dk.create_table(catalog, "w.t", ROWS.schema)
    dk.set_properties(table, {"a": "b"})
    assert [(said["event"], said["table"], said.get("actions")) for _, said in facts(told)] == [
        ("create", "w.t", None),
        ("change", "w.t", "set-properties"),
    ]


def test_nothing_to_commit_is_no_line(table: dk.Table, told: pytest.LogCaptureFixture) -> None:
    assert dk.delete(table, "id = 9").snapshot_id is None
    assert facts(told) == []


def test_retries_and_conflicts(
    table: dk.Table, told: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, races = SqlStore.commit, [1, 1]

    def losing(self: SqlStore, *arguments: Any) -> Any:
        if races and races.pop():
            raise dk.CommitConflictError("another writer\ncommitted first")
        return own(self, *arguments)

    monkeypatch.setattr(SqlStore, "commit", losing)
    dk.append(table, ROWS)
    assert [(level, said["event"], said["table"]) for level, said in facts(told)] == [
        (logging.INFO, "retry", "w.t"),
        (logging.INFO, "retry", "w.t"),
        (logging.INFO, "commit", "w.t"),
    ]
    assert facts(told)[2][1]["attempts"] == 3
    assert told.messages[0].endswith("error=another writer\\ncommitted first")  # no message breaks a line
    told.clear()
    dk.set_properties(table, {"commit.retry.num-retries": "0"})
    races.append(1)
    with pytest.raises(dk.CommitConflictError):
        dk.append(table, ROWS)
    level, said = facts(told)[-1]
    assert (level, said["event"], said["kind"]) == (logging.WARNING, "conflict", "commit-conflict")


def test_a_lost_answer_is_an_error(
    table: dk.Table, told: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> Any:
        raise dk.CommitStateUnknownError("the answer was lost")

    monkeypatch.setattr(SqlStore, "commit", broken)
    with pytest.raises(dk.CommitStateUnknownError):
        dk.append(table, ROWS)
    ((level, said),) = facts(told)
    assert (level, said["event"], said["table"], said["ref"]) == (logging.ERROR, "unknown", "w.t", "main")


def test_a_handler_that_fails_changes_nothing(table: dk.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            raise RuntimeError(record)

    monkeypatch.setattr(log.LOGGER, "handlers", [Failing()])
    monkeypatch.setattr(log.LOGGER, "level", logging.INFO)
    dk.append(table, ROWS)
    assert dk.scan(table).count() == 3


def test_without_a_handler_nothing_is_printed() -> None:
    code = "from deletekit import log; log.tell('conflict', level=40, table='w.t'); print('end')"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("end\n", "")
