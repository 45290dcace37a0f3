"""`deletekit repair`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import click
from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

import deletekit as dk
from deletekit.cli.options import TableSource, output_options, table_options, when_interrupted
from deletekit.cli.printer import Prose, heading, pairs
from deletekit.cli.table_argument import open_table
from deletekit.cli.terminal import Output, show, show_json
from deletekit.cli.text import plain
from deletekit.cli.verify import finding

__all__ = ["repair"]

# Spelled out: the module that knows them imports the table libraries, and help does without.
KINDS = (
    "duplicate-deletion-vector",
    "dangling-deletion-vector",
    "dangling-position-delete",
    "dangling-equality-delete",
    "puffin-footer",
    "summary-total",
    "dropped-equality-delete",
)


@click.command(short_help="Repair what can be without changing a row.")
@table_options
@click.option(
    "--kind",
    "kinds",
    type=click.Choice(KINDS),
    multiple=True,
    metavar="KIND",
    help=f"{', '.join(KINDS[:-1])} or {KINDS[-1]}; repeatable.  [default: all but the last]",
)
@click.option("--ref", default="main", show_default=True, metavar="BRANCH", help="Branch to repair.")
@click.option("--dry-run", is_flag=True, help="Say what would be done, and write nothing.")
@output_options
def repair(source: TableSource, *, kinds: tuple[str, ...], ref: str, dry_run: bool, output: Output) -> None:
    """Repair, in one commit, what `verify` found and has one safe repair: no row changes, unless you name
    dropped-equality-delete, which hides rows again that a rewrite brought back.

    Two deletion vectors of a data file become one, deletes that apply to nothing are removed, a deletion vector without
    a readable Puffin footer is written anew, and wrong totals are counted anew. Whatever leaves a doubt is refused and
    named. Older snapshots keep what they have. The exit code is 1 when something is refused or stays broken, else 0.

    TABLE is namespace.table of --warehouse or --catalog. A table opened by its path is read-only: it takes only
    --dry-run.

    \b
    Examples:
      deletekit repair wh/demo/users --dry-run
      deletekit repair --warehouse wh demo.users
      deletekit repair --warehouse wh demo.users --kind duplicate-deletion-vector
    """  # noqa: D301  # click's \b keeps the lines of the examples apart
    table = open_table(source)
    if not dry_run:
        when_interrupted("Whether the repair was committed is not known: look with `deletekit inspect`.")
    with output.engine("Reading delete files") as engine:
        report = dk.repair(table, kinds or None, ref=ref, dry_run=dry_run, engine=engine)
    if output.as_json:
        document = {"table": table.name, "ref": ref, "dry_run": dry_run, "actions": report.actions}
        left = {"refused": report.refused, "unrepaired": report.unrepaired}
        show_json({**document, **left, "commit": _commit(report.commit)})
    else:
        show(*_text(table, report, dry_run=dry_run))
    click.get_current_context().exit(1 if report.refused or report.unrepaired else 0)


def _commit(commit: dk.Commit | None) -> dict[str, object] | None:
    if commit is None:
        return None
    return {name: getattr(commit, name) for name in ("snapshot_id", "sequence_number", "operation", "summary")}


def _text(table: dk.Table, report: dk.RepairReport, *, dry_run: bool) -> Iterator[RenderableType]:
    name = plain(table.name)
    if not report.actions and not report.refused and not report.unrepaired:
        yield Text(f"Nothing to repair in {name}.", style="bold")
        return
    if report.actions:
        yield heading("Would be done" if dry_run else "Done")
        yield from _actions(report.actions, table.location)
    if report.refused:
        yield heading("Refused")
        yield from _actions(report.refused, table.location)
    if report.unrepaired:
        yield heading("Cannot be repaired")
        for error in report.unrepaired:
            yield from finding(error, table.location)
    if report.commit is not None:
        yield pairs({"snapshot": report.commit.snapshot_id, "operation": report.commit.operation})
    elif dry_run:
        yield Text("\nNothing was written.", style="bold")


def _actions(actions: Sequence[dk.RepairAction], location: str) -> Iterator[RenderableType]:
    """Paths below the table's location are shown without it, inside of sentences too."""
    prefix = location.rstrip("/") + "/"
    for action in actions:
        yield Text.assemble("  ", (plain(action.kind), "bold"))
        yield Padding(Prose(action.action.replace(prefix, "")), (0, 0, 0, 4), expand=False)
        if action.file is not None:
            yield Padding(Prose(action.file.replace(prefix, "")), (0, 0, 0, 4), expand=False)
        if action.refused is not None:
            yield Padding(Prose("refused: " + action.refused.replace(prefix, "")), (0, 0, 0, 4), expand=False)
