"""DataFrames of Spark as what append, merge and delete_keys take: the same table as from the same rows in Arrow."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType, StructType, UUIDType

import deletekit as dk
from tests.interop.rows import same_rows
from tests.invariants import check_table
from tests.optional_types import SparkSession
from tests.tables import VERSION_AND_MODE, expected, ids, live, make, refused, set_by_another_writer

SCHEMA = pa.schema([("id", pa.int64()), ("c", pa.string()), ("v", pa.float64())])
DDL = "id long, c string, v double"
BASE = [{"id": i, "c": None if i % 7 == 0 else "abc"[i % 3], "v": float(i)} for i in range(60)]
SOURCE = [{"id": i, "v": -1.0} for i in range(50, 70)] + [{"id": None, "v": 5.0}]
PARTITIONS = {1: [], 2: ["c"], 3: ["bucket(4, id)"]}


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("version", "mode"), VERSION_AND_MODE)
def test_merge_and_append(spark: SparkSession, shared: dk.Catalog, version: int, mode: str) -> None:
    options: dict[str, Any] = {"schema": SCHEMA, "format_version": version, "partition_by": PARTITIONS[version]}
    there, here = make(shared, **options), make(shared, BASE, **options)
    dk.append(there, spark.createDataFrame(BASE, DDL).repartition(3))  # type: ignore[type-var]
    assert live(there) == live(here)
    source = spark.createDataFrame(SOURCE, "id long, v double")  # type: ignore[type-var]
    for matched, not_matched in (("update", "insert"), ("delete", None), (None, "insert")):
        clauses: Any = {"on": ["id"], "mode": mode, "when_matched": matched, "when_not_matched": not_matched}
        dk.merge(there, source, **clauses)
        dk.merge(here, SOURCE, **clauses)
        assert live(there) == live(here), clauses
        check_table(there)
    same_rows((r.asDict() for r in spark.table(f"local.{there.name}").collect()), live(here))


@pytest.mark.parametrize("on", [["v"], ["id", "c"]])
def test_keys_are_equal_as_in_sql(spark: SparkSession, shared: dk.Catalog, on: list[str]) -> None:
    """-0.0 = 0.0, NULL equals nothing, and no two keys of several columns run into one another."""
    base = [
        {"id": 1, "c": "1:1", "v": 0.0},
        {"id": 11, "c": ":1", "v": -0.0},
        {"id": 2, "c": None, "v": float("nan")},
        {"id": None, "c": "x", "v": None},
    ]
    source = [
        {"id": 1, "c": "1:1", "v": -0.0},
        {"id": 2, "c": None, "v": float("nan")},
        {"id": None, "c": "x", "v": None},
        {"id": 1, "c": "11:1", "v": 7.0},
    ]
    there, here = make(shared, base, schema=SCHEMA), make(shared, base, schema=SCHEMA)
    dk.merge(there, spark.createDataFrame(source, DDL), on=on)  # type: ignore[type-var]
    dk.merge(here, source, on=on)
    same_rows(live(there), live(here))


def test_merge_into_an_empty_table(spark: SparkSession, shared: dk.Catalog) -> None:
    table = make(shared, schema=SCHEMA, format_version=3)
    dk.merge(table, spark.createDataFrame(SOURCE, "id long, v double"), on=["id"])  # type: ignore[type-var]
    assert live(table) == expected([{"c": None, **row} for row in SOURCE])


def test_cardinality(spark: SparkSession, shared: dk.Catalog) -> None:
    table = make(shared, BASE, schema=SCHEMA, format_version=3)
    twice = spark.createDataFrame([(1, 1.0), (1, 2.0)], "id long, v double")
    with refused(table, dk.InvalidInputError, "merge-cardinality", field="on", found=2):
        dk.merge(table, twice, on=["id"])


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("ddl", "kind", "field"),
    [("id string", "column-type", "id"), ("id long, w int", "column-not-found", "w"), ("c int", "column-type", "c")],
)
def test_columns_that_do_not_fit(spark: SparkSession, shared: dk.Catalog, ddl: str, kind: str, field: str) -> None:
    table = make(shared, BASE, schema=SCHEMA)
    with refused(table, dk.InvalidInputError, kind, field=field):
        dk.append(table, spark.createDataFrame([], ddl))
    with refused(table, dk.InvalidInputError, "column-not-found"):
        dk.merge(table, spark.createDataFrame([], "v double"), on=["id"])


def test_values_that_do_not_fit(spark: SparkSession, shared: dk.Catalog) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("small", pa.int32())])
    table = make(shared, schema=schema, partition_by=["small"])
    with refused(table, dk.InvalidInputError, "column-type", field="small"):
        dk.append(table, spark.createDataFrame([(1, 1), (2, 2**40)], "id long, small long"))
    with refused(table, dk.InvalidInputError, "null-in-required", field="id"):
        dk.append(table, spark.createDataFrame([(None, 1)], "id long, small int"))


def test_a_text_is_a_uuid(spark: SparkSession, shared: dk.Catalog) -> None:
    schema = Schema(NestedField(1, "u", UUIDType(), required=False), schema_id=0)
    table = make(shared, schema=schema)
    value = UUID("00112233-4455-6677-8899-aabbccddeeff")
    dk.append(table, spark.createDataFrame([(str(value),), (None,)], "u string"))
    assert dk.scan(table, f"u = '{value}'").count() == 1
    with refused(table, dk.InvalidInputError, "column-type", field="u"):
        dk.append(table, spark.createDataFrame([("no uuid",)], "u string"))


@pytest.mark.parametrize(
    "partition_by", [(), pytest.param(("c",), marks=pytest.mark.long), ("bucket(4, id)",)], ids=str
)
def test_delete_keys(spark: SparkSession, shared: dk.Catalog, partition_by: Sequence[str]) -> None:
    keys = [{"id": i, "c": BASE[i]["c"]} for i in (0, 7, 8, 21, 8)]
    options: dict[str, Any] = {"schema": SCHEMA, "format_version": 2, "partition_by": partition_by}
    there, here = make(shared, BASE, **options), make(shared, BASE, **options)
    done = dk.delete_keys(there, spark.createDataFrame(keys, "id long, c string"))  # type: ignore[type-var]
    dk.delete_keys(here, keys)
    assert live(there) == live(here)
    assert sum(f.record_count for f in done.added_delete_files) == 4
    check_table(there)
    same_rows((r.asDict() for r in spark.table(f"local.{there.name}").collect()), live(here))


def test_nested_keys(spark: SparkSession, shared: dk.Catalog) -> None:
    kind = StructType(NestedField(3, "name", StringType(), required=False))
    schema = Schema(
        NestedField(1, "id", LongType(), required=False), NestedField(2, "p", kind, required=False), schema_id=0
    )
    table = make(shared, [{"id": 1, "p": {"name": "a"}}, {"id": 2, "p": {"name": "b"}}], schema=schema)
    dk.delete_keys(table, spark.createDataFrame([("a",)], "`p.name` string"))
    assert [row["id"] for row in live(table)] == [2]


@pytest.mark.parametrize(("mode", "files"), [("hash", 4), ("none", 12)])
def test_distribution_mode(spark: SparkSession, shared: dk.Catalog, mode: str, files: int) -> None:
    table = make(shared, schema=SCHEMA, partition_by=["c"], properties={"write.distribution-mode": mode})
    frame = spark.createDataFrame(BASE, DDL).repartition(3)  # type: ignore[type-var]
    assert len(dk.append(table, frame).added_data_files) == files


@pytest.mark.sampled(4)
@pytest.mark.parametrize("verb", ["append", "merge"])
@pytest.mark.parametrize("target", [100_000, None])
def test_files_end_at_their_size(spark: SparkSession, shared: dk.Catalog, verb: str, target: int | None) -> None:
    """Rows come to a worker in batches of 10,000. All go to one file, or to files of the table's size."""
    properties = {"write.parquet.row-group-limit": "3000"}
    if target:
        properties["write.target-file-size-bytes"] = str(target)
    table = make(shared, schema=SCHEMA, properties=properties)
    frame = spark.range(40_000).selectExpr("id", "'text' c", "rand(1) v").coalesce(1)
    spark.conf.set("spark.sql.shuffle.partitions", "1")
    try:
        done = dk.append(table, frame) if verb == "append" else dk.merge(table, frame, on="id")
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", "2")
    sizes = sorted(f.file_size_in_bytes for f in done.added_data_files)
    assert ids(table) == list(range(40_000))
    if target is None:
        assert len(sizes) == 1
    else:
        assert len(sizes) > 3
        assert all(0.85 * target < size < 1.25 * target for size in sizes[1:]), sizes


@pytest.mark.parametrize("mode", ["range", None])
def test_a_sorted_table_gets_ranges(spark: SparkSession, shared: dk.Catalog, mode: str | None) -> None:
    properties = {} if mode is None else {"write.distribution-mode": mode}
    table = make(shared, schema=SCHEMA, sort_by="id desc", properties=properties)
    frame = spark.createDataFrame([(i, "c") for i in range(200)], "id long, c string").repartition(7)  # type: ignore[type-var]
    done = dk.append(table, frame)
    bounds = [(f.lower_bounds or {}, f.upper_bounds or {}) for f in done.added_data_files]
    spans = sorted((int.from_bytes(a[1], "little"), int.from_bytes(b[1], "little")) for a, b in bounds)
    assert all(before[1] < after[0] for before, after in pairwise(spans)), "no ranges overlap"
    assert {f.sort_order_id for f in done.added_data_files} == {1}
    assert ids(table) == list(range(200))


def test_an_unknown_distribution_mode(spark: SparkSession, shared: dk.Catalog) -> None:
    table = make(shared, schema=SCHEMA, partition_by=["c"])
    set_by_another_writer(table, {"write.distribution-mode": "magic"})
    with refused(table, dk.InvalidInputError, "property", field="write.distribution-mode"):
        dk.append(table, spark.createDataFrame(BASE, DDL))  # type: ignore[type-var]
