"""Storage for `verify`: a place other than the table's own that does not answer is asked once, and not for long.

A damaged path may name any place: one whose library is not installed, or one whose client tries again for minutes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from typing import Any, TypeVar
from urllib.parse import urlsplit

from deletekit.errors import DeletekitError, EnvironmentMissingError, StorageError
from deletekit.maintenance.verify.report import OtherPlaceError
from deletekit.table.file_io import FileInfo, FileIO, is_remote

_SECONDS = 20.0
_T = TypeVar("_T")


class OtherPlaces:
    """Reads files as another `FileIO`. Raises OtherPlaceError where a place that is not `location`'s does not answer.

    A place is a scheme and an authority, such as `gs://bucket`. What is at the place of `location` raises StorageError
    as before: that says nothing about the table.
    """

    def __init__(self, files: FileIO, location: str, refused: dict[str, str] | None = None) -> None:
        self._io, self._location = files, location
        self._refused = refused or {}
        self._answering = {_place(location)}
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return OtherPlaces, (self._io, self._location, self._refused)

    def open(self, path: str) -> AbstractContextManager[Any]:
        return self._asked(path, lambda: self._io.open(path))

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        return self._asked(path, lambda: self._io.read(path, offset, length))

    def size(self, path: str) -> int:
        """Return the bytes of a file."""
        return self._asked(path, lambda: self._io.size(path))

    def exists(self, path: str) -> bool:
        return self._asked(path, lambda: self._io.exists(path))

    def list(self, prefix: str) -> Iterator[FileInfo]:
        return self._asked(prefix, lambda: self._io.list(prefix))

    def write(self, path: str, data: Any) -> None:
        self._io.write(path, data)

    def create(self, path: str) -> AbstractContextManager[Any]:
        return self._io.create(path)

    def delete(self, path: str) -> None:
        self._io.delete(path)

    def _asked(self, path: str, ask: Callable[[], _T]) -> _T:
        place = _place(path)
        if not is_remote(path) or place == _place(self._location):
            return ask()
        with self._lock:  # the others wait for the first answer of the place
            if place not in self._answering and place not in self._refused:
                self._probe(place, path)
        if place in self._refused:
            raise _unreadable(path, self._refused[place])
        try:
            return ask()
        except (StorageError, EnvironmentMissingError) as e:
            raise _unreadable(path, str(e)) from e

    def _probe(self, place: str, path: str) -> None:
        """Ask for the size of a file, and note whether its place answers in time."""
        failed = [f"no answer in {_SECONDS:g} seconds"]

        def ask() -> None:
            problem = ""
            try:
                with suppress(FileNotFoundError):
                    self._io.size(path)
            except (StorageError, EnvironmentMissingError) as e:
                problem = str(e)
            except DeletekitError:  # an answer, and the file's own finding
                pass
            failed[:] = [problem] if problem else []

        # The thread cannot be stopped. It ends with the process, if its client does not give up before.
        asking = threading.Thread(target=ask, daemon=True, name=f"verify {place}")
        asking.start()
        asking.join(_SECONDS)
        if failed:
            self._refused[place] = failed[0]
        else:
            self._answering.add(place)


def _place(path: str) -> str:
    with suppress(ValueError):
        parts = urlsplit(path)
        return f"{parts.scheme}://{parts.netloc}"
    return path


def _unreadable(path: str, why: str) -> OtherPlaceError:
    message, expected = "storage of this path does not answer", "a path at a place that is reached from here"
    return OtherPlaceError(message, kind="storage", file=path, found=why, expected=expected)
