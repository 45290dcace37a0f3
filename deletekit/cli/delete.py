"""`deletekit delete`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

import deletekit as dk
from deletekit.cli.files_view import file_facts
from deletekit.cli.metadata_view import column_names
from deletekit.cli.options import TableSource, output_options, table_options, when_interrupted
from deletekit.cli.printer import Facts, Unbroken, heading, pairs
from deletekit.cli.table_argument import open_table
from deletekit.cli.terminal import Output, show, show_json
from deletekit.cli.text import count, first, json_ready, plain, short
from deletekit.engines.local import Engine

__all__ = ["delete"]

_MODES = ("copy-on-write", "merge-on-read", "equality-delete", "position-delete", "deletion-vector")
_MOST_FILES = 20


@click.command(short_help="Delete rows in one commit, in any mode.")
@table_options
@click.argument("where")
@click.option(
    "--mode",
    type=click.Choice(_MODES),
    metavar="MODE",
    help=f"{', '.join(_MODES[:-1])} or {_MODES[-1]}.  [default: the table's write.delete.mode]",
)
@click.option("--ref", default="main", show_default=True, metavar="BRANCH", help="Branch to commit to.")
@click.option(
    "--equality-field",
    "equality_fields",
    multiple=True,
    metavar="COLUMN",
    help="Key column of equality deletes; repeatable.  [default: those that WHERE looks at]",
)
@click.option(
    "--granularity",
    type=click.Choice(("file", "partition")),
    help="One position delete file for each of these.  [default: the table's write.delete.granularity]",
)
@click.option("--with-rows", is_flag=True, help="Store the deleted rows in position delete files too.")
@click.option("--dry-run", is_flag=True, help="Say what would be done, as slowly, and write nothing.")
@output_options
def delete(
    source: TableSource,
    where: str,
    *,
    ref: str,
    equality_fields: tuple[str, ...],
    dry_run: bool,
    output: Output,
    **how: Any,
) -> None:
    """Delete the rows for which WHERE is true, in one commit, and show what was written.

    WHERE is as in SQL: "id in (1, 3)", "name is null and value > 10"; "true" means every row.

    TABLE is namespace.table of --warehouse or --catalog. A table opened by its path is read-only: it takes only
    --dry-run.

    \b
    Examples:
      deletekit delete --warehouse wh demo.users "id in (1, 3)"
      deletekit delete --warehouse wh demo.users "id = 2" --mode equality-delete
      deletekit delete --catalog prod demo.users "value > 10" --dry-run
    """  # noqa: D301  # click's \b keeps the lines of the examples apart
    table = open_table(source)
    how |= {"ref": ref, "equality_fields": equality_fields or None}
    if dry_run:
        _rehearse(table, where, how, output)
        return
    when_interrupted("Whether the delete was committed is not known: look with `deletekit inspect`.")
    with output.engine("Deleting") as engine:
        commit = dk.delete(table, where, engine=engine, **how)
    if output.as_json:
        show_json({"table": table.name, "ref": ref, **_document(commit)})
    else:
        show(*_done(table.name, ref, commit), *_changes(table, commit, done=True))


def _rehearse(table: dk.Table, where: str, how: Mapping[str, Any], output: Output) -> None:
    # They import the table layer, which the help of this command does not need.
    from deletekit.commit.swap import would_commit  # noqa: PLC0415
    from deletekit.verbs.delete import plan_delete  # noqa: PLC0415

    with output.engine("Trying the delete") as engine:
        commit = would_commit(plan_delete(table, where, engine=engine, dry_run=True, **how))
    with output.engine("Counting rows") as engine:
        rows = _matching_rows(table, where, how["ref"], engine)
    # Ids, paths and times of a commit that nobody makes would only mislead.
    named = {k: v for k, v in _document(commit).items() if k in ("operation", "summary", "removed_data_files")}
    document = {"table": table.name, "ref": how["ref"], "dry_run": True, "rows": rows.total(), "data_files": len(rows)}
    if output.as_json:
        show_json({**document, "rows_by_data_file": rows, **named, "read_only": table.catalog is None})
        return
    head = f"{count(rows.total(), 'row')} in {count(len(rows), 'data file')} of {table.name} would be deleted"
    note = (
        "The table was opened by its path: to delete, name it by --warehouse or --catalog." if not table.catalog else ""
    )
    show(
        Text(plain(head), style="bold"),
        *_some([Unbroken(f"{count(n, 'row')} of {short(path, table.location)}") for path, n in rows.items()]),
        *_changes(table, commit, done=False),
        *([Text(f"\n{note}")] if note else []),
        Text("\nNothing was written.", style="bold"),
    )


def _matching_rows(table: dk.Table, where: str, ref: str, engine: Engine) -> Counter[str]:
    """Count the live rows for which the filter is true, by data file."""
    counts: Counter[str] = Counter()
    for batch in dk.scan(table, where, columns=["_file"], ref=ref, engine=engine).to_batches():
        for found in batch["_file"].value_counts().to_pylist():
            counts[found["values"]] += found["counts"]
    return counts


def _document(commit: dk.Commit) -> dict[str, Any]:
    names = ("snapshot_id", "sequence_number", "operation", "summary", "attempts")
    files = ("added_data_files", "removed_data_files", "added_delete_files", "removed_delete_files")
    return {name: getattr(commit, name) for name in (*names, *files)}


def _done(table: str, ref: str, commit: dk.Commit) -> Iterator[RenderableType]:
    if commit.snapshot_id is None:
        yield Text(f"No row of {plain(table)} matches: nothing was committed.", style="bold")
        return
    yield Text.assemble(("Deleted from ", "bold"), (plain(table), "bold"))
    rows = {
        "snapshot": f"{commit.snapshot_id} on {ref}",
        "sequence": commit.sequence_number,
        "operation": commit.operation,
    }
    if commit.attempts > 1:
        rows["attempts"] = f"{commit.attempts}: other commits came first"
    yield pairs(rows)


def _changes(table: dk.Table, commit: dk.Commit, *, done: bool) -> Iterator[RenderableType]:
    """The files of a commit; those that were only tried have no path that anyone will find."""
    mood = "" if done else "would be "
    columns = column_names(table.metadata.raw)
    for title, files, named in (
        (f"Delete files {mood}added", commit.added_delete_files, done),
        (f"Delete files {mood}removed", commit.removed_delete_files, True),
        (f"Data files {mood}added", commit.added_data_files, done),
        (f"Data files {mood}removed", commit.removed_data_files, True),
    ):
        if files:
            yield heading(f"{title} ({len(files)})")
            yield from _some([_file(json_ready(f), table.location, columns, named=named) for f in files])
    if commit.summary:
        yield heading("Summary")
        yield pairs({k: v for k, v in commit.summary.items() if k != "operation"})


def _some(lines: Sequence[RenderableType]) -> Iterator[RenderableType]:
    shown, left = first(lines, _MOST_FILES)
    yield from (Padding(line, (0, 0, 0, 2), expand=False) for line in shown)
    if left:
        yield Text(f"  … and {left:,} more; --json lists all", style="dim")


def _file(file: Mapping[str, Any], location: str, columns: Mapping[int, str], *, named: bool) -> RenderableType:
    path = [Unbroken(short(file["file_path"], location))] if named else []
    of = [Unbroken("of " + short(file["referenced_data_file"], location))] if "referenced_data_file" in file else []
    return Group(*path, Facts(*file_facts(file, columns), style="dim" if named else ""), *of)
