"""A FileIO that knows what was opened and how many bytes of it were read."""

import io
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pytest

import deletekit as dk
from deletekit.table.catalog import TableState
from deletekit.table.file_io import FileIO, PyIcebergIO
from deletekit.table.table import Table


class CountingIO:
    """Passes everything on; `opened` and `bytes` count by path."""

    def __init__(self, inner: FileIO) -> None:
        self.inner = inner
        self.opened: Counter[str] = Counter()
        self.bytes: Counter[str] = Counter()

    @contextmanager
    def open(self, path: str) -> Iterator[Any]:
        self.opened[path] += 1
        with self.inner.open(path) as stream:
            yield pa.PythonFile(_Counted(stream, path, self.bytes), mode="r")

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        self.opened[path] += 1
        data = self.inner.read(path, offset, length)
        self.bytes[path] += len(data)
        return data

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def opened_like(self, suffix: str) -> int:
        """How often a file of this suffix was opened."""
        return sum(n for path, n in self.opened.items() if path.endswith(suffix))


class _Counted(io.RawIOBase):
    def __init__(self, inner: Any, path: str, counts: Counter[str]) -> None:
        self._inner, self._path, self._counts = inner, path, counts

    def read(self, size: int | None = -1) -> bytes:
        data: bytes = self._inner.read() if size is None or size < 0 else self._inner.read(size)
        self._counts[self._path] += len(data)
        return data

    def seek(self, offset: int, whence: int = 0) -> int:
        self._inner.seek(offset, whence)
        return self.tell()

    def tell(self) -> int:
        return int(self._inner.tell())

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def close(self) -> None:
        if not self.closed:
            self._inner.close()
        super().close()


class FilesUsed:
    """How often each file is opened and written from now on, also by verbs that load their table anew."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.opened: Counter[str] = Counter()
        self.written: Counter[str] = Counter()
        # Where storage is a local folder, what is read whole is opened too.
        for name, counter in (("open", self.opened), ("write", self.written), ("create", self.written)):
            monkeypatch.setattr(PyIcebergIO, name, _noting(getattr(PyIcebergIO, name), counter))


def _noting(method: Callable[..., Any], counter: Counter[str]) -> Callable[..., Any]:
    def noted(self: PyIcebergIO, path: str, *arguments: Any, **named: Any) -> Any:
        counter[path] += 1
        return method(self, path, *arguments, **named)

    return noted


def counted(table: dk.Table) -> tuple[dk.Table, CountingIO]:
    """The table read through a CountingIO."""
    counting = CountingIO(table.io)
    state = TableState(table.metadata, table.metadata_location, counting)
    return Table(table.identifier, state, table.catalog), counting
