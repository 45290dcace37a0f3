"""Avro files as Arrow tables: types, field ids, names and values, and schemas that are not tables."""

import io
import json
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import fastavro
import pyarrow as pa
import pytest

from deletekit.errors import FormatError, UnsupportedError
from deletekit.formats import avro_table
from deletekit.formats.avro_table import read_avro_table
from deletekit.formats.metrics import field_id_of
from tests.avro_bytes import avro_file, block, long
from tests.golden_files import Entry, cases, content

AVRO = cases("delete_files", lambda e: e["format"] == "avro")


def record(*fields: Any) -> Any:
    return {"type": "record", "name": "table", "fields": list(fields)}


def one(kind: Any) -> Any:
    return record({"name": "x", "type": kind, "field-id": 7})


def table_of(schema: Any, *rows: bytes) -> pa.Table:
    return read_avro_table(avro_file(schema, block(len(rows), b"".join(rows))))[0]


# --- golden -----------------------------------------------------------------------------------------------------------


@pytest.mark.golden
@pytest.mark.parametrize("entry", AVRO)
def test_java_columns_have_names_and_ids(entry: Entry) -> None:
    table, _ = read_avro_table(content("delete_files", entry["file"]))
    assert [(f.name, field_id_of(f)) for f in table.schema] == [(f["name"], f["id"]) for f in entry["schema"]["fields"]]
    assert [f.nullable for f in table.schema] == [not f["required"] for f in entry["schema"]["fields"]]


@pytest.mark.golden
@pytest.mark.parametrize("entry", AVRO)
def test_java_metadata_is_given(entry: Entry) -> None:
    _, metadata = read_avro_table(content("delete_files", entry["file"]))
    assert json.loads(metadata["iceberg.schema"])["fields"] == entry["schema"]["fields"]
    assert metadata["delete-type"] == ("position" if entry["file"].startswith("pos") else "equality")


# --- types ------------------------------------------------------------------------------------------------------------

DECIMAL = {"type": "fixed", "name": "d", "size": 16, "logicalType": "decimal", "precision": 38, "scale": 10}
BIG = Decimal("-1234567890123456789012345678.9012345678")


def moment(logical: str, stored: int, unit: str, text: str, utc: bool | None = None) -> tuple[Any, ...]:
    avro = {"type": "long", "logicalType": logical} | ({} if utc is None else {"adjust-to-utc": utc})
    return avro, long(stored), pa.timestamp(unit, "UTC" if utc else None), datetime.fromisoformat(text)


TYPES: dict[str, tuple[Any, ...]] = {
    "boolean": ("boolean", b"\1", pa.bool_(), True),
    "int": ("int", long(-(2**31)), pa.int32(), -(2**31)),
    "type in a type": ({"type": "int"}, long(5), pa.int32(), 5),
    "long": ("long", long(2**63 - 1), pa.int64(), 2**63 - 1),
    "float": ("float", b"\0\0\xc0\x3f", pa.float32(), 1.5),
    "double": ("double", b"\0\0\0\0\0\0\xf8\xbf", pa.float64(), -1.5),
    "string": ("string", long(3) + "é!".encode(), pa.string(), "é!"),
    "bytes": ("bytes", long(2) + b"\0\xff", pa.binary(), b"\0\xff"),
    "fixed": ({"type": "fixed", "name": "f", "size": 2}, b"\0\xff", pa.binary(2), b"\0\xff"),
    "enum": ({"type": "enum", "name": "e", "symbols": ["A", "B"]}, long(1), pa.string(), "B"),
    "date": ({"type": "int", "logicalType": "date"}, long(-1), pa.date32(), date(1969, 12, 31)),
    "time": ({"type": "long", "logicalType": "time-micros"}, long(1), pa.time64("us"), time(0, 0, 0, 1)),
    "timestamp": moment("timestamp-micros", -1, "us", "1969-12-31T23:59:59.999999", utc=False),
    "timestamp without a word on its zone": moment("timestamp-micros", 0, "us", "1970-01-01T00:00:00"),
    "timestamptz": moment("timestamp-micros", 0, "us", "1970-01-01T00:00:00+00:00", utc=True),
    "local timestamp": moment("local-timestamp-micros", 0, "us", "1970-01-01T00:00:00"),
    "timestamp in milliseconds": moment("timestamp-millis", 1, "ms", "1970-01-01T00:00:00.001+00:00", utc=True),
    "decimal as fixed": (
        DECIMAL,
        (-12345678901234567890123456789012345678).to_bytes(16, "big", signed=True),
        pa.decimal128(38, 10),
        BIG,
    ),
    "decimal as bytes": (
        {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 1},
        long(2) + b"\xff\x38",
        pa.decimal128(4, 1),
        Decimal("-20.0"),
    ),
    "uuid": (
        {"type": "fixed", "name": "u", "size": 16, "logicalType": "uuid"},
        b"\1" * 16,
        pa.uuid(),
        UUID(bytes=b"\1" * 16),
    ),
    "list": (
        {"type": "array", "items": {"type": "int", "logicalType": "date"}, "element-id": 8},
        long(1) + long(1) + b"\0",
        pa.list_(pa.field("element", pa.date32(), False)),
        [date(1970, 1, 2)],
    ),
    "map of text": (
        {"type": "map", "values": ["null", "int"], "key-id": 8, "value-id": 9},
        long(1) + long(1) + b"k" + long(1) + long(5) + b"\0",
        pa.map_(pa.string(), pa.int32()),
        [("k", 5)],
    ),
    "map as a list of pairs": (
        {
            "type": "array",
            "logicalType": "map",
            "items": {
                "type": "record",
                "name": "kv",
                "fields": [
                    {"name": "key", "type": "int", "field-id": 8},
                    {"name": "value", "type": DECIMAL, "field-id": 9},
                ],
            },
        },
        long(1) + long(5) + (15).to_bytes(16, "big") + b"\0",
        pa.map_(pa.int32(), pa.field("value", pa.decimal128(38, 10), False)),
        [(5, Decimal("1.5E-9"))],
    ),
    "struct": (
        {"type": "record", "name": "s", "fields": [{"name": "a", "type": ["null", "int"], "field-id": 8}]},
        long(1) + long(5),
        pa.struct([("a", pa.int32())]),
        {"a": 5},
    ),
}


@pytest.mark.parametrize("name", TYPES)
def test_value_of_a_type_alone_or_beside_null(name: str) -> None:
    avro, stored, kind, value = TYPES[name]
    none, some = {"x": None}, {"x": value}
    for schema, rows, expected in (
        (avro, [stored], [some]),
        (["null", avro], [b"\2" + stored, b"\0"], [some, none]),
        ([avro, "null"], [b"\0" + stored, b"\2"], [some, none]),
    ):
        table = table_of(one(schema), *rows)
        assert table.schema.field("x").type == kind
        assert table.schema.field("x").nullable == (none in expected)
        assert table.to_pylist() == expected


def test_field_ids_are_kept_at_every_level() -> None:
    for name in ("list", "map of text", "map as a list of pairs", "struct"):
        table = table_of(one(TYPES[name][0]))
        field = table.schema.field("x")
        assert field_id_of(field) == 7
        inner = [field.type.field(i) for i in range(field.type.num_fields)]
        if pa.types.is_map(field.type):
            inner = [field.type.key_field, field.type.item_field]
        assert [field_id_of(f) for f in inner] == [8, 9][: len(inner)]


def test_type_that_is_named_once_and_used_twice() -> None:
    schema = record({"name": "a", "type": DECIMAL}, {"name": "b", "type": ["null", "d"]})
    table = table_of(schema, (15).to_bytes(16, "big") + b"\2" + (25).to_bytes(16, "big"))
    assert table.to_pylist() == [{"a": Decimal("1.5E-9"), "b": Decimal("2.5E-9")}]


def test_name_that_avro_forbids_comes_back() -> None:
    schema = record({"name": "person_x2Ecity", "iceberg-field-name": "person.city", "type": "int"})
    assert table_of(schema, long(5)).to_pylist() == [{"person.city": 5}]


def test_file_without_rows_has_its_columns() -> None:
    table, _ = read_avro_table(avro_file(one("int")))
    assert (table.schema.names, table.num_rows) == (["x"], 0)


def test_more_rows_than_are_converted_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(avro_table, "_ROWS_AT_ONCE", 10)
    sink = io.BytesIO()
    fastavro.writer(sink, one("long"), [{"x": i} for i in range(95)], sync_interval=20)
    table, _ = read_avro_table(sink.getvalue())
    assert table.column("x").to_pylist() == list(range(95))


# --- refused ----------------------------------------------------------------------------------------------------------

DAMAGE: dict[str, bytes] = {
    "int over 32 bits": avro_file(one("int"), block(1, long(1 << 40))),
    "date over 32 bits": avro_file(one({"type": "int", "logicalType": "date"}), block(1, long(1 << 40))),
    "uuid of 5 bytes": avro_file(
        one({"type": "fixed", "name": "u", "size": 5, "logicalType": "uuid"}), block(1, b"abcde")
    ),
    "decimal of 40 digits": avro_file(one({**DECIMAL, "precision": 40}), block(0, b"")),
    "decimal over its precision": avro_file(
        one({"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 1}), block(1, long(2) + b"\x7f\xff")
    ),
    "decimal of many bytes": avro_file(
        one({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 1}), block(1, long(90) + b"\x7f" * 90)
    ),
    "decimal without precision": avro_file(one({"type": "bytes", "logicalType": "decimal"})),
    "scale of words": avro_file(
        one({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": "1"}), block(1, long(1) + b"\1")
    ),
    "scale beyond reason": avro_file(
        one({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 1 << 40}), block(1, long(1) + b"\1")
    ),
    "text as a date": avro_file(one({"type": "string", "logicalType": "date"}), block(1, long(1) + b"a")),
    "two fields of one name": avro_file(
        record({"name": "a", "type": "int"}, {"name": "b", "iceberg-field-name": "a", "type": "int"})
    ),
    "name that is a number": avro_file(record({"name": "a", "iceberg-field-name": 5, "type": "int"})),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_refused(name: str) -> None:
    with pytest.raises(FormatError) as error:
        read_avro_table(DAMAGE[name])
    assert error.value.kind in ("avro", "avro-schema")
    assert error.value.found is not None


def test_union_of_several_types_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedError) as error:
        read_avro_table(avro_file(one(["null", "int", "string"])))
    assert error.value.kind == "avro-union"
