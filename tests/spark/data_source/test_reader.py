"""Rows read by `spark.read.format("deletekit")` are those of Spark with Iceberg's own reader, on the same tables."""

import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import deletekit as dk
from tests.interop.rows import same_rows
from tests.interop.scenarios import SCENARIOS, Scenario
from tests.optional_types import DataFrame, SparkSession
from tests.spark.conftest import rows
from tests.stored import entries
from tests.tables import ITEMS, items

READ = [
    s
    for s in SCENARIOS
    if s.name.startswith(("deletes_parted", "keyed", "upgraded"))
    or (s.name.startswith(("updates_flat", "evolved")) and "copy" not in s.name)
]


def read(spark: SparkSession, table: str, **options: Any) -> DataFrame:
    named = {k.replace("_", "-"): v for k, v in options.items()}
    return spark.read.format("deletekit").options(**named).load(table)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("scenario", READ, ids=lambda s: s.name)
def test_every_kind_of_delete(spark: SparkSession, catalog: dk.Catalog, name: str, scenario: Scenario) -> None:
    _, wanted = scenario.make(catalog, name)
    ours, icebergs = read(spark, name), spark.table(f"local.{name}")
    assert ours.schema.simpleString() == icebergs.schema.simpleString()
    same_rows(rows(ours), rows(icebergs))
    same_rows(rows(ours), wanted)


def test_hostile_names(spark: SparkSession, catalog: dk.Catalog, name: str) -> None:
    names = ["a.b", "`", "a,b", " spaces ", "<script>", "'; drop table t", "ä\U0001f600", "SELECT"]
    table = dk.create_table(catalog, name, pa.schema([(n, pa.int32()) for n in names]))
    dk.append(table, [dict.fromkeys(names, i) for i in range(3)])
    assert rows(read(spark, name)) == [dict.fromkeys(names, i) for i in range(3)]
    chosen = read(spark, name, columns='["a,b", " spaces ", "a.b"]').where("`a.b` = 1 and ` spaces ` < 5")
    assert rows(chosen) == [{"a,b": 1, " spaces ": 1, "a.b": 1}]
    assert read(spark, name, columns="`, <script>").columns == ["`", "<script>"]


@pytest.fixture(scope="module")
def history(spark: SparkSession, catalog: dk.Catalog) -> dk.Table:
    """Give a table of several snapshots, with a branch and a tag."""
    table = dk.create_table(catalog, "source.history", ITEMS, format_version=3)
    dk.append(table, items((1, "a", 1.0), (2, "b", 2.0)))
    dk.create_tag(table, "first")
    dk.append(table, items((3, "c", 3.0), (4, "d", 4.0)))
    dk.create_branch(table, "side")
    dk.append(table, items((9, "x", 9.0)), ref="side")
    dk.delete(table, "id in (1, 4)", mode="deletion-vector")
    return table


@pytest.mark.first_tier
def test_states_of_the_table(spark: SparkSession, history: dk.Table) -> None:
    def found(**options: Any) -> list[int]:
        return sorted(r["id"] for r in rows(read(spark, history.name, columns="id", **options)))

    first, second = (s for s in history.metadata.raw["snapshots"][:2])
    assert found() == [2, 3]
    assert found(snapshot_id=first["snapshot-id"]) == [1, 2] == found(tag="first") == found(ref="first")
    assert found(branch="side") == [1, 2, 3, 4, 9]
    assert found(as_of_timestamp=second["timestamp-ms"]) == [1, 2, 3, 4]
    location = history.metadata_location
    assert sorted(r["id"] for r in rows(read(spark, location))) == [2, 3]
    assert sorted(r["id"] for r in rows(read(spark, history.location, where="id > 2"))) == [3]


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"snapshotid": "1"}, "unknown option; field snapshotid"),
        ({"snapshot-id": "1"}, "no such snapshot"),
        ({"snapshot-id": "one"}, "bad option; field snapshot-id"),
        ({"split-size": "0"}, "bad option; field split-size"),
        ({"snapshot-id": "1", "ref": "side"}, "name one state to read"),
        ({"branch": "first"}, "not a branch; field branch; found tag first"),
        ({"tag": "side"}, "not a tag"),
        ({"ref": "nope"}, "no such branch or tag"),
        ({"as-of-timestamp": "yesterday"}, "bad time"),
        ({"columns": "id,nope"}, "no such column; field nope"),
        ({"columns": "id,id"}, "bad list of columns"),
        ({"columns": ""}, "bad list of columns"),
        ({"columns": "[1]"}, "bad list of columns"),
        ({"key": "id"}, "unknown option; field key"),
        ({"snapshot-property.x": "y"}, "unknown option; field snapshot-property.x"),
        ({"catalog": "nope"}, "nope"),
        ({"where": "nope = 1"}, "bad filter"),
        ({"path": "source.nope"}, "no such table"),
        ({"path": ""}, "no table named"),
        ({"warehouse": "nope"}, "no embedded catalog here"),
    ],
)
def test_refused_options(spark: SparkSession, history: dk.Table, options: dict[str, str], message: str) -> None:
    with pytest.raises(Exception, match=message):
        spark.read.format("deletekit").options(path=history.name).options(**options).load().collect()


def test_metadata_columns(spark: SparkSession, history: dk.Table) -> None:
    names = ["_file", "_pos", "_spec_id", "id", "_row_id", "_last_updated_sequence_number"]
    ours = rows(read(spark, history.name, columns=",".join(names)))
    same_rows(ours, rows(spark.table(f"local.{history.name}").select(*names)))
    marked = rows(read(spark, history.name, columns="id,_deleted").where("id < 4"))
    same_rows(marked, [{"id": i, "_deleted": i == 1} for i in (1, 2, 3)])


def test_schema_of_the_user(spark: SparkSession, catalog: dk.Catalog, name: str) -> None:
    person = pa.struct([("name", pa.string()), ("zip", pa.int32()), ("u", pa.uuid())])
    schema = pa.schema([("id", pa.int32()), ("person", person), ("people", pa.list_(person))])
    table = dk.create_table(catalog, name, schema)
    ann = {"name": "Ann", "zip": 1, "u": uuid.UUID(int=5)}
    dk.append(table, [{"id": 1, "person": ann, "people": [ann, None]}, {"id": 2, "person": None, "people": None}])
    reader = spark.read.format("deletekit")
    chosen = reader.schema("_pos long, people array<struct<zip: int>>, person struct<u: string, name: string>, id int")
    assert rows(chosen.load(name)) == [
        {"_pos": 0, "people": [{"zip": 1}, None], "person": {"u": str(ann["u"]), "name": "Ann"}, "id": 1},
        {"_pos": 1, "people": None, "person": None, "id": 2},
    ]
    for wrong, message in {
        "id long": "another type in the table; field id; found bigint; expected int",
        "id int not null": "column may be null",
        "ID int": "no such column",
        "person struct<nope: int>": "another type in the table; field person",
        "_pos int": "another type in the table; field _pos",
    }.items():
        with pytest.raises(Exception, match=message):
            spark.read.format("deletekit").schema(wrong).load(name).collect()


def test_the_option_where_prunes(spark: SparkSession, catalog: dk.Catalog, name: str) -> None:
    table = dk.create_table(catalog, name, ITEMS, format_version=3)
    for start in (0, 100, 200):
        dk.append(table, items(*((i, f"c{i % 7}", float(i)) for i in range(start, start + 100))))
    dk.delete(table, "id < 5", mode="deletion-vector")
    dk.delete(table, "id in (150, 151)", mode="equality-delete")
    for entry in entries(table, 0):
        lower = entry["data_file"]["lower_bounds"][0]["value"]
        if int.from_bytes(lower, "little") != 100:
            Path(entry["data_file"]["file_path"]).unlink()  # whoever opens it fails
    frame = read(spark, name, where="id >= 148 and id < 154").where("length(category) = 2")
    assert [r["id"] for r in rows(frame)] == [148, 149, 152, 153]


def test_a_filter_of_one_query_is_not_one_of_the_next(spark: SparkSession, history: dk.Table) -> None:
    """Spark 4.1 to 4.3 keeps what a query pushed down: nothing may be pushed down, also where that is switched on."""
    key = "spark.sql.python.filterPushdown.enabled"
    spark.conf.set(key, "true")
    try:
        frame = read(spark, history.name)
        assert [frame.where("id > 2").count(), frame.count(), frame.where("id > 2").union(frame).count()] == [1, 2, 3]
    finally:
        spark.conf.unset(key)


def test_tasks_are_split_by_size(spark: SparkSession, catalog: dk.Catalog, name: str) -> None:
    properties = {"write.parquet.row-group-limit": "100", "read.split.open-file-cost": "1"}
    table = dk.create_table(catalog, name, ITEMS, properties=properties)
    assert rows(read(spark, name)) == []
    dk.append(table, items(*((i, None, float(i)) for i in range(1000))))
    dk.delete(table, "id = 500", mode="position-delete")
    assert read(spark, name).rdd.getNumPartitions() == 1
    split = read(spark, name, split_size=1)
    groups = len(entries(table, 0)[0]["data_file"]["split_offsets"])
    assert split.rdd.getNumPartitions() == groups > 1
    assert sorted(r["id"] for r in rows(split)) == [i for i in range(1000) if i != 500]
