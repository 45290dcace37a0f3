"""CREATE TABLE and INSERT: what ends up in which file, and what the table says about it."""

import datetime as dt
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.conversions import from_bytes
from pyiceberg.expressions import EqualTo
from pyiceberg.schema import Schema
from pyiceberg.transforms import parse_transform
from pyiceberg.types import (
    FixedType,
    IntegerType,
    NestedField,
    UnknownType,
)

import deletekit as dk
from tests.storage import stored_at
from tests.stored import head_json, live_files, manifest_list, metadata_json, parquet, snapshots_json
from tests.tables import ITEMS, VERSION_AND_MODE, Row, expected, files_of, ids, items, live, make, raises, refused

FIVE = items((1, "a", 1.0), (2, None, 2.0), (3, "b", 3.0), (4, "a", None), (5, None, 5.0))
EVERY_VERSION = pytest.mark.parametrize("version", [1, 2, 3])


# --- create_table -----------------------------------------------------------------------------------------------------


@EVERY_VERSION
def test_a_new_table(catalog: dk.Catalog, version: int) -> None:
    table = dk.create_table(
        catalog, "new.items", ITEMS, format_version=version, partition_by=["category"], properties={"owner": "me"}
    )
    metadata = metadata_json(table)
    assert metadata["format-version"] == version
    assert metadata["properties"] == {"owner": "me"}
    assert metadata["snapshots"] == []
    assert metadata["current-snapshot-id"] == (-1 if version < 3 else None)
    assert metadata.get("next-row-id") == (0 if version == 3 else None)
    assert ("schema" in metadata, "partition-spec" in metadata) == (version == 1, version == 1)
    fields = metadata["schemas"][0]["fields"]
    assert [(f["id"], f["name"], f["type"], f["required"]) for f in fields] == [
        (1, "id", "int", True),
        (2, "category", "string", False),
        (3, "value", "double", False),
    ]
    assert metadata["partition-specs"] == [
        {
            "spec-id": 0,
            "fields": [{"source-id": 2, "field-id": 1000, "transform": "identity", "name": "category"}],
        }
    ]
    assert (live(table), dk.scan(table).count(), table.current_snapshot) == ([], 0, None)
    assert dk.load_table(catalog, "new.items").metadata_location == table.metadata_location


def test_the_default_format_version_is_two(catalog: dk.Catalog) -> None:
    assert make(catalog).format_version == 2


def test_field_ids_are_given_as_java_gives_them(catalog: dk.Catalog) -> None:
    """Columns first, then the fields inside them, level by level."""
    schema = pa.schema(
        [
            pa.field("s", pa.struct([pa.field("x", pa.int32()), pa.field("t", pa.struct([("y", pa.int32())]))])),
            pa.field("l", pa.list_(pa.field("element", pa.int32()))),
            pa.field("m", pa.map_(pa.string(), pa.int32())),
        ]
    )
    columns = metadata_json(make(catalog, schema=schema))["schemas"][0]["fields"]
    s, listed, mapped = columns
    assert [c["id"] for c in columns] == [1, 2, 3]
    assert [f["id"] for f in s["type"]["fields"]] == [4, 5]
    inner = [s["type"]["fields"][1]["type"]["fields"][0]["id"], listed["type"]["element-id"]]
    inner += [mapped["type"]["key-id"], mapped["type"]["value-id"]]
    assert sorted(inner) == [6, 7, 8, 9]
    assert metadata_json(make(catalog, schema=schema))["last-column-id"] == 9


@pytest.mark.parametrize(
    ("spelled", "transform", "name"),
    [
        ("category", "identity", "category"),
        ("bucket(16, id)", "bucket[16]", "id_bucket"),
        ("bucket(id, 16)", "bucket[16]", "id_bucket"),
        ("truncate(4, category)", "truncate[4]", "category_trunc"),
        ("year(ts)", "year", "ts_year"),
        ("years(ts)", "year", "ts_year"),
        ("month(ts)", "month", "ts_month"),
        (" days( ts ) ", "day", "ts_day"),
        ("hour(ts)", "hour", "ts_hour"),
        ("void(id)", "void", "id_null"),
        ("nested.leaf", "identity", "nested.leaf"),
    ],
)
def test_how_partitions_are_spelled(catalog: dk.Catalog, spelled: str, transform: str, name: str) -> None:
    schema = pa.schema([*ITEMS, ("ts", pa.timestamp("us")), ("nested", pa.struct([("leaf", pa.string())]))])
    (field,) = metadata_json(make(catalog, schema=schema, partition_by=[spelled]))["partition-specs"][0]["fields"]
    assert (field["transform"], field["name"], field["field-id"]) == (transform, name, 1000)


@pytest.mark.parametrize(
    ("options", "error", "kind"),
    [
        ({"partition_by": ["nope"]}, dk.InvalidInputError, "partition-spec"),
        ({"partition_by": ["hash(id)"]}, dk.InvalidInputError, "partition-spec"),
        ({"partition_by": ["bucket(id)"]}, dk.InvalidInputError, "partition-spec"),
        ({"partition_by": ["day(category)"]}, dk.InvalidInputError, "partition-spec"),
        ({"partition_by": ["bucket(2, value)"]}, dk.InvalidInputError, "partition-spec"),
        ({"partition_by": ["id", "id"]}, dk.InvalidInputError, "partition-spec"),
        (
            {"partition_by": ["f"], "schema": Schema(NestedField(1, "f", FixedType(2)))},
            dk.UnsupportedError,
            "partition-type",
        ),
        (
            {"partition_by": ["l"], "schema": pa.schema([("l", pa.list_(pa.int32()))])},
            dk.InvalidInputError,
            "partition-spec",
        ),
        ({"format_version": 4}, dk.InvalidInputError, "format-version"),
        ({"format_version": 0}, dk.InvalidInputError, "format-version"),
        (
            {"schema": pa.schema([("t", pa.timestamp("ns"))]), "format_version": 2},
            dk.InvalidInputError,
            "format-version",
        ),
        ({"schema": pa.schema([("t", pa.duration("us"))])}, dk.UnsupportedError, "type"),
        ({"schema": "id int"}, dk.InvalidInputError, "file-format"),
    ],
    ids=str,
)
def test_tables_that_cannot_be(
    catalog: dk.Catalog, options: dict[str, Any], error: type[dk.DeletekitError], kind: str
) -> None:
    given = {"schema": ITEMS, **options}
    with pytest.raises(error) as caught:
        dk.create_table(catalog, "new.items", **given)
    assert (type(caught.value), caught.value.kind) == (error, kind), caught.value
    with pytest.raises(dk.NotFoundError):
        dk.load_table(catalog, "new.items")


@pytest.mark.parametrize("name", ["items", "", "new.", ".items", "a..b"])
def test_a_table_needs_a_namespace(catalog: dk.Catalog, name: str) -> None:
    with raises(dk.InvalidInputError, "identifier"):
        dk.create_table(catalog, name, ITEMS)


# --- rows in ----------------------------------------------------------------------------------------------------------


class Stream:
    """What polars, pandas and DuckDB offer: `__arrow_c_stream__` and nothing else of pyarrow's."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._table.__arrow_c_stream__(requested_schema)


@pytest.mark.sampled(3, tier=1)
@EVERY_VERSION
@pytest.mark.parametrize(
    "wrap",
    [
        pa.Table.to_pylist,
        lambda t: t,
        lambda t: t.combine_chunks().to_batches()[0],
        Stream,
        lambda t: t.select(["value", "category", "id"]),
        lambda t: t.set_column(1, "category", t["category"].dictionary_encode()),
        lambda t: t.set_column(0, "id", t["id"].cast(pa.int64())),
        lambda t: pa.concat_tables([t.slice(0, 2), t.slice(2)]),
    ],
    ids=["dicts", "table", "batch", "stream", "reordered", "dictionary", "wider", "chunks"],
)
def test_rows_of_every_shape(catalog: dk.Catalog, version: int, wrap: Any) -> None:
    given = pa.Table.from_pylist(FIVE, schema=pa.schema([("id", pa.int32()), *list(ITEMS)[1:]]))
    table = make(catalog, wrap(given), format_version=version)
    assert live(table) == expected(FIVE)
    assert dk.scan(table).to_arrow().schema == ITEMS


def test_a_column_of_unknown_type(catalog: dk.Catalog) -> None:
    schema = Schema(
        NestedField(1, "id", IntegerType(), required=True), NestedField(2, "u", UnknownType(), required=False)
    )
    table = make(catalog, [{"id": 1}, {"id": 2, "u": None}], schema=schema, format_version=3)
    dk.update(table, {"id": 3}, where="id = 2 and u is null")
    assert live(table) == [{"id": 1, "u": None}, {"id": 3, "u": None}]
    with refused(table, dk.InvalidInputError, "column-type", field="u"):
        dk.append(table, [{"id": 4, "u": 1}])


# --- files ------------------------------------------------------------------------------------------------------------

WIDE = pa.schema(
    [
        pa.field("id", pa.int32(), nullable=False),
        ("i", pa.int32()),
        ("l", pa.int64()),
        ("s", pa.string()),
        ("b", pa.binary()),
        ("d", pa.date32()),
        ("ts", pa.timestamp("us")),
        ("tz", pa.timestamp("us", "UTC")),
        ("t", pa.time64("us")),
        ("dec", pa.decimal128(9, 2)),
        ("u", pa.uuid()),
        ("flag", pa.bool_()),
    ]
)


def wide_rows(count: int = 24) -> list[Row]:
    """Rows whose every column is NULL in each third row, and negative or before 1970 in some."""
    start = dt.datetime(1969, 12, 30, tzinfo=dt.UTC)
    rows: list[Row] = []
    for i in range(count):
        at = start + dt.timedelta(hours=7 * i, microseconds=i)
        row: Row = {
            "i": i - 10,
            "l": (i - 10) * 10**10,
            "s": f"text {i % 5}" * (i % 4),
            "b": bytes([i % 6, 255]),
            "d": at.date(),
            "ts": at.replace(tzinfo=None),
            "tz": at,
            "t": at.time(),
            "dec": Decimal(i * 37 - 300) / 100,
            "u": uuid.UUID(int=i % 4 << 100),
            "flag": i % 2 == 0,
        }
        rows.append({"id": i, **(dict.fromkeys(row) if i % 3 == 2 else row)})
    return rows


SPECS = [
    "i", "l", "s", "b", "d", "ts", "tz", "t", "dec", "u", "flag",
    "bucket(4, i)", "bucket(4, l)", "bucket(4, s)", "bucket(4, b)", "bucket(4, d)", "bucket(4, ts)", "bucket(4, tz)",
    "bucket(4, t)", "bucket(4, dec)", "bucket(4, u)",
    "truncate(3, i)", "truncate(3, l)", "truncate(2, s)", "truncate(1, b)", "truncate(50, dec)",
    "year(d)", "month(d)", "day(d)", "year(ts)", "month(ts)", "day(ts)", "hour(ts)",
    "year(tz)", "month(tz)", "day(tz)", "hour(tz)", "void(s)",
]  # fmt: skip


@pytest.mark.parametrize("spelled", SPECS)
def test_every_partition_transform(catalog: dk.Catalog, spelled: str) -> None:
    """Each row lies in the partition that pyiceberg's transforms of single values, not ours of arrays, put it in."""
    rows = wide_rows()
    table = make(catalog, rows, schema=WIDE, partition_by=[spelled], format_version=2)
    (spec,) = metadata_json(table)["partition-specs"]
    (field,) = spec["fields"]
    source = table.schema.find_field(field["source-id"])
    transform = parse_transform(field["transform"])
    of_one = transform.transform(source.field_type)
    result = transform.result_type(source.field_type)
    for file in live_files(table, 0):
        (found,) = file["partition"].values()
        for row in parquet(file["file_path"]).to_pylist():
            value = internal(row[source.name])
            assert as_number(found) == as_number(None if value is None else of_one(value)), (row, result)
    assert live(table) == expected(rows)
    for chosen in rows[:9]:
        assert_pruning_is_harmless(table, rows, source.name, chosen)


def internal(value: Any) -> Any:
    """A value as pyiceberg's transforms take it."""
    if isinstance(value, dt.datetime):
        return round(
            (value.replace(tzinfo=dt.UTC) - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) / dt.timedelta(microseconds=1)
        )
    if isinstance(value, dt.date):
        return (value - dt.date(1970, 1, 1)).days
    if isinstance(value, dt.time):
        return ((value.hour * 60 + value.minute) * 60 + value.second) * 10**6 + value.microsecond
    return value


def as_number(value: Any) -> Any:
    """A partition value in one form, whatever fastavro made of its logical type."""
    return value.bytes if isinstance(value, uuid.UUID) else internal(value)


def assert_pruning_is_harmless(table: dk.Table, rows: list[Row], name: str, chosen: Row) -> None:
    """A filter on the partitioned column finds what a plain comparison finds."""
    value = chosen[name]
    if value is None:
        assert ids(table, f"{name} is null") == [r["id"] for r in rows if r[name] is None]
        return
    literal = value.isoformat() if isinstance(value, dt.date | dt.time) else value
    assert ids(table, EqualTo(name, literal)) == [r["id"] for r in rows if r[name] == value]


@pytest.mark.parametrize("version", [2, 3])
def test_paths_by_property(catalog: dk.Catalog, tmp_path: Path, version: int) -> None:
    properties = {"write.data.path": str(tmp_path / "d/"), "write.metadata.path": str(tmp_path / "m")}
    table = make(catalog, FIVE, format_version=version, properties=properties, partition_by=["category"])
    dk.delete(table, "id in (1, 2) and value > 0", mode="merge-on-read")
    dk.delete_keys(table, [{"id": 3}])
    for file in [*live_files(table, 0), *live_files(table, 1)]:
        assert file["file_path"].startswith(str(tmp_path / "d") + "/")
    for manifest in manifest_list(table):
        assert manifest["manifest_path"].startswith(str(tmp_path / "m") + "/")
    assert table.metadata_location.startswith(str(tmp_path / "m") + "/")
    assert ids(table) == [4, 5]


@pytest.mark.parametrize(("version", "mode"), VERSION_AND_MODE)
def test_partitions_of_floating_point(catalog: dk.Catalog, version: int, mode: str) -> None:
    """NaN is one partition, above every number; 0.0 is another than -0.0, though in a filter they are equal."""
    values = [0.0, -0.0, float("nan"), None, 1.5, float("inf")]
    rows: list[Row] = [{"id": i, "v": v} for i, v in enumerate(values)]
    schema = pa.schema([("id", pa.int32()), ("v", pa.float64())])
    table = make(catalog, rows, rows, schema=schema, format_version=version, partition_by=["v"])
    assert len(live_files(table, 0)) == 12
    chosen = {w: ids(table, w) for w in ("v = 0.0", "v is nan", "v is null", "v > 1", "v != 0.0 and v < 9")}
    assert chosen == {
        "v = 0.0": [0, 0, 1, 1], "v is nan": [2, 2], "v is null": [3, 3], "v > 1": [2, 2, 4, 4, 5, 5],
        "v != 0.0 and v < 9": [4, 4],
    }  # fmt: skip
    by_id = {"on": ["id"]} if mode == "equality-delete" else {}
    dk.delete(table, "v is nan and id > 0", mode=mode, **by_id)
    dk.delete(table, "v = 0.0 and id < 1", mode=mode, **by_id)
    assert ids(table) == [1, 1, 3, 3, 4, 4, 5, 5]
    if version > 1:
        dk.delete_keys(table, [{"id": 1}, {"id": 5}])
        assert ids(table) == [3, 3, 4, 4]


def test_the_manifest_tells_the_truth_about_a_file(catalog: dk.Catalog) -> None:
    rows = wide_rows()
    table = make(catalog, rows, schema=WIDE, properties={"write.metadata.metrics.default": "full"})
    (file,) = live_files(table, 0)
    stored = parquet(file["file_path"])
    assert file["record_count"] == len(stored) == 24
    assert file["file_size_in_bytes"] == len(open_bytes(file["file_path"]))
    bounds = [{b["key"]: b["value"] for b in file[name]} for name in ("lower_bounds", "upper_bounds")]
    for field in table.schema.fields:
        column = stored[field.name]
        counts = {c["key"]: c["value"] for c in file["value_counts"]}
        nulls = {c["key"]: c["value"] for c in file["null_value_counts"]}
        assert (counts[field.field_id], nulls[field.field_id]) == (24, column.null_count)
        present = [internal(v) for v in column.to_pylist() if v is not None]
        if field.name != "u":  # uuids are not ordered alike by everyone
            found = [from_bytes(field.field_type, b[field.field_id]) for b in bounds]
            assert found == [min(present), max(present)], field.name


def open_bytes(path: str) -> bytes:
    return stored_at(path).read_bytes()


# --- commits ----------------------------------------------------------------------------------------------------------


def test_an_append_is_one_snapshot(catalog: dk.Catalog) -> None:
    table = make(catalog, FIVE, partition_by=["category"])
    before = files_of(table)
    done = dk.append(table, FIVE)
    assert (done.operation, done.sequence_number, done.attempts) == ("append", 2, 1)
    assert done.snapshot_id == head_json(table)["snapshot-id"] == metadata_json(table)["current-snapshot-id"]
    assert dict(done.summary) == head_json(table)["summary"]
    assert {f.file_path for f in done.added_data_files} == {f for f in files_of(table) - before if "/data/" in f}
    assert (done.removed_data_files, done.added_delete_files, done.removed_delete_files) == ((), (), ())
    assert snapshots_json(table)[1]["parent-snapshot-id"] == snapshots_json(table)[0]["snapshot-id"]


@pytest.mark.parametrize("version", [2, 3])
def test_commit_properties(catalog: dk.Catalog, version: int) -> None:
    table = make(catalog, FIVE, format_version=version)
    dk.append(table, FIVE, commit_properties={"job": "nightly", "Ünï": "<b>"})
    summary = head_json(table)["summary"]
    assert (summary["job"], summary["Ünï"], summary["operation"]) == ("nightly", "<b>", "append")


# --- row lineage ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [1, 2])
def test_rows_have_no_number_before_v3(catalog: dk.Catalog, version: int) -> None:
    table = make(catalog, FIVE, format_version=version)
    found = dk.scan(table, columns=["_row_id", "_last_updated_sequence_number"]).to_arrow()
    assert found.to_pylist() == [{"_row_id": None, "_last_updated_sequence_number": None}] * 5
