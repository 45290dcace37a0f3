"""Fetch blobs together: deletion vectors that lie near each other in a Puffin file cost one read.

Only the announced ranges and small gaps between them are read. A range that was not announced is read alone.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass

from deletekit.deletes.shared_value import SharedValues
from deletekit.table.file_io import FileIO

_MAX_GAP = 1 << 16
_MAX_SPAN = 8 << 20


@dataclass(slots=True)
class _Span:
    path: str
    start: int
    stop: int
    blobs: int


class BlobRanges:
    """Reads announced byte ranges in merged spans. A span is forgotten when each of its blobs was read."""

    def __init__(self, io: FileIO) -> None:
        self._io = io
        self._lock = threading.Lock()
        self._spans: dict[tuple[str, int, int], _Span] = {}
        self._data = SharedValues(size=64)

    def expect(self, ranges: Iterable[tuple[str, int, int]]) -> None:
        """Announce ranges (path, offset, size) that will be read soon."""
        open_span: _Span | None = None
        with self._lock:
            for path, offset, size in sorted(set(ranges)):
                stop = offset + size
                if open_span is None or not _joins(open_span, path, offset, stop):
                    open_span = _Span(path, offset, stop, 0)
                open_span.stop = max(open_span.stop, stop)
                open_span.blobs += 1
                self._spans[path, offset, size] = open_span

    def read(self, path: str, offset: int, size: int) -> bytes:
        """Return the bytes of a range. Raises NotFoundError, or FormatError if the file is shorter."""
        with self._lock:
            span = self._spans.pop((path, offset, size), None)
        if span is None or span.blobs == 1:
            return self._io.read(path, offset, size)
        data = self._data.get((path, span.start), lambda: self._io.read(path, span.start, span.stop - span.start))
        at = offset - span.start
        return data[at : at + size]


def _joins(span: _Span, path: str, offset: int, stop: int) -> bool:
    return span.path == path and offset - span.stop <= _MAX_GAP and stop - span.start <= _MAX_SPAN
