"""Files in memory: a FileIO over a dict."""

import io
import time
from collections.abc import Iterator

import pyarrow as pa

from deletekit.table.file_io import FileInfo, existing_file, missing_file, whole


class MemoryFileIO:
    """FileIO over a dict, for tests and for looking at bytes that are not in files."""

    def __init__(self, files: dict[str, bytes] | None = None) -> None:
        self.files: dict[str, bytes] = {} if files is None else files
        self.modified_ms: dict[str, int] = {}

    def open(self, path: str) -> io.BytesIO:
        return io.BytesIO(self._bytes(path))

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        data = self._bytes(path)
        return whole(data[offset:] if length is None else data[offset : offset + length], path, length)

    def size(self, path: str) -> int:
        return len(self._bytes(path))

    def exists(self, path: str) -> bool:
        return path in self.files

    def write(self, path: str, data: bytes | pa.Buffer) -> None:
        if path in self.files:
            raise existing_file(path)
        self.files[path] = data.to_pybytes() if isinstance(data, pa.Buffer) else bytes(data)
        self.modified_ms[path] = time.time_ns() // 1_000_000

    def create(self, path: str) -> io.BytesIO:
        if path in self.files:
            raise existing_file(path)
        return _MemoryWriter(self, path)

    def delete(self, path: str) -> None:
        self.files.pop(path, None)

    def list(self, prefix: str) -> Iterator[FileInfo]:
        for path, data in sorted(self.files.items()):
            if path.startswith(prefix.rstrip("/") + "/"):
                yield FileInfo(path=path, size=len(data), modified_ms=self.modified_ms.get(path, 0))

    def _bytes(self, path: str) -> bytes:
        if path not in self.files:
            raise missing_file(path)
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
