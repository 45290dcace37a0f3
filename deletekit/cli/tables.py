"""The commands `create`, `tables`, `snapshots`, `branch` and `upgrade`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from rich.console import RenderableType
from rich.text import Text

import deletekit as dk
from deletekit.cli.options import CatalogAnswerCommand, TableAnswerCommand, number_option, repeated_option
from deletekit.cli.printer import line
from deletekit.cli.table_argument import TableArgument
from deletekit.cli.terminal import Answer, Output
from deletekit.cli.verb_command import change, table_answer
from deletekit.text import plain

_SNAPSHOTS = 50
_LIMIT = "Snapshots to show; 0 shows all.  [default: 50 as text, all as JSON]"


@click.command(cls=CatalogAnswerCommand)
def tables(argument: TableArgument, output: Output) -> Answer:
    """List the tables of a catalog, or of one NAMESPACE of it.

    \b
    Examples:
      deletekit tables --warehouse wh
      deletekit tables --catalog prod sales --json
    """  # noqa: D301  # click's \b keeps the lines of the examples apart
    with output.waiting("Asking the catalog"):
        catalog = argument.existing_catalog()
        found = catalog.list_tables(argument.table) if argument.table else None
        names = catalog.tables() if found is None else sorted(".".join(table) for table in found)
    text = [Text(plain(name)) for name in names] or [line(("No tables.", "bold"))]
    return Answer(document={"catalog": catalog.name, "tables": names}, text=text)


@click.command(cls=TableAnswerCommand)
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@repeated_option("--partition-by", "partition_by", "FIELD", "A column, month(COLUMN), bucket(16, COLUMN) ...")
@number_option("--format-version", "Format version of the table.  [default: 2]", click.IntRange(1, 3))
def create(argument: TableArgument, output: Output, file: str, **options: Any) -> Answer:
    """Make a table with the columns and the rows of FILE: Parquet, Arrow, CSV or JSON lines.

    A warehouse that is not there is made, and the answer names it.

    \b
    Examples:
      deletekit create --warehouse wh demo.users users.parquet
      deletekit create --warehouse wh demo.users u.csv --partition-by "day(at)"
    """  # noqa: D301  # click's \b keeps the lines of the examples apart
    is_new = argument.warehouse is not None and not Path(argument.warehouse).exists()
    given = {name: value for name, value in options.items() if value}
    with output.waiting("Writing the rows"):
        table = dk.create_table(argument.open_catalog(), argument.table, file, rows=True, **given)
    new = {"new_warehouse": argument.warehouse} if is_new else {}
    return table_answer(table, {"columns": table.schema.column_names, "rows": dk.scan(table).count(), **new})


@click.command(cls=TableAnswerCommand)
@click.option("--ref", metavar="NAME", help="Only the head of this branch or tag and its ancestors.")
@click.option("--limit", type=click.IntRange(min=0), metavar="N", help=_LIMIT)
def snapshots(argument: TableArgument, output: Output, *, limit: int | None = None, ref: str | None = None) -> Answer:
    """List the snapshots of a table, the newest first, with its branches and tags.

    Only the metadata file is read. With --json, each snapshot has its summary.

    \b
    Examples:
      deletekit snapshots wh/demo/users
      deletekit snapshots --warehouse wh demo.users --ref audit --json
    """  # noqa: D301  # click's \b keeps the lines of the examples apart
    from deletekit.cli.inspect_text import snapshots_text  # noqa: PLC0415  # not for help

    with output.waiting("Reading the metadata file"):
        table = argument.open()
    metadata = table.metadata
    head = metadata.current_snapshot if ref is None else metadata.snapshot_of_ref(ref)
    here = None if head is None else head.snapshot_id
    kept = metadata.snapshots.values() if ref is None else [*metadata.ancestors(here)][::-1]
    shown = {
        "refs": metadata.raw.get("refs") or {},
        "snapshots": [snapshot.to_json(metadata.format_version) for snapshot in kept],
    }

    def text() -> Iterator[RenderableType]:
        yield line((table.name, "bold"))
        yield from snapshots_text(shown, here, _SNAPSHOTS if limit is None else limit)

    newest_first = shown["snapshots"][::-1]
    newest_first = newest_first[:limit] if limit else newest_first
    document = {"table": table.name, "current-snapshot-id": here, "refs": shown["refs"], "snapshots": newest_first}
    return Answer(document=document, text=text())


@click.command(cls=TableAnswerCommand)
@click.argument("name", required=False)
@click.option("--snapshot", "snapshot_id", type=int, metavar="ID", help="Create it there.  [default: head of main]")
@click.option("--tag", is_flag=True, help="Create a tag, which commits do not move.")
@click.option("--drop", is_flag=True, help="Drop the branch or tag NAME; its snapshots stay until they expire.")
def branch(
    argument: TableArgument,
    output: Output,
    *,
    name: str | None = None,
    snapshot_id: int | None = None,
    tag: bool,
    drop: bool,
) -> Answer:
    """Create the branch NAME, or drop it. Without NAME, list the branches and tags.

    \b
    Examples:
      deletekit branch wh/demo/users
      deletekit branch --warehouse wh demo.users audit
      deletekit branch --warehouse wh demo.users v1 --tag --snapshot 4532178932145
      deletekit branch --warehouse wh demo.users audit --drop
    """  # noqa: D301  # click's \b keeps the lines of the examples apart
    creating = tag or snapshot_id is not None
    if drop and creating:
        raise click.UsageError("--drop excludes --tag and --snapshot.")
    if name is None:
        if drop or creating:
            raise click.UsageError("--drop, --tag and --snapshot are about the NAME of a branch or tag.")
        table = argument.open()
    else:
        verb: Any = dk.drop_ref if drop else dk.create_tag if tag else dk.create_branch
        options: dict[str, Any] = {"name": name} if drop else {"name": name, "snapshot_id": snapshot_id}
        table, _ = change(verb, argument, output, "Changing the table", **options)
    return table_answer(table, {"refs": table.metadata.raw.get("refs") or {}})


@click.command(cls=TableAnswerCommand)
@click.argument("format_version", metavar="VERSION", type=int)
def upgrade(argument: TableArgument, output: Output, format_version: int) -> Answer:
    """Raise the format version of a table to VERSION, 2 or 3. There is no way back.

    Files and deletes stay as they are, and stay valid. In version 3 new deletes are deletion vectors.

    \b
    Examples:
      deletekit upgrade --warehouse wh demo.users 3
    """  # noqa: D301  # click's \b keeps the lines of the examples apart
    table, _ = change(dk.upgrade_format_version, argument, output, "Upgrading", format_version=format_version)
    return table_answer(table, {"format_version": table.format_version})
