"""Choose the engine of a call: the one it names, else that of the surrounding `with`, else threads of this process."""

from __future__ import annotations

from concurrent.futures import Executor
from typing import TYPE_CHECKING

from deletekit.deferred import Deferred
from deletekit.engines.local import ENTERED, Engine, LocalEngine
from deletekit.public import public

if TYPE_CHECKING:
    from deletekit.engines import executor as executors
else:
    executors = Deferred("deletekit.engines.executor")


@public
def local(threads: int | None = None) -> LocalEngine:
    """Return an engine that runs tasks in `threads` threads of this process: for a `with` block, or a verb's `engine`.

    Raises InvalidInputError for less than one thread.
    """
    return LocalEngine(threads)


@public
def executor(pool: Executor, threads: int | None = None) -> executors.ExecutorEngine:
    """Return an engine that runs tasks in any executor: for a `with` block, or a verb's `engine`.

    Tasks travel to the executor, packed by cloudpickle; this process plans and commits once. The pool stays open: it
    is closed by who opened it.

    Parameters
    ----------
    pool: a `concurrent.futures.Executor`: ProcessPoolExecutor (start its processes by `spawn` or `forkserver`; after a
        `fork`, Arrow and polars may hang), dask's `client.get_executor()`, loky's, mpi4py's `MPIPoolExecutor`. Its
        workers need deletekit and the table's storage. For Ray:

            class RayExecutor(concurrent.futures.Executor):
                def submit(self, fn, /, *args, **kwargs):
                    return ray.remote(fn).remote(*args, **kwargs).future()

    threads: how many groups of files are worked on at a time, and so many results may wait in this process; default as
        many as this machine has cores. Give the number of the pool's workers.

    Raises InvalidInputError for less than one; EnvironmentMissingError without cloudpickle, which dask, loky, Ray
    and PySpark bring. Verbs raise UnsupportedError for a function that cannot travel, and DeletekitError of kind
    `executor` if the pool fails, say because a worker died.
    """
    return executors.ExecutorEngine(pool, threads)


@public
def engine_or_default(engine: Engine | None) -> Engine:
    """Return `engine`, or that of the surrounding `with deletekit.engine...`, or a local one with a thread per core."""
    if isinstance(engine, Executor):  # it has a `map` too, which packs no closures and takes every task at once
        return executors.ExecutorEngine(engine)
    return engine or next(reversed(ENTERED.get()), None) or LocalEngine()
