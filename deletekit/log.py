"""Tell a service what happens, by the logger `deletekit`.

It tells each commit and each new table (INFO), each retry after a lost race (INFO), a commit that a conflict
stopped (WARNING) and one whose answer was lost, so that it may have happened (ERROR); never single files. A line is a
word and `name=value`; the record has the same as a dict in its attribute `deletekit`. Without a handler of the
program's own nothing is printed.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from deletekit.errors import CommitConflictError, CommitStateUnknownError
from deletekit.text import plain, without_secrets

LOGGER = logging.getLogger("deletekit")
LOGGER.addHandler(logging.NullHandler())
_LISTENERS: list[Callable[[int], None]] = []


def tell(event: str, *, level: int = logging.INFO, **facts: Any) -> None:
    """Log one event. What is None is left out. A handler that raises does not: it would hide what happened."""
    if LOGGER.isEnabledFor(level):
        known = {name: without_secrets(fact) for name, fact in facts.items() if fact is not None}
        text = " ".join(f"{name}={plain(fact)}" for name, fact in known.items())
        with suppress(Exception):
            LOGGER.log(level, "%s %s", event, text, extra={"deletekit": {"event": event, **known}})


@contextmanager
def telling_failure(table: str, ref: str | None = None) -> Iterator[None]:
    """Log why a commit to a table failed, if it is for what others did or for a lost answer."""
    try:
        yield
    except (CommitConflictError, CommitStateUnknownError) as e:
        unknown = isinstance(e, CommitStateUnknownError)
        event, level = ("unknown", logging.ERROR) if unknown else ("conflict", logging.WARNING)
        tell(event, level=level, table=table, ref=ref, kind=e.kind, error=str(e))
        raise


@contextmanager
def told_of_rows(listener: Callable[[int], None]) -> Iterator[None]:
    """Tell how many rows each batch has that this process has read and worked on, in any thread."""
    _LISTENERS.append(listener)
    try:
        yield
    finally:
        _LISTENERS.remove(listener)


def tell_rows(rows: int) -> None:
    """Tell those who asked that a batch of so many rows was read."""
    for listener in _LISTENERS:
        listener(rows)
