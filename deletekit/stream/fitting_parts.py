"""Find what does not fit in a batch, by halving the batch until each part fits or is one item."""

from collections.abc import Callable, Iterator
from typing import TypeVar

from deletekit.errors import InvalidInputError

_T = TypeVar("_T")


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
