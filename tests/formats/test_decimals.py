"""Decimals keep every digit, which Python's own context does not."""

import re
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import deletekit
from deletekit.formats.decimals import decimal_of_bytes, fitted, unscaled_value

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


@settings(deadline=None)
@given(st.integers(-WIDEST, WIDEST), st.integers(0, 38), st.integers(0, 5))
def test_a_number_that_fits_keeps_every_digit(unscaled: int, scale: int, zeros: int) -> None:
    text = f"{unscaled}{'0' * zeros}E-{scale + zeros}"
    value = fitted(Decimal(text), 38, scale)
    assert unscaled_value(value, scale) == unscaled
    assert value.as_tuple().exponent == -scale


@pytest.mark.parametrize("text", ["1.001", "12345678.00", "1E+100", "1E-100", "NaN", "Infinity", f"{10**200}"])
def test_a_number_that_does_not_fit_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(text)):
        fitted(Decimal(text), 9, 2)


def test_nothing_computes_in_pythons_own_context() -> None:
    """It rounds to 28 digits: whatever is done to a decimal names the exact one."""
    rounds = re.compile(r"(?<!unicodedata)\.(quantize|scaleb|normalize|to_integral\w*)\((?!.*EXACT)")
    package = Path(deletekit.__file__).parent
    assert [str(p) for p in package.rglob("*.py") if rounds.search(p.read_text())] == []
