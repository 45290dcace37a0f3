"""The commands `expire-snapshots`, `remove-orphan-files` and `rewrite-manifests`."""

from __future__ import annotations

from typing import Any

import click

import deletekit as dk
from deletekit.cli.changes import change, change_answer, failures, kept_files
from deletekit.cli.options import (
    TableAnswerCommand,
    branch_option,
    dry_run_option,
    key_values,
    older_than_option,
    other_locations_option,
)
from deletekit.cli.printer import Unbroken, some
from deletekit.cli.table_argument import TableArgument
from deletekit.cli.terminal import Answer, Output
from deletekit.safe_text import count, short

_EXPIRED_FILES = {
    "deleted_data_files": "Data files",
    "deleted_position_delete_files": "Position delete files",
    "deleted_deletion_vector_files": "Puffin files",
    "deleted_equality_delete_files": "Equality delete files",
    "deleted_manifest_files": "Manifests",
    "deleted_manifest_lists": "Manifest lists",
    "deleted_statistics_files": "Statistics files",
}


@click.command(cls=TableAnswerCommand, short_help="Remove old snapshots, and what only they need.")
@older_than_option
@click.option(
    "--retain-last",
    type=click.IntRange(min=1),
    metavar="N",
    help="Keep so many newest snapshots of a branch, whatever their age.  [default: the table's]",
)
@click.option(
    "--snapshot", "snapshot_ids", type=int, multiple=True, metavar="ID", help="Expire this snapshot too; repeatable."
)
@other_locations_option
@dry_run_option
def expire_snapshots(argument: TableArgument, output: Output, *, dry_run: bool, **options: Any) -> Answer:
    """Remove old snapshots and old refs, then the files that no other snapshot needs.

    Without --older-than, the table's history.expire.* properties say what is old: 5 days.
    Files outside of the table's own folders stay, and are listed.

    \b
    Examples:
      deletekit expire-snapshots --warehouse wh demo.users --dry-run
      deletekit expire-snapshots --warehouse wh demo.users --older-than 2026-01-31
      deletekit expire-snapshots --catalog prod demo.users --retain-last 10
    """  # noqa: D301  # click's \b keeps the lines of the examples apart
    warning = "Files may be left that nothing needs: `deletekit remove-orphan-files` finds them."
    table, result = change(
        dk.expire_snapshots, argument, output, "Expiring snapshots", interrupted=warning, dry_run=dry_run, **options
    )
    refs = f" and {count(len(result.refs), 'ref')} ({', '.join(result.refs)})" if result.refs else ""
    files = {(title, "removed"): getattr(result, name) for name, title in _EXPIRED_FILES.items()}
    return change_answer(
        table,
        result,
        f"{count(len(result.snapshot_ids), 'snapshot')}{refs} of {table.name} "
        + ("would expire" if dry_run else "expired"),
        kept_files(result.kept_files, table.location, dry_run=dry_run),
        failures(result.failed_files, table.location),
        files=files,
    )


@click.command(cls=TableAnswerCommand, short_help="Remove files that nothing in the table needs.")
@older_than_option
@click.option("--location", metavar="DIR", help="Look only here.  [default: the table's location]")
@click.option(
    "--prefix-mismatch-mode",
    type=click.Choice(("error", "ignore", "delete")),
    default="error",
    show_default=True,
    help="What to do with a file that metadata names by another scheme or host.",
)
@click.option(
    "--equal-scheme",
    "equal_schemes",
    multiple=True,
    metavar="A,B=C",
    callback=key_values,
    help="Treat schemes A and B as C; repeatable.",
)
@click.option(
    "--equal-authority",
    "equal_authorities",
    multiple=True,
    metavar="A,B=C",
    callback=key_values,
    help="Treat hosts A and B as C; repeatable.",
)
@click.option("--force", is_flag=True, help="Allow files younger than 24 hours. Use it only if nothing else writes.")
@dry_run_option
def remove_orphan_files(argument: TableArgument, output: Output, *, dry_run: bool, **options: Any) -> Answer:
    """Remove files below the table's location that no snapshot needs, if they are older than 3 days.

    \b
    Examples:
      deletekit remove-orphan-files --warehouse wh demo.users --dry-run
      deletekit remove-orphan-files --catalog c demo.users --older-than 2026-01-31
    """  # noqa: D301  # click's \b keeps the lines of the examples apart
    table, result = change(
        dk.remove_orphan_files,
        argument,
        output,
        "Looking for orphans",
        interrupted="",
        dry_run=dry_run,
        **options,
    )
    orphans = count(len(result.orphan_files), "orphan")
    verb = "would be removed" if dry_run else "removed"
    return change_answer(
        table,
        result,
        f"{orphans} of {count(result.listed_files, 'file')} of {table.name} {verb}",
        some([Unbroken(short(path, result.location)) for path in result.orphan_files]),
        failures(result.failed_files, result.location),
    )


@click.command(cls=TableAnswerCommand, short_help="Combine manifests, so that planning reads less.")
@click.option("--spec-id", type=int, metavar="ID", help="Only manifests of this partition spec.  [default: of each]")
@branch_option("commit to")
@dry_run_option
def rewrite_manifests(argument: TableArgument, output: Output, *, dry_run: bool, **options: Any) -> Answer:
    """Combine manifests, clustered by partition, into new ones of commit.manifest.target-size-bytes.

    \b
    Examples:
      deletekit rewrite-manifests --warehouse wh demo.users
      deletekit rewrite-manifests --catalog prod demo.users --dry-run
    """  # noqa: D301  # click's \b keeps the lines of the examples apart
    table, result = change(dk.rewrite_manifests, argument, output, "Rewriting manifests", dry_run=dry_run, **options)
    old = count(len(result.rewritten_manifests), "manifest")
    headline = f"{old} of {table.name} {'would become' if dry_run else 'became'} {result.added_manifests_count:,}"
    return change_answer(
        table,
        result,
        headline if result.rewritten_manifests else f"No manifest of {table.name} needs rewriting",
        files={("Manifests", "replaced"): result.rewritten_manifests, ("Manifests", "added"): result.added_manifests},
    )
