"""Each batch is a line of the logger `deletekit`."""

import logging
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import deletekit as dk
from tests.stream.replay import PEOPLE
from tests.tables import make


def change(number: int, **other: Any) -> dict[str, Any]:
    return {"_change_type": "INSERT", "id": number, "name": "a", "score": 0.0, **other}


def write_three(table: dk.Table, letters: dk.Table) -> None:
    """One batch of two rows of an hour ago, the same again, and one with a row that does not fit."""
    at = datetime.now(UTC) - timedelta(hours=1)
    first = [change(1, at=at), change(2, at=at)]
    with dk.stream.sink(table, "s", on=["id"], order="at", dead_letters=letters) as sink:
        sink.write(first, 0, query_id="q")
        sink.write(first, 0, query_id="q")
        sink.write([change(1, at=at), change(3, at=None)], 1, query_id="q")


@pytest.fixture
def tables(catalog: dk.Catalog) -> tuple[dk.Table, dk.Table]:
    table = make(catalog, schema=PEOPLE, format_version=3)
    return table, dk.stream.create_dead_letters(catalog, "test.dead")


def test_each_batch_is_a_line(tables: tuple[dk.Table, dk.Table], caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "deletekit")
    write_three(*tables)
    told = [r.deletekit for r in caplog.records if getattr(r, "deletekit", {}).get("event") == "batch"]
    assert [r.levelno for r in caplog.records if r.getMessage().startswith("batch ")] == [logging.INFO] * 3
    names = ("table", "ref", "sink", "query", "batch", "status", "rows", "hits", "misses", "dead_letters")
    assert [tuple(line.get(name) for name in names) for line in told] == [
        (tables[0].name, "main", "s", "q", 0, "committed", 2, 0, 2, None),
        (tables[0].name, "main", "s", "q", 0, "skipped", 2, 0, 0, None),
        (tables[0].name, "main", "s", "q", 1, "committed", 1, 1, 0, 1),
    ]
    assert all(line["duration_ms"] >= 0 and line["lag_ms"] >= 3_600_000 for line in told)
