"""Wherever a recorded sink is stopped, the rows are those of a dict, and it leaves what a killed process leaves."""

import gc
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import deletekit as dk
from deletekit.course.recordings.stream_steps import record_stream
from deletekit.course.recordings.temporary_table import temporary_table
from deletekit.course.views.stream_stepper import BATCHES, CRASHES, STREAM_MODES, StreamRecord
from tests.invariants import check_table, reachable
from tests.stream.replay import replay
from tests.tables import files_of

NOT_LANDED = ("before-files", "before-manifests", "before-commit")
# Deletes of keys that nobody looked for.
BLIND = {"dangling-equality-delete", "dangling-position-delete"}


def of_replay(batches: Any) -> list[tuple[int, str]]:
    return sorted((row["id"], row["value"]) for row in replay(batches).values())


def read(table: dk.Table) -> list[tuple[int, str]]:
    return sorted((row["id"], row["value"]) for row in dk.scan(table).to_arrow().to_pylist())


def orphans_of(table: dk.Table) -> set[str]:
    """What the metadata does not lead to, by fastavro; the metadata file that was read belongs to it."""
    return files_of(table) - reachable(table)


@pytest.mark.sampled(12)
@pytest.mark.parametrize("resumed", [False, True])
@pytest.mark.parametrize("crash", ["", *CRASHES])
@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("mode", STREAM_MODES)
def test_the_rows_are_those_of_a_dict(mode: Any, version: int, crash: Any, resumed: bool) -> None:
    steps = 2 + CRASHES.index(crash) % 3 if crash else len(BATCHES)
    record = record_stream(steps, mode=mode, format_version=version, crash=crash, resumed=resumed)
    landed = steps - 1 if crash in NOT_LANDED and not resumed else steps
    assert list(record.expected) == of_replay(BATCHES[:landed])
    assert list(record.rows) == read(record.table) == of_replay(BATCHES[:landed])
    found = [f for f in dk.verify(record.table, level="data").findings if f.kind not in BLIND]
    assert not found
    check_table(record.table, orphans=False)
    assert set(record.orphans) == orphans_of(record.table)
    converts = crash == "in-conversion" and mode in ("flink", "eq-only")
    stopped = crash not in ("", "answer-lost", "in-conversion") or converts
    assert (record.stopped, record.waits) == (stopped, stopped and not resumed)
    assert bool(record.orphans) == (crash in ("before-manifests", "before-commit") or converts)


def test_each_stop_is_where_it_says() -> None:
    records = {crash: record_stream(2, mode="eq-only", crash=crash) for crash in CRASHES}
    kinds = {crash: Counter(Path(p).suffix for p in record.orphans) for crash, record in records.items()}
    assert kinds["before-files"] == {}
    assert kinds["before-manifests"] == {".parquet": 2}  # rows and equality deletes
    assert kinds["before-commit"][".parquet"] == 2
    assert kinds["before-commit"][".avro"] >= 3  # a manifest of each, and their list
    assert set(kinds["in-conversion"]) == {".avro", ".puffin"}
    lost = record_stream(2, crash="answer-lost").calls[-1]
    assert lost.progress is not None
    assert (lost.progress.status, len(lost.snapshots)) == ("skipped", 1)
    expired = record_stream(2, crash="markers-expired", resumed=True)
    assert [call.name for call in expired.calls] == ["write", "write", "compact", "expire_snapshots", "write"]
    assert expired.calls[-1].progress is not None
    assert expired.calls[-1].progress.status == "skipped"
    (first,) = expired.calls[0].snapshots
    assert first.snapshot_id not in expired.table.metadata.snapshots


@pytest.mark.parametrize("steps", range(1, len(BATCHES) + 1))
def test_a_writer_that_does_not_look_inserts_twice(steps: int) -> None:
    """Batches of upserts alone may come again; an insert that comes again is there twice."""
    once = record_stream(steps, checkpoint_check=False)
    assert once.rows == once.expected
    twice = record_stream(steps, crash="after-commit", resumed=True, checkpoint_check=False)
    touched = {change["id"] for change in BATCHES[steps - 1] if change["_change_type"] != "INSERT"}
    again = {change["id"] for change in BATCHES[steps - 1] if change["_change_type"] == "INSERT"} - touched
    assert sorted(twice.rows) == sorted([*twice.expected, *(row for row in twice.expected if row[0] in again)])
    assert bool(again) == (steps in (1, 4))
    assert not dk.verify(twice.table, level="data").errors


def test_the_table_goes_with_its_record() -> None:
    record: StreamRecord | None = record_stream(1)
    assert record is not None
    home = Path(record.table.location.removeprefix("file://"))
    assert home.is_dir()
    with pytest.raises(dk.InvalidInputError):
        dk.append(record.table, [{"id": 1, "value": "x"}])
    record = None
    gc.collect()
    assert not home.exists()


def test_a_table_that_cannot_be_made_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(dk.InvalidInputError):
        temporary_table(lambda catalog: dk.create_table(catalog, "a.b", {"id": "int"}))  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []
