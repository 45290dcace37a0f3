"""The command `verify`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click
from rich.console import RenderableType
from rich.text import Text

import deletekit as dk
from deletekit.cli.options import TableAnswerCommand, choice_option, limit_option, one_of, repeated_option
from deletekit.cli.printer import heading, indented, line, pairs, prose
from deletekit.cli.table_argument import TableArgument
from deletekit.cli.terminal import Answer, Output
from deletekit.text import count, first, json_ready, plain, short

_LEVELS = ("metadata", "deletes", "data")
_LEVEL = "metadata also reads manifests; deletes also delete files and footers of data files; data also every row."
_STYLE = {"error": "bold red", "warning": "yellow"}


@click.command(cls=TableAnswerCommand)
@choice_option("--level", _LEVELS, _LEVEL, default="deletes", metavar="LEVEL")
@repeated_option("--snapshot", "snapshot_ids", "ID", "Check this snapshot only; repeatable.", type=int)
@click.option("--heads", is_flag=True, help="Check only what branches and tags point to.")
@limit_option("Findings")
@one_of("--heads and --snapshot each choose snapshots; give one of them.", "heads", "snapshot_ids")
def verify(
    argument: TableArgument,
    output: Output,
    *,
    level: Any,
    heads: bool,
    limit: int,
    snapshot_ids: tuple[int, ...] = (),
) -> Answer:
    """Check a table, by any writer, against every rule of the specification. Nothing is changed.

    An error breaks a rule; a warning is legal, or harms no reader. The exit code is 1 if there are errors, else 0.

    TABLE is a *.metadata.json file or a table's directory; with --warehouse or --catalog it is namespace.table.

    \b
    Examples:
      deletekit verify wh/demo/users
      deletekit verify --warehouse wh demo.users --level data --heads
      deletekit verify --catalog prod demo.users --json
    """  # noqa: D301  # click's \b keeps the lines of the examples apart
    table = argument.open()
    chosen: Any = list(snapshot_ids) or ("heads" if heads else "all")
    with output.bar("Reading files"):
        report = dk.verify(table, level=level, snapshots=chosen)
    document = {"table": table.name, "ok": report.ok, "level": level}
    document |= {"checked": report.checked, "findings": report.findings}
    return Answer(document=document, text=_text(table, report, limit), exit_code=0 if report.ok else 1)


def _text(table: dk.Table, report: dk.results.VerifyReport, limit: int) -> Iterator[RenderableType]:
    shown, left = first(report.findings, limit)
    for found in shown:
        yield from finding(found, table.location)
    if left:
        yield Text(f"\n… and {count(left, 'more finding')}; --limit 0 shows all")
    yield heading("Checked")
    yield pairs({name.replace("_", " "): f"{number:,}" for name, number in report.checked.items()})
    verdict = ("No errors", "bold green") if report.ok else (count(len(report.errors), "error"), "bold red")
    yield Text.assemble("\n", verdict, f", {count(len(report.warnings), 'warning')} in {plain(table.name)}.")
    if any(found.repair for found in report.findings):
        yield Text("`deletekit repair --dry-run` shows what can be repaired without changing a row.")


def finding(found: dk.results.Finding, location: str) -> Iterator[RenderableType]:
    """Yield the parts of one finding; paths below the table's location are shortened."""
    yield Text.assemble((found.severity, _STYLE[found.severity]), "  ", (plain(found.kind), "bold"))
    yield indented(prose(found.message))
    if found.file is not None:
        yield indented(line(short(found.file, location)))
    named = {name: getattr(found, name) for name in ("field", "found", "expected", "repair")}
    rows = {name: _value(value, location) for name, value in named.items() if value is not None}
    if found.snapshot_ids:
        ids, left = first(found.snapshot_ids, 5)
        rows["snapshots"] = ", ".join(map(str, ids)) + (f" and {left} more" if left else "")
    yield pairs(rows)


def _value(value: Any, location: str) -> str:
    return short(value if isinstance(value, str) else json_ready(value), location)
