"""Every type of Debezium as a value of a table, and what does not fit: refused by the column's name, never changed."""

import base64
import json
import math
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

import deletekit as dk
from deletekit.stream import Message, decoder
from deletekit.table.python_values import python_values
from deletekit.table.types import schema_from_arrow
from tests.tables import raises

US, UTC_US = pa.timestamp("us"), pa.timestamp("us", "UTC")
MONEY = {"scale": "2"}
DECIMAL = "org.apache.kafka.connect.data.Decimal"
VARIABLE = "io.debezium.data.VariableScaleDecimal"
TOAST = "__debezium_unavailable_value"
DAY_MS = 86_400_000


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def local(*parts: int) -> datetime:
    """Make a time without a zone."""
    return datetime(*parts, tzinfo=UTC).replace(tzinfo=None)  # type: ignore[misc,arg-type]


def decode(kind: pa.DataType, value: Any, source: Any = None, **options: Any) -> Any:
    """Decode one value as Debezium sends it, with a schema part if `source` is one."""
    fields: dict[str, Any] = {"id": 1, "v": value}
    envelope: Any = {"before": None, "after": fields, "source": {"connector": "postgresql"}, "op": "c"}
    if source is not None:
        columns = [{"type": "int64", "field": "id"}, {**source, "field": "v", "optional": True}]
        part = {"type": "struct", "fields": [{"type": "struct", "fields": columns, "field": "after"}]}
        envelope = {"schema": part, "payload": envelope}
    schema = schema_from_arrow(pa.schema([pa.field("id", pa.int64()), pa.field("v", kind)]))
    data = value if isinstance(value, bytes) else json.dumps(envelope).encode()
    rows = decoder("debezium-json", **options).decode([Message(None, data, "t", 3, 7)], schema)
    assert rows.column_names == ["id", "v", "_change_type"]
    return python_values(rows.column("v"))[0]


def named(name: str, kind: str = "int64", **more: Any) -> dict[str, Any]:
    return {"type": kind, "name": name, **more}


FITTING = [
    (pa.date32(), 18_993, named("io.debezium.time.Date", "int32"), date(2022, 1, 1)),
    (pa.date32(), -1, named("org.apache.kafka.connect.data.Date", "int32"), date(1969, 12, 31)),
    (pa.date32(), "2022-01-01Z", named("io.debezium.time.IsoDate", "string"), date(2022, 1, 1)),
    (pa.date32(), 18_993, None, date(2022, 1, 1)),
    (US, 1_600_000_000_123, named("io.debezium.time.Timestamp"), local(2020, 9, 13, 12, 26, 40, 123_000)),
    (US, 1_600_000_000_123, named("org.apache.kafka.connect.data.Timestamp"),
     local(2020, 9, 13, 12, 26, 40, 123000)),
    (US, -1, named("io.debezium.time.MicroTimestamp"), local(1969, 12, 31, 23, 59, 59, 999_999)),
    (US, 1_000, named("io.debezium.time.NanoTimestamp"), local(1970, 1, 1, 0, 0, 0, 1)),
    (UTC_US, "2020-09-13T12:26:40.5Z", named("io.debezium.time.ZonedTimestamp", "string"),
     datetime(2020, 9, 13, 12, 26, 40, 500_000, UTC)),
    (UTC_US, "2020-09-13T14:26:40.500000000+02:00", named("io.debezium.time.ZonedTimestamp", "string"),
     datetime(2020, 9, 13, 12, 26, 40, 500_000, UTC)),
    (pa.time64("us"), 1_001, named("io.debezium.time.Time", "int32"), time(0, 0, 1, 1_000)),
    (pa.time64("us"), 1_001, named("org.apache.kafka.connect.data.Time", "int32"), time(0, 0, 1, 1_000)),
    (pa.time64("us"), 86_399_999_999, named("io.debezium.time.MicroTime"), time(23, 59, 59, 999_999)),
    (pa.time64("us"), 1_000, named("io.debezium.time.NanoTime"), time(0, 0, 0, 1)),
    (pa.time64("us"), "10:15:30.5Z", named("io.debezium.time.ZonedTime", "string"), time(10, 15, 30, 500_000)),
    (pa.decimal128(6, 2), b64(b"\x04\xd2"), named(DECIMAL, "bytes", parameters=MONEY), Decimal("12.34")),
    (pa.decimal128(6, 2), b64(b"\xff"), named(DECIMAL, "bytes", parameters=MONEY), Decimal("-0.01")),
    (pa.decimal128(6, 2), b64(b"\x04\xd2"), named(DECIMAL, "bytes", parameters={"scale": "1"}), Decimal("123.40")),
    (pa.decimal128(6, 2), {"scale": 1, "value": b64(b"\x7b")}, named(VARIABLE, "struct", fields=[]), Decimal("12.30")),
    (pa.decimal128(6, 2), "12.30", {"type": "string"}, Decimal("12.30")),
    (pa.decimal128(6, 2), 12.3, {"type": "double"}, Decimal("12.30")),
    (pa.decimal128(38, 0), 10**37, {"type": "int64"}, Decimal(10**37)),
    (pa.int64(), b64((2**62).to_bytes(9, "big")), named(DECIMAL, "bytes", parameters={"scale": "0"}), 2**62),
    (pa.float64(), b64(b"\x05"), named(DECIMAL, "bytes", parameters={"scale": "1"}), 0.5),
    (pa.float64(), "NaN", {"type": "double"}, math.nan),
    (pa.float64(), "-Infinity", {"type": "double"}, -math.inf),
    (pa.float64(), 3, {"type": "double"}, 3.0),
    (pa.float32(), 0.1, {"type": "float"}, 0.10000000149011612),
    (pa.bool_(), 1, {"type": "int16"}, True),
    (pa.bool_(), False, {"type": "boolean"}, False),
    (pa.uuid(), "c0ffee00-0000-4000-8000-00000000000A", named("io.debezium.data.Uuid", "string"),
     UUID("c0ffee00-0000-4000-8000-00000000000a")),
    (pa.string(), '{"a": 1}', named("io.debezium.data.Json", "string"), '{"a": 1}'),
    (pa.string(), "red", named("io.debezium.data.Enum", "string"), "red"),
    (pa.string(), "P1Y2M3DT4H5M6.7S", named("io.debezium.time.Interval", "string"), "P1Y2M3DT4H5M6.7S"),
    (pa.binary(), b64(b"\x01\x80"), named("io.debezium.data.Bits", "bytes", parameters={"length": "16"}), b"\x01\x80"),
    (pa.binary(), b64(b"\xff\x00"), {"type": "bytes"}, b"\xff\x00"),
    (pa.binary(2), b64(b"\xff\x00"), {"type": "bytes"}, b"\xff\x00"),
    (pa.int64(), 2**63 - 1, {"type": "int64"}, 2**63 - 1),
    (pa.int64(), 1_600_000_000_123, named("io.debezium.time.Timestamp"), 1_600_000_000_123),
    (pa.list_(pa.int32()), [1, None, 3], {"type": "array", "items": {"type": "int32"}}, [1, None, 3]),
    (pa.list_(pa.date32()), [0], {"type": "array", "items": named("io.debezium.time.Date", "int32")},
     [date(1970, 1, 1)]),
    (pa.map_(pa.string(), pa.string()), {"a": "b", "c": None},
     {"type": "map", "keys": {"type": "string"}, "values": {"type": "string"}}, [("a", "b"), ("c", None)]),
    (pa.struct([("x", pa.float64()), ("wkb", pa.binary())]), {"x": 1.5, "wkb": b64(b"w")},
     {"type": "struct", "name": "io.debezium.data.geometry.Point",
      "fields": [{"type": "double", "field": "x"}, {"type": "bytes", "field": "wkb"}]}, {"x": 1.5, "wkb": b"w"}),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "value", "source", "expected"), FITTING)
def test_a_value_that_fits(kind: pa.DataType, value: Any, source: Any, expected: Any) -> None:
    found = decode(kind, value, source)
    assert found == expected or (found != found and expected != expected)
    assert decode(kind, None, source) is None


NOT_FITTING = [
    (pa.int32(), 2**31, {"type": "int64"}),
    (pa.int64(), 10**30, {"type": "int64"}),
    (pa.int64(), 1.0, {"type": "double"}),
    (pa.int64(), "1", {"type": "string"}),
    (pa.int64(), True, {"type": "boolean"}),
    (pa.int64(), b64(b"\x05"), named(DECIMAL, "bytes", parameters={"scale": "1"})),
    (pa.float64(), b64(b"\x01"), named(DECIMAL, "bytes", parameters={"scale": "1"})),
    (pa.float64(), "1.5", {"type": "string"}),
    (pa.float64(), 2**60 + 1, {"type": "int64"}),
    (pa.float32(), 1e300, {"type": "double"}),
    (pa.string(), 1, {"type": "int32"}),
    (pa.string(), {"a": 1}, None),
    (pa.string(), b64(b"abc"), {"type": "bytes"}),
    (pa.string(), "\ud800", {"type": "string"}),
    (pa.bool_(), 2, {"type": "int16"}),
    (pa.bool_(), "true", {"type": "string"}),
    (pa.decimal128(6, 2), "1.234", {"type": "string"}),
    (pa.decimal128(6, 2), "12345.00", {"type": "string"}),
    (pa.decimal128(6, 2), "NaN", {"type": "string"}),
    (pa.decimal128(6, 2), "1e-999", {"type": "string"}),
    (pa.decimal128(6, 2), "0x10", {"type": "string"}),
    (pa.decimal128(6, 2), "1" * 5000, {"type": "string"}),
    (pa.decimal128(6, 2), b64(b"\x01" * 100), named(DECIMAL, "bytes", parameters=MONEY)),
    (pa.decimal128(6, 2), "", named(DECIMAL, "bytes", parameters=MONEY)),
    (pa.decimal128(6, 2), b64(b"\x01"), named(DECIMAL, "bytes")),
    (pa.decimal128(6, 2), {"scale": 10**9, "value": "AQ=="}, named(VARIABLE, "struct", fields=[])),
    (pa.decimal128(6, 2), {"value": "AQ=="}, named(VARIABLE, "struct", fields=[])),
    (pa.decimal128(6, 2), "1234", None),
    (pa.date32(), 1.5, None),
    (pa.date32(), 10**12, None),
    (pa.date32(), "0000-00-00", None),
    (pa.date32(), "2022-02-30", None),
    (pa.date32(), 1_600_000_000_123, named("io.debezium.time.Timestamp")),
    (US, 2**62, named("io.debezium.time.Timestamp")),
    (US, 1, named("io.debezium.time.NanoTimestamp")),
    (US, "2020-09-13T12:26:40Z", named("io.debezium.time.ZonedTimestamp", "string")),
    (US, "2020-09-13T12:26:40.1234567", None),
    (US, "0000-00-00 00:00:00", None),
    (US, 1, named("io.debezium.time.Date", "int32")),
    (UTC_US, 1_600_000_000_123, named("io.debezium.time.Timestamp")),
    (UTC_US, "2020-09-13 12:26:40", None),
    (pa.time64("us"), DAY_MS, named("io.debezium.time.Time", "int32")),
    (pa.time64("us"), -1, named("io.debezium.time.MicroTime")),
    (pa.time64("us"), 1, named("io.debezium.time.NanoTime")),
    (pa.time64("us"), "10:15:30+02:00", named("io.debezium.time.ZonedTime", "string")),
    (pa.time64("us"), "25:00:00", None),
    (pa.int64(), 1, named("io.debezium.time.MicroDuration")),
    (pa.uuid(), "c0ffee", named("io.debezium.data.Uuid", "string")),
    (pa.binary(), "not base64!", {"type": "bytes"}),
    (pa.binary(), "deadbeef", {"type": "string"}),
    (pa.binary(), "deadbeef", None),
    (pa.binary(3), b64(b"\xff\x00"), {"type": "bytes"}),
    (pa.list_(pa.int32()), [1, "a"], None),
    (pa.list_(pa.int32()), {"a": 1}, None),
    (pa.map_(pa.string(), pa.string()), [["a"]], None),
    (pa.struct([("x", pa.float64())]), {"y": 1.0}, None),
    (pa.struct([pa.field("x", pa.float64(), nullable=False)]), {}, None),
]


@pytest.mark.parametrize(("kind", "value", "source"), NOT_FITTING)
def test_a_value_that_does_not_fit_is_refused(kind: pa.DataType, value: Any, source: Any) -> None:
    with pytest.raises(dk.InvalidInputError, match="topic t, partition 3, offset 7") as found:
        decode(kind, value, source)
    assert found.value.kind == "message-value"
    assert found.value.field in ("v", "x")


def test_an_option_settles_what_messages_do_not_say() -> None:
    at = local(2020, 9, 13, 12, 26, 40)
    with pytest.raises(dk.InvalidInputError, match="option time_unit") as found:
        decode(US, 1_600_000_000, None)
    assert found.value.kind == "time-unit"
    assert decode(US, 1_600_000_000_000, None, time_unit="ms") == at
    assert decode(US, 1_600_000_000_000_000, None, time_unit={"v": "us"}) == at
    with pytest.raises(dk.InvalidInputError, match="option time_unit"):
        decode(US, 1_600_000_000, None, time_unit={"w": "us"})
    assert decode(pa.time64("us"), 1_000, None, time_unit="ms") == time(0, 0, 1)
    zoned = at.replace(tzinfo=UTC)
    assert decode(UTC_US, 1_600_000_000_000, named("io.debezium.time.Timestamp"), assume_utc=True) == zoned
    assert decode(UTC_US, "2020-09-13 12:26:40", None, assume_utc=True) == zoned
    assert decode(UTC_US, "2020-09-13 14:26:40+02", None, assume_utc=True) == zoned
    assert decode(pa.binary(), "deadbeef", {"type": "string"}, binary="hex") == b"\xde\xad\xbe\xef"
    assert decode(pa.binary(), "-_8=", None, binary="base64-url-safe") == b"\xfb\xff"
    assert decode(pa.decimal128(6, 2), "1234", None, decimal_texts=True) == Decimal("1234.00")
    assert decode(pa.decimal128(6, 2), 12.34, None) == Decimal("12.34")


@pytest.mark.parametrize(
    "options",
    [
        {"time_unit": "s"},
        {"time_unit": {"v": "minutes"}},
        {"truncate": True},
        {"ignore": "v"},
        {"ignore": [1]},
        {"assume_utc": "yes"},
        {"binary": "latin-1"},
        {"sequence": 1},
        {"replica_identity": "nothing"},
        {"unavailable": None},
        {"registry": "http://localhost"},
    ],
)
def test_a_bad_option_is_refused(options: dict[str, Any]) -> None:
    with raises(dk.InvalidInputError, "format-option", field=next(iter(options))):
        decoder("debezium-json", **options)


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(dk.InvalidInputError, match="debezium-json, debezium-avro"):
        decoder("debezium")


def test_infinity_of_postgresql_is_its_number_or_refused() -> None:
    """Debezium's numbers of it fit microseconds. Its texts, which are the years of milliseconds, do not."""
    micro, zoned = named("io.debezium.time.MicroTimestamp"), named("io.debezium.time.ZonedTimestamp", "string")
    assert decode(US, 9223372036825200000, micro) == "+294247-01-10T04:00:25.200000"
    assert decode(US, -9223372036832400000, micro) == "-290308-12-21T19:59:27.600000"
    assert decode(UTC_US, "+10000-01-01T00:00:00.5+01:00", zoned) == datetime(9999, 12, 31, 23, 0, 0, 500_000, UTC)
    assert decode(UTC_US, "-0001-12-31T00:00:00Z", zoned) == "-0001-12-31T00:00:00.000000+00:00"
    years = ("+292278994-08-16T23:00:00Z", "-292275055-05-16T23:00:00Z", "+294248-01-01T00:00:00Z")
    for text in (*years, "infinity", "-infinity", "+10000-13-01T00:00:00Z", "+10000-01-01T00:00:00"):
        with raises(dk.InvalidInputError, "message-value"):
            decode(UTC_US, text, zoned)
