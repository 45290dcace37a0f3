"""Open files of a local disk, regular ones only, by pyarrow alone."""

import errno
import stat
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import fs
from pyiceberg.io import load_file_io

from deletekit.errors import DeletekitError, FormatError, InvalidInputError, UnsupportedError
from deletekit.table.locations import local_path

NO_NAMES = {errno.ENAMETOOLONG, errno.ELOOP}
"""What the system says of a path that no file can have."""
_KINDS: dict[str, Callable[[int], bool]] = {
    "a folder": stat.S_ISDIR,
    "a pipe": stat.S_ISFIFO,
    "a socket": stat.S_ISSOCK,
    "a device": lambda mode: stat.S_ISCHR(mode) or stat.S_ISBLK(mode),
}


def opened(path: str) -> str:
    """Return a path that pyiceberg opens as it is. From a `file:` URI it would cut `#` and `?`, and keep the host.

    Raises UnsupportedError for a file on another host.
    """
    local = local_path(path)
    if local is None and path.lower().startswith("file:"):
        raise UnsupportedError("file on another host", kind="path", file=path, expected="file:/...")
    return path if local is None else local


def regular(path: str) -> str:
    """Return a path that pyiceberg opens as it is. Raises FormatError for what is no file, such as a pipe: to open it
    may never end.
    """
    name = opened(path)
    if local_path(name) is not None:
        mode = Path(name).stat().st_mode
        if not stat.S_ISREG(mode):
            found = next((name for name, is_kind in _KINDS.items() if is_kind(mode)), "something else")
            raise FormatError("not a regular file", kind="file-kind", file=path, found=found, expected="a regular file")
    return name


def too_long(path: str) -> DeletekitError:
    """Return the error for a new file whose name the disk cannot hold: mostly one of a folder named by a long text."""
    size, longest = max((len(name.encode(errors="replace")), name) for name in path.split("/"))
    expected = (
        "names that the disk takes (most take 255 bytes): partition by truncate(width, column) or bucket, or set the "
        "properties write.object-storage.enabled=true and write.object-storage.partitioned-paths=false, with which no "
        "folder is named by values"
    )
    message, found = "name is too long for the storage", f"{size} bytes: {longest}"
    return InvalidInputError(message, kind="path-length", file=path, found=found, expected=expected)


class LocalFiles:
    """What pyiceberg's FileIO does with files of a local disk, without its modules for Arrow, which import slowly.

    A file elsewhere (a table may name some) goes through pyiceberg.
    """

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._properties = properties

    @cached_property
    def _theirs(self) -> Any:
        return load_file_io(dict(self._properties))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._theirs, name)

    def new_input(self, path: str) -> Any:
        return self._theirs.new_input(path) if local_path(path) is None else _LocalFile(path)

    def new_output(self, path: str) -> Any:
        return self._theirs.new_output(path) if local_path(path) is None else _LocalFile(path)

    def delete(self, path: str) -> None:
        if local_path(path) is None:
            self._theirs.delete(path)
        else:
            _LocalFile(path).delete()


class _LocalFile:
    """A file of a local disk, as pyiceberg's `InputFile` and `OutputFile`."""

    _disk = fs.LocalFileSystem()

    def __init__(self, path: str) -> None:
        self._path = str(Path(path).absolute())

    def __len__(self) -> int:
        info = self._disk.get_file_info(self._path)
        if info.type == fs.FileType.NotFound:
            raise FileNotFoundError(self._path)
        return int(info.size or 0)

    def exists(self) -> bool:
        return bool(self._disk.get_file_info(self._path).type != fs.FileType.NotFound)

    def open(self, *, seekable: bool) -> pa.NativeFile:
        del seekable
        return self._disk.open_input_file(self._path)

    def create(self, *, overwrite: bool) -> pa.NativeFile:
        if not overwrite and self.exists():
            raise FileExistsError(self._path)
        self._disk.create_dir(str(Path(self._path).parent), recursive=True)
        return self._disk.open_output_stream(self._path)

    def delete(self) -> None:
        self._disk.delete_file(self._path)
