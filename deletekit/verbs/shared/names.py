"""Check the names that users give to columns and refs."""

from __future__ import annotations

from deletekit.errors import InvalidInputError


def check_name(name: str, argument: str) -> None:
    """Raise InvalidInputError, naming the argument, for an empty name."""
    if not name:
        raise InvalidInputError("a name has a letter at least", kind="name", field=argument, found="an empty name")
