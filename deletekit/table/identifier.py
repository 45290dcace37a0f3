"""A table's name in its catalog: namespace levels, then the table's own name."""

from collections.abc import Sequence

from deletekit.errors import InvalidInputError

Identifier = tuple[str, ...]


def to_identifier(identifier: str | Sequence[str]) -> Identifier:
    """Parse `"demo.users"` as `("demo", "users")`. Raises InvalidInputError without a namespace."""
    parts = tuple(identifier.split(".")) if isinstance(identifier, str) else tuple(identifier)
    if len(parts) < 2 or not all(parts):
        raise InvalidInputError("bad table identifier", kind="identifier", found=identifier, expected="namespace.table")
    return parts


def dotted(identifier: Identifier) -> str:
    """Format `("demo", "users")` as `"demo.users"`."""
    return ".".join(identifier)
