"""Single-value bytes as values that compare as bounds do, and the order that a bound may have been made by.

Law: a bound is wrong only when it is wrong in every order that a known writer uses.
Spec: "Binary single-value serialization" (Appendix D), and the notes on bounds of "Manifests".
"""

from __future__ import annotations

import struct
from typing import Any

__all__ = ["comparable", "is_ordered"]


def comparable(data: bytes, kind: str) -> Any:
    """A bound of an Iceberg primitive type as a value to compare.

    A number stored before its column was promoted is shorter, and equal as a number. Raises struct.error, ValueError.
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
    """Whether `low` is not above `high`.

    Java compares uuids as two signed numbers (apache/iceberg#14216), and text by UTF-16 units, which order
    supplementary characters before U+E000; either order will do.
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
    """-0.0 lies before 0.0."""
    return value, value == 0 and struct.pack(">d", value)[0] == 0
