"""Print answers to standard output, and errors and progress to standard error.

Strings are printed unchanged: these consoles know neither markup nor emoji codes.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import click
from rich.console import Console, RenderableType
from rich.text import Text

from deletekit.cli.printer import pairs, result_text, unfolded
from deletekit.engines.local import PROGRESS
from deletekit.errors import DeletekitError
from deletekit.text import json_ready, literal, plain, without_secrets

_UNFOLDED = 100_000
"""Width of a pipe: nothing is folded, so that grep sees whole lines."""

_LONGEST_ERROR = 1_000


def console(*, stderr: bool = False) -> Console:
    """Return a console that prints every string unchanged."""
    stream = sys.stderr if stderr else sys.stdout
    if hasattr(stream, "reconfigure"):
        stream.reconfigure(errors="backslashreplace")  # a `\u` is better than no answer
    folds = stream.isatty() or "COLUMNS" in os.environ
    return Console(stderr=stderr, markup=False, emoji=False, highlight=False, width=None if folds else _UNFOLDED)


def show(*parts: RenderableType) -> None:
    """Print to standard output; a pipe gets no spaces at the ends of lines."""
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


def show_error(error: BaseException, *, with_traceback: bool) -> None:
    """Print an error to standard error as one block, after the traceback if that is asked for."""
    trace = "".join(traceback.format_exception(error)) if with_traceback else ""
    lines = without_secrets(trace).rstrip("\n").split("\n") if trace else []  # other libraries' errors are in it
    if isinstance(error, DeletekitError):
        named = {n: getattr(error, n) for n in ("kind", "file", "field", "found", "expected")}
        rows = {k: _cut(v if isinstance(v, str) else literal(v)) for k, v in named.items() if v is not None}
        if error.retryable:
            rows["retry"] = "safe: nothing was committed"
        # The message has the filter in lines of its own, with a caret below the wrong place.
        messages = error.message.split("\n") if error.kind == "filter" else [error.message]
    else:
        messages = [_cut(" ".join(without_secrets(str(error)).split())) or "no message"]
        rows = {"kind": f"unexpected {type(error).__name__}", "more": "--traceback shows where"}
        if isinstance(error, ImportError):
            rows["more"] = "`deletekit doctor` shows what is not installed"
    head = Text.assemble(("Error: ", "bold red"), plain(messages[0]))
    more = [plain(message) for message in messages[1:]]
    _print([*map(unfolded, lines), head, *more, pairs(rows)], stderr=True)


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_ERROR else f"{text[:_LONGEST_ERROR]}…"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The result of a command.

    Attributes
    ----------
    document: a mapping or dataclass; `json_ready` makes it JSON for `--json`.
    text: the same for people, by hand; not made with `--json`. None: the printer makes it of the document.
    location: of the table; the printer shortens paths below it.
    exit_code: of the program.
    """

    document: Any
    text: Iterable[RenderableType] | None = None
    location: str = ""
    exit_code: int = 0


@dataclass(frozen=True, slots=True)
class Output:
    """How the user wants to see the answer and the progress."""

    as_json: bool
    quiet: bool

    def show(self, answer: Answer) -> None:
        """Print the answer. JSON is strict and in ASCII: nothing in it can act on a terminal."""
        if self.as_json:
            click.echo(json.dumps(json_ready(answer.document), indent=2, allow_nan=False))
            return
        text = result_text(answer.document, answer.location) if answer.text is None else answer.text
        if parts := list(text):
            show(*parts)

    @property
    def _animated(self) -> bool:
        return not (self.as_json or self.quiet) and sys.stdout.isatty() and sys.stderr.isatty()

    @contextmanager
    def waiting(self, label: str) -> Iterator[None]:
        """Show a spinner while one long step runs."""
        if not self._animated:
            yield
            return
        with console(stderr=True).status(Text(label)):
            yield

    def progress(self, text: str) -> None:
        """Print one line for a step of a long command."""
        if not (self.as_json or self.quiet):
            _print([Text(plain(text))], stderr=True)

    @contextmanager
    def bar(self, label: str) -> Iterator[None]:
        """Let a long verb show a bar of its finished tasks and the rows read."""
        token = PROGRESS.set(label if self._animated else None)
        try:
            yield
        finally:
            PROGRESS.reset(token)
