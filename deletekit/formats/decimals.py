"""Convert decimals to the unscaled integers they are stored as, and back, without rounding.

Python's default context keeps 28 digits and rounds silently; Iceberg decimals have up to 38.
"""

from decimal import Context, Decimal, InvalidOperation

EXACT = Context(prec=400)
"""Arithmetic that is exact for every number that is read."""


def decimal_of_bytes(raw: bytes, scale: int) -> Decimal:
    """Return the decimal whose unscaled value is stored as two's-complement, big-endian bytes."""
    return Decimal(int.from_bytes(raw, "big", signed=True)).scaleb(-scale, EXACT)


def decimal_size(precision: int) -> int:
    """Return the bytes of the smallest fixed that holds `precision` digits (Java TypeUtil.decimalRequiredBytes)."""
    return int((10**precision - 1).bit_length() + 8) // 8


def unscaled_value(value: Decimal, scale: int) -> int:
    """Return the integer that a decimal of `scale` is stored as."""
    return int(value.scaleb(scale, EXACT))


def fitted(value: Decimal, precision: int, scale: int) -> Decimal:
    """Return the same number with the scale of a type. Raises ValueError for a number that the type cannot hold."""
    try:
        exact = value.quantize(Decimal((0, (1,), -scale)), context=EXACT)
    except InvalidOperation as e:
        raise ValueError(str(value)) from e
    if exact != value or len(exact.as_tuple().digits) > precision:
        raise ValueError(str(value))
    return exact
