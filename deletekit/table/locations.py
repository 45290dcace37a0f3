"""Tell whether two spellings of a path are one file, and normalise locations before they are stored.

Files may be removed only after comparing paths here, never as text. On a local disk `.`, `..`, doubled slashes and
links are only spelling: Java normalises the paths that it writes, and the system follows links. In an object store `.`
and `..` are part of the key, and Java's file systems disagree about them: such a location is refused. `%`, `#`, `?`,
case and Unicode forms always count. Schemes and authorities that the caller calls equal are equal.
A delete file finds its data file by the exact text of its path, as the specification says, not by these rules.
Spec: none; Java DeleteOrphanFilesSparkAction (`equal_schemes`, `equal_authorities`), Hadoop's Path.
"""

import posixpath
import re
from collections.abc import Collection, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from deletekit.errors import InvalidInputError

EQUAL_SCHEMES: Mapping[str, str] = {"s3n,s3a": "s3"}
"""Java's default."""

WRITE_PATHS = ("write.data.path", "write.metadata.path", "write.object-storage.path", "write.folder-storage.path")
"""Properties that name folders of a table beside its location."""

_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(?://([^/]*))?(.*)", re.DOTALL)
_DOTS = re.compile(r"(?:^|/)\.\.?(?:/|$)")


class Location(NamedTuple):
    """A path without its spelling. `scheme` and `authority` are "" if they are not named."""

    scheme: str
    authority: str
    path: str


def local_path(text: str) -> str | None:
    """Return the exact path on the local disk that a location names, None for other storage."""
    match = _URI.fullmatch(text)
    if match is None:
        return text
    is_local = match[1].lower() == "file" and (match[2] or "").lower() in ("", "localhost")
    return match[3] if is_local else None


def normalised(location: str, field: str = "location") -> str:
    """Return a location as a table stores it: on a local disk absolute, without `.`, `..` and doubled slashes.

    Raises InvalidInputError for a location that readers understand differently: `.`, `..`, `#` or `?` in an object
    store, and a `file:` location on another host or without a folder.
    """
    match = _URI.fullmatch(location)
    path = local_path(location)
    if match is None:
        return _without_dots(location)
    if path is not None and path.startswith("/"):
        return f"file:{'' if match[2] is None else '//'}{_without_dots(path)}"
    is_file = match[1].lower() == "file"
    if is_file or _DOTS.search(match[3]) or "#" in match[3] or "?" in match[3]:
        message = "readers understand this location differently"
        expected = "file:/... on this machine" if is_file else "none of . and .. as names, no # and no ?"
        raise InvalidInputError(message, kind="location", field=field, found=location, expected=expected)
    return location.rstrip("/")


def normalised_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Return table properties with their folders as `normalised` returns them. Raises InvalidInputError."""
    return {name: normalised(text, name) if name in WRITE_PATHS else text for name, text in properties.items()}


def is_ambiguous(text: str) -> bool:
    """Tell whether readers may find different files: dots in an object store, or `..` after a link on a disk."""
    path = local_path(text)
    if path is None:
        return _DOTS.search(text) is not None
    return _DOTS.search(path) is not None and _real(path) != _real(posixpath.normpath(path))


class SpellingRules:
    """Which schemes and authorities are equal. The links of each folder are followed once and remembered."""

    def __init__(
        self, equal_schemes: Mapping[str, str] | None = None, equal_authorities: Mapping[str, str] | None = None
    ) -> None:
        schemes = _flat({**EQUAL_SCHEMES, **(equal_schemes or {})}, "equal_schemes")
        self._schemes = {k.lower(): v.lower() for k, v in schemes.items()}
        self._authorities = _flat(equal_authorities or {}, "equal_authorities")
        self._real = cache(_real)

    def parse(self, text: str) -> Location:
        """Return the location that a path names by its letters alone, as Java normalises it."""
        match = _URI.fullmatch(text)
        scheme, authority, path = (match[1].lower(), match[2] or "", match[3]) if match else ("", "", text)
        scheme = self._schemes.get(scheme, scheme)
        if scheme == "file" and authority.lower() == "localhost":
            authority = ""
        path = re.sub("/{2,}", "/", "/" + path)
        if scheme in ("", "file") and _DOTS.search(path):
            path = posixpath.normpath(path)
        return Location(scheme, self._authorities.get(authority, authority), path)

    def key(self, text: str) -> Location:
        """Return a value that is equal for two spellings of one file. Links to its folder are followed."""
        path = local_path(text)
        if path is None:
            return self.parse(text)
        name = path.rpartition("/")[2]
        if name in ("", ".", ".."):
            return self.folder(text)
        return Location("file", "", f"{self._real(path[: -len(name)]).rstrip('/')}/{name}")

    def folder(self, text: str) -> Location:
        """Return the key of a folder. If the folder itself is a link, that is followed too."""
        path = local_path(text)
        if path is not None:
            return Location("file", "", self._real(path))
        location = self.parse(text)
        return location._replace(path=location.path.rstrip("/"))

    def place(self, text: str) -> Location:
        """Return where a file or folder is, after every link: also if its last name is a link."""
        path = local_path(text)
        return self.folder(text) if path is not None and posixpath.islink(path) else self.key(text)

    def names(self, text: str) -> set[Location]:
        """Return every file that a path may mean: as the system reads it, as Java does, and the target of a link.

        The scheme is not changed: a path without a scheme may be on any storage, as in Java.
        """
        path, letters = local_path(text), self.parse(text)
        if path is None:
            return {letters}
        found = {letters.path, self.key(text).path, *([_real(path)] if posixpath.islink(path) else [])}
        return {letters._replace(path=each) for each in found}


def is_below(place: Location, home: Location) -> bool:
    """Tell whether a location is a folder, or lies in it."""
    same = (place.scheme, place.authority) == (home.scheme, home.authority)
    return same and (place.path == home.path or place.path.startswith(home.path.rstrip("/") + "/"))


class KnownFiles:
    """Files that are needed, found by any spelling of their paths."""

    def __init__(self, rules: SpellingRules, paths: Iterable[str] = ()) -> None:
        self.rules = rules
        self._by_path: dict[str, set[Location]] = {}
        self.add(paths)

    def add(self, paths: Iterable[str]) -> None:
        """Know more files."""
        for path in paths:
            for name in self.rules.names(path):
                self._by_path.setdefault(name.path, set()).add(name)

    def at(self, path: str) -> Collection[Location]:
        """Return the known files with the path of this one, on any storage."""
        return self._by_path.get(self.rules.key(path).path, ())

    def __contains__(self, path: str) -> bool:
        """Tell whether a file may be a known one. A path without a scheme may be on any storage."""
        key, is_named = self.rules.key(path), self.rules.parse(path).scheme != ""
        return any(not is_named or not mismatches(reference, key) for reference in self.at(path))


def mismatches(reference: Location, listed: Location) -> list[tuple[str, str, str]]:
    """Return (`"scheme"` or `"authority"`, the reference's, the listed file's) for each that differs."""
    out = []
    # A listing without a scheme is one of the local disk.
    if reference.scheme and reference.scheme != (listed.scheme or "file"):
        out.append(("scheme", reference.scheme, listed.scheme or "file"))
    if reference.authority and reference.authority.lower() != listed.authority.lower():
        out.append(("authority", reference.authority, listed.authority))
    return out


def _flat(names: Mapping[Any, Any], argument: str) -> dict[str, str]:
    """Split Java's maps, whose keys are several names with commas. Raises InvalidInputError for what is not text."""
    for name, meaning in names.items():
        if not isinstance(name, str) or not isinstance(meaning, str):
            found, expected = f"{name!r}: {meaning!r}", "a mapping of str to str"
            raise InvalidInputError("names are text", kind="argument", field=argument, found=found, expected=expected)
    return {name.strip(): meaning.strip() for many, meaning in names.items() for name in many.split(",")}


def _without_dots(path: str) -> str:
    """Return a path that the system and Java read alike. A `..` is resolved as the system does, after links."""
    parts = posixpath.join(Path.cwd().as_posix(), path).split("/")
    if ".." in parts:
        last = len(parts) - parts[::-1].index("..")
        parts = [*_real("/".join(parts[:last])).split("/"), *parts[last:]]
    return "/" + "/".join(part for part in parts if part not in ("", "."))


def _real(path: str) -> str:
    try:
        return posixpath.realpath(path)
    except ValueError:  # NUL in a damaged path, which leads to no file
        return posixpath.normpath(path)
