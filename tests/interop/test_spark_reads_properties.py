"""Spark with Iceberg reads tables that properties shape, and files that were added to them; and goes on writing."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import deletekit as dk
from tests.interop.rows import same_rows
from tests.optional_types import SparkSession
from tests.stored import manifest_list
from tests.tables import ITEMS, Row, items

PROPERTIES = {
    "commit.manifest.min-count-to-merge": "2",
    "write.object-storage.enabled": "true",
    "write.parquet.bloom-filter-enabled.column.id": "true",
    "write.parquet.page-version": "v2",
    "write.parquet.dict-encoding-enabled.column.category": "false",
}


@pytest.fixture(scope="module")
def catalog(spark: SparkSession) -> dk.Catalog:
    """The embedded catalog that the shared session has as `local`."""
    spark.sql("CREATE NAMESPACE IF NOT EXISTS local.said")
    return dk.local_catalog(Path(spark.conf.get("spark.sql.catalog.local.warehouse")))


def agree(spark: SparkSession, table: dk.Table, name: str, rows: list[Row]) -> None:
    """Both see these rows, and in v3 the same lineage."""
    spark.sql(f"REFRESH TABLE {name}")
    same_rows(dk.scan(table.refresh()).to_arrow().to_pylist(), rows)
    same_rows(spark.sql(f"SELECT * FROM {name}").toArrow().to_pylist(), rows)
    if table.format_version == 3:
        columns = ["id", "_row_id", "_last_updated_sequence_number"]
        theirs = spark.sql(f"SELECT {', '.join(columns)} FROM {name}").toArrow().to_pylist()
        same_rows(dk.scan(table, columns=columns).to_arrow().to_pylist(), theirs)


@pytest.mark.parametrize("version", [2, 3])
def test_spark_reads_and_goes_on(spark: SparkSession, catalog: dk.Catalog, version: int, tmp_path: Path) -> None:
    name, rows = f"said.t{version}", items(*((i, "abc"[i % 3], float(i % 7)) for i in range(60)))
    full = f"local.{name}"
    given: Any = {"partition_by": "category", "sort_by": ["value desc", "id"], "properties": PROPERTIES}
    table = dk.create_table(catalog, name, ITEMS, format_version=version, **given)
    for at in range(0, 60, 15):
        dk.append(table, rows[at : at + 15])
        agree(spark, table, full, rows[: at + 15])
    assert len(manifest_list(table)) == 1
    dk.delete(table, "id in (3, 14, 40)", mode="deletion-vector" if version == 3 else "position-delete")
    rows = [row for row in rows if row["id"] not in (3, 14, 40)]
    agree(spark, table, full, rows)

    added = items((100, "a", 1.0), (101, "a", None))
    pq.write_table(pa.Table.from_pylist(added, schema=ITEMS), tmp_path / "without ids.parquet")
    dk.add_files(table, [tmp_path / "without ids.parquet"])
    rows += added
    agree(spark, table, full, rows)
    assert spark.sql(f"SELECT id FROM {full} WHERE id = 100 AND category = 'a'").count() == 1
    assert {r[0] for r in spark.sql(f"SELECT sort_order_id FROM {full}.data_files").collect()} == {1, None}

    dk.append(table, items((200, "z", 2.0)))
    rows += items((200, "z", 2.0))
    spark.sql(f"CALL local.system.rewrite_manifests('{name}')")
    agree(spark, table, full, rows)
    spark.sql(f"INSERT INTO {full} VALUES (300, 'a', 3.0D)")
    rows += items((300, "a", 3.0))
    dk.append(table, items((301, "a", 3.0)))
    rows += items((301, "a", 3.0))
    agree(spark, table, full, rows)
    spark.sql(f"CALL local.system.rewrite_data_files(table => '{name}', options => map('rewrite-all', 'true'))")
    agree(spark, table, full, rows)
    dk.compact(table, strategy="sort", rewrite_all=True)
    dk.compact(table, strategy="sort", sort_order="zorder(id, value)", rewrite_all=True)
    dk.rewrite_manifests(table)
    spark.sql(f"CALL local.system.expire_snapshots(table => '{name}', older_than => now(), retain_last => 1)")
    agree(spark, table, full, rows)
    assert not [f for f in dk.verify(table).findings if f.severity == "error"]
