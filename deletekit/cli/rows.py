"""The commands that read and write rows: `scan`, `append`, `add-files`, `update` and `merge`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import wraps
from itertools import accumulate
from pathlib import Path
from typing import Any

import click
from rich.cells import cell_len
from rich.console import RenderableType
from rich.text import Text

import deletekit as dk
from deletekit.cli.options import (
    TableAnswerCommand,
    branch_option,
    choice_option,
    dry_run_option,
    key_values,
    mode_option,
    repeated_option,
    snapshot_options,
)
from deletekit.cli.printer import grid, line
from deletekit.cli.table_argument import TableArgument
from deletekit.cli.terminal import Answer, Output, console
from deletekit.cli.verb_command import change, commit_answer, table_answer
from deletekit.text import literal, plain

_ROWS = 50
_GAP = 2
"""Spaces between two columns."""
_FORMATS = ("parquet", "csv", "json", "arrow")
_SET = "Give COLUMN this value as in SQL, a text in single quotes; repeatable."
_LIMIT = "At most N rows; 0 is all.  [default: 50 on the screen, all in a file]"
_TARGET = click.Path(dir_okay=False, path_type=Path)

_file_argument = click.argument("file", type=click.Path(exists=True, dir_okay=False))


@click.command(cls=TableAnswerCommand)
@click.argument("where", required=False)
@repeated_option("--column", "columns", "COLUMN", "Read this column; repeatable.  [default: all]")
@snapshot_options
@click.option("-o", "--output", "target", type=_TARGET, metavar="FILE", help="Write the rows to this file.")
@choice_option("--format", _FORMATS, "Format of FILE; json is one object a line.  [default: by its suffix]")
@click.option("--overwrite", is_flag=True, help="Replace FILE where it exists.")
@click.option("--limit", type=click.IntRange(min=0), metavar="N", help=_LIMIT)
def scan(
    argument: TableArgument,
    output: Output,
    *,
    target: Path | None = None,
    format: str | None = None,  # noqa: A002  # the option's name
    overwrite: bool,
    limit: int | None = None,
    **asked: Any,
) -> Answer:
    """Read the live rows for which WHERE is true, as in SQL; without it, all.

    They are shown, or written to FILE as they are read: its memory does not grow with the table.

    \b
    Examples:
      deletekit scan wh/demo/users --limit 10
      deletekit scan --warehouse wh demo.users "id > 3" --column id -o users.csv
      deletekit scan --catalog prod demo.users --as-of 2026-01-31 -o users.parquet
    """  # noqa: D301  # click's \b keeps the lines of the examples apart
    if target is None and (format or overwrite):
        raise click.UsageError("--format and --overwrite are about the FILE of --output.")
    table = argument.open()
    if target is None:
        return _on_screen(table, output, _ROWS if limit is None else limit, asked)
    from deletekit.cli.row_writers import write_rows  # noqa: PLC0415  # not for help

    with output.bar("Reading data files"):
        read = dk.scan(table, limit=limit or None, **asked)
        written = write_rows(read.arrow_schema, read.to_batches(), target, format, overwrite=overwrite)
    snapshot = None if read.snapshot is None else read.snapshot.snapshot_id
    document = {"snapshot_id": snapshot, "file": str(target), "rows": written, "bytes": target.stat().st_size}
    return table_answer(table, document)


@click.command(cls=TableAnswerCommand)
@_file_argument
@branch_option("commit to")
@dry_run_option
def append(argument: TableArgument, output: Output, file: str, ref: str, **options: Any) -> Answer:
    """Insert the rows of FILE in one commit: Parquet, Arrow, CSV with a header, or JSON lines.

    Columns are matched by name. In CSV a value is read as the type of the table's column; nothing between two commas is
    NULL, and "" is the empty text. In JSON bytes are base64.

    \b
    Examples:
      deletekit append --warehouse wh demo.users new-users.csv
      deletekit append --catalog prod demo.users new-users.parquet --ref audit
    """  # noqa: D301  # click's \b keeps the lines of the examples apart

    def verb(table: dk.Table, **given: Any) -> dk.results.Commit:
        return dk.append(table, file, **given)

    table, commit = change(verb, argument, output, "Appending", ref=ref, **options)
    return commit_answer(table, ref, commit)


@click.command(cls=TableAnswerCommand)
@click.argument("files", nargs=-1, required=True)
@branch_option("commit to")
def add_files(argument: TableArgument, output: Output, files: tuple[str, ...], ref: str) -> Answer:
    """Make Parquet FILES data files of the table in one commit, where they lie. They are the table's from then on.

    \b
    Examples:
      deletekit add-files --catalog prod demo.users s3://bucket/users/1.parquet
    """  # noqa: D301  # click's \b keeps the lines of the examples apart
    table, commit = change(dk.add_files, argument, output, "Adding files", files=files, ref=ref)
    return commit_answer(table, ref, commit)


@click.command(cls=TableAnswerCommand)
@click.argument("where")
@repeated_option("--set", "values", "COLUMN=VALUE", _SET, callback=key_values, required=True)
@mode_option("update")
@branch_option("commit to")
@repeated_option("--on", "on", "COLUMN", "Key column of equality deletes; repeatable.")
@dry_run_option
def update(
    argument: TableArgument,
    output: Output,
    where: str,
    *,
    ref: str,
    values: Mapping[str, str],
    **options: Any,
) -> Answer:
    """Set columns of the rows for which WHERE is true, as in SQL; "true" means every row.

    VALUE is SQL too: a literal, NULL, or an expression over the columns. A text in it has single quotes.

    \b
    Examples:
      deletekit update --warehouse wh demo.users "id = 1" --set "value=value + 1"
      deletekit update --catalog prod demo.users "id in (2, 3)" --set "name='Ann'"
    """  # noqa: D301  # click's \b keeps the lines of the examples apart

    @wraps(dk.update)
    def verb(table: dk.Table, **given: Any) -> dk.results.Commit:
        assigned = {column: dk.expr(text) for column, text in values.items()}
        return dk.update(table, assigned, where=where, **given)

    table, commit = change(verb, argument, output, "Updating", ref=ref, **options)
    return commit_answer(table, ref, commit)


@click.command(cls=TableAnswerCommand)
@_file_argument
@repeated_option("--on", "on", "COLUMN", "Column that must be equal; repeatable.", required=True)
@choice_option("--when-matched", ("update", "delete", "nothing"), "What becomes of the table's row.", default="update")
@choice_option("--when-not-matched", ("insert", "nothing"), "What becomes of the file's row.", default="insert")
@mode_option("merge")
@branch_option("commit to")
@dry_run_option
def merge(
    argument: TableArgument,
    output: Output,
    file: str,
    *,
    ref: str,
    when_matched: str,
    when_not_matched: str,
    **options: Any,
) -> Answer:
    """Merge the rows of FILE into a table, in one commit, as SQL's MERGE does.

    FILE is read as by `append`. A row of the table that matches several of its rows is refused.

    \b
    Examples:
      deletekit merge --warehouse wh demo.users changes.csv --on id
      deletekit merge --warehouse wh demo.users gone.csv --on id \\
          --when-matched delete --when-not-matched nothing
    """  # noqa: D301  # click's \b keeps the lines of the examples apart
    clauses = {"when_matched": when_matched, "when_not_matched": when_not_matched}
    options |= {name: None if what == "nothing" else what for name, what in clauses.items()}

    @wraps(dk.merge)
    def verb(table: dk.Table, **given: Any) -> dk.results.Commit:
        return dk.merge(table, file, **given)

    table, commit = change(verb, argument, output, "Merging", ref=ref, **options)
    return commit_answer(table, ref, commit)


def _on_screen(table: dk.Table, output: Output, limit: int, asked: Mapping[str, Any]) -> Answer:
    from deletekit.table.python_values import python_rows  # noqa: PLC0415  # not for help

    with output.bar("Reading data files"):
        read = dk.scan(table, limit=limit + 1 if limit else None, **asked)
        found = read.to_arrow()
    rows = python_rows(found.slice(0, limit or None))

    snapshot = None if read.snapshot is None else read.snapshot.snapshot_id
    document = {"table": table.name, "snapshot_id": snapshot, "columns": found.column_names, "rows": rows}
    text = shown_rows(found, rows, "No rows.")
    return Answer(document={**document, "more": len(found) > len(rows)}, text=text)


def shown_rows(found: Any, rows: Sequence[Mapping[str, Any]], nothing: str) -> Iterator[RenderableType]:
    """Yield the lines that show the first rows of an Arrow table; `rows` are these as Python's values."""
    import pyarrow as pa  # noqa: PLC0415  # not for help

    def numeric(kind: pa.DataType) -> bool:
        return any(is_kind(kind) for is_kind in (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal))

    # In a grid, `#` before a name means numbers.
    heads = [f"#{f.name}" if numeric(f.type) or f.name.startswith("#") else f.name for f in found.schema]
    cells = [[literal(row[name]) for name in found.column_names] for row in rows]
    wide = accumulate(
        max(map(cell_len, map(plain, column))) + _GAP for column in zip(found.column_names, *cells, strict=True)
    )
    room = console().width + _GAP
    fitting = max(1, sum(end <= room for end in wide))
    yield grid(heads[:fitting], (row[:fitting] for row in cells), indent=0)
    if fitting < len(heads):
        yield Text(f"… and {len(heads) - fitting} more columns; --column chooses them, --json has all", style="dim")
    if len(found) > len(rows):
        yield Text("… and more rows; --limit 0 shows all, --output FILE writes them", style="dim")
    elif not rows:
        yield line((nothing, "bold"))
