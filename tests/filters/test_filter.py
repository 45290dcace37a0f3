"""Every Arrow type keeps its type and the rows that the mask says, slices and nulls included."""

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from deletekit.filters.filter import keep_rows


def naive(year: int) -> dt.datetime:
    """A timestamp without a zone, as the Arrow type has none."""
    return dt.datetime(year, 1, 1, tzinfo=dt.UTC).replace(tzinfo=None)


MASK = [True, False, True, True, False, False, True, True, True]
COLUMNS: dict[pa.DataType, list[Any]] = {
    pa.int8(): [1, None, 3],
    pa.int32(): [1, None, 3],
    pa.int64(): [2**62, None, -1],
    pa.float32(): [1.5, None, float("inf")],
    pa.float64(): [1.5, None, -0.0],
    pa.bool_(): [True, None, False],
    pa.date32(): [dt.date(2020, 1, 1), None, dt.date(1, 1, 1)],
    pa.time64("us"): [dt.time(1), None, dt.time(2)],
    pa.timestamp("us"): [naive(1), None, naive(9999)],
    pa.timestamp("us", "UTC"): [dt.datetime(2000, 1, 1, tzinfo=dt.UTC), None, None],
    pa.timestamp("ns"): [1, None, 3],
    pa.decimal128(20, 3): [Decimal("1.500"), None, Decimal("-2.000")],
    pa.string(): ["a", None, "ü"],
    pa.binary(): [b"a", None, b"\xff"],
    pa.binary(2): [b"aa", None, b"\xff\x00"],
    pa.list_(pa.int32()): [[1], None, []],
    pa.struct([("a", pa.int32())]): [{"a": 1}, None, {"a": None}],
    pa.map_(pa.string(), pa.int32()): [[("a", 1)], None, []],
    pa.null(): [None, None, None],
}


def plain(column: pa.Array | pa.ChunkedArray) -> list[object]:
    """Give nanoseconds as numbers: pyarrow asks for pandas to make Python values of them."""
    return (column.cast(pa.int64()) if column.type == pa.timestamp("ns") else column).to_pylist()


@pytest.mark.parametrize("kind", COLUMNS, ids=str)
@pytest.mark.parametrize("offset", [0, 1, 5])
def test_keep_rows(kind: pa.DataType, offset: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deletekit.filters.filter._CACHED_ROWS", 4)  # so that there are several blocks
    values = pa.array(COLUMNS[kind] * 5, kind)[offset : offset + len(MASK)]
    keep = pa.array([False] * offset + MASK)[offset:]
    expected = [v for v, k in zip(plain(values), MASK, strict=True) if k]
    for column in (values, pa.chunked_array([values]), pa.chunked_array([values[:2], values[2:]])):
        (found,) = keep_rows([column], keep)
        assert found.type == kind
        assert plain(found) == expected
