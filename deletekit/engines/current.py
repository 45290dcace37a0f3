"""Choose the engine of a call: the one it names, else that of the surrounding `with`, else threads of this process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from deletekit.engines.local import Engine, LocalEngine
from deletekit.public import public

__all__ = ["engine_or_default", "local", "spark"]

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from deletekit.engines.spark import SparkEngine

_current: ContextVar[Engine | None] = ContextVar("deletekit_engine", default=None)


@public
@contextmanager
def local(threads: int | None = None) -> Iterator[LocalEngine]:
    """Run the verbs inside the `with` block in `threads` threads of this process."""
    engine = LocalEngine(threads)
    with _set(engine):
        yield engine


@public
@contextmanager
def spark(session: SparkSession, threads: int | None = None) -> Iterator[SparkEngine]:
    """Run the verbs inside the `with` block on the executors of a Spark session; the driver plans and commits.

    Parameters
    ----------
    session: a PySpark session, such as `deletekit.spark.session()` starts.
    threads: how many groups of files are worked on at a time; default as many as the executors have cores.

    Raises UnsupportedError for a Spark Connect session.
    """
    from deletekit.engines.spark import SparkEngine  # noqa: PLC0415  # pyspark is an extra

    engine = SparkEngine(session, threads)
    with _set(engine):
        yield engine


@public
def engine_or_default(engine: Engine | None) -> Engine:
    """Return `engine`, or that of the surrounding `with deletekit.engine...`, or a local one with a thread per core."""
    return engine or _current.get() or LocalEngine()


@contextmanager
def _set(engine: Engine) -> Iterator[None]:
    token = _current.set(engine)
    try:
        yield
    finally:
        _current.reset(token)
