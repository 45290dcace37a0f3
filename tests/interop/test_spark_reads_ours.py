"""Spark with Iceberg reads what deletekit wrote: rows, metadata tables, row lineage; and goes on writing."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import deletekit as dk
from tests.interop.rows import same_rows
from tests.interop.scenarios import SCENARIOS, Scenario
from tests.optional_types import SparkSession


@pytest.fixture(scope="module")
def catalog(spark: SparkSession) -> dk.Catalog:
    """The embedded catalog that the shared session has as `local`."""
    catalog = dk.local_catalog(Path(spark.conf.get("spark.sql.catalog.local.warehouse")))
    spark.sql("CREATE NAMESPACE IF NOT EXISTS local.ours")
    return catalog


def spark_rows(spark: SparkSession, query: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = spark.sql(query).toArrow().to_pylist()
    return rows


# Each third scenario is in the first tier; of the others half are in the second.
@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "scenario",
    [pytest.param(s, marks=() if n % 3 else pytest.mark.first_tier, id=s.name) for n, s in enumerate(SCENARIOS)],
)
def test_spark_reads_the_live_rows(spark: SparkSession, catalog: dk.Catalog, scenario: Scenario) -> None:
    table, expected = scenario.make(catalog, f"ours.{scenario.name}")
    name = f"local.ours.{scenario.name}"

    same_rows(dk.scan(table).to_arrow().to_pylist(), expected)
    same_rows(spark_rows(spark, f"SELECT * FROM {name}"), expected)
    assert dk.scan(table).count() == len(expected)
    # Iceberg Java reads a nested key as NULL when its struct is not selected (apache/iceberg#15826).
    if not scenario.name.startswith("keyed"):
        assert spark.table(name).count() == len(expected)
    check_metadata_tables(spark, table, name)
    if scenario.version == 3:
        lineage = ["_row_id", "_last_updated_sequence_number"]
        columns = [f.name for f in table.schema.fields] + lineage
        ours = dk.scan(table, columns=columns).to_arrow().to_pylist()
        same_rows(ours, spark_rows(spark, f"SELECT {', '.join(columns)} FROM {name}"))


def check_metadata_tables(spark: SparkSession, table: dk.Table, name: str) -> None:
    """Counts of Spark's metadata tables against our own inspection of the same snapshot."""
    entries = [e for m in dk.inspect(table)["manifests"] for e in m["entries"] if e["status"] != 2]
    contents = [e["data_file"]["content"] for e in entries]
    files = spark_rows(spark, f"SELECT content, file_path, record_count, file_size_in_bytes FROM {name}.files")
    same_rows(
        [
            {k: e["data_file"][k] for k in ("content", "file_path", "record_count", "file_size_in_bytes")}
            for e in entries
        ],
        files,
    )
    assert spark.table(f"{name}.delete_files").count() == sum(c != 0 for c in contents)
    assert spark.table(f"{name}.data_files").count() == contents.count(0)
    assert spark.table(f"{name}.snapshots").count() == len(table.metadata.snapshots)
    manifests = spark_rows(spark, f"SELECT path, length, content, added_data_files_count FROM {name}.manifests")
    assert {m["path"] for m in manifests} == {m["manifest_path"] for m in dk.inspect(table)["manifest-list"]}
    assert spark.table(f"{name}.all_entries").count() > 0
    assert spark.table(f"{name}.partitions").count() >= 1
    summaries = spark_rows(
        spark, f"SELECT snapshot_id, summary FROM {name}.snapshots ORDER BY committed_at DESC LIMIT 1"
    )
    summary = dict(summaries[0]["summary"])
    assert int(summary["total-data-files"]) == contents.count(0)
    assert int(summary["total-delete-files"]) == sum(c != 0 for c in contents)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("version", [2, 3])
def test_spark_shows_positions_and_deleted_rows(spark: SparkSession, catalog: dk.Catalog, version: int) -> None:
    table = dk.create_table(catalog, f"ours.positions_v{version}", dk.datasets.users().schema, format_version=version)
    dk.append(table, dk.datasets.users())
    dk.delete(table, "id in (1, 3)", mode="merge-on-read")
    name = f"local.ours.positions_v{version}"
    assert spark_rows(spark, f"SELECT pos FROM {name}.position_deletes ORDER BY pos") == [{"pos": 0}, {"pos": 2}]
    query = "SELECT id, _pos, _deleted FROM {} ORDER BY id"
    same_rows(
        spark_rows(spark, query.format(name)),
        dk.scan(table, columns=["id", "_pos", "_deleted"]).to_arrow().to_pylist(),
    )


@pytest.mark.sampled(2)
@pytest.mark.parametrize("version", [2, 3])
def test_null_structs_and_structs_with_a_null_key(spark: SparkSession, catalog: dk.Catalog, version: int) -> None:
    """By the spec the key of a row is NULL in both. Java compares structs, so the deletes name both."""
    inner = pa.struct([("k", pa.int32()), ("v", pa.string())])
    place = pa.struct([("in", inner), ("z", pa.int32())])
    schema = pa.schema([("id", pa.int32()), ("s", inner), ("p", place), ("n", pa.int32())])
    structs = [None, {"k": None, "v": "x"}, {"k": None, "v": None}, {"k": 1, "v": "x"}]
    places = [None, {"in": None, "z": 1}, {"in": {"k": None, "v": "y"}, "z": None}, {"in": {"k": 2, "v": None}, "z": 3}]
    rows = [{"id": 10 * i + j, "s": structs[i], "p": places[j], "n": i} for i in range(4) for j in range(4)]

    def key(row: Any, *path: str) -> Any:
        for name in path:
            row = None if row is None else row[name]
        return row

    def by_keys(table: dk.Table) -> None:
        dk.delete_keys(table, pa.table({"s.k": pa.nulls(1, pa.int32())}))

    def by_deep_keys(table: dk.Table) -> None:
        keys = {"p.in.k": pa.array([None, 2, None], pa.int32()), "s.k": pa.array([1, None, None], pa.int32())}
        dk.delete_keys(table, pa.table(keys))

    def by_filter(table: dk.Table) -> None:
        dk.delete(table, "p.in.k is null and n > 1", mode="equality-delete", on=["p.in.k", "id"])

    def by_stream(table: dk.Table) -> None:
        with dk.stream.sink(table, "s", on=["p.in.k", "n"], mode="eq-only") as sink:
            sink.write([{"p": None, "n": 0, "_change_type": "DELETE"}], 0)

    cases = {
        by_keys: [r for r in rows if key(r, "s", "k") is not None],
        by_deep_keys: [
            r for r in rows if (key(r, "p", "in", "k"), key(r, "s", "k")) not in {(None, 1), (2, None), (None, None)}
        ],
        by_filter: [r for r in rows if key(r, "p", "in", "k") is not None or r["n"] <= 1],
        by_stream: [r for r in rows if key(r, "p", "in", "k") is not None or r["n"] != 0],
    }
    for delete, expected in cases.items():
        name = f"ours.null_structs_v{version}_{delete.__name__}"
        table = dk.create_table(catalog, name, schema, format_version=version)
        dk.append(table, rows)
        delete(table)
        same_rows(dk.scan(table).to_arrow().to_pylist(), expected)
        same_rows(spark_rows(spark, f"SELECT * FROM local.{name}"), expected)


@pytest.mark.first_tier
def test_branches_and_tags_are_spark_s_too(spark: SparkSession, catalog: dk.Catalog) -> None:
    table = dk.create_table(catalog, "ours.refs", dk.datasets.users().schema, format_version=3)
    dk.append(table, dk.datasets.users())
    dk.create_tag(table, "before")
    dk.create_branch(table, "audit")
    dk.delete(table, "id = 1", mode="deletion-vector", ref="audit")
    dk.delete(table, "id in (2, 3)", mode="deletion-vector")
    ids = "SELECT id FROM local.ours.refs {} ORDER BY id"
    assert [r["id"] for r in spark_rows(spark, ids.format("VERSION AS OF 'audit'"))] == [2, 3, 4]
    assert [r["id"] for r in spark_rows(spark, ids.format("VERSION AS OF 'before'"))] == [1, 2, 3, 4]
    assert [r["id"] for r in spark_rows(spark, ids.format(""))] == [1, 4]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("version", [1, 2, 3])
def test_partition_transforms_agree_with_java(spark: SparkSession, catalog: dk.Catalog, version: int) -> None:
    """Each side writes the same rows under the same spec; both must put them in the same partitions."""
    columns = "id bigint, s string, d date, ts timestamp, dec decimal(9,2), b binary, i int"
    fields = "bucket(7, id), truncate(3, s), month(d), hour(ts), bucket(5, dec), truncate(10, i), bucket(3, b)"
    spark.sql(
        f"CREATE TABLE local.ours.java_parts_v{version} ({columns}) USING iceberg PARTITIONED BY ({fields}) "
        f"TBLPROPERTIES ('format-version'='{version}')"
    )
    values = ", ".join(
        f"({i}, {s}, {d}, {ts}, {dec}, {b}, {n})"
        for i, s, d, ts, dec, b, n in [
            (1, "'iceberg'", "date'2024-02-29'", "timestamp'2024-02-29 23:59:59.999999'", "12.34", "X'00FF'", -1),
            (-5, "'é😀x'", "date'1969-12-31'", "timestamp'1969-12-31 23:59:59.999999'", "-0.01", "X''", -10),
            (2**40, "''", "date'1900-01-01'", "timestamp'1900-01-01 00:00:00'", "0.00", "X'01020304'", 9),
            ("NULL", "NULL", "NULL", "NULL", "NULL", "NULL", "NULL"),
        ]
    )
    spark.sql(f"INSERT INTO local.ours.java_parts_v{version} VALUES {values}")
    java = dk.load_table(catalog, f"ours.java_parts_v{version}")
    rows = dk.scan(java).to_arrow()
    mine = dk.create_table(
        catalog,
        f"ours.our_parts_v{version}",
        rows.schema,
        format_version=version,
        partition_by=[f.strip() for f in fields.replace("), ", ");").split(";")],
    )
    dk.append(mine, rows)
    partitions = "SELECT partition, record_count FROM local.ours.{}_v{}.partitions"
    same_rows(
        spark_rows(spark, partitions.format("our_parts", version)),
        spark_rows(spark, partitions.format("java_parts", version)),
    )
    for where in ("d = '1969-12-31'", "s like 'é%'", "ts < '1970-01-01T00:00:00+00:00'", "id = -5", "i = -10"):
        assert dk.scan(mine, where, columns=["id"]).to_arrow()["id"].to_pylist() != [], where
        same_rows(dk.scan(mine, where).to_arrow().to_pylist(), dk.scan(java, where).to_arrow().to_pylist())
