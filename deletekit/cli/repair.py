"""The command `repair`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import click
from rich.console import RenderableType
from rich.text import Text

import deletekit as dk
from deletekit.cli.options import TableAnswerCommand, branch_option, dry_run_option, repeated_option
from deletekit.cli.printer import heading, indented, line, pairs, prose
from deletekit.cli.table_argument import TableArgument
from deletekit.cli.terminal import Answer, Output
from deletekit.cli.verb_command import change, result_fields
from deletekit.cli.verify import finding
from deletekit.text import plain

# Repeated here, because the module that defines them imports the table libraries, which help does not need.
KINDS = (
    "duplicate-deletion-vector",
    "dangling-deletion-vector",
    "dangling-position-delete",
    "dangling-equality-delete",
    "puffin-footer",
    "summary-total",
    "dropped-equality-delete",
)

_KINDS = f"{', '.join(KINDS[:-1])} or {KINDS[-1]}; repeatable.  [default: all but the last]"


@click.command(cls=TableAnswerCommand)
@repeated_option("--kind", "kinds", "KIND", _KINDS, type=click.Choice(KINDS))
@branch_option("repair")
@dry_run_option
def repair(argument: TableArgument, output: Output, *, dry_run: bool, **options: Any) -> Answer:
    """Repair, in one commit, each damage that `verify` found and that has one safe repair.

    No row changes, unless you name dropped-equality-delete, which hides again the rows that a rewrite brought back.
    Two deletion vectors of a data file become one, deletes that apply to nothing are removed, a deletion vector without
    a readable Puffin footer is written again, and wrong totals are counted again, unless files may be lost. Doubtful
    repairs are refused and named. Wrong bounds and counts of data files are left: compact --rewrite-all mends
    them. Older snapshots keep what they have. The exit code is 1 if something is refused or stays broken, else 0.

    TABLE is namespace.table of --warehouse or --catalog. A table opened by its path is read-only: it takes only
    --dry-run.

    \b
    Examples:
      deletekit repair wh/demo/users --dry-run
      deletekit repair --warehouse wh demo.users
      deletekit repair --warehouse wh demo.users --kind duplicate-deletion-vector
    """  # noqa: D301  # click's \b keeps the lines of the examples apart
    table, report = change(dk.repair, argument, output, "Reading delete files", dry_run=dry_run, **options)
    document = {"table": table.name, "ref": options["ref"], "dry_run": dry_run, **result_fields(report)}
    failed = bool(report.refused or report.unrepaired)
    return Answer(document=document, text=_text(table, report, dry_run=dry_run), exit_code=int(failed))


def _text(table: dk.Table, report: dk.results.RepairReport, *, dry_run: bool) -> Iterator[RenderableType]:
    if not report.actions and not report.refused and not report.unrepaired:
        yield line((f"Nothing to repair in {table.name}.", "bold"))
        yield prose(report.not_looked_at)
        return
    for title, actions in (("Would be done" if dry_run else "Done", report.actions), ("Refused", report.refused)):
        if actions:
            yield heading(title)
            yield from _actions(actions, table.location)
    if report.unrepaired:
        yield heading("Cannot be repaired")
        for error in report.unrepaired:
            yield from finding(error, table.location)
    yield prose(report.not_looked_at)
    if report.commit is not None:
        yield pairs({"snapshot": report.commit.snapshot_id, "operation": report.commit.operation})
    elif dry_run:
        yield Text("\nNothing was written.", style="bold")


def _actions(actions: Sequence[dk.results.RepairAction], location: str) -> Iterator[RenderableType]:
    """Yield what is done, or refused, and why; paths below the table's location are shortened, in sentences too."""
    prefix = location.rstrip("/") + "/"
    for action in actions:
        yield Text.assemble("  ", (plain(action.kind), "bold"))
        why = f"refused: {action.refused}" if action.refused is not None else None
        for sentence in filter(None, (action.action, action.file, why)):
            yield indented(prose(sentence.replace(prefix, "")), 4)
