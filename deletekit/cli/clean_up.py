"""The commands `expire-snapshots`, `remove-orphan-files` and `rewrite-manifests`."""

from __future__ import annotations

import click

import deletekit as dk
from deletekit.cli.changes import change_answer, change_command, done, failures, kept_files
from deletekit.cli.options import (
    branch_option,
    choice_option,
    dry_run_option,
    key_values,
    number_option,
    older_than_option,
    other_locations_option,
    repeated_option,
)
from deletekit.cli.printer import Unbroken, some
from deletekit.cli.terminal import Answer
from deletekit.safe_text import count, short

_EXPIRED_FILES = {
    "deleted_data_files": "Data files",
    "deleted_position_delete_files": "Position delete files",
    "deleted_deletion_vector_files": "Puffin files",
    "deleted_equality_delete_files": "Equality delete files",
    "deleted_manifest_files": "Manifests",
    "deleted_manifest_lists": "Manifest lists",
    "deleted_statistics_files": "Statistics files",
    "deleted_key_index_files": "Key index files",
    "deleted_file_logs": "Logs of applied files",
}


_RETAIN_LAST = "Keep so many newest snapshots of a branch, whatever their age.  [default: the table's]"
_MISMATCH = "What to do with a file that metadata names by another scheme or host."
_LEFT_FILES = "Files may be left that nothing needs: `deletekit remove-orphan-files` finds them."


@change_command("Expiring snapshots", _LEFT_FILES)
@older_than_option
@number_option("--retain-last", _RETAIN_LAST, click.IntRange(min=1))
@repeated_option("--snapshot", "snapshot_ids", "ID", "Expire this snapshot too; repeatable.", type=int)
@other_locations_option
@dry_run_option
def expire_snapshots(table: dk.Table, result: dk.ExpiredSnapshots) -> Answer:
    """Remove old snapshots and old refs, then the files that no other snapshot needs.

    Without --older-than, the table's history.expire.* properties say what is old: 5 days.
    Files outside of the table's own folders stay, and are listed.

    \b
    Examples:
      deletekit expire-snapshots --warehouse wh demo.users --dry-run
      deletekit expire-snapshots --warehouse wh demo.users --older-than 2026-01-31
      deletekit expire-snapshots --catalog prod demo.users --retain-last 10
    """  # noqa: D301  # click's \b keeps the lines of the examples apart
    refs = f" and {count(len(result.refs), 'ref')} ({', '.join(result.refs)})" if result.refs else ""
    verb = "would expire" if result.dry_run else "expired"
    return change_answer(
        table,
        result,
        f"{count(len(result.snapshot_ids), 'snapshot')}{refs} of {table.name} {verb}",
        kept_files(result.kept_files, table.location, dry_run=result.dry_run),
        failures(result.failed_files, table.location),
        files={(title, "removed"): getattr(result, name) for name, title in _EXPIRED_FILES.items()},
    )


@change_command("Looking for orphans", "")
@older_than_option
@click.option("--location", metavar="DIR", help="Look only here.  [default: the table's location]")
@choice_option("--prefix-mismatch-mode", ("error", "ignore", "delete"), _MISMATCH, default="error")
@repeated_option(
    "--equal-scheme", "equal_schemes", "A,B=C", "Treat schemes A and B as C; repeatable.", callback=key_values
)
@repeated_option(
    "--equal-authority", "equal_authorities", "A,B=C", "Treat hosts A and B as C; repeatable.", callback=key_values
)
@click.option("--force", is_flag=True, help="Allow files younger than 24 hours. Use it only if nothing else writes.")
@dry_run_option
def remove_orphan_files(table: dk.Table, result: dk.OrphanFiles) -> Answer:
    """Remove files below the table's location that no snapshot needs, if they are older than 3 days.

    \b
    Examples:
      deletekit remove-orphan-files --warehouse wh demo.users --dry-run
      deletekit remove-orphan-files --catalog c demo.users --older-than 2026-01-31
    """  # noqa: D301  # click's \b keeps the lines of the examples apart
    orphans, files = count(len(result.orphan_files), "orphan"), count(result.listed_files, "file")
    return change_answer(
        table,
        result,
        f"{orphans} of {files} of {table.name} {done(result, 'removed')}",
        some([Unbroken(short(path, result.location)) for path in result.orphan_files]),
        failures(result.failed_files, result.location),
    )


@change_command("Rewriting manifests")
@click.option("--spec-id", type=int, metavar="ID", help="Only manifests of this partition spec.  [default: of each]")
@branch_option("commit to")
@dry_run_option
def rewrite_manifests(table: dk.Table, result: dk.RewrittenManifests) -> Answer:
    """Combine manifests, clustered by partition, into new ones of commit.manifest.target-size-bytes.

    \b
    Examples:
      deletekit rewrite-manifests --warehouse wh demo.users
      deletekit rewrite-manifests --catalog prod demo.users --dry-run
    """  # noqa: D301  # click's \b keeps the lines of the examples apart
    old = count(len(result.rewritten_manifests), "manifest")
    verb = "would become" if result.dry_run else "became"
    headline = f"{old} of {table.name} {verb} {result.added_manifests_count:,}"
    return change_answer(
        table,
        result,
        headline if result.rewritten_manifests else f"No manifest of {table.name} needs rewriting",
        files={("Manifests", "replaced"): result.rewritten_manifests, ("Manifests", "added"): result.added_manifests},
    )
