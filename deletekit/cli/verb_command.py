"""Commands that call one verb on a table, and answer with its result as it is."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from inspect import signature
from operator import attrgetter
from typing import Any

import click
from rich.console import RenderableType

import deletekit as dk
from deletekit.cli.options import TableAnswerCommand, when_interrupted
from deletekit.cli.printer import facts, line
from deletekit.cli.table_argument import TableArgument
from deletekit.cli.terminal import Answer, Output
from deletekit.table.summary_counters import COUNTERS, TOTALS
from deletekit.text import count, field_name

NOT_KNOWN = "Whether it was committed is not known: look with `deletekit snapshots`."


def verb_command(
    label: str,
    interrupted: str = NOT_KNOWN,
    *,
    verb: str = "",
    failed: Callable[[Any], bool] = lambda _: False,
) -> Callable[[Callable[[], None]], click.Command]:
    """Make a command that calls the verb of its name, with its arguments and options by name.

    The decorated function is only the name and the help.

    Parameters
    ----------
    label: what the progress shows.
    interrupted: what to print if Ctrl-C ends the verb.
    verb: its name in `deletekit`, where it is not that of the function.
    failed: whether the exit code is 1 for this result.
    """

    def made(declared: Callable[[], None]) -> click.Command:
        @click.command(cls=TableAnswerCommand)
        @functools.wraps(declared)
        def command(argument: TableArgument, output: Output, **options: Any) -> Answer:
            called = attrgetter(verb or declared.__name__)(dk)
            table, result = change(called, argument, output, label, interrupted, **options)
            return table_answer(table, result_fields(result), exit_code=int(failed(result)))

        return command

    return made


def change(
    verb: Callable[..., Any],
    argument: TableArgument,
    output: Output,
    label: str,
    interrupted: str = NOT_KNOWN,
    **options: Any,
) -> tuple[dk.Table, Any]:
    """Call a verb on the table, with progress. Return the table and the verb's result."""
    table = argument.open()
    if not options.get("dry_run"):
        when_interrupted(interrupted)
    progress = output.bar if "engine" in signature(verb).parameters else output.waiting
    with progress(label):
        return table, verb(table, **options)


def table_answer(table: dk.Table, document: Mapping[str, Any], *, exit_code: int = 0) -> Answer:
    """Return what is true of a table as an answer that the printer prints."""
    return Answer(document={"table": table.name, **document}, location=table.location, exit_code=exit_code)


def result_fields(result: Any) -> dict[str, Any]:
    """Return the fields of a verb's result by name, and those of its properties that are yes or no."""
    found = {field.name: getattr(result, field.name) for field in fields(result)}
    named = [name for name, member in vars(type(result)).items() if isinstance(member, property)]
    return found | {name: value for name in named if isinstance(value := getattr(result, name), bool)}


def commit_answer(table: dk.Table, ref: str, commit: dk.results.Commit) -> Answer:
    """Return the commit of a row verb, or of its dry run, as an answer."""
    text = list(_commit_lines(table, ref, commit))
    document = {"table": table.name, "ref": ref, **result_fields(commit)}
    return Answer(document=document, text=text, location=table.location)


def _commit_lines(table: dk.Table, ref: str, commit: dk.results.Commit) -> Iterator[RenderableType]:
    if commit.operation is None:
        yield line((f"Nothing of {table.name} has to change.", "bold"))
        return
    at = "dry run" if commit.dry_run else f"snapshot {commit.snapshot_id}, sequence number {commit.sequence_number}"
    matched = f"{count(commit.matched_rows, 'row')} matched" if commit.matched_rows else ""
    lost = f"{commit.attempts} attempts" if commit.attempts > 1 else ""
    yield facts(f"{commit.operation} on {ref} of {table.name}", at, matched, lost, style="bold")
    for names in (COUNTERS, TOTALS):
        shown = {name: commit.summary[name] for name in names if commit.summary.get(name, "0") != "0"}
        yield facts(*(f"{field_name(name)} {int(number):,}" for name, number in shown.items()))
    if commit.dry_run:
        yield line(("Nothing was changed.", "bold"))
