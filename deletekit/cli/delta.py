"""The commands `sync-delta`, `clean-up-delta` and `repack`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from deletekit.cli.delta_targets import SyncTarget, follow_targets, read_targets, sync_all, sync_document
from deletekit.cli.options import (
    SourceAnswerCommand,
    branch_option,
    choice_option,
    dry_run_option,
    number_option,
    older_than_option,
    when_interrupted,
)
from deletekit.cli.table_argument import TableArgument
from deletekit.cli.terminal import Answer, Output
from deletekit.cli.verb_command import verb_command

_VECTORS = (
    "Copy Delta's vectors into Puffin files, or refer to them in place (format version 3): pyiceberg and polars do not "
    "read those, and Delta's VACUUM deletes them; `deletekit repack` copies them.  [default: copy]"
)
_COMMITS = "Make one snapshot for all new versions, or one for each.  [default: coalesce]"
_DELETE_DIRECTORY = "Folder of delete files, below the table's.  [default: deletion-vectors]"
_CONFIG = "Sync the tables of a TOML file: [[tables]], each with source, table, warehouse or catalog, ..."
_INTERVAL = "With --follow: wait so long between syncs.  [default: 10]"
_SECONDS = 10.0
_ORPHAN_HOURS = "Remove files of failed syncs that are older; a running sync must be younger."


@click.command(cls=SourceAnswerCommand)
@number_option("--version", "Delta version.  [default: the latest]", click.IntRange(min=0))
@number_option("--format-version", "Format version of a new table.  [default: 3]", click.IntRange(2, 3))
@choice_option("--deletion-vectors", ("copy", "reference"), _VECTORS)
@choice_option("--commits", ("coalesce", "each"), _COMMITS)
@click.option("--location", metavar="DIR", help="Folder of a new table.  [default: below the warehouse]")
@click.option("--delete-directory", metavar="DIR", help=_DELETE_DIRECTORY)
@click.option("--time-zone", metavar="ZONE", help="Zone of partition timestamps that name none.  [default: UTC]")
@click.option("--verify", is_flag=True, help="Read the whole log and every manifest, and count everything again.")
@click.option("--force", is_flag=True, help="Sync even if someone else changed the table; their changes are undone.")
@dry_run_option
@click.option("--config", type=click.Path(path_type=Path), metavar="FILE", help=_CONFIG)
@click.option("--follow", is_flag=True, help="Sync again and again, until Ctrl-C or SIGTERM.")
@click.option("--interval", type=click.FloatRange(min=0, min_open=True), metavar="SECONDS", help=_INTERVAL)
def sync_delta(
    argument: TableArgument,
    output: Output,
    *,
    source: str | None = None,
    config: Path | None = None,
    follow: bool,
    interval: float | None = None,
    **options: Any,
) -> Answer:
    """Bring TABLE to the newest version of the Delta table in the folder SOURCE; create TABLE the first time.

    No data file is copied or rewritten: TABLE refers to Delta's. With --config, many tables are synced, one after the
    other; one that fails does not stop the others.

    \b
    Examples:
      deletekit sync-delta path/to/delta --warehouse wh demo.users
      deletekit sync-delta s3://b/delta --catalog prod demo.users --commits each
      deletekit sync-delta path/to/delta --warehouse wh demo.users --dry-run
      deletekit sync-delta --config tables.toml --follow --interval 30
    """  # noqa: D301  # click's \b keeps the lines of the examples apart
    asked = {name: value for name, value in options.items() if value is not False}
    targets = _targets(argument, source, config, asked)
    if interval is not None and not follow:
        raise click.UsageError("--interval needs --follow.")
    if follow:
        if "dry_run" in asked or "version" in asked:
            raise click.UsageError("--follow syncs newer and newer versions; --dry-run and --version are for one sync.")
        follow_targets(targets, output, _SECONDS if interval is None else interval)
        return Answer(document=None, text=())
    if config is not None:
        return sync_all(targets, output)
    when_interrupted("Files may be left that nothing needs: `deletekit clean-up-delta` finds them.")
    with output.waiting("Syncing"):
        done = targets[0].sync()
    return Answer(document=sync_document(targets[0].argument.table, done))


def _targets(
    argument: TableArgument, source: str | None, config: Path | None, asked: Mapping[str, Any]
) -> Sequence[SyncTarget]:
    if config is None:
        if source is None or argument.table is None:
            raise click.UsageError("give SOURCE and TABLE, or --config FILE.")
        return [SyncTarget(source=source, argument=argument, options=asked)]
    if source is not None or argument.catalog or argument.warehouse or argument.properties:
        raise click.UsageError("--config names the tables and their catalogs; give nothing else of them.")
    return read_targets(config, asked)


@verb_command("Cleaning up", "")
@older_than_option
@click.option("--orphan-hours", type=float, default=72, metavar="N", help=_ORPHAN_HOURS)
@dry_run_option
def clean_up_delta() -> None:
    """Expire old snapshots of a table that sync-delta made, and remove its own files, never Delta's files.

    \b
    Examples:
      deletekit clean-up-delta --warehouse wh demo.users --dry-run
      deletekit clean-up-delta --catalog prod demo.users --older-than 2026-01-31
    """  # noqa: D301  # click's \b keeps the lines of the examples apart


@verb_command("Repacking")
@branch_option("commit to")
def repack() -> None:
    """Copy deletion vectors that lie in files without a Puffin footer (Delta's, UniForm's) into Puffin files.

    \b
    Examples:
      deletekit repack --warehouse wh demo.users
    """  # noqa: D301  # click's \b keeps the lines of the examples apart
