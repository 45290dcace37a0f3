"""The embedded catalog's file under Iceberg's JdbcCatalog: what Spark makes deletekit sees and changes, and back."""

import sqlite3
import threading
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

import deletekit as dk
from deletekit.spark.catalogs import embedded_spark_catalog
from tests.catalogs.stores import MORE, ROWS, SCHEMA, leftovers, on_disk
from tests.optional_types import SparkSession
from tests.tables import MODES, Row, expected, items, live, new_catalog, raises

_numbers = count()


@pytest.fixture
def catalog(spark: SparkSession) -> Iterator[dk.Catalog]:
    """Give the embedded catalog that Spark knows as `local`."""
    with new_catalog(Path(spark.conf.get("spark.sql.catalog.local.warehouse"))) as catalog:
        yield catalog


@pytest.fixture
def namespace(spark: SparkSession, catalog: dk.Catalog) -> str:
    name = f"shared{next(_numbers)}"
    spark.sql(f"create namespace local.{name}")
    return name


def by_spark(spark: SparkSession, statement: str) -> list[Row]:
    return expected([row.asDict() for row in spark.sql(statement).collect()])


@pytest.mark.parametrize("version", [1, 2, 3])
def test_spark_goes_on_with_our_table(spark: SparkSession, catalog: dk.Catalog, namespace: str, version: int) -> None:
    name = f"{namespace}.ours"
    table = dk.create_table(catalog, name, SCHEMA, format_version=version, partition_by=["category"])
    assert [r["tableName"] for r in by_spark(spark, f"show tables in local.{namespace}")] == ["ours"]
    dk.append(table, ROWS)
    assert by_spark(spark, f"select * from local.{name}") == expected(ROWS)
    spark.sql(f"insert into local.{name} values (4, 'a', 40.0), (5, 'b', 50.0)")
    spark.sql(f"update local.{name} set value = -1.0 where id = 4")
    spark.sql(f"alter table local.{name} add column note string")
    for mode in MODES[version]:
        dk.append(table, [{"id": 9, "category": "z", "value": 0.0, "note": mode}])
        dk.delete(table, "id = 9", mode=mode)
    dk.delete(table, "id = 1", mode=MODES[version][-1])
    rows = [{**r, "note": None} for r in [*ROWS[1:], {**MORE[0], "value": -1.0}, MORE[1]]]
    assert live(table) == expected(rows) == by_spark(spark, f"select * from local.{name}")
    spark.sql(f"delete from local.{name} where id in (2, 4)")
    assert [r["id"] for r in live(table.refresh())] == [r["id"] for r in by_spark(spark, f"select * from local.{name}")]
    assert sorted(r["id"] for r in live(table)) == [3, 5]
    assert leftovers(table) == set()
    operations = [r["operation"] for r in spark.sql(f"select operation from local.{name}.snapshots").collect()]
    assert len(operations) == len(table.metadata.snapshots)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_we_go_on_with_sparks_table(spark: SparkSession, catalog: dk.Catalog, namespace: str, version: int) -> None:
    name = f"{namespace}.theirs"
    delete_mode = "copy-on-write" if version == 1 else "merge-on-read"
    spark.sql(
        f"create table local.{name} (id int not null, category string, value double) using iceberg partitioned by "
        f"(bucket(2, id)) tblproperties ('format-version' = '{version}', 'write.delete.mode' = '{delete_mode}')"
    )
    spark.sql(f"insert into local.{name} values (1, 'a', 10.0), (2, 'b', 20.0), (3, 'c', 30.0)")
    spark.sql(f"delete from local.{name} where id = 3")
    table = dk.load_table(catalog, name)
    assert catalog.list_tables(namespace) == [(namespace, "theirs")]
    assert table.format_version == version
    assert live(table) == expected(ROWS[:2])
    dk.append(table, MORE)
    dk.delete(table, "id in (1, 5)")
    dk.update(table, {"value": 0.5}, where="id = 2")
    rows = [{**ROWS[1], "value": 0.5}, MORE[0]]
    assert live(table) == expected(rows) == by_spark(spark, f"select * from local.{name}")
    dk.rename_column(table, "value", "amount")
    dk.create_branch(table, "side")
    dk.append(table, [{"id": 8, "category": "s", "amount": 8.0}], ref="side")
    assert len(by_spark(spark, f"select * from local.{name} version as of 'side'")) == 3
    assert by_spark(spark, f"select id, amount from local.{name}") == expected(
        [{"id": 2, "amount": 0.5}, {"id": 4, "amount": 40.0}]
    )
    if version < 3:
        spark.sql(f"alter table local.{name} set tblproperties ('format-version' = '{version + 1}')")
        assert table.refresh().format_version == version + 1
        dk.delete(table, "id = 4", mode="merge-on-read")
        assert by_spark(spark, f"select id from local.{name}") == [{"id": 2}]


def test_a_view_is_no_table(spark: SparkSession, catalog: dk.Catalog, namespace: str) -> None:
    dk.append(dk.create_table(catalog, f"{namespace}.t", SCHEMA), ROWS)
    spark.sql(f"create view local.{namespace}.v as select id from local.{namespace}.t")
    assert catalog.list_tables(namespace) == [(namespace, "t")]
    with pytest.raises(dk.NotFoundError):
        dk.load_table(catalog, f"{namespace}.v")
    files = on_disk(catalog.default_location((namespace, "v")))
    with raises(dk.InvalidInputError, "table-exists"):
        dk.create_table(catalog, f"{namespace}.v", SCHEMA)
    assert on_disk(catalog.default_location((namespace, "v"))) == files
    assert len(by_spark(spark, f"select * from local.{namespace}.v")) == 3


def test_both_at_once(spark: SparkSession, catalog: dk.Catalog, namespace: str) -> None:
    name = f"{namespace}.busy"
    retries = {"commit.retry.num-retries": "50", "commit.retry.min-wait-ms": "10", "commit.retry.max-wait-ms": "200"}
    table = dk.create_table(catalog, name, SCHEMA, format_version=3, properties=retries)
    dk.append(table, ROWS)
    attempts: list[int] = []
    done = threading.Event()

    def ours() -> None:
        while not done.is_set():
            attempts.append(dk.append(table, [{"id": 1000 + len(attempts)}]).attempts)
            # Java takes longer from reading a table to swapping it than we for a commit: it would never have its turn.
            done.wait(0.15)

    thread = threading.Thread(target=ours)
    thread.start()
    try:
        for number in range(8):
            spark.sql(f"insert into local.{name} values ({2000 + number}, 's', 0.0)")
    finally:
        done.set()
        thread.join()
    wanted = [1, 2, 3, *range(1000, 1000 + len(attempts)), *range(2000, 2008)]
    assert sorted(r["id"] for r in live(table.refresh())) == wanted
    assert sorted(r["id"] for r in by_spark(spark, f"select id from local.{name}")) == wanted
    numbers = sorted(s.sequence_number for s in table.metadata.snapshots.values())
    assert numbers == list(range(1, 1 + len(attempts) + 8 + 1))
    # Java writes its metadata file before it loses the swap, and leaves it.
    assert {path for path in leftovers(table) if not path.endswith(".metadata.json")} == set()
    print(f"\n{len(attempts)} commits of ours in {sum(attempts)} attempts, beside Spark's 8")


# --- a catalog.db that Spark made -------------------------------------------------------------------------------------


def columns_of(folder: Path) -> list[str]:
    connection = sqlite3.connect(folder / "catalog.db")
    try:
        return [row[1] for row in connection.execute("pragma table_info(iceberg_tables)")]
    finally:
        connection.close()


def open_in_spark(spark: SparkSession, folder: Path, name: str, schema_version: str) -> None:
    settings = {
        **embedded_spark_catalog(name, folder).settings,
        f"spark.sql.catalog.{name}.jdbc.schema-version": schema_version,
    }
    for key, value in settings.items():
        spark.conf.set(key, value)


@pytest.mark.parametrize("shape", ["V0", "V1"])
def test_a_catalog_that_spark_made_first(spark: SparkSession, tmp_path: Path, shape: str) -> None:
    name = f"made_{shape.lower()}"
    open_in_spark(spark, tmp_path, name, shape)
    spark.sql(f"create namespace {name}.n")
    spark.sql(f"create table {name}.n.t (id int not null, category string, value double) using iceberg")
    spark.sql(f"insert into {name}.n.t values (1, 'a', 10.0), (2, 'b', 20.0), (3, 'c', 30.0)")
    assert ("iceberg_type" in columns_of(tmp_path)) == (shape == "V1")
    with new_catalog(tmp_path) as wrongly_named, pytest.raises(dk.NotFoundError):
        dk.load_table(wrongly_named, "n.t")  # rows are keyed by the catalog's name
    catalog = dk.local_catalog(tmp_path, name)
    table = dk.load_table(catalog, "n.t")
    assert live(table) == expected(ROWS)
    dk.upgrade_format_version(table, 3)
    dk.delete(table, "id = 2", mode="deletion-vector")
    ours = dk.create_table(catalog, "n.u", SCHEMA, format_version=3)
    dk.append(ours, MORE)
    other = dk.create_table(catalog, "m.t", SCHEMA, format_version=1)
    assert catalog.list_tables("n") == [("n", "t"), ("n", "u")]
    assert by_spark(spark, f"select * from {name}.n.t") == expected([ROWS[0], ROWS[2]])
    assert by_spark(spark, f"select * from {name}.n.u") == expected(MORE)
    assert [r["namespace"] for r in by_spark(spark, f"show namespaces in {name}")] == ["m", "n"]
    spark.sql(f"insert into {name}.m.t values (7, 'g', 70.0)")
    assert live(other.refresh()) == expected(items((7, "g", 70.0)))
    assert ("iceberg_type" in columns_of(tmp_path)) == (shape == "V1")  # neither changes the other's tables
    if shape == "V0":
        migrate(spark, tmp_path, name, catalog, ours)
    catalog.pyiceberg.engine.dispose()  # type: ignore[attr-defined]


def migrate(spark: SparkSession, folder: Path, name: str, catalog: dk.Catalog, ours: dk.Table) -> None:
    """Spark adds the column of V1 to the file that we have open; rows of both shapes are tables."""
    again = f"{name}_again"
    open_in_spark(spark, folder, again, "V1")
    spark.sql(f"show namespaces in {again}").collect()
    assert "iceberg_type" in columns_of(folder)
    dk.append(ours, items((6, "f", 60.0)))
    new = dk.create_table(catalog, "n.new", SCHEMA)
    dk.append(new, ROWS)
    assert by_spark(spark, f"select * from {name}.n.u") == expected(MORE + items((6, "f", 60.0)))
    assert by_spark(spark, f"select * from {name}.n.new") == expected(ROWS)
