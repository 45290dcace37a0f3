"""Values on their way into a table: taken as they are, or refused by the name of the column; never changed."""

import datetime as dt
import uuid
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

import deletekit as dk
from deletekit.rows.input_rows import align
from tests.tables import ITEMS, live, make, raises, refused, same, unchanged

NAIVE = dt.datetime(2024, 1, 1, 5, 6, 7, 8, tzinfo=dt.UTC).replace(tzinfo=None)
MIDNIGHT = NAIVE.replace(hour=0, minute=0, second=0, microsecond=0)
EAST = NAIVE.replace(tzinfo=dt.timezone(dt.timedelta(hours=5)))
POINT = StructType(NestedField(2, "x", IntegerType(), required=True), NestedField(3, "y", StringType(), required=False))
INTS = ListType(4, IntegerType(), element_required=True)
POINTS = ListType(4, POINT, element_required=False)
COUNTS = MapType(5, StringType(), 6, IntegerType(), value_required=False)
NAMED_POINTS = MapType(5, StringType(), 6, POINT, value_required=True)

TAKEN: list[tuple[IcebergType, Any, Any]] = [
    (DateType(), dt.date(2024, 1, 1), dt.date(2024, 1, 1)),
    (DateType(), MIDNIGHT, dt.date(2024, 1, 1)),
    (TimestampType(), NAIVE, NAIVE),
    (TimestampType(), dt.date(2024, 1, 1), MIDNIGHT),
    (TimestamptzType(), EAST, EAST),
    (TimeType(), dt.time(1, 2, 3, 4), dt.time(1, 2, 3, 4)),
    (DecimalType(5, 2), 1, Decimal("1.00")),
    (DecimalType(5, 2), 0.1, Decimal("0.10")),
    (DecimalType(5, 2), Decimal("-999.99"), Decimal("-999.99")),
    (DecimalType(38, 0), 10**18, Decimal(10**18)),
    (IntegerType(), 1.0, 1),
    (IntegerType(), Decimal(2), 2),
    (IntegerType(), np.int64(7), 7),
    (IntegerType(), -(2**31), -(2**31)),
    (LongType(), 2**63 - 1, 2**63 - 1),
    (DoubleType(), 1, 1.0),
    (DoubleType(), Decimal("0.1"), 0.1),
    (DoubleType(), float("nan"), float("nan")),
    (DoubleType(), -0.0, -0.0),
    (FloatType(), 0.1, 0.10000000149011612),
    (FloatType(), float("-inf"), float("-inf")),
    (BooleanType(), np.bool_(True), True),
    (StringType(), "Ünï", "Ünï"),
    (BinaryType(), bytearray(b"x"), b"x"),
    (FixedType(3), b"abc", b"abc"),
    (UUIDType(), uuid.UUID(int=5), uuid.UUID(int=5)),
    (UUIDType(), bytes(16), uuid.UUID(int=0)),
    (POINT, {"x": 1}, {"x": 1, "y": None}),
    (POINT, None, None),
    (INTS, (1, 2), [1, 2]),
    (INTS, [], []),
    (INTS, np.array([1, 2]), [1, 2]),
    (POINTS, [{"x": 1}, None], [{"x": 1, "y": None}, None]),
    (COUNTS, {"a": 1, "b": None}, [("a", 1), ("b", None)]),
    (COUNTS, [("a", 1)], [("a", 1)]),
    (COUNTS, {}, []),
    (NAMED_POINTS, {"a": {"x": 1, "y": "b"}}, [("a", {"x": 1, "y": "b"})]),
]

REFUSED: list[tuple[IcebergType, Any, str, str]] = [
    (DateType(), NAIVE, "column-type", "c"),
    (DateType(), 5, "column-type", "c"),
    (DateType(), "2024-01-01", "column-type", "c"),
    (TimestampType(), EAST, "column-type", "c"),
    (TimestampType(), 5, "column-type", "c"),
    (TimestamptzType(), NAIVE, "column-type", "c"),
    (TimestamptzType(), dt.date(2024, 1, 1), "column-type", "c"),
    (TimeType(), 5, "column-type", "c"),
    (DecimalType(5, 2), 1.005, "column-type", "c"),
    (DecimalType(5, 2), Decimal("1.555"), "column-type", "c"),
    (DecimalType(5, 2), 1000, "column-type", "c"),
    (DecimalType(5, 2), "1.5", "column-type", "c"),
    (DecimalType(5, 2), float("nan"), "column-type", "c"),
    (IntegerType(), 1.5, "column-type", "c"),
    (IntegerType(), np.float64(1.5), "column-type", "c"),
    (IntegerType(), Decimal("1.5"), "column-type", "c"),
    (IntegerType(), True, "column-type", "c"),
    (IntegerType(), "1", "column-type", "c"),
    (IntegerType(), 2**31, "column-type", "c"),
    (LongType(), 2**63, "column-type", "c"),
    (DoubleType(), 2**53 + 1, "column-type", "c"),
    (DoubleType(), Decimal("0.12345678901234567890123"), "column-type", "c"),
    (DoubleType(), True, "column-type", "c"),
    (FloatType(), 1e300, "column-type", "c"),
    (BooleanType(), 1, "column-type", "c"),
    (StringType(), 1, "column-type", "c"),
    (StringType(), b"x", "column-type", "c"),
    (BinaryType(), "x", "column-type", "c"),
    (FixedType(3), b"ab", "column-type", "c"),
    (UUIDType(), "00000000-0000-0000-0000-000000000005", "column-type", "c"),
    (UUIDType(), b"short", "column-type", "c"),
    (POINT, 5, "column-type", "c"),
    (POINT, {"y": "a"}, "column-not-found", "c.x"),
    (POINT, {"x": None}, "null-in-required", "c.x"),
    (POINT, {"x": 1, "z": 2}, "column-not-found", "c.z"),
    (POINT, {"X": 1}, "column-not-found", "c.X"),
    (POINT, {"x": "1"}, "column-type", "c.x"),
    (INTS, [1, None], "null-in-required", "c.element"),
    (INTS, [1.5], "column-type", "c.element"),
    (INTS, "12", "column-type", "c"),
    (INTS, {"a": 1}, "column-type", "c"),
    (POINTS, [{"x": 1, "q": 2}], "column-not-found", "c.element.q"),
    (POINTS, [{"x": 1}, {"y": "b"}], "null-in-required", "c.element.x"),
    (COUNTS, {"a": "1"}, "column-type", "c.value"),
    (COUNTS, {1: 1}, "column-type", "c.key"),
    (COUNTS, [(None, 1)], "null-in-required", "c.key"),
    (COUNTS, [1], "column-type", "c"),
    (NAMED_POINTS, {"a": None}, "null-in-required", "c.value"),
    (NAMED_POINTS, {"a": {"w": 1}}, "column-not-found", "c.value.w"),
]


def one_column(kind: IcebergType) -> Schema:
    return Schema(NestedField(1, "c", kind, required=False))


@pytest.mark.parametrize(("kind", "value", "stored"), TAKEN, ids=str)
def test_taken(kind: IcebergType, value: Any, stored: Any) -> None:
    schema = one_column(kind)
    table = align([{"c": value}, {"c": None}], schema)
    assert same(table["c"].to_pylist()[0], stored)
    assert type(table["c"].to_pylist()[0]) is type(stored)
    assert table["c"].to_pylist()[1] is None
    assert repr(align(table, schema).to_pylist()) == repr(table.to_pylist()), "as Arrow it is itself"
    assert repr(align(table.slice(1), schema).to_pylist()) == repr(table.slice(1).to_pylist()), "and so is a part of it"


@pytest.mark.parametrize(("kind", "value", "error", "field"), REFUSED, ids=str)
def test_refused(kind: IcebergType, value: Any, error: str, field: str) -> None:
    for rows in ([{"c": value}], [{"c": None}, {"c": value}]):
        with pytest.raises(dk.InvalidInputError) as caught:
            align(rows, one_column(kind))
        assert (caught.value.kind, caught.value.field) == (error, field), caught.value


ARROW_REFUSED: list[tuple[IcebergType, pa.Array, str, str]] = [
    (StringType(), pa.array([1]), "column-type", "c"),
    (LongType(), pa.array(["1"]), "column-type", "c"),
    (TimestampType(), pa.array([1], pa.timestamp("us", "UTC")), "column-type", "c"),
    (TimestampType(), pa.array([1], pa.timestamp("ns")), "column-type", "c"),
    (DateType(), pa.array([86_400_000_001], pa.timestamp("us")), "column-type", "c"),
    (IntegerType(), pa.array([1], pa.duration("s")), "column-type", "c"),
    (POINT, pa.array([{"x": 1, "y": 2}]), "column-type", "c.y"),
    (POINT, pa.array([{"x": 1, "y": "a", "z": 1}]), "column-not-found", "c.z"),
    (POINT, pa.array([{"x": None}], pa.struct([("x", pa.int32())])), "null-in-required", "c.x"),
    (INTS, pa.array([[None]], pa.list_(pa.int32())), "null-in-required", "c.element"),
    (INTS, pa.array([["1"]]), "column-type", "c.element"),
    (COUNTS, pa.array([[("a", "1")]], pa.map_(pa.string(), pa.string())), "column-type", "c.value"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "array", "error", "field"), ARROW_REFUSED, ids=str)
def test_arrow_refused(kind: IcebergType, array: pa.Array, error: str, field: str) -> None:
    with pytest.raises(dk.InvalidInputError) as caught:
        align(pa.table({"c": array}), one_column(kind))
    assert (caught.value.kind, caught.value.field) == (error, field), caught.value


@pytest.mark.parametrize(
    ("kind", "array"),
    [
        (INTS, pa.array([[1, 2], None, []], pa.large_list(pa.int64()))),
        (INTS, pa.array([[1, 2], None, [3, 4]], pa.list_(pa.int32(), 2))),
        (INTS, pa.array([[0], [1, 2], None, [3]], pa.list_(pa.int32())).slice(1)),
        (StringType(), pa.array(["a", None, "b"]).dictionary_encode()),
        (StringType(), pa.array(["a", None], pa.large_string())),
        (StringType(), pa.array(["a", None], pa.string_view())),
        (BinaryType(), pa.array([b"a", None], pa.large_binary())),
        (TimestamptzType(), pa.array([1, None], pa.timestamp("us", "America/New_York"))),
        (TimestampType(), pa.array([1, None], pa.timestamp("s"))),
        (TimeType(), pa.array([1, None], pa.time32("ms"))),
        (DateType(), pa.array([86_400_000, None], pa.date64())),
        (LongType(), pa.array([1, None], pa.uint8())),
        (DoubleType(), pa.array([1.5, None], pa.float32())),
        (POINT, pa.array([{"y": "a", "x": 1}, None])),
        (UUIDType(), pa.array([bytes(16), None], pa.binary(16))),
        (IntegerType(), pa.nulls(2)),
    ],
    ids=lambda value: str(getattr(value, "type", value)),
)
def test_arrow_of_another_width_or_layout(kind: IcebergType, array: pa.Array) -> None:
    found = align(pa.table({"c": array}), one_column(kind))["c"]
    plain = [v.bytes if isinstance(v, uuid.UUID) else v for v in found.to_pylist()]
    assert plain == array.to_pylist()


def test_times_with_and_without_a_zone_do_not_mix() -> None:
    for kind in (TimestampType(), TimestamptzType()):
        for values in ([NAIVE, EAST], [EAST, NAIVE]):
            with raises(dk.InvalidInputError, "column-type"):
                align([{"c": v} for v in values], one_column(kind))


def test_a_missing_column_of_nanoseconds_takes_its_default() -> None:
    """pyiceberg has such a default as a number: it has no Python value for nanoseconds."""
    kind = TimestamptzNanoType()
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "t", kind, required=False, write_default=7))
    assert align(pa.table({"id": [1, 2]}), schema)["t"].cast(pa.int64()).to_pylist() == [7, 7]


# --- whole rows -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "kind", "field"),
    [
        ([{"id": 1, "nope": 2}], "column-not-found", "nope"),
        ([{"category": "a"}], "column-not-found", "id"),
        ([{"id": 1}, {"category": "a"}], "null-in-required", "id"),
        ([{"id": None}], "null-in-required", "id"),
        ([{"id": "one"}], "column-type", "id"),
        ([{"id": 1}, 5], "rows", "rows"),
        ([1, 2], "rows", "rows"),
        (None, "rows", "rows"),
        (5, "rows", "rows"),
        (pa.table({"id": pa.array([1], pa.int32()), "nope": [1]}), "column-not-found", "nope"),
        (pa.table({"category": ["a"]}), "column-not-found", "id"),
        (pa.table({"id": pa.array([None], pa.int32())}), "null-in-required", "id"),
        (pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["id", "id"]), "column-not-unique", "id"),
    ],
    ids=str,
)
@pytest.mark.parametrize("version", [1, 2, 3])
def test_rows_that_do_not_fit_are_not_written(
    catalog: dk.Catalog, version: int, rows: Any, kind: str, field: str
) -> None:
    table = make(catalog, [{"id": 1}], format_version=version, partition_by=["category"])
    with refused(table, dk.InvalidInputError, kind, field=field):
        dk.append(table, rows)
    with unchanged(table), pytest.raises(dk.InvalidInputError) as caught:
        dk.merge(table, rows, on=["id"])
    assert caught.value.kind in (kind, "rows"), "dicts of a merge have to agree on their names"
    assert live(table) == [{"id": 1, "category": None, "value": None}]
    assert dk.scan(table).to_arrow().schema == ITEMS
