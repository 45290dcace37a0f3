"""What all conversions of values share: the error, which `values.column_of` gives the column's name, and checks."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from deletekit.errors import InvalidInputError

_T = TypeVar("_T")


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


def fitting_parts(
    make: Callable[[int, int], _T], refuse: Callable[[int, InvalidInputError], None], start: int, end: int
) -> Iterator[_T]:
    """Yield what `make` returns for parts of a batch that fit, in order. Halve a part until the one that does not fit.

    Parameters
    ----------
    make: takes the numbers of the first item and the one after the last; raises InvalidInputError if one does not fit.
    refuse: takes the number of such an item, and the error.
    """
    try:
        made = make(start, end)
    except InvalidInputError as e:
        error = e
    else:
        yield made
        return
    if end - start == 1:
        refuse(start, error)
        return
    middle = (start + end) // 2
    yield from fitting_parts(make, refuse, start, middle)
    yield from fitting_parts(make, refuse, middle, end)
