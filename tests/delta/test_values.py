"""Partition values and bounds of a Delta log: right, or not there."""

import json
import struct
from datetime import UTC
from decimal import Decimal
from typing import Any

import pytest
from pyiceberg import types as it

from deletekit.delta.schema_from_delta import DeltaColumn
from deletekit.delta.values import metrics_of, partition_tuple, time_zone_of
from deletekit.errors import FormatError, InvalidInputError

LONG, INT, STRING = it.LongType(), it.IntegerType(), it.StringType()
TZ, NTZ, DATE, DECIMAL = it.TimestamptzType(), it.TimestampType(), it.DateType(), it.DecimalType(9, 2)


def column(kind: it.IcebergType) -> DeltaColumn:
    return DeltaColumn(physical_path=("c",), field_id=1, type=kind)


@pytest.mark.parametrize(
    ("text", "kind", "expected"),
    [
        ("7", LONG, 7), ("-8", INT, -8), ("x", STRING, "x"), ("", STRING, None), (None, INT, None),
        ("__HIVE_DEFAULT_PARTITION__", STRING, None), ("true", it.BooleanType(), True),
        ("1969-12-31", DATE, -1), ("1970-01-01 00:00:01.000002", TZ, 1_000_002),
        ("1970-01-01T00:00:01.5Z", TZ, 1_500_000), ("1970-01-01T01:00:00+01:00", TZ, 0),
        ("1970-01-01 00:00:01", NTZ, 1_000_000), ("-0.01", DECIMAL, b"\xff\xff\xff\xff"),
        ("1.5", it.DoubleType(), 1.5), ("\u0001é", it.BinaryType(), "\u0001é".encode()),
    ],
)  # fmt: skip
def test_partition_values(text: str | None, kind: it.IcebergType, expected: Any) -> None:
    assert partition_tuple({"c": text}, [column(kind)]) == (expected,)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("x", LONG), ("2147483648", INT), ("yes", it.BooleanType()), ("1969-13-01", DATE), ("1.001", DECIMAL),
        ("12345678.00", DECIMAL), ("later", TZ), ("1970-01-01 00:00:00.0000001", TZ), ("\ufffd", it.BinaryType()),
    ],
)  # fmt: skip
def test_partition_values_that_are_none(text: str, kind: it.IcebergType) -> None:
    with pytest.raises(FormatError):
        partition_tuple({"c": text}, [column(kind)])
    with pytest.raises(FormatError):
        partition_tuple({}, [column(kind)])


def test_a_zone_for_timestamps_without_one() -> None:
    zone = time_zone_of("Europe/Berlin")
    assert partition_tuple({"c": "1970-01-01 01:00:00"}, [column(TZ)], zone) == (0,)
    assert partition_tuple({"c": "1970-01-01 01:00:00"}, [column(NTZ)], zone) == (3_600_000_000,)
    assert time_zone_of("utc") is UTC
    with pytest.raises(InvalidInputError):
        time_zone_of("Middle/Earth")


def bounds(low: Any, high: Any, kind: it.IcebergType) -> tuple[bytes | None, bytes | None]:
    raw = {"minValues": {"c": low}, "maxValues": {"c": high}}
    stats = raw if isinstance(low, Decimal) else json.loads(json.dumps(raw), parse_float=Decimal)
    found = metrics_of(stats, [column(kind)])
    return found.lower_bounds.get(1), found.upper_bounds.get(1)


def test_timestamps_are_widened_to_the_cut_milliseconds() -> None:
    text = "2024-02-29T01:02:03.456Z"
    low, high = (struct.unpack("<q", b or b"")[0] for b in bounds(text, text, TZ))
    assert high - low == 999
    assert low <= 1709168523456789 <= high
    before = "1969-12-31T23:59:59.999Z"
    low, high = (struct.unpack("<q", b or b"")[0] for b in bounds(before, before, TZ))
    assert low <= -1 <= high, "floored, before 1970 too"
    low, high = (struct.unpack("<q", b or b"")[0] for b in bounds(*["1970-01-01T00:00:00.000Z"] * 2, TZ))
    assert low <= -999 < 999 <= high, "or cut towards zero"
    low, high = (struct.unpack("<q", b or b"")[0] for b in bounds(*["2024-02-29T01:02:03Z"] * 2, TZ))
    assert high - low == 999_999, "no fraction: it may be cut to seconds"
    assert bounds("2024-02-29T01:02:03.456", "2024-02-29T01:02:03.456", TZ) == (None, None), "in whose zone?"
    assert None not in bounds("2024-02-29T01:02:03.456", "2024-02-29T01:02:03.456", NTZ)


def test_texts_are_cut_and_the_upper_one_raised() -> None:
    long = "long text long text long text lo"  # Spark's own maximum of "long text ... 0": below it
    low, high = bounds(long, long, STRING)
    assert low == b"long text long t"
    assert high == b"long text long u"
    assert bounds("a", "\ud83f", STRING) == (b"a", None)
    assert bounds("a", "\U0010ffff" * 20, STRING)[1] is None


def test_what_cannot_be_a_bound_is_none() -> None:
    assert bounds("NaN", "NaN", it.DoubleType()) == (None, None)
    assert bounds(1, 2**40, INT) == (b"\1\0\0\0", None)
    assert bounds(1.005, 1.5, DECIMAL) == (None, b"\x00\x96")
    assert bounds(True, False, INT) == (None, None)
    assert bounds(None, {}, STRING) == (None, None)
    assert bounds("-Infinity", "Infinity", it.DoubleType()) == (struct.pack("<d", -1e999), struct.pack("<d", 1e999))
    assert bounds(0.0, 0.0, it.DoubleType()) == (struct.pack("<d", -0.0), struct.pack("<d", 0.0))
    low, high = (struct.unpack("<f", b or b"")[0] for b in bounds(0.1, 0.1, it.FloatType()))
    assert low < 0.1 < high


@pytest.mark.parametrize(
    ("nulls", "records", "tight", "expected"),
    [(0, 5, False, 0), (5, 5, False, 5), (2, 5, False, None), (2, 5, True, 2), (6, 5, True, None), (None, 5, 1, None)],
)
def test_null_counts_of_wide_bounds(nulls: Any, records: int, tight: bool, expected: int | None) -> None:
    found = metrics_of({"numRecords": records, "nullCount": {"c": nulls}, "tightBounds": tight}, [column(LONG)])
    assert found.null_value_counts.get(1) == expected
