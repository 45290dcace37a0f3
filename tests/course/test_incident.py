"""The capstone's tables: what came back and why, found without `explain`, and that Iceberg's Java library agrees."""

from typing import Any

import pytest

import deletekit as dk
from deletekit.course import Aliases, Lesson, lesson
from deletekit.course.incident import five_tables, flights_on_tuesday, history, live_deletes
from tests.optional_types import SparkSession

FOUND = {
    "accounts": list(range(1, 11)),
    "baskets": list(range(1, 10)),
    "contacts": list(range(1, 9)),
    "devices": [1, 2, 3, 5, 7, 8],
    "events": [1, 2, 3, 5, 7, 8],
}
CANCELLED = 8255


@pytest.fixture(scope="module")
def tables() -> dict[str, dk.Table]:
    return five_tables(lesson("15", engine="local"))


def ids(table: dk.Table, **which: Any) -> list[int]:
    return sorted(dk.scan(table, columns=["id"], **which).to_arrow()["id"].to_pylist())


def test_rows_were_gone_on_monday_and_are_back(tables: dict[str, dk.Table]) -> None:
    assert {name: ids(table) for name, table in tables.items()} == FOUND
    for table in tables.values():
        names = Aliases(table)
        assert ids(table, snapshot_id=names.snapshot_id("S2")) == list(range(1, 9))
        assert ids(table, snapshot_id=names.snapshot_id("S3")) == [1, 2, 4, 5, 7, 8]


def test_no_table_is_damaged(tables: dict[str, dk.Table]) -> None:
    warnings = {n: [f.kind for f in dk.verify(t, level="data").findings] for n, t in tables.items()}
    assert {name: kinds for name, kinds in warnings.items() if kinds} == {
        "contacts": ["dangling-equality-delete"],
        "events": ["dangling-position-delete"],
    }
    assert all(dk.verify(table).ok for table in tables.values())


def by_month(table: dk.Table) -> list[int]:
    rows = dk.scan(table, "dep_time is null", columns=["month"]).to_arrow()["month"].to_pylist()
    return [rows.count(month) for month in range(1, 13)]


def check_flights(here: Lesson) -> dk.Table:
    """Check the counts against those of the sample table itself."""
    table = flights_on_tuesday(here)
    rows = dk.datasets.flights().select(["month", "day", "carrier", "dep_time"]).to_pylist()
    cancelled = [row for row in rows if row["dep_time"] is None]
    assert len(cancelled) == CANCELLED
    again = [row for row in rows if row["month"] == 2 and row["day"] in (8, 9)]
    back = [r for r in cancelled if 5 <= r["month"] <= 8] + [r for r in again if r["dep_time"] is None]
    assert by_month(table) == [sum(r["month"] == month for r in back) for month in range(1, 13)]
    gone = sum(r["dep_time"] is None or r["carrier"] == "OO" for r in rows)
    assert dk.scan(table).count() == len(rows) - gone + len(back) + sum(r["dep_time"] is not None for r in again)
    assert dk.verify(table).ok
    return table


def test_the_history_and_the_deletes_are_listed(tables: dict[str, dk.Table]) -> None:
    rows = history(tables["accounts"], "id = 3")
    assert [(row["snapshot"], row["parent"], row["id = 3"]) for row in rows] == [
        ("S1", None, 1),
        ("S2", "S1", 1),
        ("S3", "S2", 0),
        ("S4", "S3", 0),
        ("S5", "S2", 1),
    ]
    assert live_deletes(tables["accounts"]) == []
    assert live_deletes(tables["baskets"]) == [{"name": "E1", "keys": [{"id": 3}, {"id": 6}], "sequence_number": 3}]
    assert live_deletes(tables["events"]) == [
        {"name": "P1", "positions": [2], "referenced_data_file": "D1", "sequence_number": 3},
        {"name": "P2", "positions": [1], "referenced_data_file": "D2", "sequence_number": 3},
        {"name": "V1", "positions": [3], "referenced_data_file": "D1", "sequence_number": 4},
    ]


def test_flights_come_back_for_two_reasons() -> None:
    check_flights(lesson("15", engine="local"))


def test_iceberg_java_finds_the_same_rows(spark: SparkSession) -> None:
    here = lesson("15", engine="spark")
    assert here.spark is not None
    for name, table in five_tables(here).items():
        assert ids(table) == FOUND[name]
        found = here.spark.table(f"{here.catalog.name}.course.{name}").select("id").collect()
        assert sorted(row["id"] for row in found) == FOUND[name]
    flights = check_flights(here)
    frame = here.spark.table(f"{here.catalog.name}.course.flights")
    assert frame.where("dep_time IS NULL").count() == sum(by_month(flights))
    assert frame.where("flight_id > 0").count() == dk.scan(flights).count()
