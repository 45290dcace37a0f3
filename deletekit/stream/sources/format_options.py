"""The options of formats, checked by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deletekit.errors import InvalidInputError
from deletekit.stream.sources.left_out import is_placeholder_text

_NAMES = ("ignore", "servers")
_TYPES = {
    "assume_utc": "True or False",
    "decimal_texts": "True or False",
    "ignore": "names of columns",
    "sequence": "the name of a field",
    "servers": "different names of servers",
    "unavailable": "text, or hex: and digits",
}
_CHOICES: Mapping[str, tuple[str | None, ...]] = {
    "truncate": ("refuse", "apply"),
    "tombstones": ("delete", "ignore"),
    "replica_identity": ("default", "full"),
    "time_unit": (None, "ms", "us", "ns"),
    "binary": (None, "base64", "base64-url-safe", "hex"),
}
COMMON = ("ignore", "sequence", "time_unit", "assume_utc")
"""Options of every format."""


class UnfitError(Exception):
    """A value does not fit. `option` is the option of the format without which it cannot."""

    def __init__(
        self,
        message: str,
        *,
        found: Any = None,
        expected: str | None = None,
        kind: str = "message-value",
        option: str | None = None,
    ) -> None:
        super().__init__(message)
        self.found, self.expected, self.kind, self.option = found, expected, kind, option


class OptionError(InvalidInputError):
    """A message lacks what options of its format would say: `options` has each with the columns that need it."""

    options: Mapping[str, Sequence[str]] = {}

    @classmethod
    def of(cls, error: InvalidInputError, options: Mapping[str, Sequence[str]]) -> OptionError:
        """Return an error with the options that would help."""
        made = cls(error.message, kind=error.kind, field=error.field, found=error.found, expected=error.expected)
        made.options = options
        return made


def all_of(errors: Sequence[InvalidInputError]) -> InvalidInputError:
    """Return the first of the errors of a row's columns, with the options that all of them need."""
    needed: dict[str, list[str]] = {}
    for error in errors:
        for option, columns in getattr(error, "options", {}).items():
            needed.setdefault(option, []).extend(columns)
    if not needed:
        return errors[0]
    made = OptionError.of(errors[0], needed)
    if len(errors) > 1:
        made = OptionError.of(
            InvalidInputError(
                made.message,
                kind=made.kind,
                field=made.field,
                found=made.found,
                expected=f"{made.expected}; of all columns: {option_text(needed)}",
            ),
            needed,
        )
    return made


def option_text(options: Mapping[str, Iterable[str]]) -> str:
    """Return options and the columns that need them, for errors."""
    parts = [f"{name} ({', '.join(columns)})" if columns else name for name, columns in sorted(options.items())]
    return f"option{'s' * (len(parts) > 1)} {', '.join(parts)}"


def check_types(values: Sequence[Any], *allowed: type) -> set[type]:
    """Return the types of values without that of None. Raises UnfitError for another type."""
    found = set(map(type, values)) - {type(None)}
    odd = found - set(allowed)
    if odd:
        raise UnfitError("a value is not of the column's type", found=next(v for v in values if type(v) in odd))
    return found


def each(values: Sequence[Any], function: Callable[[Any], Any]) -> list[Any]:
    """Apply a function to each value; None stays."""
    return [None if v is None else function(v) for v in values]


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatOptions:
    """How messages are understood where they do not say it themselves.

    Attributes
    ----------
    sequence: give a column `_sequence` of this field of the message's origin: `lsn`, `ts_ms`, `change_lsn`, and
        `binlog` for file, position and row of MySQL's log.
    servers: those whose logs the sequence is of, the oldest first; several texts with `|` between have one log.
    tombstones: `delete` their keys, or `ignore` them where each delete has an event of its own.
    truncate: `apply` a truncated source table as a delete of all rows, or `refuse` it.
    replica_identity: `full` if PostgreSQL sends all columns of deleted rows; `default`: only those of the message key
        count, since others may be placeholders.
    time_unit: of whole numbers in columns of times, if messages have no schema; or the units of columns by name.
    assume_utc: take times without a zone as UTC, for columns with a zone.
    binary: how bytes are written as text, if messages have no schema or say that it is text.
    decimal_texts: decimals are written as text, if messages have no schema.
    ignore: columns of the source to leave out.
    unavailable: what stands for a value that the source did not send, as `unavailable.value.placeholder` has it.
    infinities: whether a double may be infinite. In JSON an infinite number is one that was too large.
    """

    sequence: str | None = None
    servers: tuple[str, ...] = ()
    tombstones: str = "delete"
    truncate: str = "refuse"
    replica_identity: str = "default"
    time_unit: str | Mapping[str, str] | None = None
    assume_utc: bool = False
    binary: str | None = None
    decimal_texts: bool = False
    ignore: tuple[str, ...] = ()
    unavailable: str = "__debezium_unavailable_value"
    infinities: bool = False


def format_options(format_name: str, given: Mapping[str, Any], allowed: tuple[str, ...], **own: Any) -> FormatOptions:
    """Return options as they are given to a format that allows some. Raises InvalidInputError, naming a bad one."""
    for name, value in given.items():
        if name not in allowed:
            raise _bad(f"{format_name} has no such option", name, value, ", ".join(allowed))
        if name in _CHOICES:
            values = list(value.values()) if name == "time_unit" and isinstance(value, Mapping) else [value]
            if any(each not in _CHOICES[name] for each in values):
                raise _bad("an option has no such value", name, value, ", ".join(map(str, _CHOICES[name])))
        elif not _is_of_type(name, value):
            raise _bad("an option is not of its type", name, value, _TYPES[name])
    made = dict(given)
    made |= {name: tuple(made[name]) for name in _NAMES if name in made}
    return FormatOptions(**{**own, **made})


def _is_of_type(name: str, value: Any) -> bool:
    if name in ("assume_utc", "decimal_texts"):
        return isinstance(value, bool)
    if name in _NAMES:
        is_list = isinstance(value, Sequence) and not isinstance(value, str) and all(isinstance(v, str) for v in value)
        names = [v.strip() for each in value for v in each.split("|")] if is_list else []
        return is_list and (name == "ignore" or len(set(names)) == len(names))
    if name == "unavailable":
        return isinstance(value, str) and is_placeholder_text(value)
    return isinstance(value, str) or (value is None and name == "sequence")


def _bad(message: str, name: str, found: Any, expected: str) -> InvalidInputError:
    return InvalidInputError(message, kind="format-option", field=name, found=found, expected=expected)
