"""`sequence_by`: of each key the highest sequence wins, in whatever order and batches its changes arrive."""

from __future__ import annotations

import random
from typing import Any

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings

import deletekit as dk
from tests.stream.replay import check
from tests.tables import make, new_catalog, refused

Row = dict[str, Any]
EVENTS = pa.schema([pa.field("id", pa.int64()), pa.field("name", pa.string()), pa.field("seq", pa.int64())])


def put(key: int, seq: int, name: str = "x") -> Row:
    return {"id": key, "name": f"{name}{seq}", "seq": seq, "_change_type": "UPDATE_AFTER"}


def gone(key: int, seq: int) -> Row:
    return {"id": key, "name": None, "seq": seq, "_change_type": "DELETE"}


def highest(events: list[Row]) -> dict[Any, Row]:
    """Say by a dict what must be live: the change with the highest sequence, if it is no delete."""
    newest: dict[int, Row] = {}
    for event in events:
        if event["id"] not in newest or event["seq"] > newest[event["id"]]["seq"]:
            newest[event["id"]] = event
    live = {k: e for k, e in newest.items() if e["_change_type"] != "DELETE"}
    return {(k,): {n: v for n, v in e.items() if n != "_change_type"} for k, e in live.items()}


def guarded(table: dk.Table, **options: Any) -> dk.stream.Sink:
    return dk.stream.sink(table, "s", equality_fields="id", sequence_by="seq", **options)


@pytest.mark.parametrize("version", [2, 3])
def test_a_late_insert_does_not_bring_a_row_back(catalog: dk.Catalog, version: int) -> None:
    table = make(catalog, schema=EVENTS, format_version=version)
    with guarded(table) as sink:
        assert sink.write([put(1, 5), put(2, 5)], 0).late == 0
        assert sink.write([put(1, 4), gone(2, 3)], 1).late == 2
        check(table, highest([put(1, 5), put(2, 5)]))
        sink.write([gone(1, 9), gone(3, 9)], 2)
    with guarded(table) as sink:  # another process
        assert sink.write([put(1, 8), put(3, 8), put(2, 6)], 3).late == 2
        check(table, highest([put(2, 6)]))
        assert sink.write([put(1, 9, "again"), put(3, 10)], 4).late == 0  # of equal values the later arrival wins
        check(table, highest([put(1, 9, "again"), put(3, 10), put(2, 6)]))


events = st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=1, max_size=40)


@pytest.mark.parametrize("mode", ["auto", "index-only"])
@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(events=events, seed=st.integers(0, 2**32), data=st.data())
def test_the_highest_sequence_wins_whatever_the_order(
    tmp_path_factory: pytest.TempPathFactory, mode: str, events: list[tuple[int, bool]], seed: int, data: st.DataObject
) -> None:
    """Shuffled, twice, late, in batches of any size, with the sink opened anew and files compacted in between."""
    history = [gone(k, n) if delete else put(k, n) for n, (k, delete) in enumerate(events)]
    arrivals = history + random.Random(seed).sample(history, len(history) // 3)
    random.Random(seed).shuffle(arrivals)
    with new_catalog(tmp_path_factory.mktemp("sequence")) as catalog:
        table = make(catalog, schema=EVENTS, format_version=data.draw(st.sampled_from([2, 3])))
        sink, number = guarded(table, mode=mode), 0
        while arrivals:
            size = data.draw(st.integers(1, 9))
            batch, arrivals = arrivals[:size], arrivals[size:]
            sink.write(batch, number)
            number += 1
            what = data.draw(st.sampled_from(["", "", "again", "reopen", "compact"]))
            if what == "again":
                assert sink.write(batch, number - 1).status == "skipped"
            elif what == "reopen":
                sink.close()
                sink = guarded(dk.load_table(catalog, table.identifier), mode=mode)
            elif what == "compact":
                dk.compact(table.refresh())
        sink.close()
        check(table, highest(history))
