"""What the counts and bounds of a file say of a column, and when they say nothing.

Another writer's bound may be empty, no value of the column's type, or on the wrong side of the other one. Such bounds
are unknown: they exclude nothing. Whatever prunes by bounds takes them from here.
Spec: "Manifest Entry Fields" (bounds), https://iceberg.apache.org/spec/#manifests
"""

import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from pyiceberg import types as it
from pyiceberg.conversions import from_bytes

from deletekit.formats.content_file import ContentFile, DeleteFile

NO_BOUND = (struct.error, ValueError, TypeError, IndexError, ArithmeticError)
"""What a bound raises that is not a value of its column's type. Such a bound excludes nothing."""
_UNPACK: dict[type[it.IcebergType], Callable[[bytes], tuple[Any, ...]]] = {
    kind: struct.Struct(layout).unpack
    for layout, kinds in (
        ("<?", (it.BooleanType,)),
        ("<i", (it.IntegerType, it.DateType)),
        (
            "<q",
            (
                it.LongType,
                it.TimeType,
                it.TimestampType,
                it.TimestamptzType,
                it.TimestampNanoType,
                it.TimestamptzNanoType,
            ),
        ),
        ("<f", (it.FloatType,)),
        ("<d", (it.DoubleType,)),
    )
    for kind in kinds
}
_NO_BOUNDS: dict[int, bytes] = {}
# What one unit of the narrower type is in the wider one: an int, or the days of a date.
_WIDENED: dict[type[it.IcebergType], int] = {
    **dict.fromkeys((it.LongType, it.TimeType, it.TimestamptzType, it.TimestamptzNanoType), 1),
    it.TimestampType: 86_400_000_000,
    it.TimestampNanoType: 86_400_000_000_000,
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


def known_of(column: it.NestedField, file: ContentFile) -> Known:
    """Return what a file says of a column; of a float of a delete file no bounds, if a key may be NaN."""
    i, kind = column.field_id, column.field_type
    if miscounted(file, (i,)):
        return Known("some", None)
    values, nulls = (file.value_counts or {}).get(i), (file.null_value_counts or {}).get(i)
    known = "some" if nulls is None or values is None else "none" if not nulls else "all" if nulls >= values else "some"
    may_be_nan = isinstance(kind, it.FloatType | it.DoubleType) and (file.nan_value_counts or {}).get(i) != 0
    if may_be_nan and isinstance(file, DeleteFile):
        return Known(known, None)  # bounds leave NaN out, and it equals NaN
    return Known(known, usable_bounds(column, file)[1])


def usable_bounds(column: it.NestedField, file: ContentFile) -> tuple[tuple[bytes | None, bytes | None], Any]:
    """Return the bounds of a column of a file: each as bytes of the type's width, and `values_of` both.

    An empty upper bound of text or bytes counts as absent: some writers store it where they do not have a bound, and a
    file of empty text only may well be read. Of two bounds that cannot be right, none is returned.
    """
    i, kind = column.field_id, column.field_type
    low, high = (file.lower_bounds or _NO_BOUNDS).get(i), (file.upper_bounds or _NO_BOUNDS).get(i) or None
    try:
        low, high = (None if end is None else widened_bound(end, column) for end in (low, high))
        if low is not None and high is not None:
            ends = values_of(kind, low, high)
            return ((None, None) if ends is None else (low, high)), ends
        for end in (low, high):
            if end is not None:
                _value(kind, end)
    except NO_BOUND:
        return (None, None), None
    return (low, high), None


def values_of(kind: it.IcebergType, low: bytes | None, high: bytes | None) -> tuple[Any, Any] | None:
    """Return two bounds as values, or None if they prove nothing: see `in_order`."""
    if low is None or high is None:
        return None
    try:
        return in_order(_value(kind, low), _value(kind, high))
    except NO_BOUND:
        return None


def in_order(low: Any, high: Any) -> tuple[Any, Any] | None:
    """Return two bounds, or None if the first is above the second or one is NaN: then they prove nothing."""
    return (low, high) if low <= high else None


def widened_bound(bound: bytes, field: it.NestedField) -> bytes:
    """Return a bound that was written before its column's type was promoted, in the width of the new type."""
    kind = type(field.field_type)
    if len(bound) == 4 and kind in _WIDENED:
        return struct.pack("<q", struct.unpack("<i", bound)[0] * _WIDENED[kind])
    if len(bound) == 4 and kind is it.DoubleType:
        return struct.pack("<d", *struct.unpack("<f", bound))
    return bound


def _value(kind: it.IcebergType, bound: bytes) -> Any:
    """Return a bound as a value. Raises one of NO_BOUND if it is none of the type."""
    unpack = _UNPACK.get(type(kind))
    if unpack is not None:
        return unpack(bound)[0]
    if not isinstance(kind, it.PrimitiveType) or not (bound or isinstance(kind, it.StringType | it.BinaryType)):
        raise ValueError("no bound of this type")
    return from_bytes(kind, bound)
