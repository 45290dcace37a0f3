"""Turn a filter's literal into a value of a column's type, or into the two values of the type next to it.

No number is rounded: one between two values of the type becomes both of them. Text is read in the type's own spelling
(ISO 8601 for times), and any other text is refused.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal, DecimalException
from typing import Any
from uuid import UUID

import numpy as np
from pyiceberg.expressions.literals import (
    BinaryLiteral,
    BooleanLiteral,
    DateLiteral,
    DecimalLiteral,
    DoubleLiteral,
    FixedLiteral,
    FloatLiteral,
    Literal,
    LongLiteral,
    StringLiteral,
    TimeLiteral,
    TimestampLiteral,
    UUIDLiteral,
)
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

_NUMBERS = (IntegerType, LongType, FloatType, DoubleType, DecimalType)
_ZONED = (TimestamptzType, TimestamptzNanoType)
_NANOSECONDS = (TimestampNanoType, TimestamptzNanoType)
_TIMESTAMPS = (TimestampType, TimestamptzType, *_NANOSECONDS)
_NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*", re.ASCII)
_FLOAT = re.compile(rf"{_NUMBER.pattern}|\s*[+-]?inf(inity)?\s*", re.ASCII | re.IGNORECASE)
_DATE = r"(\d{4}-\d{2}-\d{2})"
_CLOCK = r"(\d{2}:\d{2}(?::\d{2})?)(?:\.(\d{1,9}))?"
_MOMENT = re.compile(rf"{_DATE}(?:[T ]{_CLOCK} ?(Z|[+-]\d{{2}}:?\d{{2}})?)?", re.ASCII)
_TIME = re.compile(_CLOCK, re.ASCII)
_EPOCH = dt.date(1970, 1, 1).toordinal()
_SECONDS_A_DAY = 86_400
# More digits than comparing two decimals of 38 digits needs, so nothing is rounded.
_EXACT = Context(prec=200)

Neighbours = tuple[Literal[Any] | None, Literal[Any] | None]


class _NanosecondLiteral(LongLiteral):
    """A time in nanoseconds, for which pyiceberg has no literal."""

    def to(self, type_var: IcebergType) -> Literal[Any]:
        if not isinstance(type_var, _NANOSECONDS):
            raise TypeError(f"nanoseconds are no {type_var}")
        return self


def is_number(kind: IcebergType) -> bool:
    """Tell whether literals of a type go through `neighbours`. A literal of another type is a value or refused."""
    return isinstance(kind, _NUMBERS)


def neighbours(literal: Literal[Any], kind: IcebergType) -> Neighbours:
    """Return the largest value of a numeric type that is not above a number, and the smallest that is not below it.

    Both are the same if the type holds the number. None means that there is no such value. For a double, both are the
    nearest double, as in SQL. Raises ValueError for a literal that is not a number.
    """
    if isinstance(literal, LongLiteral) and isinstance(kind, LongType) and -(1 << 63) <= literal.value < 1 << 63:
        return literal, literal  # fast, because a list of keys may be very long
    number = _number(literal, kind)
    if isinstance(kind, FloatType | DoubleType):
        return _float_neighbours(number, kind)
    scale, largest, smallest = _range(kind)
    if number > largest:
        return _whole(largest, kind), None
    if number < smallest:
        return None, _whole(smallest, kind)
    unit = Decimal((0, (1,), -scale))
    below = number.quantize(unit, ROUND_FLOOR, _EXACT)
    above = number.quantize(unit, ROUND_CEILING, _EXACT)
    return _whole(below, kind), _whole(above, kind)


def _range(kind: IcebergType) -> tuple[int, Decimal, Decimal]:
    """Return the digits behind the point, and the largest and smallest value."""
    if isinstance(kind, DecimalType):
        nines = (9,) * kind.precision
        return kind.scale, Decimal((0, nines, -kind.scale)), Decimal((1, nines, -kind.scale))
    bits = 31 if isinstance(kind, IntegerType) else 63
    return 0, Decimal((1 << bits) - 1), Decimal(-(1 << bits))


def _whole(value: Decimal, kind: IcebergType) -> Literal[Any]:
    return DecimalLiteral(value) if isinstance(kind, DecimalType) else LongLiteral(int(value))


def _float_neighbours(number: Decimal, kind: IcebergType) -> Neighbours:
    # The neighbours of a finite number beyond every double are the largest double and infinity.
    double = float(number)
    if math.isinf(double) and number.is_finite():
        within = math.copysign(math.inf, double), math.copysign(np.finfo(np.float64).max, double)
        outer, inner = (DoubleLiteral(v) for v in within)
        ordered = (inner, outer) if double > 0 else (outer, inner)
        return ordered if isinstance(kind, DoubleType) else _float_neighbours(Decimal(within[1]), kind)
    if isinstance(kind, DoubleType):
        return DoubleLiteral(double), DoubleLiteral(double)
    with np.errstate(over="ignore"):
        near = np.float32(double)
    below = near if float(near) <= double else np.nextafter(near, np.float32(-math.inf))
    above = near if float(near) >= double else np.nextafter(near, np.float32(math.inf))
    return FloatLiteral(float(below)), FloatLiteral(float(above))


def _number(literal: Literal[Any], kind: IcebergType) -> Decimal:
    raw = literal.value
    if isinstance(literal, LongLiteral | FloatLiteral | DoubleLiteral | DecimalLiteral):
        # A double means the number that it is printed as, not the one of 50 digits that is stored.
        return Decimal(repr(raw)) if isinstance(raw, float) else Decimal(raw)
    spelled = _FLOAT if isinstance(kind, FloatType | DoubleType) else _NUMBER
    if isinstance(literal, StringLiteral) and spelled.fullmatch(raw):
        try:
            return Decimal(raw.strip())
        except DecimalException as e:
            raise ValueError(f"{raw!r} is not a number") from e
    raise ValueError(f"{raw!r} is not a number{_nan_hint(raw)}")


def _nan_hint(raw: Any) -> str:
    return "; IS NAN asks for it" if isinstance(raw, str) and raw.strip().lower() == "nan" else ""


def value_of(literal: Literal[Any], kind: IcebergType) -> Literal[Any]:
    """Return a literal as a value of a type that is not numeric. Raises ValueError, naming it, if it is none."""
    raw = literal.value
    made: Literal[Any] | None = None
    if isinstance(kind, StringType):
        made = literal if isinstance(literal, StringLiteral) and raw.encode() is not None else None
    elif isinstance(kind, BooleanType):
        words = {"true": True, "false": False}
        word = words.get(raw.strip().lower()) if isinstance(literal, StringLiteral) else None
        made = literal if isinstance(literal, BooleanLiteral) else None if word is None else BooleanLiteral(word)
    elif isinstance(kind, BinaryType | FixedType | UUIDType):
        made = _bytes(literal, kind)
    else:
        made = _time(literal, kind)
    if made is None:
        raise ValueError(f"{raw!r} is not a value of {kind}{_spelling(kind)}")
    return made


def _bytes(literal: Literal[Any], kind: IcebergType) -> Literal[Any] | None:
    raw = literal.value
    if isinstance(kind, UUIDType) and isinstance(literal, StringLiteral):
        return (
            UUIDLiteral(UUID(raw).bytes)
            if re.fullmatch(r"[\da-fA-F]{8}(-[\da-fA-F]{4}){3}-[\da-fA-F]{12}", raw)
            else None
        )
    if not isinstance(literal, BinaryLiteral | FixedLiteral | UUIDLiteral):
        return None
    raw = raw.bytes if isinstance(raw, UUID) else raw
    if isinstance(kind, BinaryType):
        return BinaryLiteral(raw)
    if isinstance(kind, UUIDType):
        return UUIDLiteral(raw) if len(raw) == 16 else None
    return FixedLiteral(raw) if isinstance(kind, FixedType) and len(raw) == len(kind) else None


def _time(literal: Literal[Any], kind: IcebergType) -> Literal[Any] | None:
    """Return a date or time, None for another literal. A number is none, although pyiceberg would take it."""
    raw = literal.value
    if isinstance(literal, StringLiteral):
        return _time_of_text(raw, kind)
    if isinstance(literal, _NanosecondLiteral) and isinstance(kind, _NANOSECONDS):
        return literal
    if isinstance(literal, TimeLiteral) and isinstance(kind, TimeType):
        return literal
    if isinstance(literal, DateLiteral | TimestampLiteral):
        seconds, rest = (raw * _SECONDS_A_DAY, 0) if isinstance(literal, DateLiteral) else divmod(raw, 1_000_000)
        return _counted(seconds, rest * 1000, kind)
    return None


def _time_of_text(text: str, kind: IcebergType) -> Literal[Any] | None:
    try:
        if isinstance(kind, TimeType):
            match = _TIME.fullmatch(text)
            seconds, nanoseconds = _clock(*match.groups()) if match else (0, 1)
            return None if nanoseconds % 1000 else TimeLiteral(seconds * 1_000_000 + nanoseconds // 1000)
        match = _MOMENT.fullmatch(text)
        if match is None:
            return None
        day, clock, fraction, zone = match.groups()
        if clock is not None and (isinstance(kind, DateType) or (zone is not None) != isinstance(kind, _ZONED)):
            return None
        seconds, nanoseconds = _clock(clock, fraction) if clock else (0, 0)
        seconds += (dt.date.fromisoformat(day).toordinal() - _EPOCH) * _SECONDS_A_DAY - _offset(zone)
    except ValueError:  # such as the 31st of February
        return None
    return _counted(seconds, nanoseconds, kind)


def _counted(seconds: int, nanoseconds: int, kind: IcebergType) -> Literal[Any] | None:
    if isinstance(kind, DateType):
        return None if seconds % _SECONDS_A_DAY or nanoseconds else DateLiteral(seconds // _SECONDS_A_DAY)
    if isinstance(kind, _NANOSECONDS):
        return _NanosecondLiteral(seconds * 1_000_000_000 + nanoseconds)
    if not isinstance(kind, _TIMESTAMPS) or nanoseconds % 1000:
        return None
    return TimestampLiteral(seconds * 1_000_000 + nanoseconds // 1000)


def _clock(clock: str, fraction: str | None) -> tuple[int, int]:
    time = dt.time.fromisoformat(clock)
    return time.hour * 3600 + time.minute * 60 + time.second, int((fraction or "0").ljust(9, "0"))


def _offset(zone: str | None) -> int:
    if zone is None or zone == "Z":
        return 0
    hours, minutes = int(zone[1:3]), int(zone[-2:])
    if hours > 18 or minutes > 59:
        raise ValueError(zone)
    return (hours * 3600 + minutes * 60) * (-1 if zone[0] == "-" else 1)


def _spelling(kind: IcebergType) -> str:
    moment = "2020-01-31T12:30:00.5"
    spellings: dict[type[IcebergType], str] = {
        DateType: "'2020-01-31'",
        TimeType: "'12:30:00.5'",
        TimestampType: f"'{moment}' (no offset)",
        TimestampNanoType: f"'{moment}' (no offset)",
        TimestamptzType: f"'{moment}Z' or '{moment}+01:00' (with its offset), or a day in UTC",
        TimestamptzNanoType: f"'{moment}Z' or '{moment}+01:00' (with its offset), or a day in UTC",
        UUIDType: "'01234567-89ab-cdef-0123-456789abcdef'",
        BinaryType: "X'00ff'",
        FixedType: f"X'00ff', {len(kind) if isinstance(kind, FixedType) else 0} bytes",
        BooleanType: "true or false",
    }
    spelling = spellings.get(type(kind))
    return f"; write {spelling}" if spelling else "; write 'text' in single quotes"
