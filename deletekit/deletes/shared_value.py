"""Values that several threads need and one of them makes.

Law: each value is made once while it is kept; an error is not kept, so the next caller tries again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

__all__ = ["Once"]

_T = TypeVar("_T")


class Once:
    """A cache by key. With `size`, only that many values are kept, the oldest going first."""

    def __init__(self, size: int | None = None) -> None:
        self._size = size
        self._entries: dict[Hashable, _Entry] = {}
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return Once, (self._size,)  # a task that travels makes its values anew

    def get(self, key: Hashable, make: Callable[[], _T]) -> _T:
        """The value of `key`, made by `make` when there is none."""
        with self._lock:
            entry = self._entries.setdefault(key, _Entry())
            if self._size is not None and len(self._entries) > self._size:
                self._entries.pop(next(iter(self._entries)))
        with entry.lock:
            if not entry.made:
                entry.value, entry.made = make(), True
            value: _T = entry.value
            return value


class _Entry:
    __slots__ = ("lock", "made", "value")

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.made = False
        self.value: Any = None
