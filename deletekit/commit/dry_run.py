"""Storage for a dry run: it reads what is there, and remembers only the length of what is written."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

from deletekit.table.file_io import FileInfo, FileIO


class WritesNothing:
    """A FileIO that writes and deletes nothing."""

    def __init__(self, files: FileIO) -> None:
        self._io = files
        self._written: dict[str, int] = {}

    def open(self, path: str) -> Any:
        """Open a file that is there."""
        return self._io.open(path)

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        """Read a file that is there."""
        return self._io.read(path, offset, length)

    def size(self, path: str) -> int:
        """Return the length of a file that is there, or that would have been written."""
        return self._written[path] if path in self._written else self._io.size(path)

    def exists(self, path: str) -> bool:
        """Return whether a file is there, or would have been written."""
        return path in self._written or self._io.exists(path)

    def write(self, path: str, data: Any) -> None:
        """Remember the length."""
        self._written[path] = len(data)

    def create(self, path: str) -> Any:
        """Return a stream into memory."""
        self._written[path] = 0
        return io.BytesIO()

    def delete(self, path: str) -> None:
        """Forget a file that would have been written."""
        self._written.pop(path, None)

    def list(self, prefix: str) -> Iterator[FileInfo]:
        """List the files that are there."""
        return self._io.list(prefix)
