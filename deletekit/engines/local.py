"""Tasks in threads of this process; Arrow and file reads release the GIL."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

__all__ = ["Engine", "LocalEngine"]

_T = TypeVar("_T")
_R = TypeVar("_R")


class Engine(Protocol):
    """Where tasks run. `map` keeps the order of its tasks and raises the first error."""

    def map(self, fn: Callable[[_T], _R], tasks: Iterable[_T]) -> Iterator[_R]:
        """`fn` of each task, in order."""


class LocalEngine:
    """Runs tasks in `threads` threads (default: the machine's cores), at most a few results ahead of the reader."""

    def __init__(self, threads: int | None = None) -> None:
        self.threads = threads or os.cpu_count() or 1

    def map(self, fn: Callable[[_T], _R], tasks: Iterable[_T]) -> Iterator[_R]:
        todo = list(tasks)
        if len(todo) <= 1 or self.threads == 1:
            yield from (fn(task) for task in todo)
            return
        ahead = self.threads * 2
        with ThreadPoolExecutor(self.threads) as pool:
            futures = [pool.submit(fn, task) for task in todo[:ahead]]
            submitted = len(futures)
            for i in range(len(todo)):
                yield futures[i].result()
                futures[i] = None  # type: ignore[call-overload]  # let the result go once it is handed over
                if submitted < len(todo):
                    futures.append(pool.submit(fn, todo[submitted]))
                    submitted += 1
