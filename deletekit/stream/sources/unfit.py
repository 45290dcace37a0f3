"""What all conversions of values share: the error, which `values.column_of` gives the column's name, and checks."""

from collections.abc import Callable, Sequence
from typing import Any


class UnfitError(Exception):
    """A value does not fit."""

    def __init__(
        self, message: str, *, found: Any = None, expected: str | None = None, kind: str = "message-value"
    ) -> None:
        super().__init__(message)
        self.found, self.expected, self.kind = found, expected, kind


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
