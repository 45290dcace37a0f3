"""Read a learner's answer as a value that can be compared, from any library."""

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
from pyroaring import BitMap, BitMap64

_LONGEST = 10_000
_DEEPEST = 8


class NotThisKind(Exception):  # noqa: N818  # a finding about an answer, not an error
    """Raised for an answer that is not of the kind that the exercise asks for, with the value that is not, if any."""


@dataclass(frozen=True, slots=True)
class AnswerKind:
    """A kind of answer.

    Attributes
    ----------
    description: the kind in words, for the learner.
    read: returns the value to compare, or raises NotThisKind.
    cases: of a function, the arguments of each call.
    told: of a function, how many of the cases tell which mistake it has.
    """

    description: str
    read: Callable[[Any], Any]
    cases: tuple[tuple[Any, ...], ...] = ()
    told: int = 0


def unanswered(answer: Any) -> bool:
    """Return whether an answer still contains `...` anywhere."""
    return _holds_dots(answer, _DEEPEST)


def plain(value: Any) -> Any:
    """Convert values of numpy and pyarrow to Python's."""
    try:
        if isinstance(value, np.generic | np.ndarray):
            return value.tolist()
        if isinstance(value, pa.Scalar):
            return value.as_py()
        if isinstance(value, pa.Array | pa.ChunkedArray):
            return value.to_pylist()
    except (pa.ArrowException, ValueError, OverflowError) as e:
        raise NotThisKind from e
    return value


def letters(name: str) -> str:
    """Return a text without what does not count: capital letters, spaces and signs."""
    return re.sub(r"[\W_]", "", unicodedata.normalize("NFKC", name)).casefold() or name.strip()


def comparable(value: Any, depth: int = _DEEPEST, text: Callable[[str], str] = letters) -> Any:
    """Convert a value to one that compares by type and value: True is not 1. `text` converts a text."""
    value = plain(value)
    if depth == 0:
        raise NotThisKind
    if isinstance(value, bool):
        return ("flag", value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str):
        return text(value)
    if value is None or isinstance(value, int | float | bytes):
        return value
    inner = partial(comparable, depth=depth - 1, text=text)
    if isinstance(value, Mapping):
        pairs = [(inner(k), inner(v)) for k, v in value.items()]
        return ("dict", frozenset(pairs))
    if isinstance(value, AbstractSet | BitMap | BitMap64):
        return ("set", frozenset(map(inner, value)))
    if isinstance(value, list | tuple):
        return tuple(map(inner, value))
    raise NotThisKind(value)


def _number(answer: Any) -> int:
    value = plain(answer)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise NotThisKind(value)
    return value


def _text(answer: Any) -> str:
    value = plain(answer)
    if isinstance(value, bytes):
        value = value.decode("utf-8", errors="replace")
    if not isinstance(value, str):
        raise NotThisKind(value)
    return letters(value)


def _ids(answer: Any) -> frozenset[int]:
    return frozenset(_number(item) for item in _items(answer, list, tuple, set, frozenset, range))


def _names(answer: Any) -> frozenset[str]:
    return frozenset(_text(item) for item in _items(answer, list, tuple, set, frozenset, range))


def _sequence(answer: Any) -> tuple[Any, ...]:
    return tuple(map(comparable, _items(answer, list, tuple)))


def _mapping(answer: Any) -> Any:
    if not isinstance(answer, Mapping):
        raise NotThisKind(answer)
    if len(answer) > _LONGEST:
        raise NotThisKind
    return comparable(dict(answer))


ANSWER_KINDS = {
    "number": AnswerKind("a whole number", _number),
    "text": AnswerKind("a text in quotes", _text),
    "ids": AnswerKind("a set of whole numbers, such as {1, 2}", _ids),
    "names": AnswerKind('a set of names, such as {"D1", "D2"}', _names),
    "list": AnswerKind("a list, in order", _sequence),
    "dict": AnswerKind('a dict, such as {"D1": 1}', _mapping),
}
"""Every kind but `function`, by the word that the exercises' files have for it."""


def _items(answer: Any, *types: type[Iterable[Any]]) -> list[Any]:
    """List the members of a finite collection. A generator may have no end, and a text is one value."""
    value = plain(answer)
    if not isinstance(value, types):
        raise NotThisKind(value)
    items = list(islice(value, _LONGEST + 1))
    if len(items) > _LONGEST:
        raise NotThisKind
    return items


def _holds_dots(value: Any, depth: int) -> bool:
    if value is ...:
        return True
    if depth == 0 or not isinstance(value, list | tuple | set | frozenset | dict) or len(value) > _LONGEST:
        return False
    inside = [*value, *value.values()] if isinstance(value, dict) else value
    return any(_holds_dots(item, depth - 1) for item in inside)
