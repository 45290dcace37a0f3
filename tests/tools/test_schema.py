"""Columns, partitioning, properties, format version, branches and tags: what rows read as afterwards."""

from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.types import IntegerType, ListType, StringType

import deletekit as dk
from tests.commit.racing import QUICK, racing
from tests.maintenance.model import edit_metadata
from tests.stored import metadata_json, snapshots_json
from tests.tables import ITEMS, VERSION_AND_MODE, Row, files_of, ids, items, live, make, raises, refused

FIVE = items((1, "a", 1.0), (2, None, 2.0), (3, "b", 3.0), (4, "a", None), (5, None, 5.0))
EVERY_VERSION = pytest.mark.parametrize("version", [1, 2, 3])
EVERY_MODE = pytest.mark.parametrize(("version", "mode"), VERSION_AND_MODE)


def fields(table: dk.Table) -> dict[str, int]:
    """Column names and ids of the current schema, from the metadata file."""
    metadata = metadata_json(table)
    schema = next(s for s in metadata["schemas"] if s["schema-id"] == metadata["current-schema-id"])
    return {f["name"]: f["id"] for f in schema["fields"]}


# --- columns ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [1, 2])
def test_defaults_need_v3(catalog: dk.Catalog, version: int) -> None:
    table = make(catalog, FIVE, format_version=version)
    with refused(table, dk.InvalidInputError, "format-version", field="extra"):
        dk.add_column(table, "extra", "int", default=1)


@EVERY_VERSION
def test_nested_fields_evolve(catalog: dk.Catalog, version: int) -> None:
    schema = pa.schema([("id", pa.int32()), ("s", pa.struct([("x", pa.int32()), ("y", pa.string())]))])
    table = make(
        catalog, [{"id": 1, "s": {"x": 1, "y": "a"}}, {"id": 2, "s": None}], schema=schema, format_version=version
    )
    dk.add_column(table, "s.z", "int")
    dk.rename_column(table, "s.y", "why")
    dk.update_column(table, "s.x", type="long")
    dk.append(table, [{"id": 3, "s": {"x": 2**40, "why": "b", "z": 3}}])
    model: list[Row] = [
        {"id": 1, "s": {"x": 1, "why": "a", "z": None}},
        {"id": 2, "s": None},
        {"id": 3, "s": {"x": 2**40, "why": "b", "z": 3}},
    ]
    assert live(table) == model
    dk.drop_column(table, "s.x")
    dk.delete(table, "s.z = 3", mode="copy-on-write")
    assert live(table) == [{"id": 1, "s": {"why": "a", "z": None}}, {"id": 2, "s": None}]
    dk.drop_column(table, "s")
    assert live(table) == [{"id": 1}, {"id": 2}]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (lambda t: dk.add_column(t, "l.element.y", "int"), "element"),
        (lambda t: dk.drop_column(t, "l.element.x"), "element"),
        (lambda t: dk.rename_column(t, "l.element.x", "y"), "x"),
        (lambda t: dk.update_column(t, "l.element.x", type="long"), "x"),
    ],
    ids=["add", "drop", "rename", "promote"],
)
def test_a_field_in_a_list_is_refused(catalog: dk.Catalog, change: Any, field: str) -> None:
    table = make(catalog, schema=pa.schema([("l", pa.list_(pa.struct([("x", pa.int32()), ("z", pa.int32())])))]))
    with refused(table, dk.InvalidInputError, "schema", field=field):
        change(table)


@pytest.mark.parametrize("name", ["s", "s.x"])
@pytest.mark.parametrize("use", ["partitioned by", "sorted by", "identifies rows"])
def test_a_column_in_use_stays_with_what_it_is_in(catalog: dk.Catalog, use: str, name: str) -> None:
    """Iceberg's Java opens no table whose spec, sort order or identifier is about a column that is not there."""
    nested = pa.struct([pa.field("x", pa.int32(), nullable=False), ("y", pa.string())])
    schema = pa.schema([("id", pa.int64()), pa.field("s", nested, nullable=False)])
    table = make(catalog, schema=schema, partition_by=["bucket(2, s.x)"] if use == "partitioned by" else [])
    x = table.schema.find_field("s.x").field_id
    sorted_by = {"transform": "identity", "source-id": x, "direction": "asc", "null-order": "nulls-first"}
    changes = {
        "partitioned by": {},
        "sorted by": {"sort-orders": [{"order-id": 1, "fields": [sorted_by]}], "default-sort-order-id": 1},
        "identifies rows": {"schemas": [{**metadata_json(table)["schemas"][0], "identifier-field-ids": [x]}]},
    }
    edit_metadata(table, lambda metadata: metadata.update(changes[use]))
    with refused(table, dk.InvalidInputError, "schema", field=name) as refusal:
        dk.drop_column(table, name)
    assert use in str(refusal.error)
    dk.drop_column(table, "s.y")


def test_optional_and_doc(catalog: dk.Catalog) -> None:
    table = make(catalog, FIVE)
    dk.update_column(table, "id", required=False, doc="the key")
    dk.append(table, [{"category": "x"}])
    assert dk.scan(table, "id is null").count() == 1
    assert metadata_json(table)["schemas"][-1]["fields"][0]["doc"] == "the key"
    dk.update_column(table, "id", doc=None)
    assert "doc" not in metadata_json(table)["schemas"][-1]["fields"][0]


@pytest.mark.parametrize(
    ("change", "error", "kind", "field"),
    [
        (lambda t: dk.add_column(t, "id", "int"), dk.InvalidInputError, "schema", "id"),
        (lambda t: dk.add_column(t, "x", "number"), dk.InvalidInputError, "type", "x"),
        (lambda t: dk.add_column(t, "x", "decimal(99, 2)"), dk.InvalidInputError, "type", "x"),
        (lambda t: dk.add_column(t, "x", "int", required=True), dk.InvalidInputError, "schema", "x"),
        (lambda t: dk.add_column(t, "value.x", "int"), dk.InvalidInputError, "schema", "value"),
        (lambda t: dk.add_column(t, "nope.x", "int"), dk.NotFoundError, "column-not-found", "nope"),
        (lambda t: dk.add_column(t, "x", ListType(9, IntegerType(), False)), dk.InvalidInputError, "type", "x"),
        (lambda t: dk.add_column(t, "x", "timestamp_ns"), dk.InvalidInputError, "format-version", "x"),
        (lambda t: dk.drop_column(t, "nope"), dk.NotFoundError, "column-not-found", "nope"),
        (lambda t: dk.drop_column(t, "category"), dk.InvalidInputError, "schema", "category"),
        (lambda t: dk.rename_column(t, "nope", "x"), dk.NotFoundError, "column-not-found", "nope"),
        (lambda t: dk.rename_column(t, "id", "value"), dk.InvalidInputError, "schema", "value"),
        (lambda t: dk.update_column(t, "id", type="string"), dk.InvalidInputError, "type-promotion", "id"),
        (lambda t: dk.update_column(t, "id", type="float"), dk.InvalidInputError, "type-promotion", "id"),
        (lambda t: dk.update_column(t, "value", type="float"), dk.InvalidInputError, "type-promotion", "value"),
        (
            lambda t: dk.update_column(t, "category", type=StringType(), required=True),
            dk.InvalidInputError,
            "schema",
            "category",
        ),
        (lambda t: dk.update_column(t, "category", type="binary"), dk.InvalidInputError, "type-promotion", "category"),
        (lambda t: dk.add_partition_field(t, "nope"), dk.InvalidInputError, "partition-spec", "nope"),
        (lambda t: dk.add_partition_field(t, "category"), dk.InvalidInputError, "partition-spec", "category"),
        (lambda t: dk.drop_partition_field(t, "id_bucket"), dk.NotFoundError, "partition-spec", "id_bucket"),
        (lambda t: dk.set_properties(t, {"a": 1}), dk.InvalidInputError, "property", "a"),
        (lambda t: dk.upgrade_format_version(t, 1), dk.InvalidInputError, "format-version", "format_version"),
        (lambda t: dk.upgrade_format_version(t, 4), dk.InvalidInputError, "format-version", "format_version"),
        (lambda t: dk.create_branch(t, "main"), dk.InvalidInputError, "ref", "name"),
        (lambda t: dk.create_tag(t, "x", 5), dk.NotFoundError, "snapshot-not-found", "snapshot_id"),
        (lambda t: dk.drop_ref(t, "main"), dk.InvalidInputError, "ref", "name"),
        (lambda t: dk.drop_ref(t, "nope"), dk.NotFoundError, "ref-not-found", "ref"),
    ],
    ids=lambda value: str(value) if isinstance(value, str) else "",
)
def test_changes_that_cannot_be(
    catalog: dk.Catalog, change: Any, error: type[dk.DeletekitError], kind: str, field: str | None
) -> None:
    table = make(catalog, FIVE, format_version=2, partition_by=["category"])
    with refused(table, error, kind, field=field):
        change(table)


# --- partitions -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [2, 3])
def test_a_field_that_comes_back_keeps_its_id(catalog: dk.Catalog, version: int) -> None:
    table = make(catalog, FIVE, format_version=version, partition_by=["category"])
    dk.drop_partition_field(table, "category")
    dk.add_partition_field(table, "bucket(2, id)")
    dk.add_partition_field(table, "category")
    assert [(f["name"], f["field-id"]) for f in table.spec.model_dump(by_alias=True)["fields"]] == [
        ("id_bucket", 1001),
        ("category", 1000),
    ]


def test_v1_replaces_a_dropped_field_by_void(catalog: dk.Catalog) -> None:
    table = make(catalog, FIVE, format_version=1, partition_by=["category", "bucket(2, id)"])
    dk.drop_partition_field(table, "category")
    dk.append(table, FIVE)
    spec = metadata_json(table)["partition-specs"][-1]
    assert [(f["name"], f["transform"], f["field-id"]) for f in spec["fields"]] == [
        ("category", "void", 1000),
        ("id_bucket", "bucket[2]", 1001),
    ]
    assert metadata_json(table)["partition-spec"] == spec["fields"], "what v1 readers look at"
    assert ids(table) == sorted([1, 2, 3, 4, 5] * 2)


@pytest.mark.parametrize("upgraded", [False, True])
def test_a_field_of_v1_that_comes_back_is_a_new_one(catalog: dk.Catalog, upgraded: bool) -> None:
    """Its old id is taken, by the void field that stands in its place."""
    table = make(catalog, FIVE, format_version=1, partition_by=["category"])
    dk.drop_partition_field(table, "category")
    if upgraded:
        dk.upgrade_format_version(table, 2)
    dk.add_partition_field(table, "category")
    spec = metadata_json(table)["partition-specs"][-1]
    assert [(f["name"], f["transform"], f["field-id"]) for f in spec["fields"]] == [
        ("category_1000", "void", 1000),
        ("category", "identity", 1001),
    ]
    dk.append(table, FIVE)
    dk.delete(table, "id = 1", mode="copy-on-write")
    assert ids(table) == [2, 2, 3, 3, 4, 4, 5, 5]
    assert ids(table, "category = 'a'") == [4, 4]


def test_the_same_values_under_another_name_are_refused(catalog: dk.Catalog) -> None:
    table = make(catalog, FIVE, partition_by=["category"])
    dk.rename_column(table, "category", "kind")
    with refused(table, dk.InvalidInputError, "partition-spec", field="kind"):
        dk.add_partition_field(table, "kind")


@EVERY_MODE
def test_the_source_of_an_old_partition_field_is_dropped(catalog: dk.Catalog, version: int, mode: str) -> None:
    if version == 1:
        partition_by, gone = ["id"], "category"
        table = make(catalog, FIVE, format_version=version, partition_by=partition_by)
    else:
        gone = "category"
        table = make(catalog, FIVE, format_version=version, partition_by=["category"])
        dk.drop_partition_field(table, "category")
    dk.drop_column(table, gone)
    dk.append(table, [{"id": 6}])
    dk.delete(table, "id = 1", mode=mode)
    dk.delete(table, "id > 4 and id < 7", mode=mode)
    dk.update(table, {"value": 0.0}, where="id = 2", mode=mode)
    assert [(r["id"], r["value"]) for r in live(table)] == [(2, 0.0), (3, 3.0), (4, None)]
    assert ids(table, "value = 3.0") == [3]


# --- properties, versions ---------------------------------------------------------------------------------------------


def test_properties(catalog: dk.Catalog) -> None:
    table = make(catalog, FIVE, properties={"a": "1", "b": "2"})
    dk.set_properties(table, {"a": None, "b": "3", "c": "4", "nope": None})
    assert metadata_json(table)["properties"] == {"b": "3", "c": "4"}
    location = table.metadata_location
    dk.set_properties(table, {})
    assert table.refresh().metadata_location == location
    assert len(snapshots_json(table)) == 1


@pytest.mark.parametrize(("old", "new"), [(1, 2), (1, 3), (2, 3)])
def test_an_upgrade_writes_metadata_alone_and_once(catalog: dk.Catalog, old: int, new: int) -> None:
    table = make(catalog, FIVE, FIVE, format_version=old, partition_by=["category"])
    before = files_of(table)
    for _ in range(2):
        dk.upgrade_format_version(table, new)
        (written,) = files_of(table) - before
        assert written.endswith(".metadata.json")


# --- branches and tags ------------------------------------------------------------------------------------------------


@EVERY_MODE
def test_a_tag_cannot_be_written_to(catalog: dk.Catalog, version: int, mode: str) -> None:
    table = make(catalog, FIVE, format_version=version)
    dk.create_tag(table, "t")
    verbs = [
        lambda: dk.append(table, FIVE, ref="t"),
        lambda: dk.delete(table, "id = 1", mode=mode, ref="t"),
        lambda: dk.update(table, {"value": 0.0}, where="id = 1", mode=mode, ref="t"),
        lambda: dk.merge(table, FIVE, on=["id"], mode=mode, ref="t"),
    ]
    if version > 1:
        verbs.append(lambda: dk.delete_keys(table, [{"id": 1}], ref="t"))
    for verb in verbs:
        with refused(table, dk.InvalidInputError, "ref", field="ref", found="t"):
            verb()


def test_an_empty_table_has_no_branch(catalog: dk.Catalog) -> None:
    table = make(catalog)
    for create in (dk.create_branch, dk.create_tag):
        with refused(table, dk.InvalidInputError, "ref"):
            create(table, "b")


def test_a_column_that_rows_are_sorted_by_meanwhile_stays(catalog: dk.Catalog) -> None:
    """Java cannot open a table whose sort order names a column that is gone."""
    table = make(catalog, schema=ITEMS, properties=QUICK)
    with raises(dk.InvalidInputError, "schema", field="value"):
        dk.drop_column(racing(catalog, table, lambda t: dk.set_sort_order(t, "value")), "value")
    assert "value" in table.refresh().schema.column_names
