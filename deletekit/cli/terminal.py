"""Where text goes: standard output for answers, standard error for errors and progress.

Law: strings are printed as they stand; a console here knows neither markup nor emoji codes.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import click
from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from deletekit.cli.printer import Unfolded, pairs
from deletekit.cli.text import json_ready, literal, plain
from deletekit.engines.local import Engine, LocalEngine
from deletekit.errors import DeletekitError

__all__ = ["Output", "console", "show", "show_error", "show_json"]

_T = TypeVar("_T")
_R = TypeVar("_R")

_UNFOLDED = 100_000
"""Width of what is piped: nothing is folded, so that a line stays a line for grep."""

_LONGEST_ERROR = 1_000


def console(*, stderr: bool = False) -> Console:
    """A console that takes every string for what it is."""
    stream = sys.stderr if stderr else sys.stdout
    if hasattr(stream, "reconfigure"):
        stream.reconfigure(errors="backslashreplace")  # rather a `\u` than no answer at all
    folds = stream.isatty() or "COLUMNS" in os.environ
    return Console(
        stderr=stderr, markup=False, emoji=False, highlight=False, soft_wrap=False, width=None if folds else _UNFOLDED
    )


def show(*parts: RenderableType) -> None:
    """Print an answer; a pipe gets it without the spaces that fill up lines."""
    _print(parts, stderr=False)


def _print(parts: Iterable[RenderableType], *, stderr: bool) -> None:
    target = console(stderr=stderr)
    if target.is_terminal:
        target.print(*parts, sep="\n", crop=False)
        return
    with target.capture() as captured:
        target.print(*parts, sep="\n", crop=False)
    lines = (line.rstrip() for line in captured.get().rstrip("\n").split("\n"))
    # Not click.echo, which takes an ASCII stream for a mistake and writes UTF-8 to it.
    target.file.write("\n".join([*lines, ""]))
    target.file.flush()


def show_json(value: Any) -> None:
    """Print strict JSON, in ASCII: nothing in it can act on a terminal."""
    click.echo(json.dumps(json_ready(value), indent=2, allow_nan=False))


def show_error(error: BaseException, *, with_traceback: bool) -> None:
    """Say on standard error what is wrong: one block, after the traceback when that is asked for."""
    lines = "".join(traceback.format_exception(error)).rstrip("\n").split("\n") if with_traceback else []
    if isinstance(error, DeletekitError):
        named = {n: getattr(error, n) for n in ("kind", "file", "field", "found", "expected")}
        rows = {k: _cut(v if isinstance(v, str) else literal(v)) for k, v in named.items() if v is not None}
        if error.retryable:
            rows["retry"] = "safe: nothing was committed"
        # A filter is shown in lines of its own, with a caret below the place.
        messages = error.message.split("\n") if error.kind == "filter" else [error.message]
    else:
        messages = [_cut(" ".join(str(error).split())) or "no message"]
        rows = {"kind": f"unexpected {type(error).__name__}", "more": "--traceback shows where"}
        if isinstance(error, ImportError):
            rows["more"] = "`deletekit doctor` shows what is not installed"
    head = Text.assemble(("Error: ", "bold red"), plain(messages[0]))
    more = [plain(message) for message in messages[1:]]
    _print([*(Unfolded(line) for line in lines), head, *more, pairs(rows)], stderr=True)


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_ERROR else f"{text[:_LONGEST_ERROR]}…"


@dataclass(frozen=True, slots=True)
class Output:
    """How an answer is wanted."""

    as_json: bool
    quiet: bool

    @property
    def _animated(self) -> bool:
        return not (self.as_json or self.quiet) and sys.stdout.isatty() and sys.stderr.isatty()

    @contextmanager
    def waiting(self, label: str) -> Iterator[None]:
        """Turn a wheel while one long step runs."""
        if not self._animated:
            yield
            return
        with console(stderr=True).status(Text(label)):
            yield

    def progress(self, text: str) -> None:
        """Say on standard error what is being done, a line for each step of a long command."""
        if not (self.as_json or self.quiet):
            _print([Text(plain(text))], stderr=True)

    @contextmanager
    def engine(self, label: str) -> Iterator[Engine]:
        """The engine for a verb: threads of this process, whose finished tasks a bar counts."""
        if not self._animated:
            yield LocalEngine()
            return
        columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
        with Progress(*columns, TimeElapsedColumn(), console=console(stderr=True), transient=True) as progress:
            yield _Counted(LocalEngine(), progress, label)


class _Counted:
    """An engine whose tasks a progress bar counts."""

    def __init__(self, engine: LocalEngine, progress: Progress, label: str) -> None:
        self.threads = engine.threads
        self._engine = engine
        self._progress = progress
        self._label = label

    def map(self, fn: Callable[[_T], _R], tasks: Iterable[_T]) -> Iterator[_R]:
        todo = list(tasks)
        bar = self._progress.add_task(self._label, total=len(todo))
        for result in self._engine.map(fn, todo):
            self._progress.advance(bar)
            yield result
