"""Spark with Iceberg reads what the rewriting verbs left, old data sequence numbers and all, and goes on writing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import deletekit as dk
from tests.interop.rows import same_rows
from tests.maintenance.model import between, other
from tests.tables import ITEMS, Row, items

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def catalog(spark: SparkSession) -> dk.Catalog:
    """The embedded catalog that the shared session has as `local`."""
    catalog = dk.local_catalog(Path(spark.conf.get("spark.sql.catalog.local.warehouse")))
    spark.sql("CREATE NAMESPACE IF NOT EXISTS local.rewritten")
    return catalog


def agree(spark: SparkSession, table: dk.Table, name: str, rows: list[Row]) -> None:
    """Both see these rows, and in v3 the same lineage."""
    spark.sql(f"REFRESH TABLE {name}")
    same_rows(dk.scan(table.refresh()).to_arrow().to_pylist(), rows)
    same_rows(spark.sql(f"SELECT * FROM {name}").toArrow().to_pylist(), rows)
    if table.format_version == 3:
        columns = ["id", "_row_id", "_last_updated_sequence_number"]
        theirs = spark.sql(f"SELECT {', '.join(columns)} FROM {name}").toArrow().to_pylist()
        same_rows(dk.scan(table, columns=columns).to_arrow().to_pylist(), theirs)


@pytest.mark.parametrize("partition_by", [[], ["category"]], ids=["flat", "partitioned"])
@pytest.mark.parametrize("version", [2, 3])
def test_spark_reads_each_state(
    spark: SparkSession, catalog: dk.Catalog, version: int, partition_by: list[str]
) -> None:
    name = f"rewritten.t{version}{len(partition_by)}"
    table = dk.create_table(catalog, name, ITEMS, format_version=version, partition_by=partition_by)
    rows = items(*((i, "abc"[i % 3], float(i)) for i in range(40)))
    for i in range(4):
        dk.append(table, rows[10 * i : 10 * i + 10])
    gone = {3, 7, 14, 15, 21, 33}
    dk.delete(table, "id in (3, 14)", mode="deletion-vector" if version == 3 else "position-delete")
    dk.delete_keys(table, [{"id": 7}], scope="global")
    full = f"local.{name}"
    agree(spark, table, full, left(rows, {3, 7, 14}))

    worker = other(table)
    with between(worker, before=lambda: dk.delete_keys(other(table), [{"id": 15}, {"id": 21}], scope="global")):
        dk.compact(worker, rewrite_all=True)
    agree(spark, table, full, left(rows, {3, 7, 14, 15, 21}))
    dk.convert_equality_deletes(table)
    agree(spark, table, full, left(rows, {3, 7, 14, 15, 21}))
    spark.sql(f"DELETE FROM {full} WHERE id = 33")
    agree(spark, table, full, left(rows, gone))
    dk.rewrite_position_deletes(table, rewrite_all=True)
    dk.remove_dangling_deletes(table)
    agree(spark, table, full, left(rows, gone))
    assert dk.erase(table, "id < 5").is_erased
    agree(spark, table, full, left(rows, gone | set(range(5))))


def left(rows: list[Row], gone: set[Any]) -> list[Row]:
    return [row for row in rows if row["id"] not in gone]
