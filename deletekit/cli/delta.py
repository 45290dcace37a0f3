"""The commands `sync-delta`, `clean-up-delta` and `repack`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click
from rich.console import RenderableType

import deletekit as dk
from deletekit.cli.changes import change_answer, change_command, failures, file_lists
from deletekit.cli.options import (
    TableAnswerCommand,
    branch_option,
    choice_option,
    dry_run_option,
    number_option,
    older_than_option,
    when_interrupted,
)
from deletekit.cli.printer import bold, pairs
from deletekit.cli.table_argument import TableArgument
from deletekit.cli.terminal import Answer, Output
from deletekit.safe_text import count

_READERS = {
    "Iceberg Java (Spark, Flink, ...)": "reads them by their offset",
    "deletekit": "reads them",
    "pyiceberg, polars": "do not: these files have no Puffin footer; `deletekit repack` copies them",
    "Delta's VACUUM": "deletes them when Delta no longer needs them: repack or sync before",
}
"""Which programs read vectors that lie in Delta's own files."""

_VECTORS = "Copy Delta's vectors into Puffin files, or refer to them where they are (format version 3)."
_COMMITS = "Make one snapshot for all new versions, or one for each."
_DELETE_DIRECTORY = "Folder of delete files.  [default: deletion-vectors below the table's]"
_ORPHAN_HOURS = "Remove files of failed syncs that are older; a running sync must be younger."


class _SyncCommand(TableAnswerCommand):
    """A command with SOURCE before TABLE."""

    def __init__(self, name: str | None, **settings: Any) -> None:
        super().__init__(name, **settings)
        self.params.insert(0, click.Argument(["source"], metavar="SOURCE"))


@click.command(cls=_SyncCommand, short_help="Follow a Delta table, deletes included.")
@number_option("--version", "Delta version.  [default: the latest]", click.IntRange(min=0))
@number_option("--format-version", "Format version of a new table.  [default: 3]", click.IntRange(2, 3))
@choice_option("--deletion-vectors", ("copy", "reference"), _VECTORS, default="copy")
@choice_option("--commits", ("coalesce", "each"), _COMMITS, default="coalesce")
@click.option("--location", metavar="DIR", help="Folder of a new table.  [default: below the warehouse]")
@click.option("--delete-directory", metavar="DIR", help=_DELETE_DIRECTORY)
@click.option("--time-zone", metavar="ZONE", help="Zone of partition timestamps that name none.  [default: UTC]")
@click.option(
    "--check-data-files/--trust-log",
    default=True,
    help="Compare the size of each new data file with the log; its rows and ids are always checked.",
)
@click.option("--force", is_flag=True, help="Sync even if someone else changed the table; their changes are undone.")
def sync_delta(argument: TableArgument, output: Output, source: str, **options: Any) -> Answer:
    """Bring TABLE to the newest version of the Delta table in the folder SOURCE; create TABLE the first time.

    No data file is copied or rewritten: TABLE refers to Delta's.

    \b
    Examples:
      deletekit sync-delta path/to/delta --warehouse wh demo.users
      deletekit sync-delta s3://b/delta --catalog prod demo.users --commits each
    """  # noqa: D301  # click's \b keeps the lines of the examples apart
    catalog = argument.open_catalog()
    when_interrupted("Files may be left that nothing needs: `deletekit clean-up-delta` finds them.")
    with output.waiting("Syncing"):
        done = dk.sync_delta(source, catalog, argument.table, **options)
    summary = {name: value for name, value in done.commit.summary.items() if name.startswith(("added-", "removed-"))}

    def text() -> Iterator[RenderableType]:
        verb = "was already at" if not done.commits and done.previous_version == done.version else "is at"
        snapshots = count(len(done.commits), "snapshot")
        yield bold(f"{argument.table} {verb} Delta version {done.version}, by {snapshots}")
        yield pairs(summary)
        if options["deletion_vectors"] == "reference" and done.table.metadata.version.has_deletion_vectors:
            yield bold("Vectors that lie in Delta's own files")
            yield pairs(_READERS)

    document = {
        "table": argument.table,
        "previous_version": done.previous_version,
        "version": done.version,
        "snapshot_ids": [commit.snapshot_id for commit in done.commits],
        "summary": summary,
    }
    return Answer(document=document, text=text())


@change_command("Cleaning up", "Remove what syncs left behind.", "")
@older_than_option
@click.option("--orphan-hours", type=float, default=72, metavar="N", help=_ORPHAN_HOURS)
@dry_run_option
def clean_up_delta(table: dk.Table, result: dk.DeltaCleanUp) -> Answer:
    """Expire old snapshots of a table that sync-delta made, and remove its own files, never Delta's files.

    \b
    Examples:
      deletekit clean-up-delta --warehouse wh demo.users --dry-run
      deletekit clean-up-delta --catalog prod demo.users --older-than 2026-01-31
    """  # noqa: D301  # click's \b keeps the lines of the examples apart
    verb = "would expire" if result.dry_run else "expired"
    return change_answer(
        table,
        result,
        f"{count(len(result.snapshot_ids), 'snapshot')} of {table.name} {verb}",
        failures(result.failed_files, table.location),
        files={("Files", "removed"): result.deleted_files},
    )


@change_command("Repacking", "Copy vectors into true Puffin files.")
@branch_option("commit to")
def repack(table: dk.Table, result: dk.RepackedVectors) -> Answer:
    """Copy deletion vectors that lie in files without a Puffin footer (Delta's, UniForm's) into Puffin files.

    \b
    Examples:
      deletekit repack --warehouse wh demo.users
    """  # noqa: D301  # click's \b keeps the lines of the examples apart
    document = {
        "table": table.name,
        "vectors": result.vectors,
        "files": result.files,
        "snapshot_id": result.commit.snapshot_id if result.commit else None,
    }
    files = file_lists({("Files", "no longer needed"): result.files}, table.location, dry_run=False)
    headline = bold(f"{count(result.vectors, 'deletion vector')} of {table.name} copied")
    return Answer(document=document, text=[headline, *files])
