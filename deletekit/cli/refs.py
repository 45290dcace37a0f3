"""`deletekit rollback`, `set-current-snapshot`, `cherry-pick` and `fast-forward`."""

from __future__ import annotations

from typing import Any

import click
from rich.text import Text

import deletekit as dk
from deletekit.cli.options import TableSource, dry_run_option, output_options, table_options, time_of
from deletekit.cli.printer import nothing_changed, pairs
from deletekit.cli.table_argument import open_table
from deletekit.cli.terminal import Output, show, show_json
from deletekit.cli.text import json_ready, plain

__all__ = ["cherry_pick", "fast_forward", "rollback", "set_current_snapshot"]


@click.command(short_help="Make an earlier snapshot current again.")
@table_options
@click.argument("snapshot", type=int, required=False)
@click.option("--as-of", metavar="TIME", help="Instead of SNAPSHOT: the last one made before, as ISO 8601 or in ms.")
@click.option("--ref", default="main", show_default=True, metavar="BRANCH", help="Branch to roll back.")
@dry_run_option
@output_options
def rollback(
    source: TableSource, *, snapshot: int | None, as_of: str | None, ref: str, dry_run: bool, output: Output
) -> None:
    """Make SNAPSHOT, an ancestor of the branch's head, its head again.

    \b
    Examples:
      deletekit rollback --warehouse wh demo.users 4532178932145
      deletekit rollback --warehouse wh demo.users --as-of 2026-01-31T12:00
    """  # noqa: D301  # click's \b keeps the lines of the examples apart
    if (snapshot is None) == (as_of is None):
        raise click.UsageError("give SNAPSHOT or --as-of, one of them.")
    table = open_table(source)
    _show_move(table, dk.rollback(table, snapshot, as_of=time_of(as_of), ref=ref, dry_run=dry_run), output)


@click.command("set-current-snapshot", short_help="Make any snapshot current.")
@table_options
@click.argument("snapshot", type=int, required=False)
@click.option("--ref", metavar="NAME", help="Instead of SNAPSHOT: the head of this branch or tag.")
@click.option("--branch", default="main", show_default=True, metavar="BRANCH", help="Branch that changes.")
@dry_run_option
@output_options
def set_current_snapshot(
    source: TableSource, *, snapshot: int | None, ref: str | None, branch: str, dry_run: bool, output: Output
) -> None:
    """Make SNAPSHOT, an ancestor or not, the head of a branch.

    \b
    Examples:
      deletekit set-current-snapshot --warehouse wh demo.users 4532178932145
      deletekit set-current-snapshot --warehouse wh demo.users --ref audited
    """  # noqa: D301  # click's \b keeps the lines of the examples apart
    if (snapshot is None) == (ref is None):
        raise click.UsageError("give SNAPSHOT or --ref, one of them.")
    table = open_table(source)
    _show_move(table, dk.set_current_snapshot(table, snapshot, ref=ref, branch=branch, dry_run=dry_run), output)


@click.command("fast-forward", short_help="Move a branch up to another.")
@table_options
@click.argument("branch")
@click.argument("to")
@dry_run_option
@output_options
def fast_forward(source: TableSource, *, branch: str, to: str, dry_run: bool, output: Output) -> None:
    """Move BRANCH to the head of TO, a branch or tag that descends from it.

    \b
    Examples:
      deletekit fast-forward --warehouse wh demo.users main audit
    """  # noqa: D301  # click's \b keeps the lines of the examples apart
    table = open_table(source)
    _show_move(table, dk.fast_forward(table, branch, to, dry_run=dry_run), output)


@click.command("cherry-pick", short_help="Do again what one snapshot did.")
@table_options
@click.argument("snapshot", type=int)
@click.option("--ref", default="main", show_default=True, metavar="BRANCH", help="Branch to commit to.")
@dry_run_option
@output_options
def cherry_pick(source: TableSource, *, snapshot: int, ref: str, dry_run: bool, output: Output) -> None:
    """Do on a branch what SNAPSHOT did elsewhere: publish a staged append, or a dynamic overwrite.

    \b
    Examples:
      deletekit cherry-pick --warehouse wh demo.users 4532178932145
    """  # noqa: D301  # click's \b keeps the lines of the examples apart
    table = open_table(source)
    done = dk.cherry_pick(table, snapshot, ref=ref, dry_run=dry_run)
    if output.as_json:
        show_json({"table": table.name, **json_ready(done)})
        return
    how = "by fast-forward" if done.fast_forward else "as a new snapshot"
    rows: dict[str, Any] = {"branch": ref, "snapshot": done.current_snapshot_id or "new"}
    if not done.fast_forward:
        rows |= {"data files added": done.added_data_files, "data files removed": done.removed_data_files}
    verb = "would be picked" if dry_run else "picked"
    show(Text(plain(f"{snapshot} {verb} {how}"), style="bold"), pairs(rows), *nothing_changed(dry_run))


def _show_move(table: dk.Table, move: dk.MovedRef, output: Output) -> None:
    if output.as_json:
        show_json({"table": table.name, **json_ready(move), "moved": move.moved})
        return
    if not move.moved:
        show(Text(plain(f"{move.ref} of {table.name} is there already: {move.snapshot_id}"), style="bold"))
        return
    verb = "would move" if move.dry_run else "moved"
    show(
        Text(plain(f"{move.ref} of {table.name} {verb}"), style="bold"),
        pairs({"from": move.previous_snapshot_id or "no snapshot", "to": move.snapshot_id}),
        *nothing_changed(move.dry_run),
    )
