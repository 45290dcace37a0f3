"""The commands that move a branch: `rollback`, `set-current-snapshot`, `cherry-pick` and `fast-forward`."""

from __future__ import annotations

from typing import Any

import click

import deletekit as dk
from deletekit.cli.changes import change, change_answer
from deletekit.cli.options import TableAnswerCommand, branch_option, dry_run_option, time_of
from deletekit.cli.printer import pairs
from deletekit.cli.table_argument import TableArgument
from deletekit.cli.terminal import Answer, Output


@click.command(cls=TableAnswerCommand, short_help="Make an earlier snapshot current again.")
@click.argument("snapshot_id", metavar="[SNAPSHOT]", type=int, required=False)
@click.option(
    "--as-of",
    type=time_of,
    metavar="TIME",
    help="Instead of SNAPSHOT: the last one made before this time, as ISO 8601 or in ms.",
)
@branch_option("roll back")
@dry_run_option
def rollback(argument: TableArgument, output: Output, **options: Any) -> Answer:
    """Make SNAPSHOT, an ancestor of the branch's head, its head again.

    \b
    Examples:
      deletekit rollback --warehouse wh demo.users 4532178932145
      deletekit rollback --warehouse wh demo.users --as-of 2026-01-31T12:00
    """  # noqa: D301  # click's \b keeps the lines of the examples apart
    if ("snapshot_id" in options) == ("as_of" in options):
        raise click.UsageError("give SNAPSHOT or --as-of, one of them.")
    return _move(dk.rollback, argument, output, **options)


@click.command(cls=TableAnswerCommand, short_help="Make any snapshot current.")
@click.argument("snapshot_id", metavar="[SNAPSHOT]", type=int, required=False)
@click.option("--ref", metavar="NAME", help="Instead of SNAPSHOT: the head of this branch or tag.")
@click.option("--branch", default="main", show_default=True, metavar="BRANCH", help="Branch to change.")
@dry_run_option
def set_current_snapshot(argument: TableArgument, output: Output, **options: Any) -> Answer:
    """Make SNAPSHOT, an ancestor or not, the head of a branch.

    \b
    Examples:
      deletekit set-current-snapshot --warehouse wh demo.users 4532178932145
      deletekit set-current-snapshot --warehouse wh demo.users --ref audited
    """  # noqa: D301  # click's \b keeps the lines of the examples apart
    if ("snapshot_id" in options) == ("ref" in options):
        raise click.UsageError("give SNAPSHOT or --ref, one of them.")
    return _move(dk.set_current_snapshot, argument, output, **options)


@click.command(cls=TableAnswerCommand, short_help="Move a branch up to another.")
@click.argument("branch")
@click.argument("to")
@dry_run_option
def fast_forward(argument: TableArgument, output: Output, **options: Any) -> Answer:
    """Move BRANCH to the head of TO, a branch or tag that descends from it.

    \b
    Examples:
      deletekit fast-forward --warehouse wh demo.users main audit
    """  # noqa: D301  # click's \b keeps the lines of the examples apart
    return _move(dk.fast_forward, argument, output, **options)


@click.command(cls=TableAnswerCommand, short_help="Repeat on a branch what one snapshot did.")
@click.argument("snapshot_id", metavar="SNAPSHOT", type=int)
@branch_option("commit to")
@dry_run_option
def cherry_pick(argument: TableArgument, output: Output, *, snapshot_id: int, **options: Any) -> Answer:
    """Do on a branch what SNAPSHOT did elsewhere: publish a staged append, or a dynamic overwrite.

    \b
    Examples:
      deletekit cherry-pick --warehouse wh demo.users 4532178932145
    """  # noqa: D301  # click's \b keeps the lines of the examples apart
    table, result = change(dk.cherry_pick, argument, output, "Picking the snapshot", snapshot_id, **options)
    rows = {"branch": result.ref, "snapshot": result.current_snapshot_id or "new"}
    if not result.fast_forward:
        rows |= {"data files added": result.added_data_files, "data files removed": result.removed_data_files}
    how = "by fast-forward" if result.fast_forward else "as a new snapshot"
    verb = "would be picked" if result.dry_run else "picked"
    return change_answer(table, result, f"{snapshot_id} {verb} {how}", [pairs(rows)])


def _move(verb: Any, argument: TableArgument, output: Output, **options: Any) -> Answer:
    table, result = change(verb, argument, output, "Moving the branch", **options)
    if not result.moved:
        headline = f"{result.ref} of {table.name} is there already: {result.snapshot_id}"
        return change_answer(table, result, headline, moved=False)
    verb = "would move" if result.dry_run else "moved"
    ends = pairs({"from": result.previous_snapshot_id or "no snapshot", "to": result.snapshot_id})
    return change_answer(table, result, f"{result.ref} of {table.name} {verb}", [ends], moved=True)
