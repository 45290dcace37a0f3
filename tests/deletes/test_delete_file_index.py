"""Bounds in the index of deletes; which deletes it finds is tested where scans are planned."""

import math
import struct
from typing import Any

import pytest
from pyiceberg.types import (
    DoubleType,
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    TimestampNanoType,
    TimestampType,
)

from deletekit.formats.content_file import DataFile, DeleteFile, FileContent
from deletekit.rows.column_bounds import known_of, widened_bound

INT, LONG, FLOAT, DOUBLE = "<i", "<q", "<f", "<d"
DAY = 86_400_000_000


@pytest.mark.parametrize(
    ("kind", "stored", "widened"),
    [
        (LongType(), struct.pack(INT, -5), struct.pack(LONG, -5)),
        (LongType(), struct.pack(LONG, 7), struct.pack(LONG, 7)),
        (DoubleType(), struct.pack(FLOAT, 1.5), struct.pack(DOUBLE, 1.5)),
        (IntegerType(), struct.pack(INT, -5), struct.pack(INT, -5)),
        (TimestampType(), struct.pack(INT, -1), struct.pack(LONG, -DAY)),
        (TimestampNanoType(), struct.pack(INT, 2), struct.pack(LONG, 2000 * DAY)),
    ],
)
def test_bounds_are_widened_with_their_column(kind: IcebergType, stored: bytes, widened: bytes) -> None:
    assert widened_bound(stored, NestedField(1, "c", kind, required=False)) == widened


def known(
    kind: IcebergType, nulls: int | None, *ends: float | None, nans: int | None = 0, is_data: bool = False
) -> Any:
    """What the index knows of a column with these counts and bounds."""
    code = DOUBLE if isinstance(kind, DoubleType) else LONG
    bounds = [None if end is None else {1: struct.pack(code, end)} for end in ends] or [None, None]
    counts = {"value_counts": {1: 3}, "null_value_counts": None if nulls is None else {1: nulls}}
    facts: dict[str, Any] = {
        "spec_id": 0,
        "file_path": "f",
        "file_format": "PARQUET",
        "partition": (),
        "record_count": 3,
    }
    facts |= {"file_size_in_bytes": 9, **counts, "nan_value_counts": None if nans is None else {1: nans}}
    facts |= {"lower_bounds": bounds[0], "upper_bounds": bounds[1]}
    keys = {"content": FileContent.EQUALITY_DELETES, "equality_ids": (1,)}
    return known_of(
        NestedField(1, "c", kind, required=False), DataFile(**facts) if is_data else DeleteFile(**facts, **keys)
    )


@pytest.mark.parametrize("kind", [LongType(), DoubleType()])
def test_keys_may_equal_a_value_unless_counts_or_bounds_exclude_it(kind: IcebergType) -> None:
    data = known(kind, 0, 1, 5, is_data=True)
    assert known(kind, 0, 5, 9).may_equal(data)
    assert not known(kind, 0, 6, 9).may_equal(data)
    assert known(kind, 0, 6, None).may_equal(data)
    assert known(kind, 0).may_equal(data)
    assert not known(kind, 2, 6, 9).may_equal(data)  # a NULL key, and no row is NULL
    assert known(kind, 2, 6, 9).may_equal(known(kind, 1, 1, 5, is_data=True))
    assert known(kind, 2, 6, 9).may_equal(known(kind, None, 1, 5, is_data=True))
    assert not known(kind, 0, 1, 5).may_equal(known(kind, 3, is_data=True))  # all rows are NULL, and no key is


def test_bounds_of_floats_exclude_nothing_where_a_nan_may_be() -> None:
    data = known(DoubleType(), 0, 1, 5, is_data=True)
    assert not known(DoubleType(), 0, 6, 9).may_equal(data)
    assert known(DoubleType(), 0, 6, 9, nans=1).may_equal(data)
    assert known(DoubleType(), 0, 6, 9, nans=None).may_equal(data)
    for ends in ((math.nan, 5), (1, math.nan), (math.nan, math.nan)):  # which the spec forbids, and old writers wrote
        assert known(DoubleType(), 0, 6, 9).may_equal(known(DoubleType(), 0, *ends, is_data=True))
        assert known(DoubleType(), 0, *ends).may_equal(known(DoubleType(), 0, 6, 9, is_data=True))
