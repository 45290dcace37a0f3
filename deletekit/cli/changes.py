"""Commands that call a verb which changes a table, and report what it did."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from inspect import signature
from types import MappingProxyType
from typing import Any

import click
from rich.console import RenderableType
from rich.text import Text

import deletekit as dk
from deletekit.cli.options import TableAnswerCommand, when_interrupted
from deletekit.cli.printer import Unbroken, bold, heading, some
from deletekit.cli.table_argument import TableArgument
from deletekit.cli.terminal import Answer, Output
from deletekit.safe_text import short

_NOT_KNOWN = "Whether it was committed is not known: look with `deletekit inspect`."


def change_command(
    label: str, interrupted: str = _NOT_KNOWN
) -> Callable[[Callable[[dk.Table, Any], Answer]], click.Command]:
    """Make a command that calls the verb of its name, with its arguments and options by name.

    The decorated function takes the table and what the verb returned, and makes the answer of them.

    Parameters
    ----------
    label: what the progress shows.
    interrupted: what to print if Ctrl-C ends the verb.
    """

    def made(report: Callable[[dk.Table, Any], Answer]) -> click.Command:
        @click.command(cls=TableAnswerCommand)
        @functools.wraps(report)
        def command(argument: TableArgument, output: Output, **options: Any) -> Answer:
            verb = getattr(dk, report.__name__)
            return report(*change(verb, argument, output, label, interrupted, **options))

        return command

    return made


def change(
    verb: Callable[..., Any],
    argument: TableArgument,
    output: Output,
    label: str,
    interrupted: str = _NOT_KNOWN,
    **options: Any,
) -> tuple[dk.Table, Any]:
    """Call a verb on the table, with progress. Return the table and the verb's result."""
    table = argument.open()
    if not options.get("dry_run"):
        when_interrupted(interrupted)
    if "engine" not in signature(verb).parameters:
        with output.waiting(label):
            return table, verb(table, **options)
    with output.engine(label) as engine:
        return table, verb(table, engine=engine, **options)


def change_answer(
    table: dk.Table,
    result: Any,
    headline: str,
    *parts: Iterable[RenderableType],
    files: Mapping[tuple[str, str], Sequence[str]] = MappingProxyType({}),
    exit_code: int = 0,
    **more: Any,
) -> Answer:
    """Return a verb's result as JSON and as text.

    Parameters
    ----------
    headline, files, parts: the text. `files` are lists by title and by what was done with them, such as `removed`.
    more: further members of the JSON.
    """

    def text() -> Iterator[RenderableType]:
        yield bold(headline)
        yield from file_lists(files, table.location, dry_run=result.dry_run)
        for part in parts:
            yield from part
        if result.dry_run:
            yield Text("\nNothing was changed.", style="bold")

    return Answer(document={"table": table.name, **result_fields(result), **more}, text=text(), exit_code=exit_code)


def done(result: Any, what: str) -> str:
    """Return what was done, such as `removed`, or would be."""
    return f"would be {what}" if result.dry_run else what


def result_fields(result: Any, *, without: str = "") -> dict[str, Any]:
    """Return the fields of a verb's result by name, for JSON, perhaps without one of them."""
    return {field.name: getattr(result, field.name) for field in fields(result) if field.name != without}


def file_lists(
    files: Mapping[tuple[str, str], Sequence[str]], location: str, *, dry_run: bool
) -> Iterator[RenderableType]:
    """Yield lists of files, each under its title and what was done with them; empty lists are left out."""
    for (title, what), paths in files.items():
        if paths:
            yield heading(f"{title} {'to be ' if dry_run else ''}{what} ({len(paths):,})")
            yield from some([Unbroken(short(path, location)) for path in paths])


def kept_files(paths: Sequence[str], location: str, *, dry_run: bool) -> Iterator[RenderableType]:
    """Yield the files that nothing refers to, but that stay because of the folder that they are in."""
    title = "Files outside of the table's folders (--other-location says that a folder is the table's too)"
    yield from file_lists({(title, "kept"): paths}, location, dry_run=dry_run)


def failures(failed: Mapping[str, str], location: str, title: str = "Could not be removed") -> Iterator[RenderableType]:
    """Yield the files that are still there, and why."""
    if failed:
        yield heading(f"{title} ({len(failed):,})")
        yield from some([Unbroken(f"{short(path, location)}: {why}") for path, why in failed.items()])
