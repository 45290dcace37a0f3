"""Turn Arrow columns into Python's values; a day or time that Python does not have becomes its exact text.

Arrow's own way ends in an error there, gives another time, or takes the least nanosecond for no value.
Spec: "Primitive Types", https://iceberg.apache.org/spec/#primitive-types
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import time
from itertools import islice, pairwise
from typing import Any

import pyarrow as pa

from deletekit.deferred import pc
from deletekit.errors import FormatError, UnsupportedError
from deletekit.text import IsoText, day_of, moment_of

_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_DAYS = -719_162, 2_932_896
"""The first and the last day that Python has."""
_EXACT = 1 << 53
"""Doubles have every integer up to it."""
_TIMES = (pa.types.is_date, pa.types.is_time, pa.types.is_timestamp)
LEAST = -(1 << 63)
"""The number that numpy, and so pandas, takes for no value."""


def python_rows(rows: pa.Table | pa.RecordBatch) -> list[dict[str, Any]]:
    """Return rows as dicts of `python_values`. Raises FormatError, naming the column."""
    columns = [python_values(rows.column(i), name) for i, name in enumerate(rows.schema.names)]
    return [dict(zip(rows.schema.names, row, strict=True)) for row in zip(*columns, strict=True)]


def python_values(column: pa.Array | pa.ChunkedArray, name: str | None = None) -> list[Any]:
    """Return the values of a column as Arrow's `to_pylist` does, with an `IsoText` for what Python has no value for.

    These are days and times before the year 1 and after 9999, and nanoseconds.
    Raises FormatError for a time outside of a day and for text that is not UTF-8, naming the column `name`.
    """
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    try:
        return [value for chunk in chunks for value in _values(chunk)]
    except UnicodeDecodeError as e:
        raise _bad("text is not UTF-8", name, repr(e.object), "UTF-8") from e
    except _OutsideOfDayError as e:
        raise _bad("time is outside of a day", name, *e.args) from e


def key_texts(columns: Sequence[Any], row: int) -> str:
    """Return the values of a row as the text of an error."""
    return ", ".join(repr(python_values(column.slice(row, 1))[0]) for column in columns)


def check_calendar(rows: pa.RecordBatch, what: str, expected: str) -> None:
    """Raise UnsupportedError, naming the column, for a day or time that Python does not have; `what` cannot hold it."""
    for field, column in zip(rows.schema, rows.columns, strict=True):
        for number in _ends(column) if _has_times(field.type) else ():
            low, high = _calendar(field.type)
            if not low <= number <= high:
                raise no_such_value(f"{what} has no text for this day or time", field, number, expected)


def has_least(column: pa.Array | pa.ChunkedArray) -> bool:
    """Return whether a column holds the least timestamp, also inside of other values."""
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    found = (part for chunk in chunks for part in _parts(chunk))
    return any(pa.types.is_timestamp(part.type) and LEAST in _ends(part) for part in found)


def inexact_integer(column: pa.ChunkedArray) -> int | None:
    """Return a number that is not exact as a double, if a column has it beside a null, also inside of other values.

    pandas has no integers with nulls by itself: Arrow gives it doubles then.
    """
    for part in (part for chunk in column.chunks for part in _parts(chunk)):
        nulls = part.null_count if pa.types.is_nested(column.type) else column.null_count
        if pa.types.is_int64(part.type) and nulls:
            inexact = (end for end in _ends(part) if abs(end) > _EXACT)
            if (found := next(inexact, None)) is not None:
                return found
    return None


def no_such_value(message: str, field: pa.Field, number: int, expected: str) -> UnsupportedError:
    """Return the error for a day or time of a column that others cannot hold."""
    return UnsupportedError(message, "column-value", field.name, f"{number} as {field.type}", expected)


def _parts(array: Any) -> Iterator[Any]:
    """Yield the arrays that are in an array, or the array itself."""
    if not pa.types.is_nested(array.type):
        yield array
        return
    if pa.types.is_map(array.type):
        inner = [array.keys, array.items]
    else:
        flat = array.flatten()
        inner = flat if isinstance(flat, list) else [flat]
    for part in inner:
        yield from _parts(part)


def _ends(array: pa.Array) -> tuple[int, ...]:
    """Return the least and the greatest number of days or times; nothing without any."""
    ends = pc.min_max(_numbers(array)).as_py()
    return () if ends["min"] is None else (ends["min"], ends["max"])


def _numbers(array: pa.Array) -> pa.Array:
    if pa.types.is_date(array.type):
        return array.cast(pa.date32()).cast(pa.int32())
    return array.cast(pa.int32() if pa.types.is_time32(array.type) else pa.int64())


def _calendar(kind: Any) -> tuple[int, int]:
    if pa.types.is_date(kind):
        return _DAYS
    second = _PER_SECOND[kind.unit]
    days = (0, 0) if pa.types.is_time(kind) else _DAYS
    return days[0] * 86_400 * second, (days[1] + 1) * 86_400 * second - 1


class _OutsideOfDayError(Exception):
    """A number that is not a time of the day, and what is expected."""


def _values(array: Any) -> list[Any]:
    kind, types = array.type, pa.types
    if types.is_dictionary(kind):
        return _values(array.dictionary_decode())
    if not _has_times(kind):
        found: list[Any] = array.to_pylist()
        return found
    if types.is_struct(kind):
        names = [kind.field(i).name for i in range(kind.num_fields)]
        rows = zip(_valid(array), *(_values(array.field(i)) for i in range(kind.num_fields)), strict=True)
        return [dict(zip(names, row, strict=True)) if known else None for known, *row in rows]
    if types.is_map(kind):
        ends = array.offsets.to_pylist()
        parts = (_values(part.slice(ends[0], ends[-1] - ends[0])) for part in (array.keys, array.items))
        pairs = list(zip(*parts, strict=True))
        cut = (pairs[a - ends[0] : b - ends[0]] for a, b in pairwise(ends))
        return [part if known else None for known, part in zip(_valid(array), cut, strict=True)]
    if types.is_nested(kind):
        inner, lengths = iter(_values(array.flatten())), pc.list_value_length(array).to_pylist()
        return [None if length is None else list(islice(inner, length)) for length in lengths]
    numbers = _numbers(array).to_pylist()
    if types.is_date(kind):
        return [None if n is None else day_of(n) for n in numbers]
    if types.is_timestamp(kind):
        return [None if n is None else moment_of(n, kind.unit, utc=kind.tz is not None) for n in numbers]
    return [None if n is None else _time(n, kind) for n in numbers]


def _has_times(kind: pa.DataType) -> bool:
    return has_type(kind, lambda each: any(is_kind(each) for is_kind in _TIMES))


def has_type(kind: pa.DataType, wanted: Callable[[pa.DataType], bool]) -> bool:
    """Return whether a type is one that is wanted, or has one inside."""
    if pa.types.is_nested(kind):
        return any(has_type(kind.field(i).type, wanted) for i in range(kind.num_fields))
    return wanted(kind)


def _valid(array: pa.Array) -> list[bool]:
    found: list[bool] = array.is_valid().to_pylist()
    return found


def _time(number: int, kind: Any) -> time | IsoText:
    low, high = _calendar(kind)
    if not low <= number <= high:
        raise _OutsideOfDayError(number, f"{low} to {high} {kind.unit}")
    moment = moment_of(number, kind.unit, utc=False)
    return IsoText(moment[11:]) if isinstance(moment, IsoText) else moment.time()


def _bad(message: str, name: str | None, found: Any, expected: Any) -> FormatError:
    return FormatError(message, kind="column-value", field=name, found=found, expected=expected)
