"""A table's name in its catalog: namespace levels, then the table's own name.

Catalogs make folders of these names. So no new name may lead out of its folder.
"""

import re
from collections.abc import Sequence

from deletekit.errors import InvalidInputError

Identifier = tuple[str, ...]

_NO_FOLDER = re.compile("\\.{1,2}|.*[/\\\\\x00-\x1f\x7f-\x9f\ud800-\udfff].*", re.DOTALL)


def to_identifier(identifier: str | Sequence[str]) -> Identifier:
    """Parse `"demo.users"` as `("demo", "users")`. Raises InvalidInputError without a namespace."""
    parts = tuple(identifier.split(".")) if isinstance(identifier, str) else tuple(identifier)
    if len(parts) < 2 or not all(parts):
        raise InvalidInputError("bad table identifier", kind="identifier", found=identifier, expected="namespace.table")
    return parts


def check_new(names: Sequence[str], field: str = "identifier") -> None:
    """Raise InvalidInputError if one of the names of a new table or namespace is not a name of a folder."""
    for name in names:
        if _NO_FOLDER.fullmatch(name):
            message = "a catalog makes a folder of this name"
            expected = "no /, \\ or control character, and not . or .."
            raise InvalidInputError(message, kind="identifier", field=field, found=repr(name), expected=expected)


def dotted(identifier: Identifier) -> str:
    """Format `("demo", "users")` as `"demo.users"`."""
    return ".".join(identifier)
