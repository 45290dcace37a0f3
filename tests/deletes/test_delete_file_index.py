"""Bounds in the index of deletes; which deletes it finds is tested where scans are planned."""

from __future__ import annotations

import struct

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

from deletekit.deletes.delete_file_index import widened_bound

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
