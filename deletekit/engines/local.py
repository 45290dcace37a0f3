"""Run tasks in threads of this process; Arrow and file reads release the GIL."""

import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from itertools import chain, islice
from operator import length_hint
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar, runtime_checkable

from deletekit.deferred import Deferred
from deletekit.errors import InvalidInputError
from deletekit.log import told_of_rows

if TYPE_CHECKING:
    import tqdm
else:
    tqdm = Deferred("tqdm")

_T = TypeVar("_T")
_R = TypeVar("_R")
_QUIET = 2
"""Seconds; what ends earlier shows no progress."""


@runtime_checkable
class Engine(Protocol):
    """Where tasks run. `map` keeps the order of its tasks and raises the first error."""

    def map(self, fn: Callable[[_T], _R], tasks: Iterable[_T]) -> Iterator[_R]:
        """Yield `fn` of each task, in order."""


ENTERED: ContextVar[tuple[Engine, ...]] = ContextVar("deletekit_engines", default=())
"""The engines of the `with` blocks around this call, the innermost last."""


PROGRESS: ContextVar[str | None] = ContextVar("deletekit_progress", default="")
"""What stands before the bar of a long call; None shows no bar."""


class EngineBlock:
    """An engine that is also a `with` block: verbs inside use it if they name none."""

    def __enter__(self) -> Self:
        ENTERED.set((*ENTERED.get(), self))  # type: ignore[arg-type]  # its subclasses are engines
        return self

    def __exit__(self, *_: object) -> None:
        ENTERED.set(ENTERED.get()[:-1])


class LocalEngine(EngineBlock):
    """Runs tasks in `threads` threads, by default one per core, and reads at most one result ahead."""

    def __init__(self, threads: int | None = None) -> None:
        self.threads = checked_threads(threads) or os.cpu_count() or 1

    def map(self, fn: Callable[[_T], _R], tasks: Iterable[_T]) -> Iterator[_R]:
        label, results = PROGRESS.get(), self._run(fn, tasks)
        return results if label is None or not _somebody_looks() else _with_bar(results, label, length_hint(tasks))

    def _run(self, fn: Callable[[_T], _R], tasks: Iterable[_T]) -> Iterator[_R]:
        todo = iter(tasks)
        first = list(islice(todo, 2))
        if len(first) <= 1 or self.threads == 1:
            yield from (fn(task) for task in chain(first, todo))
            return
        with ThreadPoolExecutor(self.threads) as pool:
            running = deque(pool.submit(fn, task) for task in chain(first, islice(todo, self.threads - 1)))
            try:
                while running:
                    result = running.popleft().result()
                    running.extend(pool.submit(fn, task) for task in islice(todo, 1))
                    yield result
            finally:
                for future in running:
                    future.cancel()


def _with_bar(results: Iterable[_R], label: str, total: int) -> Iterator[_R]:
    """Yield results, and show how many there are and how many rows were read; a file of many row groups moves it."""
    rows = 0
    options: dict[str, Any] = {"desc": label or None, "total": total or None, "delay": _QUIET, "leave": False}
    with tqdm.tqdm(miniters=0, **options) as bar:

        def count(more: int) -> None:
            nonlocal rows
            rows += more
            bar.set_postfix_str(f"{rows:,} rows", refresh=False)
            bar.update(0)

        with told_of_rows(count):
            for result in results:
                bar.update()
                yield result


def _somebody_looks() -> bool:
    """Return whether standard error is a terminal, or a notebook that a server shows, and this is no task's own map."""
    seen = "JPY_SESSION_NAME" in os.environ or (sys.stderr is not None and sys.stderr.isatty())
    return seen and threading.current_thread() is threading.main_thread()


def checked_threads(threads: int | None) -> int | None:
    """Return how many tasks run at a time, None for the default. Raises InvalidInputError for less than one."""
    if threads is not None and threads < 1:
        raise InvalidInputError("an engine needs a thread", kind="threads", field="threads", found=threads)
    return threads
