"""`deletekit sync-delta`, `clean-up-delta` and `repack`."""

from __future__ import annotations

from typing import Any

import click
from rich.text import Text

import deletekit as dk
from deletekit.cli.clean_up import document, failures, lists
from deletekit.cli.options import (
    TableSource,
    dry_run_option,
    output_options,
    table_options,
    time_of,
    when_interrupted,
)
from deletekit.cli.printer import nothing_changed, pairs
from deletekit.cli.table_argument import open_catalog, open_table
from deletekit.cli.terminal import Output, show, show_json
from deletekit.cli.text import count, plain

__all__ = ["READERS", "clean_up_delta", "repack", "sync_delta"]

READERS = {
    "Iceberg Java (Spark, Flink, ...)": "reads them by their offset",
    "deletekit": "reads them",
    "pyiceberg, polars": "do not: these files have no Puffin footer; `deletekit repack` copies them",
    "Delta's VACUUM": "deletes them once Delta no longer needs them: repack or sync before",
}
"""Who reads vectors that lie in Delta's own files."""


@click.command("sync-delta", short_help="Follow a Delta table, deletes included.")
@click.argument("source_location", metavar="SOURCE")
@table_options
@click.option("--version", type=click.IntRange(min=0), metavar="N", help="Delta version.  [default: the latest]")
@click.option("--format-version", type=click.IntRange(2, 3), metavar="N", help="Of a new table.  [default: 3]")
@click.option(
    "--deletion-vectors",
    type=click.Choice(("copy", "reference")),
    default="copy",
    show_default=True,
    help="Copy Delta's vectors into Puffin files, or point at them where they are (format version 3).",
)
@click.option(
    "--commits",
    type=click.Choice(("coalesce", "each")),
    default="coalesce",
    show_default=True,
    help="One snapshot for all that is new, or one for each Delta version.",
)
@click.option("--location", metavar="DIR", help="Where a new table's files go.  [default: below the warehouse]")
@click.option("--delete-directory", metavar="DIR", help="Where delete files go.  [default: deletion-vectors below it]")
@click.option("--time-zone", metavar="ZONE", help="Of partition timestamps that name none.  [default: UTC]")
@click.option(
    "--check-data-files/--trust-log",
    default=True,
    show_default=True,
    help="Compare the size of each new data file with the log; its rows and ids always are.",
)
@click.option("--force", is_flag=True, help="Make the table what Delta has, though someone else changed it.")
@output_options
def sync_delta(source: TableSource, *, force: bool, output: Output, **how: Any) -> None:
    """Bring TABLE to the newest version of the Delta table in the folder SOURCE; create it the first time.

    No data file is copied or rewritten: TABLE refers to Delta's.

    \b
    Examples:
      deletekit sync-delta path/to/delta --warehouse wh demo.users
      deletekit sync-delta s3://b/delta --catalog prod demo.users --commits each
    """  # noqa: D301  # click's \b keeps the lines of the examples apart
    given = {name: value for name, value in how.items() if value is not None}
    catalog = open_catalog(source)
    when_interrupted("Files may be left that nothing needs: `deletekit clean-up-delta` finds them.")
    with output.waiting("Syncing"):
        done = dk.sync_delta(given.pop("source_location"), catalog, source.table, force=force, **given)
    summary = {name: value for name, value in done.commit.summary.items() if name.startswith(("added-", "removed-"))}
    if output.as_json:
        ids = [c.snapshot_id for c in done.commits]
        before = {"previous_version": done.previous_version, "version": done.version}
        show_json({"table": source.table, **before, "snapshot_ids": ids, "summary": summary})
        return
    verb = "is at" if done.commits else "was already at" if done.previous_version == done.version else "is at"
    snapshots = count(len(done.commits), "snapshot")
    show(
        Text(plain(f"{source.table} {verb} Delta version {done.version}, by {snapshots}"), style="bold"),
        pairs(summary),
    )
    if how["deletion_vectors"] == "reference" and done.table.metadata.version.has_deletion_vectors:
        show(Text("Vectors that lie in Delta's own files", style="bold"), pairs(READERS))


@click.command("clean-up-delta", short_help="Remove what syncs left behind.")
@table_options
@click.option(
    "--older-than", metavar="TIME", help="ISO 8601 (UTC unless it says otherwise), or milliseconds since 1970."
)
@click.option(
    "--orphan-hours",
    type=float,
    default=72,
    show_default=True,
    metavar="N",
    help="Age of files that broken-off syncs left; a running sync must be younger.",
)
@dry_run_option
@output_options
def clean_up_delta(
    source: TableSource, *, older_than: str | None, orphan_hours: float, dry_run: bool, output: Output
) -> None:
    """Expire old snapshots of a table that sync-delta made, and remove its own files; never one of Delta's.

    \b
    Examples:
      deletekit clean-up-delta --warehouse wh demo.users --dry-run
      deletekit clean-up-delta --catalog prod demo.users --older-than 2026-01-31
    """  # noqa: D301  # click's \b keeps the lines of the examples apart
    table = open_table(source)
    with output.waiting("Cleaning up"):
        done = dk.clean_up_delta(table, older_than=time_of(older_than), orphan_hours=orphan_hours, dry_run=dry_run)
    if output.as_json:
        show_json({"table": table.name, **document(done)})
        return
    verb = "would expire" if dry_run else "expired"
    show(
        Text(plain(f"{count(len(done.snapshot_ids), 'snapshot')} of {table.name} {verb}"), style="bold"),
        *lists({"Files": done.deleted_files}, table.location, dry_run),
        *failures(done.failed_files, table.location),
        *nothing_changed(dry_run),
    )


@click.command("repack", short_help="Copy vectors into true Puffin files.")
@table_options
@click.option("--ref", default="main", show_default=True, metavar="BRANCH", help="Branch to commit to.")
@output_options
def repack(source: TableSource, *, ref: str, output: Output) -> None:
    """Copy deletion vectors that lie in files without a Puffin footer (Delta's, UniForm's) into Puffin files.

    \b
    Examples:
      deletekit repack --warehouse wh demo.users
    """  # noqa: D301  # click's \b keeps the lines of the examples apart
    table = open_table(source)
    when_interrupted("Whether it was committed is not known: look with `deletekit inspect`.")
    with output.waiting("Repacking"):
        done = dk.repack(table, ref=ref)
    if output.as_json:
        snapshot_id = done.commit.snapshot_id if done.commit else None
        show_json({"table": table.name, "vectors": done.vectors, "files": done.files, "snapshot_id": snapshot_id})
        return
    show(
        Text(plain(f"{count(done.vectors, 'deletion vector')} of {table.name} copied"), style="bold"),
        *lists({"Files": done.files}, table.location, dry_run=False, verb="no longer needed"),
    )
