"""The options of formats, checked by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from deletekit.errors import InvalidInputError

_CHOICES: Mapping[str, tuple[str | None, ...]] = {
    "truncate": ("refuse", "apply"),
    "replica_identity": ("default", "full"),
    "time_unit": (None, "ms", "us", "ns"),
    "binary": ("base64", "base64-url-safe", "hex", "latin-1"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatOptions:
    """How messages are understood where they do not say it themselves.

    Attributes
    ----------
    sequence: give a column `_sequence` of this field of the message's origin: `lsn`, `ts_ms`, `change_lsn`, and
        `binlog` for file, position and row of MySQL's log.
    truncate: `apply` a truncated source table as a delete of all rows, or `refuse` it.
    replica_identity: `full` if PostgreSQL sends all columns of deleted rows; `default`: only those of the message key
        count, since others may be placeholders.
    time_unit: of whole numbers in columns of times, if messages have no schema; or the units of columns by name.
    assume_utc: take times without a zone as UTC, for columns with a zone.
    binary: how bytes are written as text.
    ignore: columns of the source to leave out.
    unavailable: what stands for a value that the source did not send (`unavailable.value.placeholder`).
    texts: whether numbers are written as texts.
    infinities: whether a double may be infinite. In JSON an infinite number is one that was too large.
    """

    sequence: str | None = None
    truncate: str = "refuse"
    replica_identity: str = "default"
    time_unit: str | Mapping[str, str] | None = None
    assume_utc: bool = False
    binary: str = "base64"
    ignore: tuple[str, ...] = ()
    unavailable: str = "__debezium_unavailable_value"
    texts: bool = False
    infinities: bool = False


def format_options(format_name: str, given: Mapping[str, Any], allowed: tuple[str, ...], **own: Any) -> FormatOptions:
    """Return options as they are given to a format that allows some. Raises InvalidInputError, naming a bad one."""
    kinds = {f.name: f.default for f in fields(FormatOptions)}
    for name, value in given.items():
        if name not in allowed:
            expected = ", ".join(allowed)
            raise _bad(f"{format_name} has no such option", name, value, expected)
        choices = _CHOICES.get(name)
        values = list(value.values()) if name == "time_unit" and isinstance(value, Mapping) else [value]
        if choices is not None and any(each not in choices for each in values):
            raise _bad("an option has no such value", name, value, ", ".join(map(str, choices)))
        if name == "assume_utc" and not isinstance(value, bool):
            raise _bad("an option is not of its type", name, value, "True or False")
        if name in ("sequence", "unavailable") and not isinstance(value, type(kinds[name]) | str):
            raise _bad("an option is not of its type", name, value, "text")
        is_names = not isinstance(value, str) and all(isinstance(each, str) for each in value or ())
        if name == "ignore" and not is_names:
            raise _bad("an option is not of its type", name, value, "names of columns")
    made = dict(given)
    if "ignore" in made:
        made["ignore"] = tuple(made["ignore"])
    return FormatOptions(**{**own, **made})


def _bad(message: str, name: str, found: Any, expected: str) -> InvalidInputError:
    return InvalidInputError(message, kind="format-option", field=name, found=found, expected=expected)


COMMON = ("ignore", "sequence", "time_unit", "assume_utc")
"""Options of every format."""
