"""The commands `readers` and `make-readable`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click
from rich.console import RenderableType
from rich.text import Text

import deletekit as dk
from deletekit.cli.options import TableAnswerCommand, branch_option, dry_run_option, repeated_option
from deletekit.cli.printer import heading, indented, pairs, prose
from deletekit.cli.table_argument import TableArgument
from deletekit.cli.terminal import Answer, Output
from deletekit.cli.verb_command import verb_command
from deletekit.notebook_html import result_fields
from deletekit.text import plain

if TYPE_CHECKING:
    from deletekit.reader_verdicts.judgement import EngineReading

_FILE: Any = click.Path(dir_okay=False, exists=True)
_STYLE = {"WRONG": "bold red", "crashes": "red", "refuses": "yellow", "unknown": "dim", "right": "green"}
_MOST_FINDINGS = 3

_verdicts_option = click.option(
    "--verdicts", type=_FILE, metavar="FILE", help="Your own verdicts, as `conformance/run.py --json` writes them."
)


@click.command(cls=TableAnswerCommand)
@click.option("--ref", default="main", metavar="NAME", help="Branch or tag to read.")
@repeated_option("--engine", "engines", "NAME", "Only this engine, or one version of it; repeatable.  [default: all]")
@click.option("--exact/--no-exact", default=True, help="Count the rows at stake, or say at most how many.")
@_verdicts_option
def readers(argument: TableArgument, output: Output, **options: Any) -> Answer:
    """Tell what of a table each engine reads right, refuses or gets wrong, and how many rows that are.

    What the table depends on comes from its metadata; what engines do with it, from the conformance suite and from
    reports with their source. Nothing is changed. The exit code is 1 if an engine is WRONG or crashes, else 0.

    TABLE is a *.metadata.json file or a table's directory; with --warehouse or --catalog it is namespace.table.

    \b
    Examples:
      deletekit readers wh/demo/users
      deletekit readers --warehouse wh demo.users --engine trino
      deletekit readers --catalog prod demo.users --json
    """  # noqa: D301  # click's \b keeps the lines of the examples apart
    table = argument.open()
    with output.bar("Counting rows"):
        found = dk.readers(table, **options)
    failed = {reading.verdict for reading in found.engines} & {"WRONG", "crashes"}
    return Answer(document=result_fields(found), text=_text(found), exit_code=1 if failed else 0)


def _text(found: dk.results.Readers) -> Iterator[RenderableType]:
    yield heading("This table")
    rows = {"depends on": ", ".join(sorted(found.features))}
    rows |= {
        f"hidden by {' and by '.join(h.kinds)}": f"{'' if h.exact else 'at most '}{h.rows:,}" for h in found.hidden
    }
    yield pairs(rows)
    yield heading("Engines")
    for reading in found.engines:
        if reading.findings:
            yield from _failing(reading)
    for verdict in ("unknown", "right"):
        if names := found.named(verdict):
            yield Text.assemble((verdict, _STYLE[verdict]), f"  {plain(names)}")


def _failing(reading: EngineReading) -> Iterator[RenderableType]:
    yield Text.assemble((reading.verdict, _STYLE[reading.verdict]), "  ", (plain(reading.name), "bold"))
    for finding in reading.findings[:_MOST_FINDINGS]:
        yield indented(prose(plain(finding)))


@verb_command("Changing deletes")
@repeated_option("--engine", "engines", "NAME", "Engine that must read the table right; repeatable.", required=True)
@branch_option("change")
@click.option("--upgrade", is_flag=True, help="Allow an upgrade to format version 3; there is no way back.")
@_verdicts_option
@dry_run_option
def make_readable() -> None:
    """Change the deletes of a table, as little as is enough, so that all of these engines read it right.

    Equality deletes become deletes by position. Where an engine reads no such deletes, the data files with deletes are
    written again without the deleted rows. No row of the table changes. If no change can help, nothing is written.

    \b
    Examples:
      deletekit make-readable --warehouse wh demo.users --engine trino --dry-run
      deletekit make-readable --catalog prod demo.users --engine duckdb
    """  # noqa: D301  # click's \b keeps the lines of the examples apart
