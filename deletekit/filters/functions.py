"""Operators and functions of expressions, over Arrow columns, with SQL's meaning.

NULL gives NULL, except in `coalesce`, `greatest`, `least` and tests for NULL. Integers are divided as in Spark, to a
double. A division by zero is NULL, because both sides of an AND are computed for every row. Floats compare as in
filters: NaN equals NaN and is above every number. `round` rounds a half away from zero.
"""

from collections.abc import Callable
from decimal import Decimal
from functools import partial, reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

Values = Any
"""An Arrow array, a chunked array, or a scalar that stands for each row."""


_MIXED = {"=", "!=", "<", "<=", ">", ">=", "+", "-", "*", "in", "nullif", "coalesce", "greatest", "least"}
_OF_DOUBLES = {"sqrt", "exp", "ln", "log10", "power"}


def as_spark_does(values: list[Values], function: str = "coalesce") -> list[Values]:
    """Return the arguments of a function; numbers beside a float become doubles, as in Spark.

    Arrow would compare an integer with a float as floats, and makes other doubles of decimals.
    """
    kinds = {value.type for value in values}
    mixed = function in _MIXED and len(kinds) > 1 and any(map(pa.types.is_floating, kinds))
    if not mixed and function not in _OF_DOUBLES and not (function == "/" and any(map(pa.types.is_floating, kinds))):
        return values
    return [_as_double(value) if _is_number(value.type) else value for value in values]


def _as_double(value: Values) -> Values:
    if pa.types.is_decimal(value.type):
        value = value.cast(pa.string())
    return value.cast(pa.float64(), safe=False)


def _is_number(kind: pa.DataType) -> bool:
    return any(test(kind) for test in (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal))


def _matches(text: Values, regex: str) -> Values:
    """Tell of each text whether all of it matches a regular expression."""
    if not pa.types.is_string(text.type):
        raise TypeError("LIKE is for text")
    return pc.match_substring_regex(text, rf"(?s)\A(?:{regex})\z")


def _not_a_number(value: Values) -> Values:
    return pc.is_nan(value) if pa.types.is_floating(value.type) else pc.if_else(pc.is_valid(value), False, None)


def _equal(left: Values, right: Values) -> Values:
    same = pc.equal(left, right)
    if not (pa.types.is_floating(left.type) and pa.types.is_floating(right.type)):
        return same
    return pc.or_kleene(same, pc.and_kleene(_not_a_number(left), _not_a_number(right)))


def _less(left: Values, right: Values) -> Values:
    less = pc.less(left, right)
    if not pa.types.is_floating(right.type):
        return less
    return pc.or_kleene(less, pc.and_kleene(_not_a_number(right), pc.invert(_not_a_number(left))))


def _is_one_of(value: Values, *choices: Values) -> Values:
    return reduce(pc.or_kleene, (_equal(value, choice) for choice in choices))


def is_in(value: Values, choices: pa.Array) -> Values:
    """Tell of each value whether it is one of these, which are not NULL; NULL gives NULL."""
    return pc.if_else(pc.is_null(value), None, pc.is_in(value.cast(choices.type), value_set=choices))


def _number(value: Values) -> Values:
    if not _is_number(value.type):
        raise TypeError("a sign is for numbers")
    return value


def _divided(left: Values, right: Values) -> Values:
    if pa.types.is_integer(left.type) and pa.types.is_integer(right.type):
        left, right = (side.cast(pa.float64(), safe=False) for side in (left, right))
    if pa.types.is_decimal(left.type) or pa.types.is_decimal(right.type):
        raise TypeError("programs keep different digits of decimals; write CAST(... AS double)")
    return pc.divide(left, _not_zero(right))


def _remainder(left: Values, right: Values) -> Values:
    if not (pa.types.is_integer(left.type) and pa.types.is_integer(right.type)):
        raise TypeError("a remainder is of integers")
    right = _not_zero(right)
    return pc.subtract(left, pc.multiply(pc.divide(left, right), right))


def _not_zero(value: Values) -> Values:
    # No cast: Arrow wants three digits for the integers of a byte, which 2.5 has not.
    zero = pa.scalar(Decimal(0) if pa.types.is_decimal(value.type) else 0, value.type)
    return pc.if_else(pc.equal(value, zero), pa.scalar(None, value.type), value)


def _greatest(*values: Values) -> Values:
    return reduce(lambda a, b: pc.if_else(pc.fill_null(_less(a, b), pc.is_null(a)), b, a), values)


def _least(*values: Values) -> Values:
    return reduce(lambda a, b: pc.if_else(pc.fill_null(_less(b, a), pc.is_null(a)), b, a), values)


def _joined(left: Values, right: Values) -> Values:
    return pc.binary_join_element_wise(left, right, "")


def _whole(value: Values) -> int:
    if not isinstance(value, pa.Scalar) or not pa.types.is_integer(value.type):
        raise TypeError("a place or length is written as a number")
    return int(value.as_py())


def _part(text: Values, start: Values, length: Values | None = None) -> Values:
    first, count = _whole(start) - 1, None if length is None else _whole(length)
    if first < 0 or (count or 0) < 0:
        raise ValueError("a text begins at 1")
    return pc.utf8_slice_codeunits(text, first, None if count is None else first + count)


def _rounded(value: Values, digits: Values | None = None) -> Values:
    return pc.round(value, 0 if digits is None else _whole(digits), round_mode="half_towards_infinity")


def _replaced(text: Values, pattern: Values, replacement: Values) -> Values:
    if not isinstance(pattern, pa.Scalar) or not isinstance(replacement, pa.Scalar) or not pattern.as_py():
        raise TypeError("what is replaced, and by what, is written as text")
    return pc.replace_substring(text, pattern.as_py(), replacement.as_py())


def _looked_for(search: Callable[..., Values], text: Values, wanted: Values) -> Values:
    if not isinstance(wanted, pa.Scalar):
        raise TypeError("what is looked for is written as text")
    return search(text, wanted.as_py())


def _cut(unit: Values, moment: Values) -> Values:
    units = ("year", "quarter", "month", "week", "day", "hour", "minute", "second")
    if not isinstance(unit, pa.Scalar) or unit.as_py() not in units:
        raise TypeError(f"the unit is one of {', '.join(units)}")
    return pc.floor_temporal(moment, unit=unit.as_py())


def _cast(value: Values, kind: pa.DataType) -> Values:
    """Return values as another type; refuse what Spark reads or spells otherwise, such as times as numbers."""
    stored, types = value.type, pa.types
    is_text, is_time = types.is_string(stored), types.is_temporal(stored)
    if types.is_temporal(kind):
        fits = is_text or is_time or types.is_null(stored)
    else:
        fits = types.is_date(stored) and types.is_string(kind) if is_time else True
    fits = fits and (types.is_string(kind) or not (types.is_binary(stored) or types.is_fixed_size_binary(stored)))
    if not fits or (types.is_floating(stored) and types.is_string(kind)):
        raise TypeError(f"{stored} has no one meaning as {kind}")
    if is_text and types.is_integer(kind) and pc.any(pc.match_substring_regex(value, "[xX]")).as_py():
        raise pa.ArrowInvalid("a text is not a whole number")  # Arrow reads 0x1F
    if types.is_decimal(stored) and types.is_floating(kind):
        value = value.cast(pa.string())  # Arrow's own cast is not the nearest double
    if types.is_integer(stored) and types.is_decimal(kind):
        value = value.cast(pa.decimal128(20, 0))  # else Arrow asks that the type can hold every integer
    made = value.cast(kind)
    if types.is_decimal(stored) and types.is_string(kind) and pc.any(pc.match_substring(made, "E")).as_py():
        raise pa.ArrowInvalid("a small decimal is spelled in several ways")
    rounds = types.is_floating(stored) and types.is_decimal(kind)
    if rounds and not pc.all(_equal(made.cast(stored), value), min_count=0).as_py():
        raise pa.ArrowInvalid(f"a value of {stored} has no equal in {kind}")
    return made


def _nullif(left: Values, right: Values) -> Values:
    return pc.if_else(pc.fill_null(_equal(left, right), False), pa.scalar(None, left.type), left)


def _extremes(first: int) -> range:
    return range(first, 101)


_ONE, _TWO = range(1, 2), range(2, 3)
FUNCTIONS: dict[str, tuple[Callable[..., Values], range]] = {
    "=": (_equal, _TWO),
    "!=": (lambda a, b: pc.invert(_equal(a, b)), _TWO),
    "<": (_less, _TWO),
    "<=": (lambda a, b: pc.invert(_less(b, a)), _TWO),
    ">": (lambda a, b: _less(b, a), _TWO),
    ">=": (lambda a, b: pc.invert(_less(a, b)), _TWO),
    "+": (pc.add_checked, _TWO),
    "-": (pc.subtract_checked, _TWO),
    "*": (pc.multiply_checked, _TWO),
    "/": (_divided, _TWO),
    "%": (_remainder, _TWO),
    "||": (_joined, _TWO),
    "in": (_is_one_of, range(2, 1 << 31)),
    "in set": (is_in, _ONE),
    "negative": (pc.negate_checked, _ONE),
    "positive": (_number, _ONE),
    "not": (pc.invert, _ONE),
    "is null": (pc.is_null, _ONE),
    "is nan": (lambda a: pc.fill_null(pc.is_nan(a), False), _ONE),
    "like": (_matches, _ONE),
    "cast": (_cast, _ONE),
    "abs": (pc.abs_checked, _ONE),
    "ceil": (pc.ceil, _ONE),
    "floor": (pc.floor, _ONE),
    "round": (_rounded, range(1, 3)),
    "sign": (pc.sign, _ONE),
    "sqrt": (pc.sqrt_checked, _ONE),
    "exp": (pc.exp, _ONE),
    "ln": (pc.ln_checked, _ONE),
    "log10": (pc.log10_checked, _ONE),
    "power": (pc.power_checked, _TWO),
    "mod": (_remainder, _TWO),
    "greatest": (_greatest, _extremes(2)),
    "least": (_least, _extremes(2)),
    "coalesce": (pc.coalesce, _extremes(1)),
    "nullif": (_nullif, _TWO),
    "lower": (pc.utf8_lower, _ONE),
    "upper": (pc.utf8_upper, _ONE),
    "trim": (lambda a: pc.utf8_trim(a, " "), _ONE),
    "ltrim": (lambda a: pc.utf8_ltrim(a, " "), _ONE),
    "rtrim": (lambda a: pc.utf8_rtrim(a, " "), _ONE),
    "length": (lambda a: (pc.utf8_length if pa.types.is_string(a.type) else pc.binary_length)(a), _ONE),
    "reverse": (pc.utf8_reverse, _ONE),
    "substring": (_part, range(2, 4)),
    "replace": (_replaced, range(3, 4)),
    "starts_with": (partial(_looked_for, pc.starts_with), _TWO),
    "ends_with": (partial(_looked_for, pc.ends_with), _TWO),
    "contains": (partial(_looked_for, pc.match_substring), _TWO),
    "date_trunc": (_cut, _TWO),
    **{name: (getattr(pc, name), _ONE) for name in ("year", "quarter", "month", "day", "hour", "minute")},
}
"""Operators and functions by name, with how many arguments each takes."""
