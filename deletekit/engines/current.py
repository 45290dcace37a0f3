"""Choose the engine of a call: the one it names, else that of the surrounding `with`, else threads of this process."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from deletekit.engines.local import Engine, LocalEngine
from deletekit.public import public

_current: ContextVar[Engine | None] = ContextVar("deletekit_engine", default=None)


@public
@contextmanager
def local(threads: int | None = None) -> Iterator[LocalEngine]:
    """Run the verbs inside the `with` block in `threads` threads of this process."""
    engine = LocalEngine(threads)
    with running_on(engine):
        yield engine


@public
def engine_or_default(engine: Engine | None) -> Engine:
    """Return `engine`, or that of the surrounding `with deletekit.engine...`, or a local one with a thread per core."""
    return engine or _current.get() or LocalEngine()


@contextmanager
def running_on(engine: Engine) -> Iterator[None]:
    """Let verbs inside the `with` block use this engine if they name none."""
    token = _current.set(engine)
    try:
        yield
    finally:
        _current.reset(token)
