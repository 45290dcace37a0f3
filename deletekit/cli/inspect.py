"""The command `inspect`."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any

import click
from rich.console import RenderableType

import deletekit as dk
from deletekit.cli.options import TableAnswerCommand, snapshot_options
from deletekit.cli.table_argument import TableArgument
from deletekit.cli.terminal import Answer, Output

_LINES = 20
_POSITIONS_READ = 100_000
"""Enough for the runs that are shown, without reading every position of a large vector."""


@click.command(cls=TableAnswerCommand)
@snapshot_options
@click.option("--deletes", is_flag=True, help="Open the live delete files: keys, positions, Puffin footers.")
@click.option("--metrics", is_flag=True, help="Show each file's counts and bounds by column.")
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    metavar="N",
    help="Show at most N lines per list; in JSON, N positions or keys per delete file; 0 shows all.  "
    "[default: 20, JSON 10000]",
)
def inspect(
    argument: TableArgument, output: Output, *, deletes: bool, metrics: bool, limit: int | None = None, **snapshot: Any
) -> Answer:
    """Show what a table is made of, down to the positions that its deletion vectors hold.

    If a file cannot be read, it is named in its place, and the exit code is 1.

    TABLE is the path or address of a *.metadata.json file, or a table's directory on this machine (its newest metadata
    file is taken). With --warehouse or --catalog it is namespace.table.

    \b
    Examples:
      deletekit inspect wh/demo/users --deletes
      deletekit inspect --warehouse wh demo.users --ref dev
      deletekit inspect s3://bucket/users/metadata/00002-….metadata.json \\
          -p s3.endpoint=http://localhost:9000 --json
    """  # noqa: D301  # click's \b keeps the lines of the examples apart
    table = argument.open()
    with output.waiting("Reading manifests and delete files" if deletes else "Reading manifests"):
        shown = dk.inspect(table, deletes=deletes, **snapshot, **_positions(limit, as_json=output.as_json))
    damaged = any("error" in item for item in (*shown["manifests"], *shown.get("deletes", ())))
    text = _text(table, shown, metrics=metrics, limit=_LINES if limit is None else limit)
    return Answer(document=shown, text=text, exit_code=1 if damaged else 0)


def _text(table: dk.Table, shown: Mapping[str, Any], *, metrics: bool, limit: int) -> Iterator[RenderableType]:
    from deletekit.cli.inspect_text import InspectText  # noqa: PLC0415  # not for help

    yield from InspectText(table.metadata, shown, metrics=metrics, limit=limit).sections(table.name)


def _positions(limit: int | None, *, as_json: bool) -> dict[str, Any]:
    """Return how many positions or keys to read per delete file. Text needs more than it shows: whole runs."""
    if limit is None:
        return {} if as_json else {"positions": _POSITIONS_READ}
    return {"positions": limit or sys.maxsize if as_json or not limit else max(_POSITIONS_READ, limit)}
