"""Share values between threads: the first one that needs a value makes it, and the others wait for it.

An error is not kept, so the next caller tries again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

_T = TypeVar("_T")


class SharedValues:
    """A cache by key that makes each value once. With `size`, it keeps only that many, and forgets the oldest first."""

    def __init__(self, size: int | None = None) -> None:
        self._size = size
        self._entries: dict[Hashable, _Entry] = {}
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return SharedValues, (self._size,)  # a pickled copy makes its values again

    def get(self, key: Hashable, make: Callable[[], _T]) -> _T:
        """Return the value of `key`; call `make` if there is none."""
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
