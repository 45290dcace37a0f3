"""Fetch the pieces of a file that are needed next all at once: each takes a round trip to an object store.

Arrow's own `pre_buffer` joins pieces that lie side by side, but asks for one after the other.
"""

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

_MAX_GAP_BYTES = 1 << 20  # takes less time than a further request
_MAX_REQUEST_BYTES = 32 << 20
_REQUESTS_AT_ONCE = 16


class ReadAhead:
    """A readable, seekable file over one of Arrow. What `fetch` brought is read without asking for it again."""

    closed = False

    def __init__(self, source: Any) -> None:
        self._source = source
        self._size: int = source.size()
        self._position = 0
        self._pieces: list[tuple[int, Any]] = []

    def fetch(self, ranges: Iterable[tuple[int, int]]) -> None:
        """Fetch ranges of (begin, end), and forget the former ones."""
        self._pieces = []
        wanted = _joined(sorted((begin, end) for begin, end in ranges if 0 <= begin < end <= self._size))
        if len(wanted) < 2:  # nothing to do at the same time
            self._pieces = [self._piece(one) for one in wanted]
            return
        with ThreadPoolExecutor(min(len(wanted), _REQUESTS_AT_ONCE)) as pool:
            self._pieces = list(pool.map(self._piece, wanted))

    def _piece(self, wanted: tuple[int, int]) -> tuple[int, Any]:
        begin, end = wanted
        return begin, self._source.read_at(end - begin, begin)

    def read(self, length: int = -1) -> Any:
        """Read from the position on."""
        begin = self._position
        end = self._size if length < 0 else min(begin + length, self._size)
        self._position = max(begin, end)
        for at, piece in self._pieces:
            if at <= begin and end <= at + len(piece):
                return memoryview(piece)[begin - at : end - at]
        return self._source.read_at(end - begin, begin) if begin < end else b""

    def seek(self, offset: int, whence: int = 0) -> int:
        """Move the position."""
        self._position = offset + (0, self._position, self._size)[whence]
        return self._position

    def tell(self) -> int:
        """Return the position."""
        return self._position

    def close(self) -> None:
        """Leave the source open: who opened it closes it."""
        self._pieces = []


def _joined(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Join ranges with small holes between them."""
    joined: list[tuple[int, int]] = []
    for begin, end in ranges:
        if joined and begin - joined[-1][1] <= _MAX_GAP_BYTES and end - joined[-1][0] <= _MAX_REQUEST_BYTES:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((begin, end))
    return joined
