"""Names of columns that a caller gives: one or several, and what to say of one that is not there."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import Any

__all__ = ["as_names", "columns_like"]


def as_names(names: str | Iterable[Any]) -> list[Any]:
    """A list of names; a single text is one name, not the list of its letters."""
    return [names] if isinstance(names, str) else list(names)


def columns_like(name: str, known: Sequence[str]) -> str:
    """The known names for an error message, those nearest to a mistyped one first."""
    lower: dict[str, list[str]] = {}
    for one in known:
        lower.setdefault(one.lower(), []).append(one)
    near = [one for found in difflib.get_close_matches(name.lower(), lower) for one in lower[found]]
    listed = ", ".join(known)
    return f"{' or '.join(near)}; the columns are {listed}" if near else listed
