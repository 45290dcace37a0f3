"""Read, write, list and delete files of storage. No other module talks to a file system.

A file is written once and whole, and never changed. Paths are used exactly as metadata has them.
"""

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from errno import ENAMETOOLONG
from functools import partial
from io import RawIOBase
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlparse

import pyarrow as pa
from pyarrow import fs
from pyiceberg.exceptions import NotInstalledError
from pyiceberg.io import FileIO as PyIcebergFileIO
from pyiceberg.io import load_file_io

from deletekit.errors import (
    CommitConflictError,
    DeletekitError,
    EnvironmentMissingError,
    FormatError,
    InvalidInputError,
    NotFoundError,
    StorageError,
    UnsupportedError,
    storage_error,
)
from deletekit.formats.puffin import FileMetadata, read_footer
from deletekit.table.local_files import NO_NAMES, LocalFiles, opened, regular, too_long
from deletekit.table.locations import local_path
from deletekit.table.s3_files import S3Reads, is_on_s3, prove_written, with_fewer_requests

_LONGEST_WORDS = 4096
_LOST_FOLDERS = 3
_READ_WHOLE = 1 << 20  # takes less time than a second request
_REMOTE_READS = 32  # the AWS client under Arrow lets 25 through

# The names that fsspec's file systems give to the time of the last change.
_FSSPEC_TIMES = ("mtime", "LastModified", "last_modified", "updated", "created")


@dataclass(frozen=True, slots=True, kw_only=True)
class FileInfo:
    """A listed file: its path, beginning as the prefix it was listed by, its bytes, and when it was last written."""

    path: str
    size: int
    modified_ms: int


class FileIO(Protocol):
    """What deletekit needs of storage. Implementations are picklable, because tasks travel to workers.

    Each method raises StorageError when storage refuses, is full or does not answer.
    """

    def open(self, path: str) -> AbstractContextManager[Any]:
        """`with` this: a seekable binary reader. Raises NotFoundError."""

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        """`length` bytes from `offset` (None: to the end). Raises NotFoundError; FormatError when there are fewer."""

    def size(self, path: str) -> int:
        """Bytes of a file. Raises NotFoundError."""

    def exists(self, path: str) -> bool:
        """Whether the file is there."""

    def write(self, path: str, data: bytes | pa.Buffer) -> None:
        """Create a file with these bytes. Raises CommitConflictError when it exists: files are never overwritten."""

    def create(self, path: str) -> AbstractContextManager[Any]:
        """`with` this: a binary writer of a new file, for what is too large to be held. It is whole after the block.

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
        with answering(location or "storage"):
            self._impl: Any = _implementation(self.properties, location) if impl is None else with_fewer_requests(impl)
        is_arrow = type(self._impl).__module__ == "pyiceberg.io.pyarrow"  # not another `py-io-impl`
        self._s3 = S3Reads(self.properties if is_arrow else {})

    def __reduce__(self) -> tuple[Any, ...]:
        return PyIcebergIO, (self.properties, self.location)

    @contextmanager
    def open(self, path: str) -> Iterator[Any]:
        with answering(path):
            stream = self._impl.new_input(regular(path)).open(seekable=True)
        with _reading(path), stream:
            yield stream

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        data = self._s3.read(path, offset, length)
        if data is None:
            with self.open(path) as stream, answering(path):
                stream.seek(offset)
                # Arrow gives up a read of S3 that is shorter than the words of an error, and does not try it again.
                size = length if length is None or not is_remote(path) else max(length, _LONGEST_WORDS)
                data = bytes(stream.read() if size is None else stream.read(size))[:length]
        return whole(data, path, length)

    def size(self, path: str) -> int:
        with answering(path):
            return len(self._impl.new_input(regular(path)))

    def exists(self, path: str) -> bool:
        with answering(path):
            return bool(self._impl.new_input(opened(path)).exists())

    def list(self, prefix: str) -> Iterator[FileInfo]:
        with answering(prefix):
            found = self._files(prefix)
        return _listed(prefix, found)

    def _files(self, prefix: str) -> Iterator[FileInfo]:
        local = local_path(opened(prefix))
        if local is not None:
            return _local_files(prefix, local)
        if hasattr(self._impl, "fs_by_scheme"):
            return self._arrow_files(prefix.rstrip("/"))
        if hasattr(self._impl, "get_fs"):
            return self._fsspec_files(prefix.rstrip("/"))
        raise UnsupportedError("this storage cannot be listed", kind="storage-listing", found=type(self._impl).__name__)

    def _arrow_files(self, prefix: str) -> Iterator[FileInfo]:
        impl = self._impl
        scheme, authority, root = impl.parse_location(prefix, impl.properties)
        system = impl.fs_by_scheme(scheme, authority)
        for info in system.get_file_info(fs.FileSelector(root, recursive=True, allow_not_found=True)):
            if info.type == fs.FileType.File:
                path = prefix + info.path[len(root) :]
                yield FileInfo(path=path, size=info.size, modified_ms=info.mtime_ns // 1_000_000)

    def _fsspec_files(self, prefix: str) -> Iterator[FileInfo]:
        impl = self._impl
        uri = urlparse(prefix)
        system = impl.get_fs(uri.scheme, uri.hostname) if uri.scheme.startswith("abf") else impl.get_fs(uri.scheme)
        root = system._strip_protocol(prefix)  # noqa: SLF001  # fsspec's own way to what `find` answers with
        for path, info in system.find(prefix, detail=True).items():
            modified = next((info[name] for name in _FSSPEC_TIMES if info.get(name) is not None), None)
            yield FileInfo(
                path=prefix + path[len(root) :], size=int(info["size"]), modified_ms=_milliseconds(modified, path)
            )

    def write(self, path: str, data: bytes | pa.Buffer) -> None:
        with answering(path, is_new=True), self._new(path) as stream:
            stream.write(data)  # pyarrow's streams take buffers too
        prove_written(self, path, len(data))

    @contextmanager
    def create(self, path: str) -> Iterator[Any]:
        with answering(path, is_new=True):
            stream = self._new(path)
        with _reading(path), stream:
            yield stream
            with answering(path, is_new=True):
                stream.close()  # an object store may only now be asked to keep the file

    def _new(self, path: str) -> Any:
        for _ in range(_LOST_FOLDERS):
            # Another process has just removed the folder, because it was empty.
            with suppress(FileNotFoundError):
                return self._created(path)
        return self._created(path)

    def _created(self, path: str) -> Any:
        output = self._impl.new_output(opened(path))
        if not is_on_s3(output):
            return output.create(overwrite=False)
        # One request. `exists` makes a second one, for a folder of this name.
        with suppress(FileNotFoundError), output.open():
            raise FileExistsError(path)
        return output.create(overwrite=True)

    def delete(self, path: str) -> None:
        name = opened(path)
        uri = urlparse(name)
        if uri.scheme and (uri.query or uri.fragment):
            # pyiceberg would cut the name there, and remove another file.
            raise UnsupportedError("name cannot be addressed in storage", kind="path", file=path, expected="no # or ?")
        with suppress(NotFoundError), answering(path):
            self._impl.delete(name)


class _CountedBytes(RawIOBase):
    """A file whose bytes are counted, and kept nowhere."""

    def __init__(self, written: dict[str, int], path: str) -> None:
        self._written, self._path = written, path
        written[path] = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        size = memoryview(data).nbytes
        self._written[self._path] += size
        return size

    def tell(self) -> int:
        return self._written[self._path]


class WritesNothing:
    """Storage for a dry run: it reads what is there, and keeps of what is written only the length, and manifests."""

    def __init__(self, files: FileIO) -> None:
        self._io = files
        self._written: dict[str, int] = {}
        self._manifests: dict[str, bytes] = {}

    def open(self, path: str) -> AbstractContextManager[Any]:
        return self._io.open(path)

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        return self._manifests[path] if path in self._manifests else self._io.read(path, offset, length)

    def size(self, path: str) -> int:
        """Return the length of a file that is there, or that would have been written."""
        return self._written[path] if path in self._written else self._io.size(path)

    def exists(self, path: str) -> bool:
        return path in self._written or self._io.exists(path)

    def write(self, path: str, data: Any) -> None:
        self._written[path] = len(data)
        if path.endswith(".avro"):
            self._manifests[path] = data

    def create(self, path: str) -> Any:
        return _CountedBytes(self._written, path)

    def delete(self, path: str) -> None:
        self._written.pop(path, None)

    def list(self, prefix: str) -> Iterator[FileInfo]:
        return self._io.list(prefix)


def _implementation(properties: Mapping[str, str], location: str | None) -> Any:
    if location and not is_remote(location) and "py-io-impl" not in properties:
        return LocalFiles(properties)
    return with_fewer_requests(load_file_io(dict(properties), location))


def _listed(prefix: str, found: Iterator[FileInfo]) -> Iterator[FileInfo]:
    with answering(prefix):
        yield from found


@contextmanager
def answering(path: str, *, is_new: bool = False) -> Iterator[None]:
    """Translate what a storage's library raises into one of our errors, which names the path."""
    try:
        yield
    except (DeletekitError, MemoryError):
        raise
    except (FileNotFoundError, NotADirectoryError) as e:
        # A new file is not missing; its folder is, and storage did not create it.
        raise (storage_error(e, path) if is_new else missing_file(path)) from e
    except FileExistsError as e:
        raise existing_file(path) from e
    except OSError as e:
        if is_new or e.errno not in NO_NAMES:
            raise (too_long(path) if e.errno == ENAMETOOLONG else storage_error(e, path)) from e
        raise missing_file(path) from e
    except (ImportError, NotInstalledError) as e:
        raise EnvironmentMissingError("a package for this storage is missing", file=path, found=str(e)) from e
    except ValueError as e:
        raise _unaddressed(path, e) from e
    except Exception as e:  # clients of object stores have error classes of their own
        raise storage_error(e, path) from e


@contextmanager
def _reading(path: str) -> Iterator[None]:
    """Translate errors of storage while others use an open file. Their own errors stay the same."""
    try:
        yield
    except StorageError as e:
        raise e.in_file(path) from e
    except DeletekitError:
        raise
    except OSError as e:
        raise storage_error(e, path) from e


def _unaddressed(path: str, error: ValueError) -> DeletekitError:
    scheme = urlparse(path).scheme
    if "\0" in path or not scheme or scheme == "file":  # a damaged path: no file can have it
        return missing_file(path)
    known = "a scheme that pyiceberg's FileIO knows, such as file, s3, gs, abfs or hdfs"
    found = str(error) or scheme
    return UnsupportedError("no storage for such a path", kind="storage-scheme", file=path, found=found, expected=known)


def try_delete(io: FileIO, path: str) -> None:
    """Remove a file, ignoring failures. `remove_orphan_files` finds what stays."""
    with suppress(Exception):
        io.delete(path)


@contextmanager
def open_sized(io: FileIO, path: str, size: int) -> Iterator[Any]:
    """Open a file to read parts of it. Where each request waits for a network, a small file is read by one.

    Parameters
    ----------
    size: what metadata says. If that is wrong, only the number of requests is.
    """
    if size <= _READ_WHOLE and is_remote(path):
        yield pa.BufferReader(io.read(path))
        return
    with io.open(path) as stream:
        yield stream


def reads_at_a_time(path: str) -> int:
    """Return how many files of a storage to read at a time: of an object store many, because most of it is waiting."""
    return _REMOTE_READS if is_remote(path) else os.cpu_count() or 1


def is_remote(path: str) -> bool:
    """Tell whether reading a file needs a network: whether it is not on a local disk."""
    return local_path(path) is None


def remove_empty_folder(path: str) -> bool:
    """Remove an empty folder of a local disk. Return whether it was removed."""
    try:
        Path(path).rmdir()
    except (OSError, ValueError):
        return False
    return True


def _local_files(prefix: str, local: str) -> Iterator[FileInfo]:
    """List the files of a local folder, not by pyarrow, which follows links out of the folder."""
    root = Path(local).absolute()
    # A folder that vanishes meanwhile has no files. A folder that may not be read is an error.
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
    """Convert a time as fsspec's file systems give it: seconds, a datetime or ISO 8601."""
    if isinstance(modified, str):
        modified = datetime.fromisoformat(modified)
    if isinstance(modified, datetime):
        return int(modified.timestamp() * 1000)
    if isinstance(modified, int | float):
        return int(modified * 1000)
    raise UnsupportedError("storage does not say when a file was written", kind="storage-listing", file=path)


def read_puffin_footer(io: FileIO, path: str) -> FileMetadata:
    """Read the footer of a Puffin file. Raise FormatError if the file does not begin and end as Puffin files do."""
    return read_footer(partial(io.read, path), io.size(path), check_start=True)


def whole(data: bytes, path: str, length: int | None) -> bytes:
    """Return the bytes of a read. Raise FormatError if there are fewer than `length`."""
    if length is not None and len(data) != length:
        if length < 0:
            raise InvalidInputError("negative length", kind="range", file=path, found=length)
        message, found, expected = "file is shorter than its metadata says", f"{len(data)} bytes", f"{length} bytes"
        raise FormatError(message, kind="truncated", file=path, found=found, expected=expected)
    return data


def missing_file(path: str) -> NotFoundError:
    """Return the error for a file that does not exist."""
    return NotFoundError("file does not exist", kind="file-not-found", file=path)


def existing_file(path: str) -> CommitConflictError:
    """Return the error for a file that must be new and exists."""
    return CommitConflictError("file exists already", kind="file-exists", file=path)
