"""Make the literals of a filter values of their columns' types, or refuse them.

A predicate means what it means in SQL, as Spark reads it, and no literal is rounded. pyiceberg turns `id = 1.5` of an
integer column into `id = 1`, and a delete by it would hide the wrong row; here it is an error. `id < 1.5` becomes
`id <= 1`. `id < 3000000000` of an int is true for every value, but not for NULL. NaN is above every number, so `x > 1`
selects it. Text is read in the type's own spelling (ISO 8601 for times). NOT is rewritten first; without it, unknown
and false select the same rows.
"""

import datetime as dt
import math
import re
import string
from contextlib import suppress
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal, DecimalException
from typing import Any
from uuid import UUID

import numpy as np
from pyiceberg import expressions as ex
from pyiceberg import types as it
from pyiceberg.expressions import literals as li
from pyiceberg.schema import Schema

from deletekit.filters.in_list import one_of
from deletekit.filters.levels import with_few_levels
from deletekit.filters.tokens import bad_filter
from deletekit.table.column_names import columns_like

_NUMBERS = (it.IntegerType, it.LongType, it.FloatType, it.DoubleType, it.DecimalType)
_FLOATS = (it.FloatType, it.DoubleType)
_ZONED = (it.TimestamptzType, it.TimestamptzNanoType)
_NANOSECONDS = (it.TimestampNanoType, it.TimestamptzNanoType)
_WHOLE = re.compile(r"\s*[+-]?\d+\s*", re.ASCII)
_NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*", re.ASCII)
_FLOAT = re.compile(rf"{_NUMBER.pattern}|\s*[+-]?inf(inity)?\s*", re.ASCII | re.IGNORECASE)
_UUID = re.compile(r"[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}", re.ASCII)
_MOMENT = re.compile(
    r"(\d{4}-\d{2}-\d{2})"
    r"(?:[T ]((?:[01]\d|2[0-3]):\d{2}(?::\d{2})?)(?:\.(\d{1,9}))? ?(Z|z|UTC|[+-](?:0\d|1[0-8])(?::?[0-5]\d)?)?)?",
    re.ASCII,
)
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_SECONDS_A_DAY = 86_400
_A_TIME = "'2020-01-31T12:30:00.5"
_SPELLINGS: dict[type[it.IcebergType], str] = {
    it.DateType: "'2020-01-31'",
    it.TimeType: "'12:30:00.5'",
    **dict.fromkeys((it.TimestampType, it.TimestampNanoType), f"{_A_TIME}' (no offset)"),
    **dict.fromkeys(_ZONED, f"{_A_TIME}Z' or {_A_TIME}+01:00' (with its offset), or a day in UTC"),
    it.UUIDType: "'01234567-89ab-cdef-0123-456789abcdef' (in small letters: Spark compares it as text)",
    it.BinaryType: "X'00ff'",
    it.BooleanType: "true or false",
}
# More digits than comparing two decimals of 38 digits needs, so nothing is rounded.
_EXACT = Context(prec=200)
_Value = li.Literal[Any] | None


class TimeText(li.StringLiteral):
    """A text behind DATE, TIME or TIMESTAMP: a time, and never the text that it is written as."""

    _word: str

    def __init__(self, value: str, word: str) -> None:
        super().__init__(value)
        self._word = word

    @property
    def word(self) -> str:
        """The word before the text, in capitals."""
        return self._word

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TimeText) and (self.word, self.value) == (other.word, other.value)

    def __hash__(self) -> int:
        return hash((self.word, self.value))

    def __reduce__(self) -> tuple[Any, ...]:
        return TimeText, (self.value, self.word)

    def own_type(self) -> it.IcebergType | None:
        """Return the type that the word gives it, None if the text is no such time."""
        return next((kind for kind in _WORDS.get(self.word, _MOMENTS) if read_text(self, kind) is not None), None)


class _NanosecondLiteral(li.LongLiteral):
    """A time in nanoseconds, for which pyiceberg has no literal."""

    def to(self, type_var: it.IcebergType) -> li.Literal[Any]:
        if not isinstance(type_var, _NANOSECONDS):
            raise TypeError(f"nanoseconds are no {type_var}")
        return self


_MOMENTS = (it.TimestampType(), it.TimestamptzType(), it.TimestampNanoType(), it.TimestamptzNanoType())
_WORDS: dict[str, tuple[it.IcebergType, ...]] = {
    "DATE": (it.DateType(),),
    "TIME": (it.TimeType(),),
    "TIMESTAMP_NTZ": _MOMENTS[::2],
}

# pyiceberg converts these without loss, or refuses to.
_EXACTLY_CONVERTED = (
    *(li.BooleanLiteral, li.BinaryLiteral, li.FixedLiteral, li.UUIDLiteral, li.TimeLiteral),
    _NanosecondLiteral,
)


class SelfChecked(ex.UnboundPredicate):
    """A predicate that checks its columns and literals itself, when it is bound."""


def exact_literals(
    expression: ex.BooleanExpression, schema: Schema, *, self_checks: bool = True
) -> ex.BooleanExpression:
    """Return an unbound expression without NOT that selects the same rows with literals of the columns' types.

    Parameters
    ----------
    self_checks: bind each `SelfChecked`, so that it checks itself. False where all is bound next: twice at each level
        of CASE in CASE would be without end.

    Raises InvalidInputError for an unknown column, and ValueError, naming literal and type, for a literal that cannot
    be compared with the column, or that no value of the column can equal, and for more than `LEVELS` levels.
    """
    return with_few_levels(
        expression, lambda test: test if isinstance(test, SelfChecked) and not self_checks else _exact(test, schema)
    )


def column_named(name: str, schema: Schema) -> it.NestedField:
    """Return a column, or a field of structs, by name. Raises InvalidInputError, naming the most similar columns."""
    try:
        field = schema.find_field(name)
    except ValueError as e:
        like = columns_like(name, schema.column_names)
        raise bad_filter("no such column", name, like) from e
    try:
        schema.accessor_for_field(field.field_id)
    except ValueError as e:
        raise bad_filter("a filter cannot look into lists and maps", name, "a column, or a field of structs") from e
    return field


def _exact(expression: ex.BooleanExpression, schema: Schema) -> ex.BooleanExpression:
    if isinstance(expression, ex.AlwaysTrue | ex.AlwaysFalse):
        return expression
    if isinstance(expression, SelfChecked):
        expression.bind(schema)
        return expression
    if not isinstance(expression, ex.UnboundPredicate):
        raise TypeError(f"filter is bound already: {expression}")
    assert isinstance(expression.term, ex.Reference)  # pyiceberg's only unbound term
    name = expression.term.name
    kind = column_named(name, schema).field_type
    if isinstance(expression, ex.IsNull | ex.NotNull):
        return expression
    if not kind.is_primitive:
        raise ValueError(f"column {name} is {kind}, which has no order and equals nothing: IS NULL asks for it")
    try:
        if isinstance(expression, ex.UnaryPredicate):
            if not isinstance(kind, _NUMBERS):
                raise ValueError("IS NAN asks numbers")  # noqa: TRY004  # as `_text`
            return expression
        if isinstance(expression, ex.StartsWith | ex.NotStartsWith):
            return _text(expression, kind)
        return _one_of(expression, kind) if isinstance(expression, ex.SetPredicate) else _compared(expression, kind)
    except ValueError as e:
        raise ValueError(f"column {name} is {kind}: {e}") from e


def _text(predicate: ex.UnboundPredicate, kind: it.IcebergType) -> ex.BooleanExpression:
    if not isinstance(kind, it.StringType):
        raise ValueError("LIKE is for text")  # noqa: TRY004  # the caller adds the column to a ValueError
    if isinstance(predicate, ex.LiteralPredicate):
        _value_of(predicate.literal, kind)
    return predicate


def _compared(predicate: Any, kind: it.IcebergType) -> ex.BooleanExpression:
    term, literal, same = predicate.term, predicate.literal, type(predicate)
    if isinstance(predicate, ex.EqualTo | ex.NotEqualTo) or not isinstance(kind, _NUMBERS):
        value = _equal_value(literal, kind)
        if value is None:
            return ex.AlwaysFalse() if same is ex.EqualTo else ex.NotNull(term=term)
        made: ex.BooleanExpression = same(term, value)
        return made
    below, above = _neighbours(literal, kind)
    is_less = isinstance(predicate, ex.LessThan | ex.LessThanOrEqual)
    nearest = below if is_less else above
    if nearest is None:
        made = ex.AlwaysFalse()
    elif above is not None and below is not None and below.value == above.value:
        made = same(term, nearest)
    else:
        made = (ex.LessThanOrEqual if is_less else ex.GreaterThanOrEqual)(term=term, value=nearest)
    return made if is_less or not isinstance(kind, _FLOATS) else ex.Or(made, ex.IsNaN(term=term))


def _one_of(predicate: ex.SetPredicate, kind: it.IcebergType) -> ex.BooleanExpression:
    if not predicate.literals:
        raise ValueError("IN needs a value")
    values = [value for literal in predicate.literals if (value := _equal_value(literal, kind)) is not None]
    if values:
        return one_of(predicate.term, values, is_not=isinstance(predicate, ex.NotIn))
    return ex.AlwaysFalse() if isinstance(predicate, ex.In) else ex.NotNull(term=predicate.term)


def _equal_value(literal: li.Literal[Any], kind: it.IcebergType) -> li.Literal[Any] | None:
    """Return the literal as a value of the type, None for a number beyond all.

    Raises ValueError for a number between two values of the type, and for what is not a value of it.
    """
    if not isinstance(kind, _NUMBERS):
        return _value_of(literal, kind)
    below, above = _neighbours(literal, kind)
    if below is None or above is None:
        return None
    if below.value != above.value:
        raise ValueError(f"{literal.value} is not a value of {kind}; next to it are {below.value} and {above.value}")
    return below


# --- numbers ----------------------------------------------------------------------------------------------------------


def _neighbours(literal: li.Literal[Any], kind: it.IcebergType) -> tuple[_Value, _Value]:
    """Return the largest value of a numeric type that is not above a number, and the smallest that is not below it.

    Both are the same if the type holds the number. None means that there is no such value. For a double, both are the
    nearest double, as in SQL. Raises ValueError for a literal that is not a number.
    """
    if isinstance(literal, li.LongLiteral) and isinstance(kind, it.LongType) and -(1 << 63) <= literal.value < 1 << 63:
        return literal, literal  # fast, because a list of keys may be very long
    if (
        isinstance(literal, li.LongLiteral)
        and isinstance(kind, it.IntegerType)
        and -(1 << 31) <= literal.value < 1 << 31
    ):
        return literal, literal
    number = _number(literal, kind)
    if isinstance(kind, _FLOATS):
        if isinstance(literal, li.StringLiteral) and number.is_finite() and math.isinf(float(number)):
            raise ValueError(f"{literal.value!r} is beyond every double")
        return _float_neighbours(number, kind)
    scale = kind.scale if isinstance(kind, it.DecimalType) else 0
    if isinstance(kind, it.DecimalType):
        largest = Decimal((0, (9,) * kind.precision, -scale))
        smallest = largest.copy_negate()  # minus would round
    else:
        smallest = Decimal(-(1 << (31 if isinstance(kind, it.IntegerType) else 63)))
        largest = -smallest - 1
    if isinstance(literal, li.FloatLiteral | li.DoubleLiteral | li.StringLiteral):
        _check_as_double(number, scale, largest, kind)
    if number > largest:
        return _whole(largest, kind), None
    if number < smallest:
        return None, _whole(smallest, kind)
    below, above = (
        number.quantize(Decimal((0, (1,), -scale)), rounding, _EXACT) for rounding in (ROUND_FLOOR, ROUND_CEILING)
    )
    return _whole(below, kind), _whole(above, kind)


def _check_as_double(number: Decimal, scale: int, largest: Decimal, kind: it.IcebergType) -> None:
    """Refuse a number that Spark compares as a double, if several values of the type are that same double."""
    if not number.is_finite() or (isinstance(kind, it.LongType | it.IntegerType) and abs(number) < 1 << 53):
        return
    exact = Decimal(repr(float(number))) == number
    if not exact or (abs(number).scaleb(scale, _EXACT) >= 1 << 53 and abs(number) <= 2 * largest):
        raise ValueError(
            f"{number} is compared as a double, as which values are equal that are not the same; write it "
            "with all its digits, without an exponent and without quotes"
        )


def _whole(value: Decimal, kind: it.IcebergType) -> li.Literal[Any]:
    return li.DecimalLiteral(value) if isinstance(kind, it.DecimalType) else li.LongLiteral(int(value))


def _float_neighbours(number: Decimal, kind: it.IcebergType) -> tuple[li.Literal[Any], li.Literal[Any]]:
    below = above = float(number)
    if math.isinf(above) and number.is_finite():  # beyond every double: between the largest one and infinity
        below, above = sorted((above, math.nextafter(above, 0)))
    if isinstance(kind, it.DoubleType):
        return li.DoubleLiteral(below), li.DoubleLiteral(above)
    with np.errstate(over="ignore"):
        low, high = np.float32(below), np.float32(above)
    low = low if float(low) <= below else np.nextafter(low, np.float32(-np.inf))
    high = high if float(high) >= above else np.nextafter(high, np.float32(np.inf))
    return li.FloatLiteral(float(low)), li.FloatLiteral(float(high))


def _number(literal: li.Literal[Any], kind: it.IcebergType) -> Decimal:
    raw = literal.value
    if isinstance(literal, li.LongLiteral | li.FloatLiteral | li.DoubleLiteral | li.DecimalLiteral):
        # A double means the number that it is printed as, not the one of 50 digits that is stored.
        return Decimal(repr(raw)) if isinstance(raw, float) else Decimal(raw)
    is_whole = isinstance(kind, it.IntegerType | it.LongType)
    spelled = _FLOAT if isinstance(kind, _FLOATS) else _WHOLE if is_whole else _NUMBER
    if isinstance(literal, li.StringLiteral) and spelled.fullmatch(raw):
        with suppress(DecimalException):  # its exponent may be beyond all numbers
            number = Decimal(raw.strip())
            if not is_whole or -(1 << 63) <= number < 1 << 63:
                return number
    hint = "; IS NAN asks for it" if str(raw).strip().lower() == "nan" else ""
    raise ValueError(f"{raw!r} is not a {'whole ' if is_whole and literal.value == str(raw) else ''}number{hint}")


# --- other values -----------------------------------------------------------------------------------------------------


def _value_of(literal: li.Literal[Any], kind: it.IcebergType) -> li.Literal[Any]:
    """Return a literal as a value of a type that is not numeric. Raises ValueError, naming it, if it is none.

    A number is not a time, although pyiceberg would take it.
    """
    raw, made = literal.value, None
    if isinstance(literal, li.StringLiteral):
        made = read_text(literal, kind)
    elif isinstance(literal, li.DateLiteral):
        made = _time(raw * _SECONDS_A_DAY, 0, kind)
    elif isinstance(literal, li.TimestampLiteral):
        made = _time(raw // 1_000_000, raw % 1_000_000 * 1000, kind)
    elif isinstance(literal, li.BinaryLiteral | li.FixedLiteral) and isinstance(kind, it.UUIDType):
        pass  # a uuid is text in Spark, and these bytes are none
    elif isinstance(literal, _EXACTLY_CONVERTED):
        with suppress(TypeError, ValueError):
            made = literal.to(kind)
    if made is None:
        other = f"X'00ff', {len(kind)} bytes" if isinstance(kind, it.FixedType) else "'text' in single quotes"
        raise ValueError(f"{raw!r} is not a value of {kind}; write {_SPELLINGS.get(type(kind), other)}")
    return made


def read_text(literal: li.StringLiteral, kind: it.IcebergType) -> li.Literal[Any] | None:
    """Return a text as a value of a type that is not numeric, None if it is none."""
    text = literal.value
    if isinstance(kind, it.StringType):
        if isinstance(literal, TimeText):
            wanted = {"DATE": "date", "TIME": "time"}.get(literal.word, "timestamp")
            raise ValueError(  # noqa: TRY004  # as `_text`
                f"{literal.word} {text!r} is not a text; write CAST(... AS {wanted}) of the column"
            )
        text.encode()  # refuses half a character
        return literal
    if isinstance(kind, it.BooleanType):
        word = text.strip(string.whitespace).lower()
        return li.BooleanLiteral(word == "true") if word in ("true", "false") else None
    if isinstance(kind, it.UUIDType):
        return li.UUIDLiteral(UUID(text).bytes) if _UUID.fullmatch(text) else None
    match = _MOMENT.fullmatch(f"1970-01-01T{text}" if isinstance(kind, it.TimeType) else text)
    if match is None:
        return None
    day, clock, fraction, zone = match.groups()
    if clock is not None and (isinstance(kind, it.DateType) or (zone is not None) != isinstance(kind, _ZONED)):
        return None
    try:
        moment = dt.datetime.fromisoformat(f"{day}T{clock or '00:00'}{'Z' if zone in (None, 'UTC') else zone.upper()}")
    except ValueError:  # such as the 31st of February
        return None
    seconds, nanoseconds = (moment - _EPOCH) // dt.timedelta(seconds=1), int((fraction or "0").ljust(9, "0"))
    if not isinstance(kind, it.TimeType):
        return _time(seconds, nanoseconds, kind)
    return None if nanoseconds % 1000 else li.TimeLiteral(seconds * 1_000_000 + nanoseconds // 1000)


def _time(seconds: int, nanoseconds: int, kind: it.IcebergType) -> li.Literal[Any] | None:
    """Return a time since 1970 as a literal of a type that holds it exactly, None for another type."""
    if isinstance(kind, it.DateType):
        return None if seconds % _SECONDS_A_DAY or nanoseconds else li.DateLiteral(seconds // _SECONDS_A_DAY)
    if isinstance(kind, _NANOSECONDS):
        return _NanosecondLiteral(seconds * 1_000_000_000 + nanoseconds)
    if isinstance(kind, it.TimestampType | it.TimestamptzType) and not nanoseconds % 1000:
        return li.TimestampLiteral(seconds * 1_000_000 + nanoseconds // 1000)
    return None
