"""Decimals and the unscaled integers they are stored as, exactly.

Law: no rounding. Python's default context keeps 28 digits and rounds in silence; Iceberg decimals have up to 38.
"""

from __future__ import annotations

from decimal import Context, Decimal

__all__ = ["decimal_of_bytes", "unscaled_value"]

_EXACT = Context(prec=76)


def decimal_of_bytes(raw: bytes, scale: int) -> Decimal:
    """The decimal whose unscaled value is stored as two's-complement, big-endian bytes."""
    return Decimal(int.from_bytes(raw, "big", signed=True)).scaleb(-scale, _EXACT)


def unscaled_value(value: Decimal, scale: int) -> int:
    """The integer that a decimal of `scale` is stored as."""
    return int(value.scaleb(scale, _EXACT))
