"""Decimals keep every digit, which Python's own context does not."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deletekit.formats.decimals import decimal_of_bytes, unscaled_value

WIDEST = 10**38 - 1


@pytest.mark.parametrize(
    ("raw", "scale", "value"),
    [
        ("00", 0, "0"),
        ("058c", 2, "14.20"),
        ("ff38", 1, "-20.0"),
        ("7f", 0, "127"),
        ("80", 3, "-0.128"),
        ("0000058c", 2, "14.20"),
        ("4b3b4ca85a86c47a098a223fffffffff", 10, "9999999999999999999999999999.9999999999"),
        ("4b3b4ca85a86c47a098a223fffffffff", 38, "0.99999999999999999999999999999999999999"),
    ],
)
def test_bytes_are_big_endian_and_signed(raw: str, scale: int, value: str) -> None:
    found = decimal_of_bytes(bytes.fromhex(raw), scale)
    assert found == Decimal(value)
    assert found.as_tuple().exponent == -scale


@settings(deadline=None)
@given(st.integers(-WIDEST, WIDEST), st.integers(0, 38))
def test_all_38_digits_survive(unscaled: int, scale: int) -> None:
    value = decimal_of_bytes(unscaled.to_bytes(16, "big", signed=True), scale)
    assert unscaled_value(value, scale) == unscaled
