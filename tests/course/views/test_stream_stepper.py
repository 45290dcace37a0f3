"""StreamStepper shows what the table of its record holds, and what the sink did, beside a replay of the changes."""

import json
from typing import Any, get_args

import pytest

import deletekit as dk
from deletekit.course.recordings import stream_steps
from deletekit.course.views import stream_stepper as view
from deletekit.course.views.page import Facts, Page
from deletekit.course.views.stream_stepper import BATCHES, CRASHES, STREAM_MODES
from deletekit.stream.sink_options import SinkMode
from tests.course.views.test_views import grid
from tests.stored import entries, position_deletes, snapshots_json, vectors
from tests.stream.replay import replay


def stream_stepper(step: int = 1, **state: Any) -> Page:
    return view.stream_stepper(stream_steps.record_stream(step, **state), step=step, **state)


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("mode", STREAM_MODES)
def test_what_is_shown_is_in_the_table(mode: str, version: int) -> None:
    for step in range(1, len(BATCHES) + 1):
        state: dict[str, Any] = {"step": step, "mode": mode, "format_version": version}
        record = stream_steps.record_stream(step, mode=mode, format_version=version)  # type: ignore[arg-type]
        page, table = view.stream_stepper(record, **state), record.table
        live = sorted(line.cells[1:3] for line in grid(page, "rows").lines if line.mark == "live")
        rows = sorted((str(r["id"]), r["value"]) for r in dk.scan(table).to_arrow().to_pylist())
        assert live == rows == sorted((str(r["id"]), r["value"]) for r in replay(BATCHES[:step]).values())
        assert f"rows a reader sees: {len(rows)}, and they are right" in page.sentence
        seen = [line.cells for line in grid(page, "files").lines]
        stored = [e["data_file"] for content in (0, 1) for e in entries(table, content) if e["status"] != 2]
        assert sorted(cells[3] for cells in seen) == sorted(str(f["record_count"]) for f in stored)
        hidden = sum(len(rows) for rows in (*vectors(table).values(), *position_deletes(table)))
        said = [c[4] for c in seen if c[0][0] in "PV"]
        assert sum(len(positions_in(text)) for text in said) == hidden
        summaries = [s["summary"] for s in snapshots_json(table)]
        calls = grid(page, "calls")
        for line, summary in zip(calls.lines, summaries, strict=True):
            assert line.cells[2] == summary.get("deletekit.batch-id", summary.get("flink.max-committed-checkpoint-id"))
            for name in ("added-data-files", "added-equality-delete-files", "added-dvs"):
                counted = dict(zip(calls.columns, line.cells, strict=True)).get(name, "0")
                assert counted == summary.get(name, "0")


@pytest.mark.parametrize("resumed", [False, True])
def test_a_call_shows_every_commit_that_it_made(resumed: bool) -> None:
    """A writer without markers commits its deletes and its rows apart; the table of files shows both."""
    state: dict[str, Any] = {"crash": "after-commit", "resumed": resumed, "checkpoint_check": False}
    record = stream_steps.record_stream(2, **state)
    calls = grid(view.stream_stepper(record, step=2, **state), "calls")
    shown = [dict(zip(calls.columns, line.cells, strict=True)) for line in calls.lines]
    assert [call["snapshot"] for call in shown] == ["S1", "S2, S3", "S4, S5"][: 2 + resumed]
    deletes = [e for e in entries(record.table, 1) if e["status"] != 2]
    assert sum(int(call["added-equality-delete-files"]) for call in shown) == len(deletes) == 1 + resumed


def test_pages_are_small_and_have_every_mode_of_the_sink() -> None:
    assert {*get_args(SinkMode), "flink"} == {*STREAM_MODES}
    assert len(json.dumps(stream_stepper(step=len(BATCHES)).to_json())) < 50_000


def positions_in(text: str) -> list[int]:
    """The positions of `D1: 0-2, 5; D2: 1`."""
    parts = [part for of_file in text.split("; ") for part in of_file.split(": ")[1].split(", ")]
    bounds = [[int(n) for n in part.split("-")] for part in parts]
    return [n for low, *rest in bounds for n in range(low, (rest or [low])[0] + 1)]


@pytest.mark.parametrize("crash", CRASHES)
def test_a_crash_is_waited_for_and_then_gone_on_from(crash: str) -> None:
    page = stream_stepper(step=2, mode="flink", crash=crash)
    waits = crash != "answer-lost"
    assert page.sentence.startswith("The sink was stopped in batch 1" if waits else "Batches: 2; ")
    assert "and they are right" in page.sentence
    assert any(line.mark == "wrong" for line in grid(page, "calls").lines) == waits
    resume = next(c for c in page.controls if c.trait == "resumed")
    assert resume.disabled != waits
    again = stream_stepper(step=2, mode="flink", crash=crash, resumed=True)
    assert again.sentence.startswith("Batches: 2; ")
    assert "and they are right" in again.sentence
    orphans = [line for line in grid(again, "files").lines if line.mark == "wrong"]
    assert len(orphans) == len([line for line in grid(page, "files").lines if line.mark == "wrong"])


def test_a_point_that_is_not_reached_is_said() -> None:
    assert "did not come to the point" in stream_stepper(step=2, mode="auto", crash="in-conversion").sentence
    assert "did not come to the point" in stream_stepper(step=0, crash="before-commit").sentence
    assert "did not come" not in stream_stepper(step=2, mode="eq-only", crash="in-conversion").sentence


def test_a_wrong_reader_is_said_to_be_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """The verdict compares: were the replay another one, it would say so."""
    monkeypatch.setattr(stream_steps, "_replayed", lambda _: ((1, "another"),))
    page = stream_stepper(step=3, mode="index-only", format_version=2)
    assert "and they are wrong" in page.sentence
    facts = page.block("replay")
    assert isinstance(facts, Facts)
    assert (facts.items[-1][1], facts.mark) == ("different", "wrong")


@pytest.mark.parametrize(
    ("field", "state"),
    [
        ("step", {"step": 99}),
        ("mode", {"mode": "x"}),
        ("format_version", {"format_version": 1}),
        ("crash", {"crash": "x"}),
    ],
)
def test_what_there_is_not_is_refused(field: str, state: dict[str, Any]) -> None:
    with pytest.raises(dk.InvalidInputError) as caught:
        stream_stepper(**state)
    assert caught.value.field == field
