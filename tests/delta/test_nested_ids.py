"""Lists and maps under column mapping: what Spark-Delta writes has ids for columns, and none for elements and values.

Which of them Iceberg Java reads, Spark says. The others are refused.
"""

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyiceberg.schema import index_by_id

import deletekit as dk
from deletekit.delta import data_files
from tests.delta.delta_tables import latest_version, plain_rows, rows_at
from tests.delta.reading import our_rows, raises_kind
from tests.interop.rows import same_rows
from tests.optional_types import SparkSession

MAPPED = "'delta.columnMapping.mode'='{}', 'delta.enableDeletionVectors'='true'"
READ = {
    "ls ARRAY<STRUCT<x: INT, y: STRING>>": "array(named_struct('x', 1, 'y', 'q'), NULL)",
    "ms MAP<STRING, STRUCT<x: INT, y: STRING>>": "map('k', named_struct('x', 1, 'y', 'q'), 'n', NULL)",
    "lls ARRAY<ARRAY<STRUCT<x: INT>>>": "array(array(named_struct('x', 1)), NULL)",
    "lsm ARRAY<STRUCT<m: MAP<INT, STRUCT<z: INT>>>>": "array(named_struct('m', map(3, named_struct('z', 4))))",
    "sl STRUCT<q: INT, l: ARRAY<STRUCT<x: INT>>>": "named_struct('q', 1, 'l', array(named_struct('x', 1)))",
}  # fmt: skip
NOT_READ = (
    "array(1, NULL)",
    "map('k', 1)",
    "map(named_struct('u', 7), 1)",
    "array(array(1))",
    "array(named_struct('x', 1, 'l', array(5)))",
    "named_struct('x', 1, 'l', array(5))",
    "map('k', array(1))",
)


def by_iceberg(spark: SparkSession, table: dk.Table, *columns: str) -> list[dict[str, Any]]:
    return plain_rows(spark.read.format("iceberg").load(table.metadata_location).selectExpr(*columns or "*"))


@pytest.mark.parametrize("mode", ["name", pytest.param("id", marks=pytest.mark.long)])
def test_values_of_structs_are_read(spark: SparkSession, catalog: dk.Catalog, tmp_path: Path, mode: str) -> None:
    path, t = tmp_path / "delta", f"delta.`{tmp_path / 'delta'}`"
    spark.sql(f"CREATE TABLE {t} (id BIGINT, {', '.join(READ)}) USING delta TBLPROPERTIES ({MAPPED.format(mode)})")
    values = ", ".join(f"IF(id % 3 = 1, NULL, {value})" for value in READ.values())
    for statement in (
        f"INSERT INTO {t} SELECT /*+ REPARTITION(1) */ id, {values} FROM range(9)",
        f"DELETE FROM {t} WHERE id = 3",
        f"ALTER TABLE {t} ADD COLUMN (ls.element.z INT, ms.value.z INT, sl.l.element.z INT)",
        f"ALTER TABLE {t} RENAME COLUMN ls.element.x TO first",
        f"INSERT INTO {t} (id, ls) VALUES (100, array(named_struct('first', 1, 'y', 'q', 'z', 5)))",
    ):
        spark.sql(statement)
    for version in (2, latest_version(path)):
        table = dk.sync_delta(path, catalog, "t.d", version=version).table
        expected = rows_at(spark, path, version)
        same_rows(our_rows(table), expected)
        same_rows(by_iceberg(spark, table), expected)
    delta = spark.read.format("delta").load(str(path))
    for parts in (["ls.z", "map_keys(ms)", "lls[0].x"], ["ls[0].y", "ms['k'].z", "lsm.m", "sl.l.z"]):
        same_rows(by_iceberg(spark, table, "id", *parts), plain_rows(delta.selectExpr("id", *parts)))


def test_other_values_are_refused_because_java_fails(
    spark: SparkSession, catalog: dk.Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from py4j.protocol import Py4JJavaError  # noqa: PLC0415  # with pyspark

    path, names = tmp_path / "delta", [f"c{number}" for number in range(len(NOT_READ))]
    values = ", ".join(f"{value} {name}" for name, value in zip(names, NOT_READ, strict=True))
    spark.sql(
        f"CREATE TABLE delta.`{path}` USING delta TBLPROPERTIES ({MAPPED.format('name')}) AS "
        f"SELECT id, {values} FROM range(0, 2, 1, 1)"
    )
    with raises_kind("delta-nested-ids"):
        dk.sync_delta(path, catalog, "t.d")
    with monkeypatch.context() as patch:
        patch.setattr(data_files, "_check_nested", lambda *_: None)
        table = dk.sync_delta(path, catalog, "t.d").table
    file = pq.read_schema(next(path.rglob("part-*.parquet")))
    columns = {field_id: field.name for field_id, field in index_by_id(table.schema).items()}
    for name, field in zip(["id", *names], file, strict=True):
        if name != "id":
            with pytest.raises(dk.UnsupportedError):
                data_files._check_nested(field, (name,), columns)
            with pytest.raises(Py4JJavaError):
                by_iceberg(spark, table, name)


def test_the_way_out_of_the_refusal(spark: SparkSession, catalog: dk.Catalog, tmp_path: Path) -> None:
    """IcebergCompatV2, which has ids for all values, does not go with deletion vectors."""
    path, t = tmp_path / "delta", f"delta.`{tmp_path / 'delta'}`"
    for statement in (
        (
            f"CREATE TABLE {t} USING delta TBLPROPERTIES ({MAPPED.format('name')}) AS "
            "SELECT id, array(CAST(id AS INT)) a FROM range(4)"
        ),
        f"DELETE FROM {t} WHERE id = 1",
        f"ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableDeletionVectors'='false')",
        f"REORG TABLE {t} APPLY (PURGE)",
        f"REORG TABLE {t} APPLY (UPGRADE UNIFORM (ICEBERG_COMPAT_VERSION = 2))",
    ):
        spark.sql(statement)
    table = dk.sync_delta(path, catalog, "t.d").table
    same_rows(by_iceberg(spark, table), [{"id": i, "a": [i]} for i in (0, 2, 3)])


def test_ids_of_iceberg_compat_v3_go_with_vectors(spark: SparkSession, catalog: dk.Catalog, tmp_path: Path) -> None:
    path, t = tmp_path / "delta", f"delta.`{tmp_path / 'delta'}`"
    properties = f"{MAPPED.format('name')}, 'delta.enableIcebergCompatV3'='true'"
    spark.sql(
        f"CREATE TABLE {t} USING delta TBLPROPERTIES ({properties}) AS "
        "SELECT id, array(CAST(id AS INT)) a, map('k', 1) m FROM range(0, 4, 1, 1)"
    )
    spark.sql(f"DELETE FROM {t} WHERE id = 1")
    table = dk.sync_delta(path, catalog, "t.d").table
    expected = [{"id": i, "a": [i], "m": {"k": 1}} for i in (0, 2, 3)]
    same_rows(our_rows(table), expected)
    same_rows(by_iceberg(spark, table), expected)
