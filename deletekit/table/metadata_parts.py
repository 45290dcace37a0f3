"""Keep what was parsed and encoded of table metadata, so that a commit costs the same however many snapshots there are.

A metadata file never changes, and a commit adds one snapshot to those of the file before. So the snapshots that two
documents share are parsed and encoded once. A file is read again at every look at the table, because only its bytes
prove that it is the known one.
"""

from __future__ import annotations

import json
import re
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from threading import Lock
from typing import Any, Generic, TypeVar

from deletekit.errors import FormatError

T = TypeVar("T")

_TABLES_KEPT = 8
_UUID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}[^/]*$", re.IGNORECASE)


@dataclass(slots=True)
class _Part(Generic[T]):
    """One entry of a list of a document, its value, and its JSON once it was asked for."""

    raw: Mapping[str, Any]
    value: T
    text: str | None = None


class Parts(Generic[T]):
    """The entries of one list of a document by their ids, each parsed once.

    Parameters
    ----------
    parse: makes the value of an entry.
    key: the field with its id.
    """

    def __init__(self, parse: Callable[[Mapping[str, Any]], T], key: str) -> None:
        self._parse, self._key = parse, key
        self._parts: dict[Any, _Part[T]] = {}

    def values(self, entries: Sequence[Mapping[str, Any]]) -> dict[Any, T]:
        """Return the values by id. From now on only these entries are known."""
        key, known = self._key, self._parts
        parts = {}
        for raw in entries:
            part = known.get(raw[key])
            # The same object, not an equal one: to compare would cost as much as to parse.
            parts[raw[key]] = part if part is not None and part.raw is raw else _Part(raw, self._parse(raw))
        self._parts = parts
        return {number: part.value for number, part in parts.items()}

    def encoded(self, entries: Sequence[Mapping[str, Any]]) -> str:
        """Return the JSON of the list."""
        known, key = self._parts, self._key
        texts = []
        for raw in entries:
            part = known.get(raw[key])
            if part is None or part.raw is not raw:
                texts.append(encoded(raw))
                continue
            if part.text is None:
                part.text = encoded(raw)
            texts.append(part.text)
        return f"[{','.join(texts)}]"

    def __reduce__(self) -> tuple[Any, ...]:
        return Parts, (self._parse, self._key)  # a copy in another process parses what it needs

    def successor(self) -> Parts[T]:
        """Return parts for the next document, which know those of this one."""
        after = Parts(self._parse, self._key)
        after._parts = self._parts  # neither changes it: a new one is made
        return after


class ById(dict[int, T]):
    """The things of a document by their ids, which files name. `[id]` raises FormatError for one that is not there."""

    def __init__(self, things: Mapping[int, T], kind: str, field: str) -> None:
        super().__init__(things)
        self._kind, self._field = kind, field

    def __missing__(self, number: Any) -> T:
        message, known = f"the table has no such {self._kind.replace('-', ' ')}", sorted(islice(self, 20))
        raise FormatError(message, kind=self._kind, field=self._field, found=number, expected=known)

    def __reduce__(self) -> tuple[Any, ...]:
        return ById, (dict(self), self._kind, self._field)


class KnownFiles(Generic[T]):
    """The metadata files of a few tables that were read or written last, with their bytes: one file for each table."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, ...], tuple[str, bytes, T]] = OrderedDict()
        self._lock = Lock()

    def get(self, table: tuple[str, ...], location: str, data: bytes, parse: Callable[[bytes, str], T]) -> T:
        """Return the document of a table's file, parsed unless this file with these bytes is known."""
        with self._lock:
            known = self._known.get(table)
        if known is not None and known[:2] == (location, data):
            return known[2]
        parsed = parse(data, location)
        self.put(table, location, data, parsed)
        return parsed

    def unread(self, table: tuple[str, ...], location: str) -> T | None:
        """Return the document of a table's file if that is known, without a look at its bytes.

        Only for the second look of a commit, and a file whose name has a uuid: no other file gets that name.
        """
        with self._lock:
            known = self._known.get(table)
        return known[2] if known is not None and known[0] == location and _UUID.search(location) else None

    def put(self, table: tuple[str, ...], location: str, data: bytes, document: T) -> None:
        """Remember a table's file, and forget the one before."""
        with self._lock:
            self._known.pop(table, None)
            self._known[table] = location, data, document
            while len(self._known) > _TABLES_KEPT:
                self._known.popitem(last=False)


def encoded(value: Any) -> str:
    """Return a value as JSON without spaces."""
    return json.dumps(value, separators=(",", ":"))
