"""Defaults of columns: each type keeps the exact value, in metadata and in rows; what does not fit is refused."""

import datetime as dt
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import deletekit as dk
from tests.maintenance.model import edit_metadata
from tests.tables import items, make, refused

FIVE = items((1, "a", 1.0), (2, None, 2.0))
NS = "2024-02-29T01:02:03.004005006"
NS_NUMBER = int(np.datetime64(NS, "ns").astype(np.int64))
EVENING, DAY = dt.datetime(2024, 2, 29, 1, 2, 3, 4), dt.date(2024, 2, 29)  # noqa: DTZ001  # without a zone
MICRO, MICRO_NUMBER, EARLIER = "2024-02-29T01:02:03.000004", 1709168523000004, 1709161323000004
ZONE = dt.timezone(dt.timedelta(hours=2))
ZONED, TOKYO, STAMPS = (
    EVENING.replace(tzinfo=ZONE),
    pd.Timestamp(NS, tz="UTC").tz_convert("Asia/Tokyo"),
    pa.timestamp("ns"),
)
# Type, the value as text in JSON and as Arrow holds it, and the spellings that mean it.
DEFAULTS: list[tuple[str, Any, Any, list[Any]]] = [
    ("boolean", True, True, [True, np.True_]),
    ("int", -5, -5, [-5, -5.0, np.int8(-5), Decimal(-5)]),
    ("long", 2**62, 2**62, [2**62, np.int64(2**62)]),
    ("float", 1.5, 1.5, [1.5, np.float32(1.5)]),
    ("double", 0.1, 0.1, [0.1, np.float64(0.1)]),
    ("decimal(9, 2)", "1.20", Decimal("1.20"), [Decimal("1.2"), Decimal("1.200"), pa.scalar(Decimal("1.20"))]),
    ("decimal(38, 0)", "9" * 38, Decimal("9" * 38), [Decimal("9" * 38)]),
    ("date", "2024-02-29", 19782, [DAY, "2024-02-29", pd.Timestamp(DAY), np.datetime64("2024-02-29")]),
    ("date", "0001-01-01", -719162, [dt.date.min, "0001-01-01"]),
    ("time", "01:02:03.000004", 3723000004, [dt.time(1, 2, 3, 4), "01:02:03.000004"]),
    ("timestamp", MICRO, MICRO_NUMBER, [EVENING, pd.Timestamp(EVENING), f"{EVENING}", MICRO, np.datetime64(EVENING)]),
    ("timestamptz", f"{MICRO}+00:00", MICRO_NUMBER, [EVENING.replace(tzinfo=dt.UTC), f"{MICRO}Z", f"{MICRO}+00:00"]),
    ("timestamptz", "2024-02-28T23:02:03.000004+00:00", EARLIER, [ZONED, pd.Timestamp(ZONED), f"{MICRO}+02:00"]),
    ("timestamp_ns", NS, NS_NUMBER, [NS, pd.Timestamp(NS), np.datetime64(NS), pa.scalar(NS_NUMBER, STAMPS)]),
    ("timestamp_ns", f"{MICRO}000", MICRO_NUMBER * 1000, [EVENING, MICRO, np.datetime64(EVENING)]),
    ("timestamp_ns", "1970-01-01T00:00:00.000000000", 0, ["1970-01-01", np.datetime64("1970-01-01")]),
    ("timestamptz_ns", f"{NS}+00:00", NS_NUMBER, [f"{NS}Z", f"{NS}+00:00", TOKYO, TOKYO.tz_convert("UTC")]),
    ("timestamptz_ns", "2024-02-28T23:02:03.000004000+00:00", EARLIER * 1000, [ZONED, f"{MICRO}+02:00"]),
    ("string", "", "", [""]),
    ("string", "\0\u00e9", "\0\u00e9", ["\0\u00e9"]),
    ("uuid", str(UUID(int=5)), UUID(int=5).bytes, [UUID(int=5), str(UUID(int=5)), UUID(int=5).bytes]),
    ("fixed[2]", "00ff", b"\0\xff", [b"\0\xff"]),
    ("binary", "", b"", [b"", bytearray()]),
    ("binary", "00ff", b"\0\xff", [b"\0\xff", memoryview(b"\0\xff")]),
]  # fmt: skip


def exact(column: pa.ChunkedArray) -> set[Any]:
    """The values of a column as Arrow holds them: a time as a number."""
    kind = column.type
    column = pa.chunked_array([c.storage for c in column.chunks]) if isinstance(kind, pa.BaseExtensionType) else column
    if pa.types.is_temporal(kind):
        column = column.cast(pa.int32()).cast(pa.int64()) if pa.types.is_date32(kind) else column.cast(pa.int64())
    return set(column.to_pylist())


def test_every_default_is_the_exact_value(catalog: dk.Catalog) -> None:
    """Of old files, of rows that lack the column, of the metadata that another process reads, and in a filter."""
    table, columns = make(catalog, FIVE, format_version=3), {}
    for kind, text, value, spellings in DEFAULTS:
        for default in spellings:
            name = f"c{len(columns)}"
            dk.add_column(table, name, kind, default=default, required=True)
            columns[name] = (kind, text, value, default)
    again = dk.load_table(catalog, table.name)
    stored = {
        f["name"]: (f["initial-default"], f["write-default"]) for f in again.metadata.raw["schemas"][-1]["fields"][3:]
    }
    dk.append(again, [{"id": 9}])
    dk.append(again, pa.table({"id": pa.array([10], pa.int32())}))
    rows = dk.scan(again).to_arrow()
    assert len(rows) == 4
    for name, (kind, text, value, default) in columns.items():
        assert stored[name] == (text, text), (kind, default)
        assert exact(rows.column(name)) == {value}, (kind, default)
        assert dk.scan(again, f"{name} is not null").count() == 4
        assert kind != "timestamp_ns" or dk.scan(again, f"{name} = '{text}'").count() == 4


# What no column of the type can have as its default, or what JSON cannot hold.
NO_DEFAULTS: list[tuple[str, Any]] = [
    ("int", 2**40),
    ("int", 1.5),
    ("int", True),
    ("long", 2**70),
    ("string", 5),
    ("boolean", "true"),
    ("boolean", 1),
    ("int", "5"),
    ("float", float("nan")),
    ("double", float("inf")),
    ("double", "0.1"),
    ("date", "2024-1-1"),
    ("date", 19000),
    ("date", dt.datetime(2024, 1, 1, 1)),  # noqa: DTZ001
    ("time", "25:00:00"),
    ("time", "00:00:00.0000001"),
    ("time", 5),
    ("timestamp", "2024-01-01T00:00:00Z"),
    ("timestamp", "2024-01-01T00:00:00.0000001"),
    ("timestamp", pd.Timestamp("2024-01-01T00:00:00.000000001")),
    ("timestamp", np.datetime64("2024-01-01T00:00:00.000000001")),
    ("timestamptz", "2024-01-01T00:00:00"),
    ("timestamp_ns", 5),
    ("timestamp_ns", "2300-01-01"),
    ("timestamp_ns", dt.datetime(2300, 1, 1)),  # noqa: DTZ001
    ("timestamp_ns", dt.datetime(2024, 1, 1, tzinfo=dt.UTC)),
    ("timestamp_ns", pd.Timestamp("2300-01-01")),
    ("timestamp_ns", np.datetime64("2300-01-01")),
    ("timestamp_ns", "2024-01-01T00:00:00.0000000001"),
    ("timestamptz_ns", np.datetime64("2024-01-01T00:00:00", "ns")),
    ("timestamptz_ns", dt.datetime(2024, 1, 1)),  # noqa: DTZ001
    ("uuid", UUID(int=1).hex[1:]),
    ("uuid", b"x"),
    ("binary", "00ff"),
    ("unknown", 1),
    ("decimal(5, 2)", Decimal("1.555")),
    ("fixed[3]", b"ab"),
    ("float", 1e300),
    ("timestamptz", dt.datetime(2024, 1, 1, tzinfo=dt.UTC).replace(tzinfo=None)),
]


def test_defaults_that_do_not_fit(catalog: dk.Catalog) -> None:
    """A table that has one could not be read any more, or would read other values."""
    table = make(catalog, FIVE, format_version=3)
    for kind, default in NO_DEFAULTS:
        with refused(table, dk.InvalidInputError, "schema", field="x"):
            dk.add_column(table, "x", kind, default=default)


def test_nanoseconds_of_rows_that_are_dicts(catalog: dk.Catalog) -> None:
    """Also inside of lists and structs; a column of microseconds takes none."""
    naive, zoned = pa.timestamp("ns"), pa.timestamp("ns", "UTC")
    kinds = {
        "a": naive,
        "b": zoned,
        "c": pa.list_(naive),
        "d": pa.struct([("e", zoned)]),
        "f": pa.map_(pa.string(), naive),
    }
    stamp, utc = pd.Timestamp(NS), pd.Timestamp(NS, tz="Asia/Tokyo")
    row = {"a": stamp, "b": utc, "c": [stamp, None, EVENING], "d": {"e": utc}, "f": {"k": stamp}}
    table = make(catalog, schema=pa.schema(list(kinds.items())), format_version=3)
    dk.append(table, [row, dict.fromkeys(kinds)])
    found = dk.scan(table).to_arrow()
    for name, kind in kinds.items():
        assert found[name].to_pylist() == pa.array([row[name], None], kind).to_pylist(), name
    dk.append(table, [{"a": EVENING, "b": EVENING.replace(tzinfo=ZONE)}, {"a": pd.NaT, "b": pd.NaT}])
    numbers = dk.scan(table).to_arrow()["a"].cast(pa.int64()).to_pylist()
    assert sorted(numbers, key=str) == [1709168523000004000, NS_NUMBER, None, None]
    other = make(catalog, schema=pa.schema([("a", pa.timestamp("us")), ("b", pa.date32())]))
    for bad in ({"a": stamp}, {"b": pd.Timestamp("2024-01-01T00:00:00.000000001")}):
        with refused(other, dk.InvalidInputError, "column-type"):
            dk.append(other, [bad])


def test_a_default_of_another_writer_is_read_exactly_or_not(catalog: dk.Catalog) -> None:
    table = make(catalog, FIVE, format_version=3)
    dk.add_column(table, "x", "timestamptz_ns", default=f"{NS}Z")
    for text in (
        "2300-01-01T00:00:00.000000000+00:00",
        "1600-01-01T00:00:00Z",
        f"{NS}+01:00",
        f"{NS}9",
        "NaT",
        "",
        "x",
    ):

        def change(metadata: dict[str, Any], to: str = text) -> None:
            metadata["schemas"][-1]["fields"][-1]["initial-default"] = to

        with pytest.raises(dk.FormatError, match="nanoseconds"):
            edit_metadata(table, change)
