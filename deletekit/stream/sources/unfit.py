"""What all conversions of values share: the error, which `values.column_of` gives the column's name, and checks."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from deletekit.errors import InvalidInputError


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
    def of(cls, error: InvalidInputError, options: Mapping[str, Sequence[str]]) -> "OptionError":
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
