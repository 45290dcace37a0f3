"""Rows compared as people mean it: as a multiset, NaN equal to NaN, -0.0 not equal to 0.0."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID


def same_rows(found: Iterable[Mapping[str, Any]], expected: Iterable[Mapping[str, Any]]) -> None:
    """Assert that two collections of rows are equal whatever their order, and show what differs."""
    left, right = Counter(map(frozen, found)), Counter(map(frozen, expected))
    assert left == right, (
        f"unexpected: {list((left - right).elements())[:5]}; missing: {list((right - left).elements())[:5]}"
    )


def frozen(value: Any) -> Any:
    """Return a value, or a row, as what is hashed and equal as `same_rows` compares."""
    if isinstance(value, Mapping):
        return tuple(sorted((k, frozen(v)) for k, v in value.items()))
    if isinstance(value, list | tuple):
        return tuple(frozen(v) for v in value)
    if isinstance(value, float):
        return ("float", "nan" if value != value else repr(value))
    if isinstance(value, UUID):
        return str(value)  # Spark has no uuid type and shows text
    if isinstance(value, bytes | bytearray):
        return bytes(value)
    return repr(value) if value is None else value
