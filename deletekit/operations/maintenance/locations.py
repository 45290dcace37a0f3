"""When two spellings of a path are one file.

Law: the path decides; schemes and authorities that are said to be equal are equal, and one that a reference leaves out
is any. Repeated slashes are one, as Hadoop's Path has it.
Spec: none; Java DeleteOrphanFilesSparkAction (`equal_schemes`, `equal_authorities`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from deletekit.errors import InvalidInputError

__all__ = ["EQUAL_SCHEMES", "Location", "SpellingRules", "mismatches"]

EQUAL_SCHEMES: Mapping[str, str] = {"s3n,s3a": "s3"}
"""Java's default."""

_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(?://([^/]*))?(.*)", re.DOTALL)


class Location(NamedTuple):
    """A path without its spelling. `scheme` and `authority` are "" where they are not named."""

    scheme: str
    authority: str
    path: str


class SpellingRules:
    """Which schemes and authorities count as one."""

    def __init__(
        self, equal_schemes: Mapping[str, str] | None = None, equal_authorities: Mapping[str, str] | None = None
    ) -> None:
        self._schemes = {
            k.lower(): v.lower() for k, v in _flat({**EQUAL_SCHEMES, **(equal_schemes or {})}, "equal_schemes").items()
        }
        self._authorities = _flat(equal_authorities or {}, "equal_authorities")

    def parse(self, text: str) -> Location:
        """The location that a path in metadata or in a listing names."""
        match = _URI.fullmatch(text)
        scheme, authority, path = (match[1].lower(), match[2] or "", match[3]) if match else ("", "", text)
        scheme = self._schemes.get(scheme, scheme)
        if scheme == "file" and authority == "localhost":
            authority = ""
        return Location(scheme, self._authorities.get(authority, authority), re.sub("/{2,}", "/", "/" + path))

    def key(self, text: str) -> Location:
        """As `parse`, with the local disk named where nothing is: equal for two spellings of one file."""
        location = self.parse(text)
        return location if location.scheme else location._replace(scheme="file")


def mismatches(reference: Location, listed: Location) -> list[tuple[str, str, str]]:
    """(`"scheme"` or `"authority"`, the reference's, the listed file's), where they differ though the path is one."""
    out = []
    # A listing without a scheme is one of the local disk.
    if reference.scheme and reference.scheme != (listed.scheme or "file"):
        out.append(("scheme", reference.scheme, listed.scheme or "file"))
    if reference.authority and reference.authority.lower() != listed.authority.lower():
        out.append(("authority", reference.authority, listed.authority))
    return out


def _flat(names: Mapping[Any, Any], argument: str) -> dict[str, str]:
    """Java's maps: several names, separated by commas, that mean one. Raises InvalidInputError for what is no text."""
    for name, meaning in names.items():
        if not isinstance(name, str) or not isinstance(meaning, str):
            raise InvalidInputError(
                "names are text",
                kind="argument",
                field=argument,
                found=f"{name!r}: {meaning!r}",
                expected="a mapping of str to str",
            )
    return {name.strip(): meaning.strip() for many, meaning in names.items() for name in many.split(",")}
