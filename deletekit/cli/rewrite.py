"""The commands that rewrite data files or deletes: `compact`, `erase` and others."""

from __future__ import annotations

from typing import Any

import click
from rich.text import Text

import deletekit as dk
from deletekit.cli.changes import change_answer, change_command, done, failures, file_lists, kept_files
from deletekit.cli.options import (
    Callback,
    branch_option,
    dry_run_option,
    number_option,
    other_locations_option,
    repeated_option,
)
from deletekit.cli.printer import heading
from deletekit.cli.terminal import Answer
from deletekit.safe_text import count, plain

_LEFT = "Left unchanged"
_RATIO = "Rewrite a file with this share of rows deleted.  [default: 0.3]"
_SIZES = {
    "--target-file-size-bytes": "Size of new files.  [default: the table's]",
    "--min-file-size-bytes": "Rewrite smaller files.  [default: 0.75 x target]",
    "--max-file-size-bytes": "Rewrite larger files.  [default: 1.8 x target]",
    "--min-input-files": "Leave groups of fewer files alone.  [default: 5]",
    "--max-file-group-size-bytes": "Rewrite at most so much together.  [default: 100 GB]",
}

_where_option = click.option("--where", metavar="FILTER", help="Only files that may hold rows of this filter.")


def _size_options(command: Callback) -> Callback:
    command = click.option("--rewrite-all", is_flag=True, help="Rewrite every file, whatever its size.")(command)
    for name, what in reversed(_SIZES.items()):
        command = number_option(name, what)(command)
    return command


@change_command("Compacting")
@_where_option
@branch_option("commit to")
@_size_options
@number_option("--delete-file-threshold", "Rewrite a file with so many delete files.")
@number_option(
    "--delete-ratio-threshold", "Rewrite a file with this share of rows deleted.  [default: 0.3]", float, "R"
)
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
def compact(table: dk.Table, result: dk.CompactedFiles) -> Answer:
    """Rewrite data files that are too small, too large or full of deleted rows: Iceberg's rewrite_data_files.

    \b
    Examples:
      deletekit compact --warehouse wh demo.users --dry-run
      deletekit compact --catalog prod demo.users --where "day = '2026-01-31'"
    """  # noqa: D301  # click's \b keeps the lines of the examples apart
    groups = f", in {count(result.file_groups, 'group')}" if result.dry_run else ""
    return change_answer(
        table,
        result,
        f"{count(len(result.rewritten_data_files), 'data file')} of {table.name} {done(result, 'rewritten')}{groups}",
        failures(result.failed_data_files, table.location, _LEFT),
        files={
            ("Data files", "replaced"): result.rewritten_data_files,
            ("Data files", "added"): result.added_data_files,
            ("Delete files", "removed"): result.removed_delete_files,
        },
    )


@change_command("Rewriting deletes")
@_where_option
@branch_option("commit to")
@_size_options
@dry_run_option
def rewrite_position_deletes(table: dk.Table, result: dk.RewrittenPositionDeletes) -> Answer:
    """Combine position delete files; in a v3 table, turn them into deletion vectors.

    \b
    Examples:
      deletekit rewrite-position-deletes --warehouse wh demo.users
    """  # noqa: D301  # click's \b keeps the lines of the examples apart
    files = count(len(result.rewritten_delete_files), "position delete file")
    return change_answer(
        table,
        result,
        f"{files} of {table.name} {done(result, 'rewritten')}",
        files={
            ("Delete files", "replaced"): result.rewritten_delete_files,
            ("Delete files", "added"): result.added_delete_files,
        },
    )


@change_command("Converting")
@_where_option
@branch_option("commit to")
@dry_run_option
def convert_equality_deletes(table: dk.Table, result: dk.ConvertedEqualityDeletes) -> Answer:
    """Find the rows that equality deletes hide, and write deletion vectors (v3) or position deletes (v2) instead.

    \b
    Examples:
      deletekit convert-equality-deletes --warehouse wh demo.users --dry-run
    """  # noqa: D301  # click's \b keeps the lines of the examples apart
    files = count(len(result.converted_delete_files), "equality delete file")
    return change_answer(
        table,
        result,
        f"{files} of {table.name} {done(result, 'converted')}, for {count(result.data_files, 'data file')}",
        files={
            ("Equality delete files", "removed"): result.converted_delete_files,
            ("Delete files", "added"): result.added_delete_files,
        },
    )


@change_command("Looking at deletes")
@branch_option("commit to")
@dry_run_option
def remove_dangling_deletes(table: dk.Table, result: dk.RemovedDeletes) -> Answer:
    """Remove delete files that apply to no live data file.

    \b
    Examples:
      deletekit remove-dangling-deletes --warehouse wh demo.users --dry-run
    """  # noqa: D301  # click's \b keeps the lines of the examples apart
    files = {
        ("Equality delete files", "removed"): result.equality_delete_files,
        ("Position delete files", "removed"): result.position_delete_files,
        ("Deletion vectors", "removed"): result.deletion_vectors,
    }
    headline = f"{count(sum(map(len, files.values())), 'dangling delete')} of {table.name} {done(result, 'removed')}"
    return change_answer(table, result, headline, failures(result.refused, table.location, _LEFT), files=files)


@change_command("Erasing")
@click.argument("where", metavar="FILTER")
@repeated_option("--ref", "refs", "BRANCH", "Branch to clean; repeatable.  [default: main]")
@click.option("--all-refs", is_flag=True, help="Clean every branch, and drop tags that hold the rows.")
@click.option("--unreferenced", is_flag=True, help="Expire staged snapshots that hold the rows, too.")
@other_locations_option
@dry_run_option
def erase(table: dk.Table, result: dk.Erasure) -> Answer:
    """Remove rows from every file of the branches' snapshots, old snapshots included.

    Then check, and list what still holds the rows. The exit code is 1 while any branch, tag
    or snapshot does, even one that you did not ask to clean.

    \b
    Examples:
      deletekit erase --warehouse wh demo.users "email = 'a@example.org'"
      deletekit erase --catalog prod demo.users "id = 1" --ref main --ref audit
    """  # noqa: D301  # click's \b keeps the lines of the examples apart
    erased = "Erased" if result.is_erased else "Not erased"
    headline = f"Files of {table.name} that hold the rows" if result.dry_run else f"{erased} from {table.name}"
    held: Any = {
        (f"Still in {ref or 'no ref'}", "held"): sorted({h.file for h in found})
        for ref, found in result.remaining.items()
    }
    expired = result.expired
    return change_answer(
        table,
        result,
        f"{headline}: {count(result.files_read, 'file')} looked into",
        file_lists(held, table.location, dry_run=False),
        file_lists({("Tags", "dropped"): result.dropped_tags}, table.location, dry_run=result.dry_run),
        kept_files(expired.kept_files if expired else (), table.location, dry_run=result.dry_run),
        failures(expired.failed_files if expired else {}, table.location),
        [heading("Not looked into"), *(Text(plain(f"  {place}")) for place in result.not_inspected)],
        exit_code=0 if result.is_erased or result.dry_run else 1,
        is_erased=result.is_erased,
    )
