"""Upserts of Spark DataFrames: the same table as from the same rows in Arrow, and no row or key on the driver."""

from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame

import deletekit as dk
from deletekit.spark import data_frames, engine
from tests.interop.rows import same_rows
from tests.invariants import check_table
from tests.optional_types import SparkSession
from tests.storage import files_below
from tests.tables import VERSION_AND_MODE, live, make, order, refused

SCHEMA = pa.schema([("id", pa.int64()), ("c", pa.string()), ("v", pa.float64())])
BASE = [{"id": i, "c": None if i % 7 == 0 else "abc"[i % 3], "v": float(i)} for i in range(60)]
BASE.append({"id": None, "c": "n", "v": 0.0})
ROWS = [{"id": i, "v": -1.0} for i in range(50, 70)] + [{"id": None, "v": 5.0}]
PARTITIONS = {1: [], 2: ["c"], 3: ["bucket(4, id)"]}


@pytest.fixture(autouse=True)
def nothing_is_collected(monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver gets what tasks return, and schemas; it never gets rows."""
    collect = engine.to_arrow

    def results(frame: DataFrame) -> pa.Table:
        assert frame.columns in (["group", "place", "part", "data"], [])
        return collect(frame)

    def no_rows(frame: DataFrame) -> pa.Table:
        found = collect(frame)
        assert not len(found)
        return found

    monkeypatch.setattr(engine, "to_arrow", results)
    monkeypatch.setattr(data_frames, "to_arrow", no_rows)


def by_key(table: dk.Table, column: str) -> dict[Any, Any]:
    rows = dk.scan(table.refresh(), columns=["id", column]).to_arrow().to_pylist()
    return {row["id"]: row[column] for row in rows}


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("version", "mode"), VERSION_AND_MODE)
def test_upsert(spark: SparkSession, shared: dk.Catalog, version: int, mode: str) -> None:
    options: dict[str, Any] = {"schema": SCHEMA, "format_version": version, "partition_by": PARTITIONS[version]}
    there, here = make(shared, BASE, **options), make(shared, BASE, **options)
    known = by_key(there, "_row_id") if version == 3 else {}
    frame = spark.createDataFrame(ROWS, "id long, v double")  # type: ignore[type-var]
    before = files_below(there.location)
    planned = dk.upsert(there, frame, on="id", mode=mode, dry_run=True)
    assert files_below(there.location) == before, "executors of a dry run write nothing"
    done = dk.upsert(there, frame, on="id", mode=mode)
    counters = [
        {name: n for name, n in c.summary.items() if name.startswith(("added-", "deleted-")) and "size" not in name}
        for c in (planned, done)
    ]
    assert counters[0] == counters[1]
    assert planned.matched_rows == done.matched_rows
    dk.upsert(here, ROWS, on="id", mode=mode)
    assert live(there) == live(here)
    check_table(there)
    if version == 3 and mode != "equality-delete":
        now = by_key(there, "_row_id")
        assert {key: now[key] for key in known} == known
        assert len(set(now.values())) == len(now)
    same_rows((r.asDict() for r in spark.table(f"local.{there.name}").collect()), live(here))


def test_a_key_that_the_table_has_twice_and_text_keys(spark: SparkSession, shared: dk.Catalog) -> None:
    base = [{"id": i, "c": "abc"[i % 3], "v": 0.0} for i in range(9)]
    rows = [{"id": 100, "c": "a", "v": 1.0}, {"id": 101, "c": "d", "v": 1.0}, {"id": 102, "c": None, "v": 1.0}]
    there, here = (make(shared, base, schema=SCHEMA, format_version=3) for _ in range(2))
    for _ in range(2):
        frame = spark.createDataFrame(rows, "id long, c string, v double")  # type: ignore[type-var]
        dk.upsert(there, frame, on="c", mode="deletion-vector")
        dk.upsert(here, rows, on="c", mode="deletion-vector")
        assert live(there) == live(here)
    assert by_key(there, "_row_id")[100] == by_key(here, "_row_id")[100] == 0


@pytest.mark.sampled(4)
@pytest.mark.parametrize("mode", ["deletion-vector", "equality-delete"])
def test_what_is_refused(spark: SparkSession, shared: dk.Catalog, mode: str) -> None:
    table = make(shared, BASE, schema=SCHEMA, format_version=3)
    twice = spark.createDataFrame([(1, 1.0), (1, 2.0), (2, 1.0)], "id long, v double")
    with refused(table, dk.InvalidInputError, "upsert-key-not-unique", field="id"):
        dk.upsert(table, twice, on="id", mode=mode)
    with refused(table, dk.InvalidInputError, "column-not-found", field="id"):
        dk.upsert(table, spark.createDataFrame([("a",)], "c string"), on="id", mode=mode)
    with refused(table, dk.InvalidInputError, "column-not-found"):
        dk.upsert(table, spark.createDataFrame([(1, 2)], "id long, w long"), on="id", mode=mode)
    assert dk.upsert(table, spark.createDataFrame([], "id long"), on="id", mode=mode).snapshot_id is None


def test_equality_deletes_by_filter(spark: SparkSession, shared: dk.Catalog) -> None:
    there, here = (make(shared, BASE, schema=SCHEMA, format_version=3, partition_by=["c"]) for _ in range(2))
    with dk.engine.spark(spark):
        dk.delete(there, "id > 30 and c = 'a'", mode="equality-delete")
    dk.delete(here, "id > 30 and c = 'a'", mode="equality-delete")
    assert live(there) == live(here)
    assert live(there) == sorted((r for r in BASE if not ((r["id"] or 0) > 30 and r["c"] == "a")), key=order)
    check_table(there)
