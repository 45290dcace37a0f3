"""Turn numbers of messages into decimals: Debezium's bytes with a scale, texts, and numbers of JSON."""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
from pyiceberg import types as it

from deletekit.formats.decimals import EXACT, fitted
from deletekit.stream.sources.format_options import FormatOptions, UnfitError, check_types, each
from deletekit.stream.sources.source_types import DECIMAL, VARIABLE_DECIMAL, SourceType

Values = Sequence[Any]

DECIMAL_TEXT = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,3})?", re.ASCII)
_LARGEST = 64
"""Bytes of a decimal; Iceberg's have at most 16."""


def decimals(values: Values, source: SourceType | None, kind: it.DecimalType, options: FormatOptions) -> pa.Array:
    """Return numbers as a column of decimals. A number that would be rounded is refused."""
    if source is None and not options.decimal_texts and str in set(map(type, values)):
        raise UnfitError(
            "a text in a column of decimals may be a number or base64, and the message does not say which",
            expected="option decimal_texts (decimal.handling.mode=string), or messages with a schema",
            option="decimal_texts",
        )
    numbers = decimal_values(values, source)
    for number in numbers:
        # Arrow's own conversion dies of very small exponents.
        if number is not None and not (number.is_finite() and abs(number.adjusted()) < _LARGEST):
            if number.is_zero():
                continue
            raise UnfitError("a number does not fit the decimal", found=number)
    exact = [None if n is None else _rescaled(n, kind) for n in numbers]
    return pa.array(exact, pa.decimal128(kind.precision, kind.scale))


def _rescaled(number: Decimal, kind: it.DecimalType) -> Decimal:
    try:  # a zero may have any exponent, one too small for a context too
        return fitted(Decimal(0) if number.is_zero() else number, kind.precision, kind.scale)
    except ValueError as e:
        raise UnfitError("a number does not fit the decimal", found=number, expected=str(kind)) from e


def decimal_values(values: Values, source: SourceType | None) -> list[Decimal | None]:
    """Return the numbers that values stand for."""
    if source is not None and source.name == DECIMAL:
        scale = int(source.parameters["scale"])
        return each(values, lambda v: _unscaled(v, scale))
    if source is not None and source.name == VARIABLE_DECIMAL:
        return each(values, lambda v: _unscaled(v["value"], v["scale"]))
    check_types(values, int, float, Decimal, str)
    return each(values, _decimal)


def _unscaled(value: Any, scale: int) -> Decimal:
    data = base64.b64decode(value, validate=True) if isinstance(value, str) else value
    if not isinstance(data, bytes) or not 0 < len(data) <= _LARGEST or type(scale) is not int or abs(scale) > 300:
        raise UnfitError("a value is not a decimal in bytes", found=value)
    return Decimal(int.from_bytes(data, "big", signed=True)).scaleb(-scale, context=EXACT)


def _decimal(value: Any) -> Decimal:
    if isinstance(value, str) and DECIMAL_TEXT.fullmatch(value) is None:
        raise UnfitError("a text is not a decimal number", found=value)
    if isinstance(value, str) and len(value) > 300:
        raise UnfitError("a number does not fit the decimal", found=value)
    if isinstance(value, int) and value.bit_length() > 8 * _LARGEST:
        raise UnfitError("a number does not fit the decimal", found="an integer of many digits")
    return Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
