"""Compare column bounds: single-value bytes, in every order that a known writer may have used.

A bound is wrong only if it is wrong in all those orders.
Spec: "Binary single-value serialization" (Appendix D), and the notes on bounds of "Manifests".
"""

from __future__ import annotations

import struct
from typing import Any

from pyiceberg.types import NestedField

from deletekit.deletes.delete_file_index import widened_bound
from deletekit.maintenance.verify.unreadable import DAMAGE


def is_range(lower: bytes, upper: bytes, field: NestedField) -> bool:
    """Tell whether two bounds are values of a primitive column, the first not above the second."""
    kind = str(field.field_type)
    try:
        low, high = (comparable(widened_bound(bound, field), kind) for bound in (lower, upper))
        return is_ordered(low, high, kind)
    except DAMAGE:
        return False


def comparable(data: bytes, kind: str) -> Any:
    """Return a bound of an Iceberg primitive type as a value to compare.

    A number that was stored before its column was promoted is shorter, and equal as a number. Raises struct.error,
    ValueError.
    """
    if kind in ("float", "double"):
        return struct.unpack("<f" if len(data) == 4 else "<d", data)[0]
    if kind.startswith("decimal"):
        return int.from_bytes(data, "big", signed=True)
    if kind in ("string", "binary", "uuid") or kind.startswith("fixed"):
        return bytes(data)
    if kind == "boolean" and len(data) != 1:
        raise ValueError("a boolean is one byte")
    if kind != "boolean" and len(data) not in (4, 8):
        raise ValueError("a number is 4 or 8 bytes")
    return int.from_bytes(data, "little", signed=kind != "boolean")


def is_ordered(low: Any, high: Any, kind: str) -> bool:
    """Tell whether `low` is not above `high`.

    Java compares uuids as two signed numbers (apache/iceberg#14216). It compares text by UTF-16 units, which puts
    supplementary characters before U+E000. Either order is right.
    """
    if kind in ("float", "double"):
        return bool(low != low or high != high or _float_key(low) <= _float_key(high))
    if bool(low <= high):
        return True
    if kind == "uuid":
        return bool(struct.unpack(">qq", low) <= struct.unpack(">qq", high))
    if kind == "string":
        units = (b.decode("utf-8", errors="replace").encode("utf-16-be") for b in (low, high))
        return bool(next(units) <= next(units))
    return False


def _float_key(value: float) -> tuple[float, bool]:
    """Order -0.0 before 0.0."""
    return value, value == 0 and struct.pack(">d", value)[0] == 0
