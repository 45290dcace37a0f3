"""Row ids of Delta tables with row tracking: `_row_id` of the Iceberg table is Delta's own `_metadata.row_id`."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import deletekit as dk
from tests.delta.delta_tables import latest_version
from tests.delta.handmade import HandMade, remove, with_vector
from tests.delta.reading import check_synced
from tests.interop.test_peers import by_polars, by_pyiceberg, quiet_polars
from tests.optional_types import SparkSession

Ids = list[tuple[Any, ...]]
TRACKED = {"delta.enableRowTracking": "true", "delta.rowTracking.materializedRowIdColumnName": "_row-id-col-1"}
HISTORY = (
    "INSERT INTO {t} SELECT id, concat('v', id) FROM range(0, 30, 1, 2)",
    "DELETE FROM {t} WHERE id IN (3, 25)",
    "UPDATE {t} SET v = 'updated' WHERE id IN (5, 21)",
    "OPTIMIZE {t}",
    "RESTORE TABLE {t} TO VERSION AS OF 2",
    "INSERT OVERWRITE {t} SELECT id, v FROM {t} WHERE id > 10",
)


def in_iceberg(table: dk.Table) -> Ids:
    rows = dk.scan(table, columns=["id", "v", "_row_id"]).to_arrow()
    return sorted(zip(*(rows[c].to_pylist() for c in ("id", "v", "_row_id")), strict=True))


def by_java(spark: SparkSession, table: dk.Table) -> Ids:
    frame = spark.read.format("iceberg").load(table.metadata_location).select("id", "v", "_row_id")
    return sorted(tuple(row) for row in frame.collect())


def in_delta(spark: SparkSession, path: Path, version: int) -> Ids:
    frame = spark.read.format("delta").option("versionAsOf", version).load(str(path))
    return sorted(tuple(row) for row in frame.selectExpr("id", "v", "_metadata.row_id").collect())


def sound(table: dk.Table) -> None:
    check_synced(table)
    assert list(dk.verify(table).findings) == []


def made(spark: SparkSession, path: Path, **properties: str) -> str:
    tracked = {"enableDeletionVectors": "true", "enableRowTracking": "true", "checkpointInterval": "4"}
    wanted = {**tracked, **properties}
    all_properties = ", ".join(f"'delta.{name}'='{value}'" for name, value in wanted.items())
    spark.sql(f"CREATE TABLE delta.`{path}` (id BIGINT, v STRING) USING delta TBLPROPERTIES ({all_properties})")
    return f"delta.`{path}`"


@quiet_polars
@pytest.mark.parametrize(
    ("properties", "steps"),
    [
        pytest.param({}, 6, id="plain"),
        pytest.param({"enableIcebergCompatV3": "true"}, 4, id="compat", marks=pytest.mark.long),
    ],
)
def test_every_version_has_deltas_row_ids(
    spark: SparkSession, catalog: dk.Catalog, tmp_path: Path, properties: dict[str, str], steps: int
) -> None:
    path = tmp_path / "delta"
    t = made(spark, path, **properties)
    for statement in HISTORY[:steps]:
        spark.sql(statement.format(t=t))
    for version in range(2, latest_version(path) + 1):
        table = dk.sync_delta(path, catalog, "t.d", version=version).table
        expected = in_delta(spark, path, version)
        assert in_iceberg(table) == expected
    assert by_java(spark, table) == expected
    sound(table)
    for read in (by_pyiceberg, by_polars):
        found = [(row["id"], row["v"]) for row in read(table.metadata_location)]
        assert sorted(found) == [row[:2] for row in expected]
    assert list((path / "_delta_log").glob("*.checkpoint*")), "ids come from a checkpoint too"
    dk.sync_delta(path, catalog, "t.once")
    assert in_iceberg(dk.load_table(catalog, "t.once")) == expected


def test_mapped_columns_keep_ids_until_a_file_stores_some(
    spark: SparkSession, catalog: dk.Catalog, tmp_path: Path
) -> None:
    """Under column mapping without IcebergCompatV3 stored ids have no field id: Iceberg Java would not read them."""
    path = tmp_path / "delta"
    t = made(spark, path, **{"columnMapping.mode": "name"})
    for statement in HISTORY[:2]:
        spark.sql(statement.format(t=t))
    table = dk.sync_delta(path, catalog, "t.d").table
    assert in_iceberg(table) == by_java(spark, table) == in_delta(spark, path, 2)
    spark.sql(HISTORY[2].format(t=t))
    table = dk.sync_delta(path, catalog, "t.d").table
    assert "deletekit.delta-row-ids" not in table.properties
    ids = Counter(row_id for _, _, row_id in in_iceberg(table))
    assert max(ids.values()) == 1
    assert in_iceberg(table) == by_java(spark, table)
    sound(table)


@pytest.fixture
def delta(tmp_path: Path) -> HandMade:
    delta = HandMade(tmp_path / "delta")
    delta.configuration = TRACKED
    return delta


def ids(table: dk.Table) -> dict[int, int]:
    rows = dk.scan(table, columns=["id", "_row_id"]).to_arrow()
    found = dict(zip(rows["id"].to_pylist(), rows["_row_id"].to_pylist(), strict=True))
    assert len(set(found.values())) == len(rows)
    return found


def test_base_row_ids_become_first_row_ids(delta: HandMade, catalog: dk.Catalog) -> None:
    first = delta.data(range(10), baseRowId=100, defaultRowCommitVersion=0)
    delta.commit(first, delta.data(range(10, 13), baseRowId=7, defaultRowCommitVersion=0))
    table = dk.sync_delta(delta.path, catalog, "t.d").table
    expected = {i: 100 + i for i in range(10)} | {i: i - 3 for i in range(10, 13)}
    assert ids(table) == expected
    assert table.metadata.next_row_id >= 110
    delta.commit(with_vector(first, delta.vector([4])), remove(first))
    assert ids(dk.sync_delta(delta.path, catalog, "t.d").table) == {k: v for k, v in expected.items() if k != 4}
    stored = pa.table({"id": [50, 51], "_row-id-col-1": pa.array([104, None], pa.int64())})
    delta.commit(delta.data(stored, baseRowId=110, defaultRowCommitVersion=2))
    table = dk.sync_delta(delta.path, catalog, "t.d").table
    assert ids(table)[50] == 104
    assert ids(table)[51] == 111
    dk.rewrite_manifests(table)
    delta.commit(delta.data(range(60, 61), baseRowId=112, defaultRowCommitVersion=3))
    table = dk.sync_delta(delta.path, catalog, "t.d").table
    assert ids(table)[60] == 112
    sound(table)


def test_versions_that_compat_files_store_are_never_ahead(delta: HandMade, catalog: dk.Catalog) -> None:
    """Their field id makes them sequence numbers, and none may be above the table's last."""
    mapped = {"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": "p"}
    fields = [{"name": "id", "type": "long", "nullable": True, "metadata": mapped}]
    delta.schema = json.dumps({"type": "struct", "fields": fields})
    delta.features = ("deletionVectors", "columnMapping")
    delta.configuration = {**TRACKED, "delta.columnMapping.mode": "name", "delta.enableIcebergCompatV3": "true"}
    for _ in range(8):
        delta.commit({"commitInfo": {}})
    names = {"p": b"1", "_row-id-col-1": b"2147483540", "version": b"2147483539"}
    stored = [pa.field(name, pa.int64(), metadata={b"PARQUET:field_id": i}) for name, i in names.items()]
    rows = pa.table([[1, 2], [5, None], [7, None]], schema=pa.schema(stored))
    delta.commit(delta.data(rows, baseRowId=10, defaultRowCommitVersion=8))
    table = dk.sync_delta(delta.path, catalog, "t.d").table
    assert ids(table) == {1: 5, 2: 11}
    assert list(dk.verify(table, level="data").findings) == []
    delta.commit(delta.data(rows.slice(2), baseRowId=12))
    sound(dk.sync_delta(delta.path, catalog, "t.d").table)


@pytest.mark.parametrize("case", ["no base", "no tracking", "foreign", "another base"])
def test_new_ids_are_icebergs_once_deltas_cannot_be_had(delta: HandMade, catalog: dk.Catalog, case: str) -> None:
    first = delta.data(range(3), baseRowId=0, defaultRowCommitVersion=0)
    delta.commit(first)
    table = dk.sync_delta(delta.path, catalog, "t.d").table
    extra = {} if case == "no base" else {"baseRowId": 3}
    added: list[Any] = [delta.data(range(3, 6), **extra)]
    if case == "no tracking":
        delta.configuration = {**TRACKED, "delta.enableRowTracking": "false"}
        added.append(delta.metadata())
    if case == "another base":
        added += [remove(first), {"add": {**first["add"], "baseRowId": 90}}]
    if case == "foreign":
        dk.append(table, pa.table({"id": pa.array([77], pa.int64())}))
    delta.commit(*added)
    table = dk.sync_delta(delta.path, catalog, "t.d", force=case == "foreign").table
    assert sorted(ids(table)) == list(range(6))
    assert "deletekit.delta-row-ids" not in table.properties
    assert "2147483540" not in table.properties["schema.name-mapping.default"]
    delta.commit(delta.data(range(6, 8), baseRowId=6))
    table = dk.sync_delta(delta.path, catalog, "t.d").table
    assert ids(table)[0] == 0
    sound(table)


def test_tables_without_them_are_as_before(delta: HandMade, catalog: dk.Catalog) -> None:
    delta.commit(delta.data(range(3), baseRowId=40))
    assert (
        "deletekit.delta-row-ids" not in dk.sync_delta(delta.path, catalog, "t.v2", format_version=2).table.properties
    )
    delta.configuration = {}
    delta.commit(delta.metadata())
    table = dk.sync_delta(delta.path, catalog, "t.d").table
    assert ids(table) == {0: 0, 1: 1, 2: 2}
    delta.configuration = TRACKED
    delta.commit(delta.metadata(), delta.data(range(3, 4), baseRowId=43))
    table = dk.sync_delta(delta.path, catalog, "t.d").table
    assert ids(table) == {0: 0, 1: 1, 2: 2, 3: 3}, "ids of Iceberg's were given out before"
