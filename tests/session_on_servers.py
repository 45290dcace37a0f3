"""Spark on a catalog with its tables on S3 and on a REST catalog: `python -m tests.session_on_servers PROPERTIES`.

A process of its own, since jars are named before the JVM starts; prints what each side saw of the other's rows as JSON.
"""

import json
import sys
from typing import Any

import pyarrow as pa

import deletekit as dk

ROWS = pa.table({"id": pa.array(range(10), pa.int64()), "word": [f"w{i}" for i in range(10)]})


def main(given: dict[str, dict[str, str]]) -> None:
    found = {}
    for name, properties in given.items():
        spark = dk.spark.session(catalog=properties, catalog_name=name, master="local[1]", driver_memory="512m")
        found[name] = both_ways(spark, name, dk.load_catalog(name, **properties))
    spark.stop()
    print(json.dumps(found))


def both_ways(spark: Any, name: str, catalog: dk.Catalog) -> dict[str, list[int]]:
    """Rows left after: Spark makes 3 and deletes one of deletekit's, deletekit makes 10 and deletes one of Spark's."""
    spark.sql(f"create namespace {name}.db")
    spark.sql(f"create table {name}.db.t (id bigint, word string) using iceberg tblproperties ('format-version'='3')")
    spark.sql(f"insert into {name}.db.t values (100, 'a'), (101, 'b'), (102, 'c')")
    table = dk.load_table(catalog, "db.t")
    dk.append(table, ROWS)
    dk.delete(table, "id = 101", mode="deletion-vector")
    spark.sql(f"delete from {name}.db.t where id = 5")
    source = spark.read.format("deletekit").option("catalog", name).load("db.t")
    source.where("id = 100").selectExpr("id + 1000 as id", "word").write.format("deletekit").option(
        "catalog", name
    ).mode("append").save("db.t")
    return {
        "deletekit": sorted(dk.scan(table.refresh(), columns=["id"]).to_arrow()["id"].to_pylist()),
        "iceberg": sorted(r.id for r in spark.sql(f"select id from {name}.db.t").collect()),
        "source": sorted(r.id for r in spark.read.format("deletekit").option("catalog", name).load("db.t").collect()),
    }


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
