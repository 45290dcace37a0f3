"""Metrics of columns: Iceberg Java's counts and bounds of the same rows, and each mode and type on its own."""

import struct
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from deletekit.errors import InvalidInputError
from deletekit.formats.metrics import (
    FIELD_ID_KEY,
    Metrics,
    MetricsMode,
    collect_metrics,
    field_id_of,
    metrics_mode,
    single_value_bytes,
)
from deletekit.table.types import arrow_schema, schema_from_json
from tests.golden_files import Entry, cases, index
from tests.golden_values import array, physical, rows_table

JAVA = cases("delete_files", lambda e: e["file"].startswith("eq_") and e["format"] == "parquet")
TYPES = index("delete_files")["eq_types.parquet"]
FULL = MetricsMode(length=None)
NAN = float("nan")


def table(values: list[Any] | pa.Array, kind: pa.DataType | None = None, field_id: int | None = 1) -> pa.Table:
    column = values if isinstance(values, pa.Array) else array(values, kind or pa.string())
    metadata = None if field_id is None else {FIELD_ID_KEY: str(field_id).encode()}
    return pa.Table.from_arrays([column], schema=pa.schema([pa.field("c", column.type, True, metadata)]))


def of(values: list[Any] | pa.Array, kind: pa.DataType | None = None, mode: MetricsMode = FULL) -> Metrics:
    return collect_metrics(table(values, kind), lambda *_: mode)


def bounds(metrics: Metrics) -> tuple[bytes | None, bytes | None]:
    return metrics.lower_bounds.get(1), metrics.upper_bounds.get(1)


# --- golden -----------------------------------------------------------------------------------------------------------


@pytest.mark.golden
@pytest.mark.parametrize("entry", JAVA)
def test_metrics_of_the_same_rows_are_java_s(entry: Entry) -> None:
    found = collect_metrics(rows_table(entry["schema"], entry["rows"]), lambda *_: MetricsMode())
    java = entry["delete_file"]
    for name in ("value_counts", "null_value_counts", "nan_value_counts"):
        assert {str(k): v for k, v in getattr(found, name).items()} == java[name], name
    uuids = {str(f["id"]) for f in entry["schema"]["fields"] if f["type"] == "uuid"}
    for name in ("lower_bounds", "upper_bounds"):
        expected = {k: v for k, v in java[name].items() if k not in uuids}
        assert {str(k): v.hex() for k, v in getattr(found, name).items()} == expected, name


@pytest.mark.golden
@pytest.mark.parametrize("field", TYPES["schema"]["fields"], ids=lambda f: f["type"])
def test_bounds_of_each_type_are_java_s(field: Entry) -> None:
    values = [physical(row[field["name"]], field["type"]) for row in TYPES["rows"]]
    kind = arrow_schema(schema_from_json(TYPES["schema"])).field(field["name"]).type
    lower, upper = bounds(of(values, kind, MetricsMode()))
    if field["type"] == "uuid":
        assert (lower, upper) == (None, None)
        return
    java, key = TYPES["delete_file"], str(field["id"])
    assert lower is not None
    assert upper is not None
    assert (lower.hex(), upper.hex()) == (java["lower_bounds"][key], java["upper_bounds"][key])


# --- counts -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
def test_nan_is_counted_and_in_no_bound(kind: pa.DataType) -> None:
    found = of([NAN, 2.0, None, NAN, -1.0], kind)
    letter = "<f" if kind == pa.float32() else "<d"
    assert (found.value_counts, found.null_value_counts, found.nan_value_counts) == ({1: 5}, {1: 1}, {1: 2})
    assert bounds(found) == (struct.pack(letter, -1.0), struct.pack(letter, 2.0))


@pytest.mark.parametrize("values", [[NAN], [NAN, None], [None], []])
def test_no_number_is_no_bound(values: list[float | None]) -> None:
    found = of(values, pa.float64())
    assert found.nan_value_counts == {1: sum(v is not None for v in values)}
    assert bounds(found) == (None, None)


@pytest.mark.parametrize("values", [[0.0], [-0.0], [0.0, -0.0], [-0.0, 0.0, None, NAN]])
@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
def test_zero_bounds_hold_both_zeros(values: list[float | None], kind: pa.DataType) -> None:
    letter = "<f" if kind == pa.float32() else "<d"
    assert bounds(of(values, kind)) == (struct.pack(letter, -0.0), struct.pack(letter, 0.0))


def test_infinities_are_bounds() -> None:
    found = of([float("inf"), float("-inf"), NAN], pa.float64())
    assert bounds(found) == (struct.pack("<d", float("-inf")), struct.pack("<d", float("inf")))


@pytest.mark.parametrize("kind", [pa.string(), pa.int64(), pa.date32(), pa.decimal128(9, 2), pa.uuid()])
def test_nulls_alone_have_counts_and_no_bounds(kind: pa.DataType) -> None:
    found = of([None, None], kind)
    assert (found.value_counts, found.null_value_counts) == ({1: 2}, {1: 2})
    assert bounds(found) == (None, None)


# --- truncation -------------------------------------------------------------------------------------------------------

LAST = "\U0010ffff"


@pytest.mark.parametrize(
    ("text", "lower", "upper"),
    [
        ("", "", ""),
        ("abc", "abc", "abc"),
        ("abcd", "abc", "abd"),
        ("größe", "grö", "gr÷"),
        ("ab\U0001f600d", "ab\U0001f600", "ab\U0001f601"),
        ("ab\ud7ffd", "ab\ud7ff", "ab\ue000"),
        (f"ab{LAST}d", f"ab{LAST}", "ac"),
        (f"a{LAST}{LAST}d", f"a{LAST}{LAST}", "b"),
        (LAST * 4, LAST * 3, None),
        (LAST * 3, LAST * 3, LAST * 3),
    ],
)
def test_text_is_cut_between_characters(text: str, lower: str, upper: str | None) -> None:
    found = bounds(of([text], pa.string(), MetricsMode(length=3)))
    assert found == (lower.encode(), None if upper is None else upper.encode())
    assert lower.encode() <= text.encode()
    assert upper is None or text.encode() <= upper.encode()


@pytest.mark.parametrize(
    ("value", "lower", "upper"),
    [
        (b"", b"", b""),
        (b"abc", b"abc", b"abc"),
        (b"abcd", b"abc", b"abd"),
        (b"ab\xffd", b"ab\xff", b"ac"),
        (b"a\xff\xffd", b"a\xff\xff", b"b"),
        (b"\xff\xff\xffd", b"\xff\xff\xff", None),
        (b"\xff\xff\xff", b"\xff\xff\xff", b"\xff\xff\xff"),
    ],
)
@pytest.mark.parametrize("fixed", [False, True])
def test_bytes_are_cut_and_the_upper_bound_counted_up(
    value: bytes, lower: bytes, upper: bytes | None, fixed: bool
) -> None:
    kind = pa.binary(len(value)) if fixed and value else pa.binary()
    assert bounds(of([value], kind, MetricsMode(length=3))) == (lower, upper)


def test_text_is_ordered_by_code_points() -> None:
    assert bounds(of(["\U0001f600", "\uff61"])) == ("\uff61".encode(), "\U0001f600".encode())


def test_binary_is_ordered_unsigned() -> None:
    assert bounds(of([b"\x80", b"\x7f"], pa.binary())) == (b"\x7f", b"\x80")


# --- modes ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "mode"),
    [
        ("none", MetricsMode(counts=False, bounds=False)),
        ("counts", MetricsMode(bounds=False)),
        ("truncate(16)", MetricsMode()),
        ("truncate(4)", MetricsMode(length=4)),
        ("full", FULL),
        (" FULL ", FULL),
        ("Truncate(7)", MetricsMode(length=7)),
    ],
)
def test_modes_are_parsed(text: str, mode: MetricsMode) -> None:
    assert metrics_mode(text) == mode


@pytest.mark.parametrize("text", ["", "some", "truncate", "truncate()", "truncate(-1)", "truncate(a)", "full(3)"])
def test_an_unknown_mode_is_refused(text: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        metrics_mode(text)
    assert (caught.value.kind, caught.value.found) == ("property", text)


@pytest.mark.parametrize(
    ("text", "counted", "lower", "upper"),
    [
        ("none", {}, None, None),
        ("counts", {1: 2}, None, None),
        ("truncate(2)", {1: 2}, b"ab", b"xz"),
        ("full", {1: 2}, b"abc", b"xyz"),
    ],
)
def test_a_mode_says_what_is_collected(
    text: str, counted: dict[int, int], lower: bytes | None, upper: bytes | None
) -> None:
    found = of(["abc", "xyz"], pa.string(), metrics_mode(text))
    assert (found.value_counts, *bounds(found)) == (counted, lower, upper)


# --- columns ----------------------------------------------------------------------------------------------------------


def with_id(name: str, kind: pa.DataType, field_id: int) -> pa.Field:
    return pa.field(name, kind, True, {FIELD_ID_KEY: str(field_id).encode()})


def test_leaves_of_structs_have_metrics_and_lists_and_maps_have_none() -> None:
    inner = pa.struct([with_id("x", pa.int32(), 4)])
    outer = pa.struct([with_id("inner", inner, 3), with_id("y", pa.string(), 5)])
    fields = [
        with_id("s", outer, 2),
        with_id("l", pa.list_(with_id("element", pa.int32(), 7)), 6),
        with_id("m", pa.map_(pa.string(), pa.int32()), 8),
    ]
    rows = [
        {"s": {"inner": {"x": 5}, "y": "b"}, "l": [1], "m": [("a", 1)]},
        {"s": {"inner": None, "y": None}, "l": [2], "m": []},
        {"s": None, "l": None, "m": None},
    ]
    names = []

    def mode_of(_: int, name: str) -> MetricsMode:
        names.append(name)
        return FULL

    found = collect_metrics(pa.Table.from_pylist(rows, schema=pa.schema(fields)), mode_of)
    assert names == ["s.inner.x", "s.y"]
    assert (found.value_counts, found.null_value_counts) == ({4: 3, 5: 3}, {4: 2, 5: 2})
    assert (found.lower_bounds, found.upper_bounds) == ({4: struct.pack("<i", 5), 5: b"b"},) * 2


def test_a_column_without_an_id_and_an_unknown_one_have_no_metrics() -> None:
    assert collect_metrics(table([1], pa.int32(), None), lambda *_: FULL) == Metrics()
    assert collect_metrics(table([None], pa.null()), lambda *_: FULL) == Metrics()


def test_a_column_in_chunks_is_one_column() -> None:
    one = pa.concat_tables([table([3], pa.int32()), table([], pa.int32()), table([-1], pa.int32())])
    found = collect_metrics(one, lambda *_: FULL)
    assert (found.value_counts, *bounds(found)) == ({1: 2}, struct.pack("<i", -1), struct.pack("<i", 3))


@pytest.mark.parametrize(
    ("metadata", "field_id"),
    [(None, None), ({}, None), ({"PARQUET:field_id": "7"}, 7), ({"iceberg.id": "8"}, 8), ({"iceberg.id": "x"}, None)],
)
def test_field_ids(metadata: dict[str, str] | None, field_id: int | None) -> None:
    assert field_id_of(pa.field("c", pa.int32(), metadata=metadata)) == field_id


# --- single values ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "kind", "hexadecimal"),
    [
        (True, pa.bool_(), "01"),
        (False, pa.bool_(), "00"),
        (-1, pa.int32(), "ffffffff"),
        (34, pa.int64(), "2200000000000000"),
        (-1, pa.date32(), "ffffffff"),
        (1, pa.time64("us"), "0100000000000000"),
        (-1, pa.timestamp("us"), "ffffffffffffffff"),
        (-1, pa.timestamp("ns", "UTC"), "ffffffffffffffff"),
        (1.0, pa.float32(), "0000803f"),
        (-0.0, pa.float64(), "0000000000000080"),
        ("ö", pa.string(), "c3b6"),
        (b"\x00\xff", pa.binary(), "00ff"),
        (Decimal("14.20"), pa.decimal128(9, 2), "058c"),
        (Decimal("0.00"), pa.decimal128(9, 2), "00"),
        (Decimal("1.27"), pa.decimal128(9, 2), "7f"),
        (Decimal("1.28"), pa.decimal128(9, 2), "0080"),
        (Decimal("-1.28"), pa.decimal128(9, 2), "80"),
        (Decimal("-1.29"), pa.decimal128(9, 2), "ff7f"),
        (Decimal("-" + "9" * 38), pa.decimal128(38, 0), "b4c4b357a5793b85f675ddc000000001"),
    ],
)
def test_single_values(value: Any, kind: pa.DataType, hexadecimal: str) -> None:
    assert single_value_bytes(value, kind).hex() == hexadecimal


def test_a_type_without_a_single_value() -> None:
    with pytest.raises(InvalidInputError, match="no single-value form"):
        single_value_bytes([1], pa.list_(pa.int32()))
