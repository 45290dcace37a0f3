"""Open files of a local disk by pyarrow alone."""

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import fs
from pyiceberg.io import load_file_io

from deletekit.table.locations import local_path


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
