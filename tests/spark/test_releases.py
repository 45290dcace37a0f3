"""What works on every release of Spark that deletekit knows, and what one sentence refuses before a job starts."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import deletekit as dk
from deletekit.spark import releases
from deletekit.spark.engine import SparkEngine
from deletekit.spark.releases import JARS
from deletekit.spark.without_runtime import refusing_iceberg_sql
from tests.interop.rows import same_rows
from tests.invariants import check_table
from tests.optional_types import SparkSession
from tests.tables import Row, live, make, new_catalog

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("c", pa.string()), ("v", pa.float64())])


def rows(*ids: int, v: float = 0.0) -> list[Row]:
    return [{"id": i, "c": "abc"[i % 3], "v": v} for i in ids]


@pytest.fixture
def catalog(spark: SparkSession) -> Iterator[dk.Catalog]:
    """Give the catalog that Spark has as `local`."""
    with new_catalog(Path(spark.conf.get("spark.sql.catalog.local.warehouse"))) as catalog:
        yield catalog


def test_the_verbs_on_the_engine(spark: SparkSession, catalog: dk.Catalog) -> None:
    table = make(catalog, rows(*range(40)), schema=SCHEMA, format_version=3, partition_by=["c"])
    frame = spark.createDataFrame(rows(39, 40, 41, v=1.0), "id long, c string, v double")
    with SparkEngine(spark, 2):
        dk.delete(table, "id < 10", mode="deletion-vector")
        dk.merge(table, frame, on=["id"])
        dk.upsert(table, frame.selectExpr("id + 2 as id", "c", "2D as v"), on="id")
        dk.update(table, {"v": 9.0}, where="id = 20")
        dk.delete_keys(table, frame.limit(0).select("id"), on="id")
        dk.append(table, frame.selectExpr("id + 60 as id", "c", "v"))
        dk.compact(table, rewrite_all=True)
        found = dk.scan(table).to_arrow().to_pylist()
    values = dict.fromkeys(range(10, 39), 0.0) | {20: 9.0, 39: 1.0, 40: 1.0} | dict.fromkeys((41, 42, 43), 2.0)
    assert {r["id"]: r["v"] for r in found} == values | dict.fromkeys((99, 100, 101), 1.0)
    check_table(table)
    if JARS:
        same_rows((r.asDict() for r in spark.table(f"local.{table.name}").collect()), found)


def test_sql_on_views(spark: SparkSession, tmp_path: Path) -> None:
    with new_catalog(tmp_path) as catalog:
        for name in ("shop.orders", "shop.items", "more.items"):
            dk.append(dk.create_table(catalog, name, SCHEMA, format_version=3), rows(*range(6)))
        dk.create_table(catalog, "more.times", pa.schema([("at", pa.time64("us"))]))
        views = dk.spark.register(spark, catalog)
        assert views == {"more.items": "more.items", "shop.items": "shop.items", "orders": "shop.orders"}
        joined = "SELECT o.c, count(*) n, sum(i.v) v FROM orders o JOIN `shop.items` i ON o.id = i.id WHERE o.id > 1"
        same_rows(
            (r.asDict() for r in spark.sql(f"{joined} GROUP BY o.c").collect()),
            [{"c": "a", "n": 1, "v": 0.0}, {"c": "b", "n": 1, "v": 0.0}, {"c": "c", "n": 2, "v": 0.0}],
        )
        spark.sql("INSERT INTO orders VALUES (7, 'x', 1)")
        orders = dk.load_table(catalog, "shop.orders")
        dk.delete(orders, "id = 2", mode="deletion-vector")
        assert spark.sql("SELECT * FROM orders").count() == 6, "as it was when the view was made"
        options = f"OPTIONS (warehouse '{tmp_path}', path 'shop.orders'"
        spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW orders USING deletekit {options})")
        same_rows((r.asDict() for r in spark.table("orders").collect()), live(orders))
        spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW changed USING deletekit {options}, `changes-from` 'start')")
        assert [r.id for r in spark.sql("SELECT id FROM changed WHERE _change_type = 'delete'").collect()] == [2]


@pytest.mark.parametrize(
    ("statement", "verb"),
    [
        ("MERGE INTO gone.db.t USING (SELECT 1 id) s ON true WHEN MATCHED THEN DELETE", "deletekit.merge("),
        ("DELETE FROM gone.db.t WHERE id = 1", "deletekit.delete("),
        ("UPDATE gone.db.t SET id = 1", "deletekit.update("),
        ("INSERT INTO gone.db.t VALUES (1)", "deletekit.append("),
        ("CALL gone.system.expire_snapshots(table => 'db.t')", "deletekit.compact("),
        ("SELECT * FROM gone.db.t", "deletekit.spark.register("),
    ],
)
def test_without_a_runtime_sql_is_refused_by_the_verb(spark: SparkSession, statement: str, verb: str) -> None:
    session = refusing_iceberg_sql(spark.newSession())
    session.conf.set("spark.sql.catalog.gone", "org.example.Gone")
    with pytest.raises(dk.UnsupportedError, match="Iceberg has no runtime") as caught:
        session.sql(statement).collect()
    assert str(caught.value.expected).startswith(verb)
    with pytest.raises(Exception, match="SYNTAX"):
        session.sql("SELEKT")


@pytest.mark.parametrize("release", ["3.4", "4.4", "5.0"])
def test_a_release_that_was_never_tried(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, release: str
) -> None:
    monkeypatch.setattr(releases, "RELEASE", release)
    for call in (lambda: dk.spark.session(tmp_path), lambda: dk.engine.spark(spark)):
        with pytest.raises(dk.EnvironmentMissingError, match="does not work on this Spark") as caught:
            call()
        assert (caught.value.found, caught.value.expected) == (release, "3.5 or 4.0 or 4.1 or 4.2 or 4.3")


def test_spark_connect(java: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'deletekit[spark]'")
    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
    with pytest.raises(dk.UnsupportedError) as caught:
        dk.spark.session(tmp_path)
    assert caught.value.kind == "spark-connect"
