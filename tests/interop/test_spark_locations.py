"""Tables whose location is spelled oddly, written by Spark and by deletekit: maintenance removes nothing they need."""

from pathlib import Path

import pytest

import deletekit as dk
from deletekit import spark as spark_sessions
from tests.interop.rows import same_rows
from tests.maintenance.model import FAR
from tests.maintenance.test_spellings import SPELLINGS, needed_on_disk, respelled
from tests.optional_types import SparkSession
from tests.stored import metadata_json
from tests.tables import ITEMS, ids, items


@pytest.mark.parametrize("spelling", ["two dots", "doubled slashes", "file:// and dots", "link", "plain"])
def test_both_write_and_nothing_that_is_needed_goes(spark: SparkSession, tmp_path: Path, spelling: str) -> None:
    catalog = dk.local_catalog(Path(spark.conf.get("spark.sql.catalog.local.warehouse")))
    spark.sql("CREATE NAMESPACE IF NOT EXISTS local.spelled")
    name = f"spelled.t{[*SPELLINGS].index(spelling)}"
    options = {"write.delete.mode": "merge-on-read"}
    folder = tmp_path / "p%20q é ü#1"
    table = dk.create_table(
        catalog, name, ITEMS, format_version=3, partition_by=["category"], location=str(folder), properties=options
    )
    name = f"local.{name}"
    respelled(table, SPELLINGS[spelling])
    spark.sql(f"INSERT INTO {name} VALUES (1, 'a', 1.0), (2, 'a', 2.0), (3, 'b', 3.0)")
    assert metadata_json(table.refresh())["location"] == SPELLINGS[spelling](folder)
    dk.append(table, items((4, "b", 4.0), (5, "c", 5.0)))
    spark.sql(f"DELETE FROM {name} WHERE id = 1")
    dk.delete(table, "id = 3", mode="deletion-vector")
    spark.sql(f"INSERT INTO {name} VALUES (6, 'c', 6.0)")
    assert dk.remove_orphan_files(table, older_than=FAR, force=True).orphan_files == ()
    expired = dk.expire_snapshots(table, older_than=FAR)
    assert (expired.kept_files, expired.failed_files) == ((), {})
    assert ids(table) == [2, 4, 5, 6]
    assert {str(p) for p in folder.rglob("*") if p.is_file() and p.suffix != ".crc"} == needed_on_disk(table)
    spark.sql(f"REFRESH TABLE {name}")
    same_rows(spark.sql(f"SELECT id FROM {name}").toArrow().to_pylist(), [{"id": i} for i in (2, 4, 5, 6)])


def test_a_warehouse_given_by_dots(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    spark_sessions.session("../wh/./in", catalog_name="dotted")
    catalog = dk.local_catalog("../wh/in", "dotted")
    assert spark.conf.get("spark.sql.catalog.dotted.warehouse") == f"{tmp_path}/wh/in"
    spark.sql("CREATE TABLE dotted.n.t (id INT) USING iceberg")
    spark.sql("INSERT INTO dotted.n.t VALUES (1), (2)")
    table = dk.load_table(catalog, "n.t")
    assert table.location == f"{tmp_path}/wh/in/n/t"
    assert dk.remove_orphan_files(table, older_than=FAR, force=True).orphan_files == ()
    assert ids(table) == [1, 2]
