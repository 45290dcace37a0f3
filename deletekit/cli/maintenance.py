"""The commands that maintain a table, and those that move a branch. Each calls the verb of its name."""

from __future__ import annotations

import click

from deletekit.cli.options import (
    Callback,
    branch_option,
    choice_option,
    dry_run_option,
    key_values,
    number_option,
    number_or_text,
    older_than_option,
    one_of,
    other_locations_option,
    repeated_option,
)
from deletekit.cli.verb_command import verb_command

_RETAIN_LAST = "Keep so many newest snapshots of a branch, whatever their age.  [default: the table's]"
_MISMATCH = "What to do with a file that metadata names by another scheme or host."
_LEFT_FILES = "Files may be left that nothing needs: `deletekit remove-orphan-files` finds them."
_RATIO = "Rewrite a file with this share of rows deleted.  [default: 0.3]"
_SIZES = {
    "--target-file-size-bytes": "Size of new files.  [default: the table's]",
    "--min-file-size-bytes": "Rewrite smaller files.  [default: 0.75 x target]",
    "--max-file-size-bytes": "Rewrite larger files.  [default: 1.8 x target]",
    "--min-input-files": "Leave groups of fewer files alone.  [default: 5]",
    "--max-file-group-size-bytes": "Rewrite at most so much together.  [default: 100 GB]",
}
_ON_CONFLICT = "Leave rows alone that later commits changed too.  [default: refuse]"
_where_option = click.option("--where", metavar="FILTER", help="Only files that may hold rows of this filter.")
_MOVING = "Moving the branch"
_AS_OF = "Instead of SNAPSHOT: the last one made before this time, as ISO 8601 or in ms."
_snapshot_argument = click.argument("snapshot_id", metavar="[SNAPSHOT]", type=int, required=False)


@verb_command("Expiring snapshots", _LEFT_FILES)
@older_than_option
@number_option("--retain-last", _RETAIN_LAST, click.IntRange(min=1))
@repeated_option("--snapshot", "snapshot_ids", "ID", "Expire this snapshot too; repeatable.", type=int)
@other_locations_option
@dry_run_option
def expire_snapshots() -> None:
    """Remove old snapshots and old refs, then the files that no other snapshot needs.

    Without --older-than, the table's history.expire.* properties say what is old: 5 days.
    Files outside of the table's own folders stay, and are listed.

    \b
    Examples:
      deletekit expire-snapshots --warehouse wh demo.users --dry-run
      deletekit expire-snapshots --warehouse wh demo.users --older-than 2026-01-31
      deletekit expire-snapshots --catalog prod demo.users --retain-last 10
    """  # noqa: D301  # click's \b keeps the lines of the examples apart


@verb_command("Looking for orphans", "")
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
def remove_orphan_files() -> None:
    """Remove files below the table's location that no snapshot needs, if they are older than 3 days.

    \b
    Examples:
      deletekit remove-orphan-files --warehouse wh demo.users --dry-run
      deletekit remove-orphan-files --catalog c demo.users --older-than 2026-01-31
    """  # noqa: D301  # click's \b keeps the lines of the examples apart


@verb_command("Rewriting manifests")
@click.option("--spec-id", type=int, metavar="ID", help="Only manifests of this partition spec.  [default: of each]")
@branch_option("commit to")
@dry_run_option
def rewrite_manifests() -> None:
    """Combine manifests, clustered by partition, into new ones of commit.manifest.target-size-bytes.

    \b
    Examples:
      deletekit rewrite-manifests --warehouse wh demo.users
      deletekit rewrite-manifests --catalog prod demo.users --dry-run
    """  # noqa: D301  # click's \b keeps the lines of the examples apart


def _size_options(command: Callback) -> Callback:
    command = click.option("--rewrite-all", is_flag=True, help="Rewrite every file, whatever its size.")(command)
    for name, what in reversed(_SIZES.items()):
        command = number_option(name, what)(command)
    return command


@verb_command("Compacting")
@_where_option
@branch_option("commit to")
@_size_options
@number_option("--delete-file-threshold", "Rewrite a file with so many delete files.")
@number_option("--delete-ratio-threshold", _RATIO, float, "R")
@click.option("--strategy", type=click.Choice(["binpack", "sort"]), default="binpack", help="Sort rows, or not.")
@click.option(
    "--sort-order", metavar="ORDER", multiple=True, help="To sort by: a column, desc, nulls last; zorder(a, b)."
)
@click.option("--partial-progress", is_flag=True, help="Commit in several parts.")
@number_option("--max-commits", "With --partial-progress: at most so many.  [default: 10]")
@click.option(
    "--use-starting-sequence-number/--no-use-starting-sequence-number",
    default=True,
    help="Give new files the sequence number of the snapshot that was read.",
)
@dry_run_option
def compact() -> None:
    """Rewrite data files that are too small, too large or full of deleted rows: Iceberg's rewrite_data_files.

    \b
    Examples:
      deletekit compact --warehouse wh demo.users --dry-run
      deletekit compact --catalog prod demo.users --where "day = '2026-01-31'"
    """  # noqa: D301  # click's \b keeps the lines of the examples apart


@verb_command("Rewriting deletes")
@_where_option
@branch_option("commit to")
@_size_options
@dry_run_option
def rewrite_position_deletes() -> None:
    """Combine position delete files; in a v3 table, turn them into deletion vectors.

    \b
    Examples:
      deletekit rewrite-position-deletes --warehouse wh demo.users
    """  # noqa: D301  # click's \b keeps the lines of the examples apart


@verb_command("Converting")
@_where_option
@branch_option("commit to")
@dry_run_option
def convert_equality_deletes() -> None:
    """Find the rows that equality deletes hide, and write deletion vectors (v3) or position deletes (v2) instead.

    \b
    Examples:
      deletekit convert-equality-deletes --warehouse wh demo.users --dry-run
    """  # noqa: D301  # click's \b keeps the lines of the examples apart


@verb_command("Looking at deletes")
@branch_option("commit to")
@dry_run_option
def remove_dangling_deletes() -> None:
    """Remove delete files that apply to no live data file.

    \b
    Examples:
      deletekit remove-dangling-deletes --warehouse wh demo.users --dry-run
    """  # noqa: D301  # click's \b keeps the lines of the examples apart


@verb_command("Erasing", failed=lambda result: not (result.is_erased or result.dry_run))
@click.argument("where", metavar="FILTER")
@repeated_option("--ref", "refs", "BRANCH", "Branch to clean; repeatable.  [default: main]")
@click.option("--all-refs", is_flag=True, help="Clean every branch, and drop tags that hold the rows.")
@click.option("--unreferenced", is_flag=True, help="Expire staged snapshots that hold the rows, too.")
@other_locations_option
@click.option("--certificate", metavar="FILE", help="Search all files for the values, and certify what was found.")
@click.option("--key", metavar="PEM", help="Sign the certificate with this Ed25519 private key.")
@dry_run_option
def erase() -> None:
    """Remove rows from every file of the branches' snapshots, old snapshots included.

    Then check, and list what still holds the rows. The exit code is 1 while any branch, tag
    or snapshot does, even one that you did not ask to clean.

    \b
    Examples:
      deletekit erase --warehouse wh demo.users "email = 'a@example.org'"
      deletekit erase --catalog prod demo.users "id = 1" --ref main --ref audit
      deletekit erase --catalog c d.users "id = 1" --certificate x --key k.pem
    """  # noqa: D301  # click's \b keeps the lines of the examples apart


@verb_command(_MOVING)
@one_of("give SNAPSHOT or --as-of, one of them.", "snapshot_id", "as_of", needed=True)
@_snapshot_argument
@click.option("--as-of", type=number_or_text, metavar="TIME", help=_AS_OF)
@branch_option("roll back")
@dry_run_option
def rollback() -> None:
    """Make SNAPSHOT, an ancestor of the branch's head, its head again.

    \b
    Examples:
      deletekit rollback --warehouse wh demo.users 4532178932145
      deletekit rollback --warehouse wh demo.users --as-of 2026-01-31T12:00
    """  # noqa: D301  # click's \b keeps the lines of the examples apart


@verb_command(_MOVING)
@one_of("give SNAPSHOT or --ref, one of them.", "snapshot_id", "ref", needed=True)
@_snapshot_argument
@click.option("--ref", metavar="NAME", help="Instead of SNAPSHOT: the head of this branch or tag.")
@click.option("--branch", default="main", metavar="BRANCH", help="Branch to change.")
@dry_run_option
def set_current_snapshot() -> None:
    """Make SNAPSHOT, an ancestor or not, the head of a branch.

    \b
    Examples:
      deletekit set-current-snapshot --warehouse wh demo.users 4532178932145
      deletekit set-current-snapshot --warehouse wh demo.users --ref audited
    """  # noqa: D301  # click's \b keeps the lines of the examples apart


@verb_command(_MOVING)
@click.argument("branch")
@click.argument("to")
@dry_run_option
def fast_forward() -> None:
    """Move BRANCH to the head of TO, a branch or tag that descends from it.

    \b
    Examples:
      deletekit fast-forward --warehouse wh demo.users main audit
    """  # noqa: D301  # click's \b keeps the lines of the examples apart


@verb_command("Picking the snapshot")
@click.argument("snapshot_id", metavar="SNAPSHOT", type=int)
@branch_option("commit to")
@dry_run_option
def cherry_pick() -> None:
    """Do on a branch what SNAPSHOT did elsewhere: publish a staged append, or a dynamic overwrite.

    \b
    Examples:
      deletekit cherry-pick --warehouse wh demo.users 4532178932145
    """  # noqa: D301  # click's \b keeps the lines of the examples apart


@verb_command("Reverting")
@click.argument("snapshot_id", metavar="SNAPSHOT", type=int)
@branch_option("commit to")
@choice_option("--on-conflict", ("skip",), _ON_CONFLICT)
@dry_run_option
def revert() -> None:
    """Undo what SNAPSHOT did to rows, in one commit, and keep what later commits did.

    Rows that it deleted are inserted again, rows that it inserted are deleted.

    \b
    Examples:
      deletekit revert --warehouse wh demo.users 4532178932145 --dry-run
      deletekit revert --catalog prod demo.users 4532178932145 --on-conflict skip
    """  # noqa: D301  # click's \b keeps the lines of the examples apart
