"""Check and read the names of columns that a caller gives, and suggest names for a mistyped one."""

import difflib
from collections.abc import Iterable, Sequence
from typing import Any

from deletekit.errors import InvalidInputError


def check_name(name: str, argument: str) -> None:
    """Raise InvalidInputError, naming the argument, for an empty name of a column or ref."""
    if not name:
        raise InvalidInputError("a name has a letter at least", kind="name", field=argument, found="an empty name")


def as_names(names: str | Iterable[Any]) -> list[Any]:
    """Return a list of names. A single text is one name, not a list of letters."""
    return [names] if isinstance(names, str) else list(names)


def unknown_column(name: str, known: Sequence[str], message: str = "no such column") -> InvalidInputError:
    """Return the error for the name of a column that is not among the known ones."""
    return InvalidInputError(message, kind="column-not-found", field=name, expected=columns_like(name, known))


def columns_like(name: str, known: Sequence[str]) -> str:
    """List the known names for an error message, those nearest to a mistyped one first."""
    lower: dict[str, list[str]] = {}
    for one in known:
        lower.setdefault(one.lower(), []).append(one)
    near = [one for found in difflib.get_close_matches(name.lower(), lower) for one in lower[found]]
    listed = ", ".join(known)
    return f"{' or '.join(near)}; the columns are {listed}" if near else listed
