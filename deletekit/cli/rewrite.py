"""`deletekit compact`, and the other commands that rewrite data files or deletes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click
from rich.text import Text

import deletekit as dk
from deletekit.cli.clean_up import document, failures, kept, lists
from deletekit.cli.options import (
    TableSource,
    dry_run_option,
    other_locations_option,
    output_options,
    table_options,
    when_interrupted,
)
from deletekit.cli.printer import heading, nothing_changed
from deletekit.cli.table_argument import open_table
from deletekit.cli.terminal import Output, show, show_json
from deletekit.cli.text import count, plain

__all__ = ["compact", "convert_equality_deletes", "erase", "remove_dangling_deletes", "rewrite_position_deletes"]

Command = Callable[..., None]

_INTERRUPTED = "Whether it was committed is not known: look with `deletekit inspect`."
_ref = click.option("--ref", default="main", show_default=True, metavar="BRANCH", help="Branch to commit to.")
_where = click.option("--where", metavar="FILTER", help="Only files that may hold rows of this filter.")


def _size_options(command: Command) -> Command:
    """Options of `SizeOptions`; those not given are left to the verb."""

    @click.option("--target-file-size-bytes", type=int, metavar="N", help="Size of new files.  [default: the table's]")
    @click.option(
        "--min-file-size-bytes", type=int, metavar="N", help="Rewrite smaller ones.  [default: 0.75 x target]"
    )
    @click.option("--max-file-size-bytes", type=int, metavar="N", help="Rewrite larger ones.  [default: 1.8 x target]")
    @click.option("--min-input-files", type=int, metavar="N", help="Leave fewer files alone.  [default: 5]")
    @click.option("--max-file-group-size-bytes", type=int, metavar="N", help="So much together.  [default: 100 GB]")
    @click.option("--rewrite-all", is_flag=True, help="Every file, whatever its size.")
    @functools.wraps(command)
    def given(**options: Any) -> None:
        command(**{name: value for name, value in options.items() if value is not None})

    return given


@click.command("compact", short_help="Rewrite small data files and half-empty ones.")
@table_options
@_where
@_ref
@_size_options
@click.option("--delete-file-threshold", type=int, metavar="N", help="Rewrite a file with so many deletes.")
@click.option("--delete-ratio-threshold", type=float, metavar="R", help="... with so many rows gone.  [default: 0.3]")
@click.option("--partial-progress", is_flag=True, help="Commit in parts.")
@click.option("--max-commits", type=int, metavar="N", help="In so many.  [default: 10]")
@click.option(
    "--use-starting-sequence-number/--no-use-starting-sequence-number",
    default=True,
    show_default=True,
    help="New files are as old as what they were read from.",
)
@dry_run_option
@output_options
def compact(source: TableSource, *, dry_run: bool, output: Output, **how: Any) -> None:
    """Rewrite data files that are too small, too large or full of deleted rows: Iceberg's rewrite_data_files.

    \b
    Examples:
      deletekit compact --warehouse wh demo.users --dry-run
      deletekit compact --catalog prod demo.users --where "day = '2026-01-31'"
    """  # noqa: D301  # click's \b keeps the lines of the examples apart
    how = {name: value for name, value in how.items() if value is not None}
    table, done = _run(dk.compact, source, output, "Compacting", dry_run=dry_run, **how)
    files = count(len(done.rewritten_data_files), "data file")
    verb = f"would be rewritten, in {count(done.file_groups, 'group')}" if dry_run else "rewritten"
    _show(
        table,
        output,
        done,
        f"{files} of {table.name} {verb}",
        {
            ("Data files", "replaced"): done.rewritten_data_files,
            ("Data files", "added"): done.added_data_files,
            ("Delete files", "removed"): done.removed_delete_files,
        },
        failed=done.failed_data_files,
    )


@click.command("rewrite-position-deletes", short_help="Combine position delete files.")
@table_options
@_where
@_ref
@_size_options
@dry_run_option
@output_options
def rewrite_position_deletes(source: TableSource, *, dry_run: bool, output: Output, **how: Any) -> None:
    """Combine position delete files; in a v3 table, turn them into deletion vectors.

    \b
    Examples:
      deletekit rewrite-position-deletes --warehouse wh demo.users
    """  # noqa: D301  # click's \b keeps the lines of the examples apart
    table, done = _run(dk.rewrite_position_deletes, source, output, "Rewriting deletes", dry_run=dry_run, **how)
    files = count(len(done.rewritten_delete_files), "position delete file")
    _show(
        table,
        output,
        done,
        f"{files} of {table.name} {'would be rewritten' if dry_run else 'rewritten'}",
        {
            ("Delete files", "replaced"): done.rewritten_delete_files,
            ("Delete files", "added"): done.added_delete_files,
        },
    )


@click.command("convert-equality-deletes", short_help="Turn equality deletes into deletes by position.")
@table_options
@_where
@_ref
@dry_run_option
@output_options
def convert_equality_deletes(source: TableSource, *, dry_run: bool, output: Output, **how: Any) -> None:
    """Look up what equality deletes hide, and write deletion vectors (v3) or position deletes (v2) instead.

    \b
    Examples:
      deletekit convert-equality-deletes --warehouse wh demo.users --dry-run
    """  # noqa: D301  # click's \b keeps the lines of the examples apart
    table, done = _run(dk.convert_equality_deletes, source, output, "Converting", dry_run=dry_run, **how)
    files = count(len(done.converted_delete_files), "equality delete file")
    verb = "would be converted" if dry_run else "converted"
    _show(
        table,
        output,
        done,
        f"{files} of {table.name} {verb}, for {count(done.data_files, 'data file')}",
        {
            ("Equality delete files", "removed"): done.converted_delete_files,
            ("Delete files", "added"): done.added_delete_files,
        },
    )


@click.command("remove-dangling-deletes", short_help="Remove deletes that hide nothing any more.")
@table_options
@_ref
@dry_run_option
@output_options
def remove_dangling_deletes(source: TableSource, *, dry_run: bool, output: Output, **how: Any) -> None:
    """Remove delete files that apply to no live data file.

    \b
    Examples:
      deletekit remove-dangling-deletes --warehouse wh demo.users --dry-run
    """  # noqa: D301  # click's \b keeps the lines of the examples apart
    table, done = _run(dk.remove_dangling_deletes, source, output, "Looking at deletes", dry_run=dry_run, **how)
    verb = "would be removed" if dry_run else "removed"
    files = (done.equality_delete_files, done.position_delete_files, done.deletion_vectors)
    _show(
        table,
        output,
        done,
        f"{count(sum(map(len, files)), 'dangling delete')} of {table.name} {verb}",
        {
            ("Equality delete files", "removed"): files[0],
            ("Position delete files", "removed"): files[1],
            ("Deletion vectors", "removed"): files[2],
        },
        failed=done.refused,
    )


@click.command("erase", short_help="Remove rows from storage, and prove it.")
@table_options
@click.argument("where", metavar="FILTER")
@click.option("--ref", "refs", multiple=True, metavar="BRANCH", help="Branch to clean; repeatable.  [default: main]")
@click.option("--all-refs", is_flag=True, help="Clean every branch, and drop tags that hold the rows.")
@click.option("--unreferenced", is_flag=True, help="Expire staged snapshots that hold the rows, too.")
@other_locations_option
@dry_run_option
@output_options
def erase(source: TableSource, *, where: str, refs: tuple[str, ...], dry_run: bool, output: Output, **how: Any) -> None:
    """Remove rows from every file that branches lead to, of old snapshots too.

    Then look, and list what still holds the rows: exit code 1 while any branch, tag
    or snapshot does, also one that was not to be cleaned.

    \b
    Examples:
      deletekit erase --warehouse wh demo.users "email = 'a@example.org'"
      deletekit erase --catalog prod demo.users "id = 1" --ref main --ref audit
    """  # noqa: D301  # click's \b keeps the lines of the examples apart
    how |= {"where": where, "refs": refs or ("main",)}
    table, done = _run(dk.erase, source, output, "Erasing", dry_run=dry_run, **how)
    held = {ref or "no ref": sorted({h.file for h in found}) for ref, found in done.remaining.items()}
    if output.as_json:
        show_json({"table": table.name, **document(done), "is_erased": done.is_erased})
    else:
        erased = "Erased" if done.is_erased else "Not erased"
        head = f"{erased} from {table.name}" if not dry_run else f"Files of {table.name} that hold the rows"
        show(
            Text(plain(f"{head}: {count(done.files_read, 'file')} looked into"), style="bold"),
            *(
                part
                for ref, files in held.items()
                for part in lists({f"Still in {ref}": files}, table.location, False, "held")
            ),
            *(lists({"Tags": done.dropped_tags}, table.location, dry_run, "dropped")),
            *(kept(done.expired.kept_files, table.location, dry_run) if done.expired else ()),
            *failures(done.expired.failed_files if done.expired else {}, table.location),
            heading("Not looked into"),
            *(Text(plain(f"  {place}")) for place in done.not_inspected),
            *nothing_changed(dry_run),
        )
    if not done.is_erased and not dry_run:
        click.get_current_context().exit(1)


def _run(
    verb: Callable[..., Any], source: TableSource, output: Output, title: str, *, dry_run: bool, **how: Any
) -> tuple[dk.Table, Any]:
    table = open_table(source)
    if not dry_run:
        when_interrupted(_INTERRUPTED)
    with output.engine(title) as engine:
        return table, verb(table, dry_run=dry_run, engine=engine, **how)


def _show(
    table: dk.Table,
    output: Output,
    done: Any,
    head: str,
    files: Mapping[tuple[str, str], Sequence[str]],
    failed: Mapping[str, str] | None = None,
) -> None:
    if output.as_json:
        show_json({"table": table.name, **document(done)})
        return
    parts = [
        part
        for (title, verb), paths in files.items()
        for part in lists({title: paths}, table.location, done.dry_run, verb=verb)
    ]
    left = [heading(f"Left as they were ({len(failed):,})"), *failures(failed, table.location)] if failed else []
    show(Text(plain(head), style="bold"), *parts, *left, *nothing_changed(done.dry_run))
