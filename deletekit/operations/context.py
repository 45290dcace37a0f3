"""The engine of a call: the one it names, else the one of the surrounding `with`, else threads of this process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from deletekit.engines.local import Engine, LocalEngine

__all__ = ["engine_or_default", "local"]

_current: ContextVar[Engine | None] = ContextVar("deletekit_engine", default=None)


@contextmanager
def local(threads: int | None = None) -> Iterator[LocalEngine]:
    """Run the verbs inside the `with` block in `threads` threads of this process."""
    engine = LocalEngine(threads)
    token = _current.set(engine)
    try:
        yield engine
    finally:
        _current.reset(token)


def engine_or_default(engine: Engine | None) -> Engine:
    """`engine`, or that of the surrounding `with deletekit.engine...`, or a local one with a thread per core."""
    return engine or _current.get() or LocalEngine()
