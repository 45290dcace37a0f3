"""DELETE by keys: equality deletes written without reading a row, and what they hide under every kind of evolution."""

import datetime as dt
import uuid
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    FixedType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

import deletekit as dk
from tests.storage import stored_at
from tests.stored import entries, live_files, metadata_json, parquet
from tests.tables import MODES, Row, expected, ids, items, live, make, refused, unchanged

FIVE = items((1, "a", 1.0), (2, None, 2.0), (3, "b", 3.0), (4, "a", None), (5, None, 5.0))
VERSIONS = pytest.mark.parametrize("version", [2, 3])


def without(rows: Sequence[Row], keys: Sequence[Row]) -> list[Row]:
    """Rows that no key equals, NULL being equal to NULL, as `live` returns them."""
    names = list(keys[0])
    gone = {tuple(key[n] for n in names) for key in keys}
    return expected([row for row in rows if tuple(row[n] for n in names) not in gone])


@VERSIONS
@pytest.mark.parametrize(
    "keys",
    [
        [{"id": 1}, {"id": 3}],
        [{"category": "a"}],
        [{"category": None}],
        [{"id": 2, "category": None}, {"id": 3, "category": None}, {"id": 4, "category": "a"}],
        [{"id": 99}],
    ],
    ids=str,
)
@pytest.mark.parametrize("as_arrow", [False, True], ids=["dicts", "arrow"])
def test_keys_hide_the_rows_they_equal(catalog: dk.Catalog, version: int, keys: list[Row], as_arrow: bool) -> None:
    table = make(catalog, FIVE, FIVE, format_version=version)
    done = dk.delete_keys(table, pa.Table.from_pylist(keys) if as_arrow else keys)
    assert live(table) == without([*FIVE, *FIVE], keys)
    assert dk.scan(table).count() == len(live(table))
    assert done.operation == "delete"
    assert done.summary["added-equality-deletes"] == str(len(keys))


def test_no_data_file_is_read(catalog: dk.Catalog) -> None:
    table = make(catalog, FIVE)
    for file in live_files(table, 0):
        stored_at(file["file_path"]).unlink()
    dk.delete_keys(table, [{"id": 1}])
    assert len(live_files(table, 1)) == 1


def test_no_keys_commit_nothing(catalog: dk.Catalog) -> None:
    table = make(catalog, FIVE, partition_by=["category"])
    with unchanged(table):
        assert dk.delete_keys(table, []).snapshot_id is None
        assert dk.delete_keys(table, [], on=["id"]).snapshot_id is None
        assert dk.delete_keys(table, pa.table({"id": pa.array([], pa.int32())}), scope="global").snapshot_id is None


def test_equal_keys_are_written_once(catalog: dk.Catalog) -> None:
    table = make(catalog, FIVE)
    dk.delete_keys(table, [{"id": 1}, {"id": 1}, {"id": 2}])
    (delete,) = live_files(table, 1)
    assert parquet(delete["file_path"])["id"].to_pylist() == [1, 2]


def test_equality_fields_choose_among_the_columns_of_the_keys(catalog: dk.Catalog) -> None:
    table = make(catalog, FIVE)
    dk.delete_keys(table, [{"category": "not a's", "id": 1}], on=["id"])
    (delete,) = live_files(table, 1)
    assert delete["equality_ids"] == [1]
    assert ids(table) == [2, 3, 4, 5]


def test_the_order_of_key_columns_does_not_matter(catalog: dk.Catalog) -> None:
    table = make(catalog, FIVE)
    dk.delete_keys(table, [{"category": "a", "id": 1}])
    dk.delete_keys(table, [{"id": 3, "category": "b"}], on=["category", "id"])
    assert [f["equality_ids"] for f in live_files(table, 1)] == [[1, 2], [1, 2]]
    assert ids(table) == [2, 4, 5]


UTC_NOON = dt.datetime(2024, 5, 17, 12, 30, 15, 123456, tzinfo=dt.UTC)
KEY_TYPES: dict[Any, tuple[Any, Any]] = {
    BooleanType(): (True, False),
    IntegerType(): (-(2**31), 7),
    LongType(): (2**53 + 1, 2**53),
    DecimalType(9, 2): (Decimal("-1.25"), Decimal("1.25")),
    DecimalType(38, 10): (Decimal("1234567890123456789.0000000001"), Decimal("1234567890123456789.0000000002")),
    DateType(): (dt.date(1969, 12, 31), dt.date(2024, 2, 29)),
    TimeType(): (dt.time(23, 59, 59, 999999), dt.time(0)),
    TimestampType(): (UTC_NOON.replace(tzinfo=None), UTC_NOON.replace(tzinfo=None, microsecond=123457)),
    TimestamptzType(): (UTC_NOON, UTC_NOON.replace(year=1900)),
    StringType(): ("Ünï𝛀", ""),
    UUIDType(): (uuid.UUID(int=2**127 + 5), uuid.UUID(int=5)),
    FixedType(3): (b"\xff\x00\x01", b"\x00\x00\x00"),
    BinaryType(): (b"\xff", b""),
}


@pytest.mark.sampled(3, tier=1)
@VERSIONS
@pytest.mark.parametrize("kind", KEY_TYPES, ids=str)
@pytest.mark.parametrize("partitioned", [False, True], ids=["whole", "partitioned"])
def test_every_key_type(catalog: dk.Catalog, version: int, kind: Any, partitioned: bool) -> None:
    one, other = KEY_TYPES[kind]
    schema = Schema(NestedField(1, "id", IntegerType(), required=True), NestedField(2, "k", kind, required=False))
    values = [one, other, None, one]
    rows = [{"id": i, "k": stored(v)} for i, v in enumerate(values)]
    by = ["bucket(2, k)" if isinstance(kind, FixedType) else "k"]
    table = make(catalog, rows, schema=schema, format_version=version, partition_by=by if partitioned else [])
    dk.delete_keys(table, [{"k": stored(one)}])
    assert ids(table) == [1, 2]
    dk.delete_keys(table, [{"k": None}])
    assert ids(table) == [1]
    dk.append(table, rows)
    assert ids(table) == [0, 1, 1, 2, 3]
    dk.delete_keys(table, [{"k": stored(other)}, {"k": None}])
    assert ids(table) == [0, 3]


def stored(value: Any) -> Any:
    return value.bytes if isinstance(value, uuid.UUID) else value


# --- scope ------------------------------------------------------------------------------------------------------------


@VERSIONS
def test_partition_scope_where_keys_determine_the_partition(catalog: dk.Catalog, version: int) -> None:
    table = make(catalog, FIVE, format_version=version, partition_by=["category"])
    dk.delete_keys(table, [{"id": 1, "category": "a"}, {"id": 2, "category": None}])
    found = {str(f["partition"]): parquet(f["file_path"]).to_pylist() for f in live_files(table, 1)}
    assert found == {
        "{'category': 'a'}": [{"id": 1, "category": "a"}],
        "{'category': None}": [{"id": 2, "category": None}],
    }
    assert len(metadata_json(table)["partition-specs"]) == 1
    assert ids(table) == [3, 4, 5]


@VERSIONS
def test_global_scope_where_they_do_not(catalog: dk.Catalog, version: int) -> None:
    table = make(catalog, FIVE, format_version=version, partition_by=["category"])
    dk.delete_keys(table, [{"id": 1}, {"id": 2}])
    (delete,) = entries(table, 1)
    specs = {s["spec-id"]: s["fields"] for s in metadata_json(table)["partition-specs"]}
    assert specs[delete["listed"]["partition_spec_id"]] == []
    assert delete["data_file"]["partition"] == {}
    assert metadata_json(table)["default-spec-id"] == 0, "new data is partitioned as before"
    assert ids(table) == [3, 4, 5]
    dk.append(table, FIVE)
    assert ids(table) == [1, 2, 3, 3, 4, 4, 5, 5]


def test_an_unpartitioned_spec_is_added_once(catalog: dk.Catalog) -> None:
    table = make(catalog, FIVE, partition_by=["category"])
    for i in (1, 2, 3):
        dk.delete_keys(table, [{"id": i}])
    assert len(metadata_json(table)["partition-specs"]) == 2
    assert ids(table) == [4, 5]


def test_partition_scope_is_refused_where_a_row_may_be_elsewhere(catalog: dk.Catalog) -> None:
    table = make(catalog, FIVE, partition_by=["category"])
    with refused(table, dk.InvalidInputError, "equality-scope", field="scope", found="category"):
        dk.delete_keys(table, [{"id": 1}], scope="partition")


@pytest.mark.parametrize(
    "partition_by", [["bucket(4, id)"], ["truncate(2, id)"], ["id"], ["bucket(2, id)", "id"]], ids=str
)
def test_partitions_derived_from_the_key(catalog: dk.Catalog, partition_by: list[str]) -> None:
    table = make(catalog, FIVE, partition_by=partition_by)
    dk.delete_keys(table, [{"id": 1}, {"id": 4}], scope="partition")
    data = {str(f["partition"]) for f in live_files(table, 0)}
    assert {str(f["partition"]) for f in live_files(table, 1)} <= data
    assert ids(table) == [2, 3, 5]


@VERSIONS
@pytest.mark.parametrize("partition_by", [["category", "void(id)"], ["void(id)", "truncate(1, category)"]], ids=str)
def test_a_void_field_beside_another_needs_no_key_column(
    catalog: dk.Catalog, version: int, partition_by: list[str]
) -> None:
    table = make(catalog, FIVE, format_version=version, partition_by=partition_by)
    dk.delete_keys(table, [{"category": "b"}], scope="partition")
    assert ids(table) == [1, 2, 4, 5]
    dk.delete(table, "category = 'a'", mode="equality-delete")
    assert ids(table) == [2, 5]
    dk.upsert(table, items((6, None, None), (7, "a", None)), on=["category"], mode="equality-delete")
    assert ids(table) == [6, 7]
    dk.update(table, {"value": 9.0}, where="category = 'a'", mode="equality-delete")
    for number, mode in enumerate(("eq-only", "auto")):
        with dk.stream.sink(table, mode, on=["category"], mode=mode) as sink:
            sink.write([{"id": 8 + number, "category": None, "value": 1.0, "_change_type": "INSERT"}], 0)
        assert ids(table) == [7, 8 + number]
    assert {f["partition"].get("id_null") for f in live_files(table, 1)} == {None}
    assert len(metadata_json(table)["partition-specs"]) == 1, "no delete needs the whole table"


def test_a_void_field_whose_column_is_gone(catalog: dk.Catalog) -> None:
    """Its schema has other names than today's, by which the rows of a file are found."""
    table = make(catalog, FIVE, format_version=1, partition_by=["category"])
    dk.add_partition_field(table, "void(value)")
    dk.append(table, FIVE)
    dk.upgrade_format_version(table, 2)
    dk.drop_partition_field(table, "value_null")
    dk.drop_column(table, "value")
    dk.rename_column(table, "category", "kind")
    dk.delete_keys(table, [{"kind": "a"}, {"kind": None}], scope="partition")
    assert ids(table) == [3, 3]
    assert {e["listed"]["partition_spec_id"] for e in entries(table, 1)} == {0, 1}


# --- evolution --------------------------------------------------------------------------------------------------------


@VERSIONS
@pytest.mark.parametrize(
    ("kind", "promoted", "values"),
    [
        (pa.decimal128(5, 2), "decimal(20, 2)", [Decimal("1.00"), Decimal("-2.50"), Decimal("0.00")]),
        (pa.int32(), "long", [1, -(2**31) + 8, 0]),
    ],
    ids=str,
)
@pytest.mark.parametrize("by", ["{}", "bucket(2, {})", "truncate(10, {})"])
def test_a_promoted_partition_column(
    catalog: dk.Catalog, version: int, kind: Any, promoted: str, values: list[Any], by: str
) -> None:
    """The partition of the old files and that of the new deletes are the same, whatever bytes each is stored in."""
    schema = pa.schema([pa.field("id", pa.int32(), False), pa.field("d", kind)])
    rows = [{"id": i, "d": d} for i, d in enumerate([*values, None])]
    table = make(catalog, rows, schema=schema, format_version=version, partition_by=[by.format("d")])
    dk.update_column(table, "d", type=promoted)
    dk.append(table, rows)
    dk.delete_keys(table, [{"d": values[0]}], scope="partition")
    dk.delete_keys(table, [{"d": None}], scope="partition")
    assert ids(table) == [1, 1, 2, 2]
    for mode in MODES[version]:
        dk.create_branch(table, mode)
        dk.delete(table, "id = 1 and d < 0", mode=mode, ref=mode)  # the manifests of the old files are rewritten
        assert ids(table, ref=mode) == [2, 2]
        assert ids(table, "d < 1", ref=mode) == [2, 2]


# --- nested keys ------------------------------------------------------------------------------------------------------

PERSON = pa.struct([("name", pa.string()), ("home", pa.struct([("city", pa.string()), ("zip", pa.int32())]))])
NESTED = pa.schema([pa.field("id", pa.int32(), False), pa.field("person", PERSON), pa.field("city", pa.string())])
PEOPLE: list[Row] = [
    {"id": 1, "person": {"name": "Ann", "home": {"city": "Oslo", "zip": 1}}, "city": "Rome"},
    {"id": 2, "person": {"name": "Bob", "home": {"city": None, "zip": 2}}, "city": "Oslo"},
    {"id": 3, "person": {"name": None, "home": None}, "city": None},
    {"id": 4, "person": None, "city": "Oslo"},
    {"id": 5, "person": {"name": "Ann", "home": {"city": "Rome", "zip": None}}, "city": "Rome"},
]


@VERSIONS
def test_a_dropped_key_column(catalog: dk.Catalog, version: int) -> None:
    table = make(catalog, FIVE, format_version=version)
    dk.delete_keys(table, [{"category": "a"}, {"category": None}])
    dk.drop_column(table, "category")
    assert live(table) == [{"id": 3, "value": 3.0}]
    dk.add_column(table, "category", "string")  # another id: the old deletes do not mean it
    dk.append(table, [{"id": 6, "category": "a", "value": None}])
    assert ids(table) == [3, 6]


@VERSIONS
def test_a_promoted_key_column(catalog: dk.Catalog, version: int) -> None:
    table = make(catalog, FIVE, format_version=version)
    dk.delete_keys(table, [{"id": 1}])  # the file holds an int
    dk.update_column(table, "id", type="long")
    dk.append(table, items((2**40, "z", 0.0), (1, "z", 0.0)))
    dk.delete_keys(table, [{"id": 2}, {"id": 2**40}])  # the file holds longs, the old data ints
    assert ids(table) == [1, 3, 4, 5]


@VERSIONS
@pytest.mark.parametrize(
    ("keys", "gone"),
    [
        ([{"person.home.city": "Oslo"}], {1}),
        ([{"person.home.city": None}], {2, 3, 4}),
        ([{"person.name": None}], {3, 4}),
        ([{"person.name": "Ann", "person.home.zip": None}], {5}),
        ([{"person.home.city": "Rome", "city": "Rome"}], {5}),
        ([{"person.home.zip": None, "city": None}, {"person.home.zip": None, "city": "Oslo"}], {3, 4}),
    ],
    ids=str,
)
def test_nested_keys(catalog: dk.Catalog, version: int, keys: list[Row], gone: set[int]) -> None:
    table = make(catalog, PEOPLE, schema=NESTED, format_version=version)
    dk.delete_keys(table, keys)
    assert set(ids(table)) == {1, 2, 3, 4, 5} - gone
    assert dk.scan(table).to_arrow().column_names == ["id", "person", "city"]
    (delete,) = live_files(table, 1)
    leaves = {f["name"] for f in leaf_fields(parquet(delete["file_path"]).schema, delete["equality_ids"])}
    assert leaves == set(keys[0])
    written = parquet(delete["file_path"])
    as_structs = {r["id"] for r in PEOPLE if only(r, written.schema) in written.to_pylist()}
    assert as_structs == gone, "a reader that compares structs, as Java does, hides the same rows"
    assert delete["record_count"] == len(written) == len({str(row) for row in written.to_pylist()})


def only(row: Any, fields: Any) -> Any:
    """A row with some of its fields."""
    if row is None or not (isinstance(fields, pa.Schema) or pa.types.is_struct(fields)):
        return row
    return {f.name: only(row[f.name], f.type) for f in fields}


def leaf_fields(schema: pa.Schema, wanted: Sequence[int], parent: str = "") -> list[dict[str, Any]]:
    """The fields of a file that have one of the wanted Iceberg ids, with their dotted names."""
    found = []
    for field in schema:
        name = f"{parent}{field.name}"
        if int(field.metadata[b"PARQUET:field_id"]) in wanted:
            found.append({"name": name})
        if pa.types.is_struct(field.type):
            found += leaf_fields(pa.schema(list(field.type)), wanted, f"{name}.")
    return found


@pytest.mark.parametrize(
    "key", [{"person": 5}, {"person": {"home": {"zip": 1}}}, {"person": {"home": 5}}, {"id": 1}], ids=str
)
def test_a_nested_key_that_is_not_there(catalog: dk.Catalog, key: Row) -> None:
    table = make(catalog, PEOPLE, schema=NESTED)
    names = ["person.home.city"]
    with refused(table, dk.InvalidInputError, "column-not-found", field=names[0]):
        dk.delete_keys(table, [key], on=names)
    with dk.stream.sink(table, "s", on=names) as sink:
        with refused(table, dk.InvalidInputError, "column-not-found", field=names[0]):
            sink.write([key | {"_change_type": "DELETE"}], 0)
        sink.write([{"person": None, "_change_type": "DELETE"}], 0)
    assert ids(table) == [1, 5]


@VERSIONS
def test_the_required_leaf_of_a_null_struct(catalog: dk.Catalog, version: int) -> None:
    """It is NULL, so NULL is a key that it can have; for a required column NULL is a key that hides nothing."""
    struct = pa.struct([pa.field("x", pa.int32(), nullable=False), pa.field("y", pa.string())])
    schema = pa.schema([pa.field("id", pa.int32(), False), pa.field("s", struct)])
    rows = [{"id": 1, "s": {"x": 1, "y": "a"}}, {"id": 2, "s": None}, {"id": 3, "s": {"x": 3, "y": None}}]
    table = make(catalog, rows, schema=schema, format_version=version)
    dk.delete_keys(table, [{"id": None}])
    dk.delete_keys(table, [{"s.x": None, "s.y": "a"}])
    assert live(table) == rows
    dk.delete_keys(table, [{"s.x": None, "s.y": None}, {"s.x": 1, "s.y": "a"}])
    assert live(table) == rows[2:]
    dk.append(table, rows)
    dk.delete(table, "id = 2", mode="equality-delete", on=["s.x"])
    assert ids(table) == [1, 3, 3]


@VERSIONS
def test_a_nested_column_as_partition_source(catalog: dk.Catalog, version: int) -> None:
    table = make(catalog, PEOPLE, schema=NESTED, format_version=version, partition_by=["person.home.city"])
    dk.delete_keys(table, [{"person.home.city": None, "id": 4}, {"person.home.city": "Rome", "id": 5}])
    assert len(metadata_json(table)["partition-specs"]) == 1
    assert ids(table) == [1, 2, 3]
    dk.delete_keys(table, [{"id": 1}])
    assert ids(table) == [2, 3]
