"""The commands that move a branch: `rollback`, `set-current-snapshot`, `cherry-pick` and `fast-forward`."""

from __future__ import annotations

import click

import deletekit as dk
from deletekit.cli.changes import change_answer, change_command, done
from deletekit.cli.options import branch_option, dry_run_option, one_of, time_of
from deletekit.cli.printer import pairs
from deletekit.cli.terminal import Answer

_MOVING = "Moving the branch"
_AS_OF = "Instead of SNAPSHOT: the last one made before this time, as ISO 8601 or in ms."

_snapshot_argument = click.argument("snapshot_id", metavar="[SNAPSHOT]", type=int, required=False)


@change_command(_MOVING)
@one_of("give SNAPSHOT or --as-of, one of them.", "snapshot_id", "as_of", needed=True)
@_snapshot_argument
@click.option("--as-of", type=time_of, metavar="TIME", help=_AS_OF)
@branch_option("roll back")
@dry_run_option
def rollback(table: dk.Table, result: dk.MovedRef) -> Answer:
    """Make SNAPSHOT, an ancestor of the branch's head, its head again.

    \b
    Examples:
      deletekit rollback --warehouse wh demo.users 4532178932145
      deletekit rollback --warehouse wh demo.users --as-of 2026-01-31T12:00
    """  # noqa: D301  # click's \b keeps the lines of the examples apart
    return _moved(table, result)


@change_command(_MOVING)
@one_of("give SNAPSHOT or --ref, one of them.", "snapshot_id", "ref", needed=True)
@_snapshot_argument
@click.option("--ref", metavar="NAME", help="Instead of SNAPSHOT: the head of this branch or tag.")
@click.option("--branch", default="main", metavar="BRANCH", help="Branch to change.")
@dry_run_option
def set_current_snapshot(table: dk.Table, result: dk.MovedRef) -> Answer:
    """Make SNAPSHOT, an ancestor or not, the head of a branch.

    \b
    Examples:
      deletekit set-current-snapshot --warehouse wh demo.users 4532178932145
      deletekit set-current-snapshot --warehouse wh demo.users --ref audited
    """  # noqa: D301  # click's \b keeps the lines of the examples apart
    return _moved(table, result)


@change_command(_MOVING)
@click.argument("branch")
@click.argument("to")
@dry_run_option
def fast_forward(table: dk.Table, result: dk.MovedRef) -> Answer:
    """Move BRANCH to the head of TO, a branch or tag that descends from it.

    \b
    Examples:
      deletekit fast-forward --warehouse wh demo.users main audit
    """  # noqa: D301  # click's \b keeps the lines of the examples apart
    return _moved(table, result)


@change_command("Picking the snapshot")
@click.argument("snapshot_id", metavar="SNAPSHOT", type=int)
@branch_option("commit to")
@dry_run_option
def cherry_pick(table: dk.Table, result: dk.CherryPick) -> Answer:
    """Do on a branch what SNAPSHOT did elsewhere: publish a staged append, or a dynamic overwrite.

    \b
    Examples:
      deletekit cherry-pick --warehouse wh demo.users 4532178932145
    """  # noqa: D301  # click's \b keeps the lines of the examples apart
    rows: dict[str, object] = {"branch": result.ref, "snapshot": result.current_snapshot_id or "new"}
    if not result.fast_forward:
        rows |= {"data files added": result.added_data_files, "data files removed": result.removed_data_files}
    how = "by fast-forward" if result.fast_forward else "as a new snapshot"
    headline = f"{result.source_snapshot_id} {done(result, 'picked')} {how}"
    return change_answer(table, result, headline, [pairs(rows)])


def _moved(table: dk.Table, result: dk.MovedRef) -> Answer:
    if not result.moved:
        headline = f"{result.ref} of {table.name} is there already: {result.snapshot_id}"
        return change_answer(table, result, headline, moved=False)
    verb = "would move" if result.dry_run else "moved"
    ends = pairs({"from": result.previous_snapshot_id or "no snapshot", "to": result.snapshot_id})
    return change_answer(table, result, f"{result.ref} of {table.name} {verb}", [ends], moved=True)
