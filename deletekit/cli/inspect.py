"""`deletekit inspect`."""

from __future__ import annotations

import sys
from typing import Any

import click

import deletekit as dk
from deletekit.cli.metadata_view import column_names, metadata_view
from deletekit.cli.options import SnapshotChoice, TableSource, output_options, snapshot_options, table_options
from deletekit.cli.snapshot_view import SnapshotView
from deletekit.cli.table_argument import open_table
from deletekit.cli.terminal import Output, show, show_json

__all__ = ["inspect"]

_LINES = 20
_POSITIONS_READ = 100_000
"""Enough for the runs that are shown, without holding every position of a large vector."""


@click.command(short_help="Show what a table is made of, down to its deletes.")
@table_options
@snapshot_options
@click.option("--deletes", is_flag=True, help="Open the live delete files: keys, positions, Puffin footers.")
@click.option("--metrics", is_flag=True, help="Show each file's counts and bounds by column.")
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    metavar="N",
    help="At most N lines per list, 0 for all; in JSON, positions and keys per delete file.  [default: 20, JSON 10000]",
)
@output_options
def inspect(
    source: TableSource, at: SnapshotChoice, *, deletes: bool, metrics: bool, limit: int | None, output: Output
) -> None:
    """Show what a table is made of, down to the positions that its deletion vectors hold.

    A file that cannot be read is named in its place, and the exit code is 1.

    TABLE is the path or address of a *.metadata.json file, or a table's directory on this machine (its newest metadata
    file is taken). With --warehouse or --catalog it is namespace.table.

    \b
    Examples:
      deletekit inspect wh/demo/users --deletes
      deletekit inspect --warehouse wh demo.users --ref dev
      deletekit inspect s3://bucket/users/metadata/00002-….metadata.json \\
          -p s3.endpoint=http://localhost:9000 --json
    """  # noqa: D301  # click's \b keeps the lines of the examples apart
    table = open_table(source)
    with output.waiting("Reading manifests and delete files" if deletes else "Reading manifests"):
        shown = dk.inspect(table, deletes=deletes, **at.arguments(), **_positions(limit, as_json=output.as_json))
    damaged = any("error" in item for item in (*shown["manifests"], *shown.get("deletes", ())))
    if output.as_json:
        show_json(shown)
        click.get_current_context().exit(1 if damaged else 0)
    # Imports pyiceberg's types, which the help of this command does without.
    from deletekit.cli.stored_values import StoredValues  # noqa: PLC0415

    lines = _LINES if limit is None else limit
    stored = StoredValues(table.metadata)
    view = SnapshotView(
        shown,
        columns=column_names(shown["metadata"]),
        partition=stored.partition,
        key=stored.key,
        metrics=stored.metrics if metrics else None,
        limit=lines,
    )
    show(*metadata_view(table.name, shown, lines), *view.sections())
    click.get_current_context().exit(1 if damaged else 0)


def _positions(limit: int | None, *, as_json: bool) -> dict[str, Any]:
    """How many positions or keys of a delete file to ask for; text needs more than it shows, to know where runs end."""
    if limit is None:
        return {} if as_json else {"positions": _POSITIONS_READ}
    return {"positions": limit or sys.maxsize if as_json or not limit else max(_POSITIONS_READ, limit)}
