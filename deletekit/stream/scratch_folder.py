"""Make a private temporary folder, for copies that may be lost.

A process locks the folder that it uses, and the lock ends with the process, in whatever way it ends. Making a folder
also removes the unlocked ones, which killed processes left behind.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from contextlib import suppress
from pathlib import Path
from types import ModuleType

PREFIX = "deletekit-index-"


class ScratchFolder:
    """A new folder that only this user may enter. It is removed by `close`, with the object, or with the process."""

    def __init__(self) -> None:
        _remove_left_folders()
        path, lock = _make()
        self.path = path
        # Not a TemporaryDirectory: it would warn of a sink that was not closed, and that is no mistake.
        self._remove = weakref.finalize(self, _remove, path, lock, os.getpid())

    def close(self) -> None:
        """Remove the folder."""
        self._remove()


def _make() -> tuple[Path, int | None]:
    while True:
        path = Path(tempfile.mkdtemp(prefix=PREFIX))  # mode 0700
        lock = None
        with suppress(OSError):
            lock = _open(path)
            if lock is not None:
                _flock(lock, wait=True)
        if path.is_dir():  # another process may have found it before it was locked
            return path, lock
        if lock is not None:
            os.close(lock)


def _remove_left_folders() -> None:
    for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError):  # held by a process, of another user, or gone
            lock = _open(path)
            if lock is None:
                return
            try:
                if os.fstat(lock).st_uid == os.getuid():
                    _flock(lock, wait=False)
                    shutil.rmtree(path, ignore_errors=True)
            finally:
                os.close(lock)


def _remove(path: Path, lock: int | None, owner: int) -> None:
    if os.getpid() == owner:  # a process that was forked has the object too
        shutil.rmtree(path, ignore_errors=True)
        if lock is not None:
            os.close(lock)


def _open(path: Path) -> int | None:
    return None if _fcntl() is None else os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)


def _flock(lock: int, *, wait: bool) -> None:
    fcntl = _fcntl()
    assert fcntl is not None
    fcntl.flock(lock, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))


def _fcntl() -> ModuleType | None:
    try:
        import fcntl  # noqa: PLC0415  # Windows has none: folders of killed processes stay there
    except ImportError:
        return None
    return fcntl
