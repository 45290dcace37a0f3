"""Tell a service what happens: the logger `deletekit`, and a span for each verb if OpenTelemetry's API is installed.

The logger tells each commit and each new table (INFO), each retry after a lost race (INFO), a commit that a conflict
stopped (WARNING) and one whose answer was lost, so that it may have happened (ERROR); never single files. A line is a
word and `name=value`; the record has the same as a dict in its attribute `deletekit`. Without a handler of the
program's own nothing is printed.
"""

import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib import import_module
from typing import Any

from deletekit.errors import CommitConflictError, CommitStateUnknownError
from deletekit.text import plain, without_secrets

LOGGER = logging.getLogger("deletekit")
LOGGER.addHandler(logging.NullHandler())


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
def span(verb: str) -> Iterator[Callable[[str, Any], None]]:
    """Open a span around a verb, which records its error. Yield what sets an attribute that is not None."""
    # A program that has not imported OpenTelemetry has no place where spans go.
    may_be_seen = "opentelemetry" in sys.modules or "OTEL_PYTHON_TRACER_PROVIDER" in os.environ
    tracer = _tracer() if may_be_seen else None
    if tracer is None:
        yield lambda *_: None
        return
    named = {"db.system.name": "iceberg", "db.operation.name": verb}
    with tracer.start_as_current_span(f"deletekit.{verb}", attributes=named) as opened:
        yield lambda name, value: None if value is None else opened.set_attribute(name, value)


@cache
def _tracer() -> Any:
    """Return OpenTelemetry's tracer of this library; None if its API is not installed."""
    with suppress(ImportError):
        return import_module("opentelemetry.trace").get_tracer("deletekit")
    return None
