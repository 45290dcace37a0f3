"""Turn values into text that is safe to print.

A table's values may contain commands for a terminal, or characters that are invisible. Here they become visible.
"""

import base64
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import UTC, date, datetime, time, timedelta
from enum import Enum
from functools import partial
from typing import Any, TypeVar

_T = TypeVar("_T")

# Controls (C0, DEL, C1), what changes the direction of text or has no width, lines that are not lines, lone surrogates.
_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff"
    "\U000e0000-\U000e007f]"
)
# Keys in an address or in properties. No part may be of any length: a text may be hostile, and long.
_SECRET = (
    r"(?:secret|passw(?:or)?d|passphrase|token|credential|signature"  # noqa: S105  # the names of keys
    r"|(?<![a-z])(?:pwd|sig|sas|auth|authorization)(?![a-z])"
    r"|(?:access|account|api|private|shared|encryption|aws|key)[-_. ]?key)(?![-_. ]id\b)[\w.-]{0,40}"
)
_USER = re.compile(  # a password may have / and @; a port is none
    r"(?:(?<=//)|(?<=[a-z0-9]:/))"
    r"(?:[^\s/]{0,300}:[^\s/]{0,600}|[^\s/@:]{0,300}:(?!\d{0,5}(?:[/\s]|$))[^\s@]{0,300})@"
)
_LONE_USER = re.compile(r"(https?:/{1,2})[^\s/?#@]{1,600}@", re.IGNORECASE)
_BARE_USER = re.compile(r"(?<![^\s'\"(=])[^\s/:'\"@=(]{1,300}:[^\s/'\"@]{1,300}@(?=[\w\[])")  # without its scheme
_QUERY = re.compile(r"(https?:/{1,2}[^\s?'\"<>]{0,2000}\?)([^\s'\"<>]+)", re.IGNORECASE)
_ASSIGNED = re.compile(
    rf"({_SECRET}(?:=|[\"']\s{{0,3}}[:,=]\s{{0,3}})"
    rf"|(?:^|(?<=\\n))[ \t]{{0,40}}[\w.-]{{0,60}}{_SECRET}:[ \t]{{1,3}}|[?&;#]key=|(?:Bearer|Basic)\s(?=\S{{0,60}}\d))"
    r"(?!\*\*\*)(?:(?:Bearer|Basic)\s)?(?:'[^'\n]*'?|\"[^\"\n]*\"?|[^\s,;&)}\]'\"]+)",
    re.IGNORECASE | re.MULTILINE,
)
_IS_SECRET = re.compile(rf"(?:.*[-._])?{_SECRET}", re.IGNORECASE)
_NOT_FINITE = {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}
_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
LONGEST_VALUE = 200
_MOST_IN_A_LINE = 5
PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_FIRST_DAY = date(1970, 1, 1).toordinal()
_DAYS_OF_400_YEARS = 146_097
"""The days of 400 years, after which the calendar begins again."""


class IsoText(str):
    """A day or time that Python has no value for, as ISO 8601 text: `+10000-01-01`, `-0001-12-31T23:59:59.999999`.

    A year after 9999 has a plus, as Iceberg and Spark write it. PostgreSQL's infinity is the day or time that its
    number means.
    """

    __slots__ = ()


def day_of(number: int) -> date | IsoText:
    """Return a day that is counted from 1970-01-01."""
    try:
        return date.fromordinal(number + _FIRST_DAY)
    except (ValueError, OverflowError):
        return IsoText(_day_text(number))


def moment_of(number: int, unit: str, *, utc: bool) -> datetime | IsoText:
    """Return a point in time that is counted from 1970, in `s`, `ms`, `us` or `ns`."""
    micros, nanos = divmod(number * 10**9 // PER_SECOND[unit], 1000)
    try:
        if not nanos:
            return datetime(1970, 1, 1, tzinfo=UTC if utc else None) + timedelta(microseconds=micros)
    except OverflowError:
        pass
    return IsoText(moment_text(number, unit, "+00:00" if utc else ""))


def moment_text(number: int, unit: str, zone: str = "") -> str:
    """Return the ISO text of a point in time that is counted from 1970: with six digits, or nine where it is `ns`."""
    seconds, rest = divmod(number, PER_SECOND[unit])
    days, second = divmod(seconds, 86_400)
    digits = 9 if unit == "ns" else 6
    fraction = rest * 10**digits // PER_SECOND[unit]
    clock = f"{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}.{fraction:0{digits}}"
    return f"{_day_text(days)}T{clock}{zone}"


def _day_text(number: int) -> str:
    cycles, rest = divmod(number + _FIRST_DAY - 1, _DAYS_OF_400_YEARS)
    day = date.fromordinal(rest + 1)
    year = day.year + 400 * cycles
    sign = "+" if year > 9999 else "-" if year < 0 else ""
    return f"{sign}{abs(year):04}-{day.month:02}-{day.day:02}"


def plain(value: object) -> str:
    """Escape every character that acts on a terminal or is invisible."""
    return _UNSAFE.sub(_escape, str(value))


def brief(value: object, longest: int = LONGEST_VALUE) -> str:
    """Do `plain`, and cut the text after `longest` characters: names have no limit of their own."""
    text = plain(value)
    return text if len(text) <= longest else f"{text[:longest]}…"


def without_secrets(value: Any, name: str = "") -> Any:
    """Return a text, or the texts in lists and mappings, with `***` for keys: users and passwords of addresses,
    parameters of signed ones, tokens, and values of properties whose names are those of keys, or that `name` is one of.
    """
    if isinstance(value, str):
        if _IS_SECRET.fullmatch(name):
            return "***"
        text = _LONE_USER.sub(r"\1***@", _USER.sub("***@", value)) if ":/" in value else value
        text = _BARE_USER.sub("***@", text) if "@" in text else text
        text = _QUERY.sub(lambda m: m[1] + re.sub("=[^&;#]*", "=***", m[2]) if "=" in m[2] else f"{m[1]}***", text)
        return _ASSIGNED.sub(r"\1***", text)
    if isinstance(value, dict):
        return {key: without_secrets(v, str(key)) for key, v in value.items()}
    return type(value)(map(without_secrets, value)) if type(value) in (list, tuple, set, frozenset) else value


def _escape(match: re.Match[str]) -> str:
    character = match[0]
    code = ord(character)
    if character in _NAMED:
        return _NAMED[character]
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def literal(value: Any, longest: int | None = LONGEST_VALUE) -> str:
    """Write a column value much as SQL does: NULL, 'text', X'0a'; cut after `longest`, saying how many follow."""
    text = plain(_nested(value, _in_sql))
    if longest is not None and len(text) > longest:
        return f"{text[:longest]}… (+{len(text) - longest:,})"
    return text


def cell(value: Any) -> str:
    """Write a value on one line, as a lesson shows it: texts as they are, bytes in base64 as JSON has them."""
    return _nested(value, _bare)


def _nested(value: Any, leaf: Callable[[Any], str]) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{k}: {_nested(v, leaf)}" for k, v in value.items()) + "}"
    if isinstance(value, set | frozenset):
        return "{" + ", ".join(_nested(v, leaf) for v in sorted(value)) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_nested(v, leaf) for v in value) + "]"
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    return leaf(value)


def _in_sql(value: Any) -> str:
    if isinstance(value, IsoText):
        return value.replace("T", " ")
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    if isinstance(value, float) and not math.isfinite(value):
        return _NOT_FINITE[str(value)]
    return str(value)


def _bare(value: Any) -> str:
    return json_ready(value) if isinstance(value, bytes) else " ".join(str(value).split())


def json_ready(value: Any, *, maps_as_lists: bool = False) -> Any:
    """Return a value as strict JSON can hold it.

    Bytes are base64; dates, times, decimals and uuids their text; NaN and the infinities text too, as JSON has no
    number for them; maps whose keys are not text become lists of `key` and `value`, as in Iceberg's own JSON.

    Parameters
    ----------
    maps_as_lists: do so with every map.
    """
    ready = partial(json_ready, maps_as_lists=maps_as_lists)
    if isinstance(value, Enum):
        return ready(value.value)
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else _NOT_FINITE[str(value)]
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(bytes(value)).decode()
    if isinstance(value, date | datetime | time):
        return value.isoformat()
    if is_dataclass(value) and not isinstance(value, type):
        shown = {f.name: getattr(value, f.name) for f in fields(value)}
        return {k: ready(v) for k, v in shown.items() if v is not None}
    if isinstance(value, Mapping):
        if not maps_as_lists and all(isinstance(key, str) for key in value):
            return {key: ready(v) for key, v in value.items()}
        return [{"key": ready(k), "value": ready(v)} for k, v in value.items()]
    if isinstance(value, Iterable):
        return [ready(v) for v in value]
    return str(value)


def runs(positions: Iterable[int]) -> Iterator[str]:
    """Ascending positions as runs: `0-5`, `9`."""
    start = end = None
    for position in positions:
        if end is not None and position == end + 1:
            end = position
            continue
        if start is not None and end is not None:
            yield _run(start, end)
        start = end = position
    if start is not None and end is not None:
        yield _run(start, end)


def _run(start: int, end: int) -> str:
    return str(start) if start == end else f"{start}-{end}"


def first(items: Sequence[_T], limit: int) -> tuple[Sequence[_T], int]:
    """Return at most `limit` items (0: all), and how many are left out."""
    shown = items[:limit] if limit else items
    return shown, len(items) - len(shown)


def short(path: Any, location: str) -> str:
    """Return a path without the table's location in front."""
    text = str(path)
    prefix = location.rstrip("/") + "/"
    return plain(text.removeprefix(prefix))


def count(number: Any, noun: str, plural: str = "") -> str:
    """`1 row`, `2,000 rows`."""
    shown = f"{number:,}" if isinstance(number, int) else plain(number)
    return f"{shown} {noun if number == 1 else plural or noun + 's'}"


def size(number: Any) -> str:
    """Bytes, exact while that is short."""
    if not isinstance(number, int) or number < 10_000:
        return count(number, "byte")
    for unit, step in (("kB", 1e3), ("MB", 1e6), ("GB", 1e9)):
        if number < step * 1000 or unit == "GB":
            return f"{number / step:,.1f} {unit}"
    raise AssertionError


def moment(milliseconds: Any) -> str:
    """Write a time of Iceberg's metadata, in UTC."""
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (TypeError, ValueError, OverflowError, OSError):
        return plain(milliseconds)


def field_name(field: str) -> str:
    """Return the name of a field or counter in words."""
    return field.replace("_", " ").replace("-", " ")


def field_text(name: str, value: Any, location: str = "") -> str:
    """Return the value of a field in the unit that its name ends with; a list or mapping as how much it holds."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value == []:
        return "none"
    if isinstance(value, list):
        if len(value) > _MOST_IN_A_LINE or any(isinstance(item, list | dict) for item in value):
            return f"{len(value):,}"
        return ", ".join(field_text(name, item, location) for item in value)
    if isinstance(value, dict):
        return ", ".join(f"{field_name(n)} {field_text(n, inner, location)}" for n, inner in value.items())
    words = field_name(name).split()
    if isinstance(value, int) and "bytes" in (words[0], words[-1]):
        return size(value)
    if isinstance(value, int) and words[-1] == "ms":
        return f"{moment(value)} UTC" if words[-2:-1] in (["timestamp"], ["updated"]) else f"{value:,} ms"
    return short(value, location) if isinstance(value, str) and location else plain(value)
