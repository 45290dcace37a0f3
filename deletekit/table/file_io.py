"""Storage: read a range, write a new file, delete. The one module that talks to a file system.

Law: a file is written once and whole, never changed. Paths are used character for character as metadata has them.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any, Protocol

import pyarrow as pa
from pyiceberg.io import FileIO as PyIcebergFileIO
from pyiceberg.io import load_file_io

from deletekit.errors import CommitConflictError, FormatError, InvalidInputError, NotFoundError

__all__ = ["FileIO", "MemoryFileIO", "PyIcebergIO", "is_remote"]


class FileIO(Protocol):
    """What deletekit needs of storage. Implementations are picklable, because tasks travel to workers."""

    def open(self, path: str) -> Any:
        """A seekable binary reader. Raises NotFoundError."""

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        """`length` bytes from `offset` (None: to the end). Raises NotFoundError; FormatError when there are fewer."""

    def size(self, path: str) -> int:
        """Bytes of a file. Raises NotFoundError."""

    def exists(self, path: str) -> bool:
        """Whether the file is there."""

    def write(self, path: str, data: bytes | pa.Buffer) -> None:
        """Create a file with these bytes. Raises CommitConflictError when it exists: files are never overwritten."""

    def delete(self, path: str) -> None:
        """Remove a file; one that is not there is not an error."""


class PyIcebergIO:
    """FileIO over pyiceberg's: S3, GCS, Azure, HDFS and local files, by the catalog's properties."""

    def __init__(
        self, properties: Mapping[str, str], location: str | None = None, impl: PyIcebergFileIO | None = None
    ) -> None:
        self.properties = {k: str(v) for k, v in properties.items()}
        self.location = location
        self._impl = impl if impl is not None else load_file_io(self.properties, location)

    def __reduce__(self) -> tuple[Any, ...]:
        return PyIcebergIO, (self.properties, self.location)

    def open(self, path: str) -> Any:
        try:
            return self._impl.new_input(path).open(seekable=True)
        except (FileNotFoundError, NotADirectoryError, pa.ArrowInvalid) as e:  # the last: NUL in a damaged path
            raise _missing(path) from e

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        with self.open(path) as stream:
            stream.seek(offset)
            data = stream.read() if length is None else stream.read(length)
        return _whole(bytes(data), path, length)

    def size(self, path: str) -> int:
        try:
            return len(self._impl.new_input(path))
        except FileNotFoundError as e:
            raise _missing(path) from e

    def exists(self, path: str) -> bool:
        return bool(self._impl.new_input(path).exists())

    def write(self, path: str, data: bytes | pa.Buffer) -> None:
        try:
            with self._impl.new_output(path).create(overwrite=False) as stream:
                stream.write(data)  # pyarrow's streams take buffers too
        except FileExistsError as e:
            raise _exists(path) from e

    def delete(self, path: str) -> None:
        try:
            self._impl.delete(path)
        except FileNotFoundError:
            return


class MemoryFileIO:
    """FileIO over a dict, for tests and for looking at bytes that are not in files."""

    def __init__(self, files: dict[str, bytes] | None = None) -> None:
        self.files: dict[str, bytes] = {} if files is None else files

    def open(self, path: str) -> Any:
        return io.BytesIO(self._bytes(path))

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        data = self._bytes(path)
        return _whole(data[offset:] if length is None else data[offset : offset + length], path, length)

    def size(self, path: str) -> int:
        return len(self._bytes(path))

    def exists(self, path: str) -> bool:
        return path in self.files

    def write(self, path: str, data: bytes | pa.Buffer) -> None:
        if path in self.files:
            raise _exists(path)
        self.files[path] = data.to_pybytes() if isinstance(data, pa.Buffer) else bytes(data)

    def delete(self, path: str) -> None:
        self.files.pop(path, None)

    def _bytes(self, path: str) -> bytes:
        if path not in self.files:
            raise _missing(path)
        return self.files[path]


def is_remote(path: str) -> bool:
    """Whether reading a file costs a round trip: anything that is not on a local disk."""
    scheme = path.split("://", 1)[0] if "://" in path else "file"
    return scheme.lower() != "file"


def _whole(data: bytes, path: str, length: int | None) -> bytes:
    if length is not None and len(data) != length:
        if length < 0:
            raise InvalidInputError("negative length", kind="range", file=path, found=length)
        raise FormatError(
            "file is shorter than its metadata says",
            kind="truncated",
            file=path,
            found=f"{len(data)} bytes",
            expected=f"{length} bytes",
        )
    return data


def _missing(path: str) -> NotFoundError:
    return NotFoundError("file does not exist", kind="file-not-found", file=path)


def _exists(path: str) -> CommitConflictError:
    return CommitConflictError("file exists already", kind="file-exists", file=path)
