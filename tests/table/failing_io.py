"""pyiceberg's storage, failing where and how a test says: below everything that is deletekit's."""

import io
from typing import Any

import pyarrow as pa
from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO

_error: list[tuple[Exception, str]] = []


def fail_with(error: Exception | None, call: str = "") -> None:
    """From now on, raise `error` at each `call`: open, read, write, create, size, exists or delete; None ends it."""
    _error[:] = [] if error is None else [(error, call)]


def _check(call: str) -> None:
    for error, wanted in _error:
        if wanted == call:
            raise error


class FailingIO(PyArrowFileIO):
    """Named to pyiceberg by `py-io-impl`."""

    def new_input(self, location: str) -> Any:
        return _File(super().new_input(location))

    def new_output(self, location: str) -> Any:
        return _File(super().new_output(location))

    def delete(self, location: Any) -> None:
        _check("delete")
        super().delete(location)


class _File:
    def __init__(self, inner: PyArrowFile) -> None:
        self._inner = inner

    def __len__(self) -> int:
        _check("size")
        return len(self._inner)

    def exists(self) -> bool:
        _check("exists")
        return self._inner.exists()

    def open(self, *, seekable: bool = True) -> Any:
        _check("open")
        return pa.PythonFile(_Reader(self._inner.open(seekable=seekable).read()), mode="r")

    def create(self, *, overwrite: bool = False) -> Any:
        _check("create")
        return _Writer(self._inner.create(overwrite=overwrite))

    def to_input_file(self) -> Any:
        return self


class _Reader(io.BytesIO):
    def read(self, size: int | None = -1) -> bytes:
        _check("read")
        return super().read(size)


class _Writer:
    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def write(self, data: Any) -> Any:
        _check("write")
        return self._inner.write(data)

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self._inner.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)
