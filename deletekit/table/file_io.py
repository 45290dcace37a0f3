"""Storage: read a range, write a new file, delete. The one module that talks to a file system.

Law: a file is written once and whole, never changed. Paths are used character for character as metadata has them.
"""

from __future__ import annotations

import io
import os
import stat
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlparse

import pyarrow as pa
from pyarrow import fs
from pyiceberg.io import FileIO as PyIcebergFileIO
from pyiceberg.io import load_file_io

from deletekit.errors import (
    CommitConflictError,
    FormatError,
    InvalidInputError,
    NotFoundError,
    UnsupportedError,
)
from deletekit.table.locations import local_path

__all__ = ["FileIO", "FileInfo", "MemoryFileIO", "PyIcebergIO", "is_remote", "remove_empty_folder", "write_if_absent"]

_LOST_FOLDERS = 3

# What fsspec's file systems call the time of the last change.
_FSSPEC_TIMES = ("mtime", "LastModified", "last_modified", "updated", "created")


@dataclass(frozen=True, slots=True, kw_only=True)
class FileInfo:
    """A listed file: its path, beginning as the prefix it was listed by, its bytes, and when it was last written."""

    path: str
    size: int
    modified_ms: int


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

    def create(self, path: str) -> Any:
        """A binary writer of a new file, for what is too large to be held; the file is whole once it is closed.

        Raises CommitConflictError when the file exists.
        """

    def delete(self, path: str) -> None:
        """Remove a file; one that is not there is not an error."""

    def list(self, prefix: str) -> Iterator[FileInfo]:
        """Every file below a directory, at any depth; none when there is no such directory.

        Symbolic links are left out, whatever they lead to. Raises UnsupportedError for storage that cannot list.
        """


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
            return self._input(path).open(seekable=True)
        except (FileNotFoundError, NotADirectoryError, pa.ArrowInvalid) as e:  # the last: NUL in a damaged path
            raise _missing(path) from e

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        with self.open(path) as stream:
            stream.seek(offset)
            data = stream.read() if length is None else stream.read(length)
        return _whole(bytes(data), path, length)

    def size(self, path: str) -> int:
        try:
            return len(self._input(path))
        except FileNotFoundError as e:
            raise _missing(path) from e

    def exists(self, path: str) -> bool:
        return bool(self._input(path).exists())

    def list(self, prefix: str) -> Iterator[FileInfo]:
        local = local_path(_opened(prefix))
        if local is not None:
            return _local_files(prefix, local)
        if hasattr(self._impl, "fs_by_scheme"):
            return self._arrow_files(prefix.rstrip("/"))
        if hasattr(self._impl, "get_fs"):
            return self._fsspec_files(prefix.rstrip("/"))
        raise UnsupportedError("this storage cannot be listed", kind="storage-listing", found=type(self._impl).__name__)

    def _arrow_files(self, prefix: str) -> Iterator[FileInfo]:
        impl: Any = self._impl
        scheme, authority, root = impl.parse_location(prefix, impl.properties)
        system = impl.fs_by_scheme(scheme, authority)
        for info in system.get_file_info(fs.FileSelector(root, recursive=True, allow_not_found=True)):
            if info.type == fs.FileType.File:
                path = prefix + info.path[len(root) :]
                yield FileInfo(path=path, size=info.size, modified_ms=info.mtime_ns // 1_000_000)

    def _fsspec_files(self, prefix: str) -> Iterator[FileInfo]:
        impl: Any = self._impl
        uri = urlparse(prefix)
        system = impl.get_fs(uri.scheme, uri.hostname) if uri.scheme.startswith("abf") else impl.get_fs(uri.scheme)
        root = system._strip_protocol(prefix)  # noqa: SLF001  # fsspec's own way to what `find` answers with
        for path, info in system.find(prefix, detail=True).items():
            modified = next((info[name] for name in _FSSPEC_TIMES if info.get(name) is not None), None)
            yield FileInfo(
                path=prefix + path[len(root) :], size=int(info["size"]), modified_ms=_milliseconds(modified, path)
            )

    def write(self, path: str, data: bytes | pa.Buffer) -> None:
        with self.create(path) as stream:
            stream.write(data)  # pyarrow's streams take buffers too

    def create(self, path: str) -> Any:
        for number in range(1, _LOST_FOLDERS + 1):
            try:
                return self._impl.new_output(_opened(path)).create(overwrite=False)
            except FileExistsError as e:
                raise _exists(path) from e
            except FileNotFoundError:
                # Its folder was empty, and another process removed it just now.
                if number == _LOST_FOLDERS:
                    raise
        raise AssertionError

    def delete(self, path: str) -> None:
        opened = _opened(path)
        uri = urlparse(opened)
        if uri.scheme and (uri.query or uri.fragment):
            # pyiceberg would cut the name there, and remove another file.
            raise UnsupportedError("name cannot be addressed in storage", kind="path", file=path, expected="no # or ?")
        try:
            self._impl.delete(opened)
        except FileNotFoundError:
            return

    def _input(self, path: str) -> Any:
        return self._impl.new_input(_opened(path))


class MemoryFileIO:
    """FileIO over a dict, for tests and for looking at bytes that are not in files."""

    def __init__(self, files: dict[str, bytes] | None = None) -> None:
        self.files: dict[str, bytes] = {} if files is None else files
        self.modified_ms: dict[str, int] = {}

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
        self.modified_ms[path] = time.time_ns() // 1_000_000

    def create(self, path: str) -> Any:
        if path in self.files:
            raise _exists(path)
        return _MemoryWriter(self, path)

    def delete(self, path: str) -> None:
        self.files.pop(path, None)

    def list(self, prefix: str) -> Iterator[FileInfo]:
        for path, data in sorted(self.files.items()):
            if path.startswith(prefix.rstrip("/") + "/"):
                yield FileInfo(path=path, size=len(data), modified_ms=self.modified_ms.get(path, 0))

    def _bytes(self, path: str) -> bytes:
        if path not in self.files:
            raise _missing(path)
        return self.files[path]


class _MemoryWriter(io.BytesIO):
    """Bytes that become a file of a MemoryFileIO when they are closed."""

    def __init__(self, files: MemoryFileIO, path: str) -> None:
        super().__init__()
        self._files, self._path = files, path

    def close(self) -> None:
        if not self.closed:
            self._files.write(self._path, self.getvalue())
        super().close()


def write_if_absent(path: str, data: bytes) -> None:
    """Create a file of a local disk whole, and only if there is none: of several writers, one wins.

    Raises CommitConflictError when it exists; UnsupportedError for other storage, where nothing here can do that.
    """
    if is_remote(path):
        raise UnsupportedError("storage cannot create a file only if there is none", kind="storage", file=path)
    target = Path(_opened(path))
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = target.with_name(f".{target.name}.{os.getpid()}.{time.time_ns()}.tmp")
    try:
        draft.write_bytes(data)
        os.link(draft, target)
    except FileExistsError as e:
        raise _exists(path) from e
    finally:
        draft.unlink(missing_ok=True)


def is_remote(path: str) -> bool:
    """Whether reading a file costs a round trip: anything that is not on a local disk."""
    scheme = path.split("://", 1)[0] if "://" in path else "file"
    return scheme.lower() != "file"


def remove_empty_folder(path: str) -> bool:
    """Remove a folder of a local disk, if it is one and nothing is in it. Whether it is gone."""
    try:
        Path(path).rmdir()
    except (OSError, ValueError):
        return False
    return True


def _opened(path: str) -> str:
    """A path as pyiceberg takes it for what it is: of a `file:` URI it would cut `#` and `?`, and keep the host.

    Raises UnsupportedError for a file of another host.
    """
    local = local_path(path)
    if local is None and path.lower().startswith("file:"):
        raise UnsupportedError("file on another host", kind="path", file=path, expected="file:/...")
    return path if local is None else local


def _local_files(prefix: str, local: str) -> Iterator[FileInfo]:
    """Files of a local directory. Not through pyarrow, which follows links out of it."""
    root = Path(local).absolute()
    # A directory that vanishes meanwhile has no files; one that may not be read is an error.
    for folder, _, names in os.walk(root, onerror=_unless_missing, followlinks=False):
        for name in names:
            path = Path(folder, name)
            try:
                status = path.lstat()
            except FileNotFoundError:
                continue
            if stat.S_ISREG(status.st_mode):
                shown = "/".join([prefix.rstrip("/"), *path.relative_to(root).parts])
                yield FileInfo(path=shown, size=status.st_size, modified_ms=status.st_mtime_ns // 1_000_000)


def _unless_missing(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError | NotADirectoryError):
        raise error


def _milliseconds(modified: Any, path: str) -> int:
    """What fsspec's file systems say of a time: seconds, a datetime or ISO 8601."""
    if isinstance(modified, str):
        modified = datetime.fromisoformat(modified)
    if isinstance(modified, datetime):
        return int(modified.timestamp() * 1000)
    if isinstance(modified, int | float):
        return int(modified * 1000)
    raise UnsupportedError("storage does not say when a file was written", kind="storage-listing", file=path)


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
