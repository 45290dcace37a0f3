"""`deletekit stream`, `deletekit sinks` and `deletekit promote`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import click
from rich.text import Text

import deletekit as dk
from deletekit.cli.options import TableSource, output_options, table_options, when_interrupted
from deletekit.cli.printer import pairs
from deletekit.cli.table_argument import open_table
from deletekit.cli.terminal import Output, show, show_json
from deletekit.cli.text import count, json_ready, plain

__all__ = ["promote", "sinks", "stream"]

_INTERRUPTED = "Start it again: batches that are in the table are skipped."
_key = click.option(
    "--key", "keys", multiple=True, metavar="COLUMN", help="Key column. Repeatable.  [default: the schema's]"
)


@click.command("stream", short_help="Apply change rows, each batch exactly once.")
@table_options
@click.argument("files", nargs=-1)
@click.option(
    "--rate", type=click.IntRange(1), metavar="ROWS", help="Instead of FILES: so many made-up changes a batch."
)
@click.option(
    "--batches", type=click.IntRange(1), default=10, show_default=True, metavar="N", help="With --rate: how many."
)
@click.option("--sink-id", default="cli", show_default=True, metavar="NAME", help="Names this stream in the table.")
@_key
@click.option(
    "--mode",
    type=click.Choice(["auto", "flink", "eq-only", "index-only"]),
    default="auto",
    show_default=True,
    help="How old rows are deleted.",
)
@click.option("--ref", default="main", show_default=True, metavar="BRANCH", help="Branch to commit to.")
@click.option("--change-type", default="_change_type", show_default=True, metavar="COLUMN", help="Says what a row is.")
@click.option("--order", metavar="COLUMN", help="Puts the rows of a batch in order.  [default: as they come]")
@click.option("--allow-rewind", is_flag=True, help="Apply batches though the stream or the branch went back.")
@click.option("--as-given", is_flag=True, help="Take files in a shell's order too: 10.parquet before 2.parquet.")
@output_options
def stream(
    source: TableSource, *, files: Sequence[str], rate: int | None, batches: int, keys: Sequence[str], as_given: bool,
    output: Output, **how: Any,
) -> None:  # fmt: skip
    """Apply the changes in FILES (Parquet, CSV or JSON lines) to TABLE, each file a batch, in the order given.

    A folder stands for the files in it, a pattern in quotes for those it fits, in natural order: 2.parquet before
    10.parquet. A file is known by its path: those that are in the table already are skipped, so the same command goes
    on where it was broken off, and a later one may name only the new files. With --rate and --warehouse, a table that
    is not there is made, with the columns value and timestamp.

    \b
    Examples:
      deletekit stream --warehouse wh demo.users changes/ --key id
      deletekit stream --warehouse wh demo.users 'changes/*.csv' --key id
      deletekit stream --warehouse wh demo.rate --rate 1000 --batches 20
    """  # noqa: D301  # click's \b keeps the lines of the examples apart
    if bool(files) == (rate is not None):
        raise click.UsageError("give FILES or --rate, one of them.")
    table = open_table(source) if rate is None else _open_or_make(source)
    if rate is not None:
        how, keys = {**how, "change_type": "_change_type", "order": None}, keys or ("value",)
    when_interrupted(_INTERRUPTED)
    done = []
    with dk.stream.sink(table, how.pop("sink_id"), equality_fields=list(keys) or None, **how) as sink:
        made_up = None if rate is None else sink.run(_sources().rate_batches(rate, batches))
        for progress in made_up or sink.run_files(files, as_given=as_given):
            done.append(progress)
            if not output.as_json:
                show(Text(plain(_line(progress))))
    if output.as_json:
        show_json({"table": table.name, "batches": [_json(p) for p in done]})


@click.command("sinks", short_help="List a table's sinks, or drop one.")
@table_options
@click.option("--drop", metavar="NAME", help="Drop the tag of a sink that is over; its rows stay.")
@output_options
def sinks(source: TableSource, *, drop: str | None, output: Output) -> None:
    """List the sinks of TABLE, each with its newest batch, whose snapshot its tag keeps from expiring.

    \b
    Examples:
      deletekit sinks --warehouse wh demo.users
      deletekit sinks --warehouse wh demo.users --drop old-stream
    """  # noqa: D301  # click's \b keeps the lines of the examples apart
    table = open_table(source)
    if drop is not None:
        dk.stream.drop_sink(table, drop)
    found = dk.stream.sinks(table)
    if output.as_json:
        show_json({"table": table.name, "dropped": drop, "sinks": [json_ready(s) for s in found]})
        return
    if drop is not None:
        show(Text(plain(f"sink {drop} of {table.name} dropped"), style="bold"))
    show(Text(plain(f"{table.name} has {count(len(found), 'sink')}"), style="bold"))
    for sink in found:
        facts = {
            "key": ", ".join(sink.key) or None,
            "newest batch": sink.batch_id,
            "query": sink.query_id or None,
            "file": sink.file,
            "committed at": sink.committed_at.isoformat(sep=" ", timespec="seconds"),
            "snapshot": sink.snapshot_id,
        }
        show(Text(plain(sink.sink_id)), pairs({name: v for name, v in facts.items() if v is not None}))


@click.command("promote", short_help="Bring a staging branch to main.")
@table_options
@click.argument("branch")
@_key
@click.option("--ref", default="main", show_default=True, metavar="BRANCH", help="Where to.")
@click.option(
    "--mode",
    type=click.Choice(["merge-on-read", "copy-on-write"]),
    default="merge-on-read",
    show_default=True,
    help="Hide old rows by position, or leave no delete file at all.",
)
@click.option("--reset", is_flag=True, help="Move BRANCH to the new head, so that it does not grow for ever.")
@output_options
def promote(source: TableSource, *, branch: str, keys: Sequence[str], output: Output, **how: Any) -> None:
    """Bring what BRANCH has changed since it was last promoted to another branch, in one commit.

    \b
    Examples:
      deletekit promote --warehouse wh demo.users ingestion --key id --reset
    """  # noqa: D301  # click's \b keeps the lines of the examples apart
    table = open_table(source)
    done = dk.stream.promote(table, branch, equality_fields=list(keys) or None, **how)
    if output.as_json:
        show_json({"table": table.name, **json_ready(replace(done, commit=None)), "promoted": done.commit is not None})
        return
    if done.commit is None:
        show(Text(plain(f"{branch} of {table.name} has nothing new"), style="bold"))
        return
    show(
        Text(plain(f"{branch} of {table.name} promoted"), style="bold"),
        pairs({"rows added": done.added_rows, "rows deleted": done.deleted_rows, "snapshot": done.commit.snapshot_id}),
    )


def _open_or_make(source: TableSource) -> dk.Table:
    try:
        return open_table(source)
    except dk.NotFoundError:
        if source.warehouse is None:
            raise
    catalog = dk.local_catalog(Path(source.warehouse), source.catalog_name)
    click.get_current_context().call_on_close(catalog.pyiceberg.close)
    return dk.create_table(catalog, source.table, _sources().RATE_SCHEMA, format_version=3)


def _sources() -> Any:
    # By name: it imports readers of files, and no other command needs them.
    return import_module("deletekit.stream.change_files")


def _line(progress: dk.stream.BatchProgress) -> str:
    said = f"batch {progress.batch_id} {progress.status}"
    if progress.file is not None:
        said += f" ({Path(progress.file).name})"
    if progress.status != "committed" or progress.commit is None:
        return said
    deletes = count(len(progress.commit.added_delete_files), "delete file")
    lag = "" if progress.lag_ms is None else f", {progress.lag_ms} ms behind"
    return (
        f"{said}: {count(progress.rows, 'row')}, {count(progress.keys, 'key')}, {progress.hits} found, "
        f"{progress.misses} not, {deletes}, {progress.duration_ms} ms{lag}"
    )


def _json(progress: dk.stream.BatchProgress) -> dict[str, Any]:
    shown: dict[str, Any] = json_ready(replace(progress, commit=None))
    if progress.commit is not None:
        shown["snapshot_id"] = progress.commit.snapshot_id
        shown["added_delete_files"] = len(progress.commit.added_delete_files)
    return shown
