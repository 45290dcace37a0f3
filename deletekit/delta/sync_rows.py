"""The rows of a sync state: one for each live data file, found by the hash of its path.

Most rows are in a base file, sorted, in pages that each have a checksum: a look-up reads the pages that it needs. Rows
that changed since are in the state itself. When these are many, a new base is written.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from deletekit.errors import FormatError

ROW = np.dtype([("path", "<u8"), ("vector", "<u8"), ("spelling", "<u4"), ("data", "<u4"), ("deletes", "<u4")])
Rows = npt.NDArray[Any]
Keys = npt.NDArray[np.uint64]
Read = Callable[[str, int, int], bytes]
"""Reads some bytes of a file: its path, where they begin, and how many."""

MOST_INLINE = 4096
"""When a state holds more rows and keys than this, they go into a new base."""
PAGE = 1024
"""How many rows a page of a base has."""
_MAX_PAGES_READ_SINGLY = (
    16  # a look-up that needs more of them reads the file once, not each page by a request of its own
)
_NO_KEYS: Keys = np.zeros(0, np.uint64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """A file of sorted rows in pages. `first_keys` and `checksums` (CRC-32) are those of each page."""

    path: str
    count: int
    first_keys: tuple[int, ...] = ()
    checksums: tuple[int, ...] = ()


class SyncRows:
    """Rows by key. `changed` and `gone` are what differs from the base: its rows with these keys do not count."""

    def __init__(
        self, changed: Rows, gone: Keys = _NO_KEYS, base: Base | None = None, read: Read | None = None
    ) -> None:
        self.changed, self.gone, self.base = changed, gone, base
        self._read = read
        self._pages: dict[int, Rows] = {}

    @property
    def is_long(self) -> bool:
        """Return whether a new base should be written."""
        return len(self.changed) + len(self.gone) > MOST_INLINE

    def found(self, keys: Iterable[int]) -> Rows:
        """Return the rows of these keys. Keys without a row are left out.

        Raise FormatError for a damaged base, otherwise as reading does.
        """
        wanted = np.unique(np.fromiter(keys, np.uint64))
        in_base = np.setdiff1d(wanted, np.concatenate([self.gone, _keys(self.changed)]), assume_unique=True)
        return np.concatenate([_with_keys(self.changed, wanted), *self._found_in_base(in_base)])

    def replaced(self, keys: Iterable[int], rows: Rows) -> SyncRows:
        """Return rows without those of some keys, and with others."""
        old = np.unique(np.fromiter(keys, np.uint64))
        kept = self.changed[~np.isin(_keys(self.changed), old)]
        other = SyncRows(
            np.sort(np.concatenate([kept, rows]), order="path"),
            self.gone if self.base is None else np.union1d(self.gone, old),
            self.base,
            self._read,
        )
        other._pages = self._pages
        return other

    def all(self) -> Rows:
        """Return every row, sorted. Raise as `found` does."""
        if self.base is None or not self.base.count:
            return self.changed
        self._read_pages(range(len(self.base.first_keys)))
        rows = np.concatenate([self._pages[page] for page in range(len(self.base.first_keys))])
        kept = rows[~np.isin(_keys(rows), np.concatenate([self.gone, _keys(self.changed)]))]
        return np.sort(np.concatenate([kept, self.changed]), order="path")

    def _found_in_base(self, keys: Keys) -> Iterator[Rows]:
        if self.base is None or not len(keys):
            return
        pages = np.searchsorted(np.array(self.base.first_keys, np.uint64), keys, side="right") - 1
        needed = np.unique(pages[pages >= 0]).tolist()
        self._read_pages(needed)
        for page in needed:
            yield _with_keys(self._pages[page], keys[pages == page])

    def _read_pages(self, pages: Iterable[int]) -> None:
        missing = [page for page in pages if page not in self._pages]
        base, size = self.base, ROW.itemsize
        if not missing:
            return
        assert base is not None
        assert self._read is not None
        whole = self._read(base.path, 0, base.count * size) if len(missing) > _MAX_PAGES_READ_SINGLY else None
        for page in missing:
            start, count = page * PAGE, min(PAGE, base.count - page * PAGE)
            begin, end = start * size, (start + count) * size
            data = self._read(base.path, begin, end - begin) if whole is None else whole[begin:end]
            if zlib.crc32(data) != base.checksums[page]:
                found, expected = zlib.crc32(data), base.checksums[page]
                message = "damaged state of a sync"
                raise FormatError(message, kind="sync-state", file=base.path, found=found, expected=expected)
            self._pages[page] = np.frombuffer(data, ROW)


def encoded_base(path: str, rows: Rows) -> tuple[Base, bytes]:
    """Return a base of sorted rows, and the bytes of its file."""
    pages = [rows[start : start + PAGE] for start in range(0, len(rows), PAGE)]
    base = Base(
        path=path,
        count=len(rows),
        first_keys=tuple(int(page["path"][0]) for page in pages),
        checksums=tuple(zlib.crc32(page.tobytes()) for page in pages),
    )
    return base, rows.tobytes()


def _keys(rows: Rows) -> Keys:
    return np.ascontiguousarray(rows["path"])


def _with_keys(rows: Rows, keys: Keys) -> Rows:
    """Return those of some sorted rows that have one of these keys."""
    known = _keys(rows)
    at = np.searchsorted(known, keys)
    is_known = at < len(known)
    is_known[is_known] = known[at[is_known]] == keys[is_known]
    return rows[at[is_known]]
