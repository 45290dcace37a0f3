"""Run tasks in any `concurrent.futures.Executor`: processes, dask, loky, mpi4py, Ray; this process plans and commits.

What a task returns says also which files it wrote, so that a failed operation removes them. `remove_orphan_files` finds
what a killed worker left behind.
"""

import os
import threading
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager, suppress
from importlib import import_module
from itertools import islice
from typing import Any, TypeVar

from deletekit.engines.local import EngineBlock, LocalEngine, checked_threads
from deletekit.engines.packing import not_sendable, pack, pack_result, sendable, unpack, unpack_result
from deletekit.errors import DeletekitError, EnvironmentMissingError
from deletekit.rows.write_context import WriteContext

_T = TypeVar("_T")
_R = TypeVar("_R")


class ExecutorEngine(EngineBlock):
    """Runs tasks in an executor, at most `threads` at a time."""

    def __init__(self, pool: Executor, threads: int | None = None) -> None:
        self.pool = pool
        self.threads = checked_threads(threads) or os.cpu_count() or 1
        self._cloudpickle = _cloudpickle()

    def __reduce__(self) -> tuple[Any, ...]:
        return LocalEngine, (1,)  # inside a task, tasks run right there

    def map(self, fn: Callable[[_T], _R], tasks: Iterable[_T]) -> Iterator[_R]:
        """Yield `fn` of each task, in order. Raise the first task's error as the class it had.

        Raises UnsupportedError for what cannot travel; DeletekitError of kind `executor` if the executor fails.
        """
        contexts: list[WriteContext] = []
        job, packed = uuid.uuid4().hex, pack(fn, contexts, self._cloudpickle)
        todo = iter(tasks)
        running: deque[Future[bytes]] = deque()

        def start(number: int) -> None:
            for task in islice(todo, number):
                data = pack(task, contexts, self._cloudpickle)
                with _own_error():
                    running.append(self.pool.submit(run_task, job, packed, data))

        try:
            start(self.threads)
            while running:
                result, error = _result(running.popleft(), contexts)
                if error is not None:
                    raise error
                start(1)
                yield result
        finally:
            for future in running:
                if not contexts:  # dask and Ray call a task cancelled that runs on: wait for one that writes
                    future.cancel()
            for future in running:
                with suppress(DeletekitError):  # wait: what it writes after a clean-up would stay
                    _result(future, contexts)


def run_task(job: str, packed: bytes, task: bytes) -> bytes:
    """Run a task in a worker. Return its result, its error and the files it wrote, packed.

    Parameters
    ----------
    job: names the packed function: a thread unpacks it once, and keeps the deletes that its tasks read.
    """
    if getattr(_OF_THREAD, "job", None) != job:
        _OF_THREAD.attempt, _OF_THREAD.contexts = uuid.uuid4().hex[:8], {}
        _OF_THREAD.fn = unpack(packed, _OF_THREAD.attempt, _OF_THREAD.contexts)
        _OF_THREAD.job = job
    contexts: dict[int, WriteContext] = _OF_THREAD.contexts
    result = error = None
    try:
        result = _OF_THREAD.fn(unpack(task, _OF_THREAD.attempt, contexts))
    except Exception as e:  # noqa: BLE001  # of whatever kind: what was written must be told
        error = sendable(e)
    written = [(number, path) for number, context in contexts.items() for path in context.written]
    for context in contexts.values():
        context.written.clear()
    try:
        return pack_result((result, error, written))
    except Exception as e:  # noqa: BLE001  # pickle calls the methods of what it packs
        return pack_result((None, not_sendable(result, e), written))


# Of each thread, not of the process: two contexts that share a name would give out the same path twice.
_OF_THREAD = threading.local()


def _result(future: Future[bytes], contexts: list[WriteContext]) -> tuple[Any, Exception | None]:
    """Return what a task returned or raised, and remember what it wrote."""
    with _own_error():
        result, error, written = unpack_result(future.result())
    for number, path in written:
        contexts[number].remember(path)
    return result, error


@contextmanager
def _own_error() -> Iterator[None]:
    """Raise what the executor itself fails with as a DeletekitError."""
    try:
        yield
    except DeletekitError:
        raise
    except Exception as e:
        raise DeletekitError("the executor failed", kind="executor", found=f"{type(e).__name__}: {e}") from e


def _cloudpickle() -> Any:
    """Return cloudpickle, or else PySpark's copy of it, whose packed functions only workers with PySpark read."""
    for name in ("cloudpickle", "pyspark.cloudpickle"):
        with suppress(ImportError):
            return import_module(name)
    message, expected = "functions travel by cloudpickle, which is not installed", "pip install cloudpickle"
    raise EnvironmentMissingError(message, field="cloudpickle", expected=expected)
