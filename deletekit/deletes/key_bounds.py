"""What the counts and bounds of a file say of a column: whether a row of it can have a key of a delete file."""

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pyiceberg.conversions import from_bytes
from pyiceberg.types import DoubleType, FloatType, NestedField, PrimitiveType

from deletekit.formats.content_file import ContentFile, DeleteFile

# What one unit of the narrower type is in the wider one: an int, or the days of a date.
_WIDENED = {
    **dict.fromkeys(("long", "time", "timestamptz", "timestamptz_ns"), 1),
    "timestamp": 86_400_000_000,
    "timestamp_ns": 86_400_000_000_000,
}


@dataclass(frozen=True, slots=True)
class Known:
    """What counts and bounds say of one column of a file.

    Attributes
    ----------
    nulls: `none`, `some` or `all`, as the counts prove. A column that the file does not count may hold nulls.
    bounds: the least and the greatest value that is not NULL; None if they are not known, or leave out a NaN.
    """

    nulls: str
    bounds: tuple[Any, Any] | None

    def may_equal(self, other: "Known") -> bool:
        """Return False only if no value of one file can be equal to one of the other."""
        if self.nulls != "none" and other.nulls != "none":
            return True
        if self.nulls == "all" or other.nulls == "all":
            return False
        if self.bounds is None or other.bounds is None:
            return True
        return bool(self.bounds[0] <= other.bounds[1] and other.bounds[0] <= self.bounds[1])


def miscounted(file: ContentFile, fields: Iterable[int]) -> set[int]:
    """Return the fields outside lists and maps whose counts cannot be right.

    Each row has one value of them, and a column with bounds has a value that is neither NULL nor NaN.
    """
    rows, values = file.record_count, file.value_counts or {}
    found = set()
    for i in fields:
        nulls, nans = (file.null_value_counts or {}).get(i, 0), (file.nan_value_counts or {}).get(i, 0)
        others = rows - nulls - nans
        has_bounds = i in (file.lower_bounds or {}) or i in (file.upper_bounds or {})
        if values.get(i, rows) != rows or nulls < 0 or nans < 0 or others < has_bounds:
            found.add(i)
    return found


def known_of(column: NestedField, file: ContentFile) -> Known:
    """Return what a file says of a column; of a float of a delete file no bounds, if a key may be NaN."""
    i, kind = column.field_id, column.field_type
    if miscounted(file, (i,)):
        return Known("some", None)
    values, nulls = (file.value_counts or {}).get(i), (file.null_value_counts or {}).get(i)
    known = "some" if nulls is None or values is None else "none" if not nulls else "all" if nulls >= values else "some"
    may_be_nan = isinstance(kind, FloatType | DoubleType) and (file.nan_value_counts or {}).get(i) != 0
    if may_be_nan and isinstance(file, DeleteFile):
        return Known(known, None)  # bounds leave NaN out, and it equals NaN
    low, high = ((bounds or {}).get(i) for bounds in (file.lower_bounds, file.upper_bounds))
    if low is None or high is None or not isinstance(kind, PrimitiveType):
        return Known(known, None)
    try:
        ends = from_bytes(kind, widened_bound(low, column)), from_bytes(kind, widened_bound(high, column))
    except (struct.error, ValueError, TypeError):
        return Known(known, None)
    return Known(known, ends if ends[0] <= ends[1] else None)  # a NaN is no bound


def widened_bound(bound: bytes, field: NestedField) -> bytes:
    """Return a bound that was written before its column's type was promoted, in the width of the new type."""
    kind = str(field.field_type)
    if len(bound) == 4 and kind in _WIDENED:
        return struct.pack("<q", struct.unpack("<i", bound)[0] * _WIDENED[kind])
    if len(bound) == 4 and kind == "double":
        return struct.pack("<d", *struct.unpack("<f", bound))
    return bound
