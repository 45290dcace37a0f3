"""Turn dates and times of messages into columns: Debezium's numbers since 1970 and texts of ISO 8601."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, time, timedelta
from typing import Any

import pyarrow as pa

from deletekit.stream.sources.format_options import FormatOptions, UnfitError
from deletekit.stream.sources.source_types import (
    DATE_TEXTS,
    DATES,
    TIME_TEXTS,
    TIME_UNITS,
    TIMESTAMP_TEXTS,
    TIMESTAMP_UNITS,
    SourceType,
)

_TIME = re.compile(r"(\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?Z?", re.ASCII)
_TIMESTAMP = re.compile(r"([+-]?\d{4,6})(-\d\d-\d\d[T ]\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)?", re.ASCII)
_CYCLE_DAYS, _DAYS_TO_2000 = 146_097, 10_957
_PER_DAY = {"ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}


def dates(values: Sequence[Any], source: SourceType | None) -> pa.Array:
    """Return days since 1970, or texts `2026-11-23`, as dates."""
    name = _name(source, DATES | DATE_TEXTS, "a date")
    found = _types(values)
    if found <= {int} and (name is None or name in DATES):
        return pa.array(values, pa.int32()).cast(pa.date32())
    if found == {str} and (name is None or name in DATE_TEXTS):
        return pa.array([v and v.removesuffix("Z") for v in values], pa.string()).cast(pa.date32())
    raise _unfit(values, "a date", "days since 1970, or text as 2026-11-23")


def times(values: Sequence[Any], source: SourceType | None, options: FormatOptions) -> pa.Array:
    """Return numbers since midnight, or texts `12:30:00.5`, as times of the day."""
    name = _name(source, TIME_UNITS.keys() | TIME_TEXTS, "a time of the day")
    found = _types(values)
    if found == {str} and (name is None or name in TIME_TEXTS):
        return pa.array([None if v is None else _time(v) for v in values], pa.time64("us"))
    if not found <= {int} or (name is not None and name not in TIME_UNITS):
        raise _unfit(values, "a time of the day", "a number since midnight, or text as 12:30:00.5")
    unit = _unit(TIME_UNITS.get(name or ""), options, found)
    for value in values:
        if value is not None and not 0 <= value < _PER_DAY[unit]:
            raise UnfitError("a time is not within a day", found=value)
    stored = pa.time32("ms") if unit == "ms" else pa.time64(unit)
    numbers = pa.array(values, pa.int32() if unit == "ms" else pa.int64())
    return numbers.cast(stored).cast(pa.time64("us"))


def timestamps(values: Sequence[Any], source: SourceType | None, kind: pa.DataType, options: FormatOptions) -> pa.Array:
    """Return numbers since 1970, or texts `2026-11-23T12:30:00Z`, as an Arrow type of timestamps.

    Debezium's numbers and texts without a zone are local times. They are no point in time for a column with a zone.
    """
    name = _name(source, TIMESTAMP_UNITS.keys() | TIMESTAMP_TEXTS, "a timestamp")
    found = _types(values)
    if found == {str} and (name is None or name in TIMESTAMP_TEXTS):
        return _of_texts(pa.array(values, pa.string()), kind, options)
    if not found <= {int} or (name is not None and name not in TIMESTAMP_UNITS):
        raise _unfit(values, "a timestamp", "a number since 1970, or text as 2026-11-23T12:30:00Z")
    if kind.tz is not None and found and not options.assume_utc:
        raise UnfitError(
            "a time without a zone is not one with a zone",
            expected="a column without a zone, or option assume_utc",
            option="assume_utc",
        )
    unit = _unit(TIMESTAMP_UNITS.get(name or ""), options, found)
    local = pa.array(values, pa.int64()).cast(pa.timestamp(unit)).cast(pa.timestamp(kind.unit))
    return local.view(kind)


def _of_texts(texts: pa.Array, kind: pa.DataType, options: FormatOptions) -> pa.Array:
    try:
        return _parsed(texts, kind, kind.tz)
    except pa.ArrowInvalid as e:
        if kind.tz is None or not options.assume_utc:
            option = None if kind.tz is None or not _are_local(texts) else "assume_utc"
            raise UnfitError(f"a value does not fit the column ({str(e)[:150]})", option=option) from e
    return _parsed(texts, pa.timestamp(kind.unit), None).view(kind)


def _are_local(texts: pa.Array) -> bool:
    """Tell whether texts are times, but have no zone."""
    try:
        _parsed(texts, pa.timestamp("ns"), None)
    except pa.ArrowInvalid:
        return False
    return True


def _parsed(texts: pa.Array, kind: pa.DataType, zone: str | None) -> pa.Array:
    try:
        return texts.cast(kind)
    except pa.ArrowInvalid as e:
        with suppress(pa.ArrowInvalid):
            return texts.cast(pa.timestamp("ns", zone)).cast(kind)  # with zeros at the end
        try:
            numbers = [None if text is None else _number(text, kind.unit, zone) for text in texts.to_pylist()]
            return pa.array(numbers, pa.int64()).view(kind)
        except (ValueError, OverflowError):
            raise e from None


def _number(text: str, unit: str, zone: str | None) -> int:
    """Return what a text counts from 1970, also before the year 1 and after 9999, as in `+10000-01-01T00:00:00Z`.

    The calendar begins again after 400 years. Raises ValueError.
    """
    match = _TIMESTAMP.fullmatch(text)
    if match is None or (match[4] is None) != (zone is None):
        raise ValueError(text)
    cycles, year = divmod(int(match[1]), 400)
    moment = datetime.fromisoformat(f"{2000 + year}{match[2]}{match[4] or '+00:00'}")
    seconds: int = (moment - datetime(2000, 1, 1, tzinfo=UTC)) // timedelta(seconds=1)
    seconds += (_DAYS_TO_2000 + (cycles - 5) * _CYCLE_DAYS) * 86_400
    digits = 9 if unit == "ns" else 6
    fraction = (match[3] or "").ljust(9, "0")
    if fraction[digits:].strip("0"):
        raise ValueError(text)
    scale: int = 10**digits
    return seconds * scale + int(fraction[:digits])


def _time(text: str) -> time:
    match = _TIME.fullmatch(text)
    if match is None:
        raise UnfitError("a text is not a time of the day", found=text, expected="12:30:00.5")
    digits = (match[2] or "").ljust(6, "0")
    if digits[6:].strip("0"):
        raise UnfitError("a time is finer than microseconds", found=text)
    return time.fromisoformat(f"{match[1]}.{digits[:6]}")


def _unit(unit: str | None, options: FormatOptions, found: set[type]) -> str:
    if unit is None and options.time_unit is None and found:
        raise UnfitError(
            "a number in a column of times has no unit",
            kind="time-unit",
            option="time_unit",
            expected="option time_unit (ms, us or ns), or messages with a schema",
        )
    return unit or str(options.time_unit or "us")


def _name(source: SourceType | None, known: Any, what: str) -> str | None:
    """Return what the source says that a value means. Plain texts and numbers say nothing."""
    name = None if source is None else source.name
    if name is not None and name not in known:
        raise UnfitError(f"a value of the source is not {what}")
    return name


def _types(values: Sequence[Any]) -> set[type]:
    return set(map(type, values)) - {type(None)}


def _unfit(values: Sequence[Any], what: str, expected: str) -> UnfitError:
    return UnfitError(f"a value is not {what}", found=next(v for v in values if v is not None), expected=expected)
