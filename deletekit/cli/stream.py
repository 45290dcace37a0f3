"""The commands `stream`, `sinks` and `promote`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import click
from rich.text import Text

import deletekit as dk
from deletekit.cli.options import (
    TableAnswerCommand,
    branch_option,
    choice_option,
    key_values,
    one_of,
    repeated_option,
    when_interrupted,
)
from deletekit.cli.printer import one_line
from deletekit.cli.table_argument import TableArgument
from deletekit.cli.terminal import Answer, Output, show
from deletekit.cli.verb_command import result_fields, table_answer, verb_command

_on_option = repeated_option("--on", "on", "COLUMN", "Key column. Repeatable.  [default: the schema's]")
_RATE = "Instead of FILES: make up so many changes per batch."
_FORMATS = ("debezium-json", "debezium-flat")
_FORMAT = f"FILES are JSON lines of messages: {', '.join(_FORMATS[:-1])} or {_FORMATS[-1]}."
_OPTION = "Option of the format, such as truncate=apply, ignore=a,b or assume_utc=true. Repeatable."
_PROMOTION = "Delete old rows by position, or write no delete file."


@click.command(cls=TableAnswerCommand)
@one_of("give FILES or --rate, one of them.", "files", "rate", needed=True)
@click.argument("files", nargs=-1)
@click.option("--rate", type=click.IntRange(1), metavar="ROWS", help=_RATE)
@click.option("--batches", type=click.IntRange(1), default=10, metavar="N", help="With --rate: make so many batches.")
@click.option("--sink-id", default="cli", metavar="NAME", help="Name of this stream in the table.")
@_on_option
@choice_option("--mode", ("auto", "eq-only", "index-only"), "How to delete old rows.", default="auto")
@branch_option("commit to")
@click.option("--change-type", default="_change_type", metavar="COLUMN", help="Column of the change types.")
@click.option("--order", metavar="COLUMN", help="Column that orders the rows of a batch.  [default: as they come]")
@click.option("--allow-rewind", is_flag=True, help="Apply batches even if the stream or the branch went back.")
@choice_option("--format", _FORMATS, _FORMAT, metavar="NAME")
@repeated_option("--format-option", "format_options", "NAME=VALUE", _OPTION, callback=key_values)
@click.option("--as-given", is_flag=True, help="Keep the order of FILES even if 10.parquet comes before 2.parquet.")
def stream(
    argument: TableArgument,
    output: Output,
    *,
    sink_id: str,
    batches: int,
    as_given: bool,
    files: Sequence[str] = (),
    rate: int | None = None,
    format: str | None = None,  # noqa: A002  # the option's own name
    format_options: Mapping[str, str],
    **options: Any,
) -> Answer:
    """Apply the changes in FILES (Parquet, CSV or JSON lines) to TABLE, each file a batch, in the order given.

    A folder stands for its files, and a pattern in quotes for the files that match it, in natural order: 2.parquet
    before 10.parquet. A file is known by its path: files that are in the table already are skipped. So the same command
    continues after an interruption, and a later command may name only new files. With --rate and --warehouse, a missing
    table is created, with the columns value and timestamp.

    \b
    Examples:
      deletekit stream --warehouse wh demo.users changes/ --on id
      deletekit stream --warehouse wh demo.users 'changes/*.csv' --on id
      deletekit stream --warehouse wh demo.users m.jsonl --format debezium-json
      deletekit stream --warehouse wh demo.rate --rate 1000 --batches 20
    """  # noqa: D301  # click's \b keeps the lines of the examples apart
    if rate is not None and format is not None:
        raise click.UsageError("--format is about FILES; --rate has none.")
    if format_options and format is None:
        raise click.UsageError("--format-option needs --format.")
    decoder = None if format is None else dk.stream.decoder(format, **_of_format(format_options))
    table = argument.open() if rate is None else _open_or_create(argument)
    if rate is not None:
        options = {"on": ("value",), **options, "change_type": "_change_type", "order": None}
    when_interrupted("Start it again: batches that are in the table are skipped.")
    done = []
    with dk.stream.sink(table, sink_id, **options) as sink:
        made_up = None if rate is None else sink.run(_sources().rate_batches(rate, batches))
        for progress in made_up or sink.run_files(files, as_given=as_given, format=decoder):
            done.append(progress)
            if not output.as_json:
                show(Text(one_line(_batch(progress))))
    return Answer(document={"table": table.name, "batches": list(map(_batch, done))}, text=())


@click.command(cls=TableAnswerCommand)
@one_of("give --drop or --reset, one of them.", "drop", "reset")
@click.option("--drop", metavar="NAME", help="Drop the tag of a sink that has ended; its rows stay.")
@click.option("--reset", metavar="NAME", help="Set a sink whose source lost its count to a batch number.")
@click.option("--batch", type=click.IntRange(-1), metavar="N", help="With --reset: the last applied batch; -1: none.")
@click.option("--query", metavar="ID", help="With --reset: the query of the next batches.  [default: any]")
@branch_option("reset on")
@click.option("--sizes", is_flag=True, help="Also tell which files only a sink's tag keeps.")
def sinks(argument: TableArgument, output: Output, *, drop: str | None = None, **options: Any) -> Answer:
    """List the sinks of TABLE, each with its newest batch. A sink's tag keeps the snapshot of that batch from expiring.

    \b
    Examples:
      deletekit sinks --warehouse wh demo.users --sizes
      deletekit sinks --warehouse wh demo.users --drop old-stream
      deletekit sinks --warehouse wh demo.users --reset orders --batch 41
    """  # noqa: D301  # click's \b keeps the lines of the examples apart
    reset, batch = options.get("reset"), options.get("batch")
    if (reset is None) != (batch is None):
        raise click.UsageError("--reset needs --batch, and --batch needs --reset.")
    if reset is None and options.get("query") is not None:
        raise click.UsageError("--query needs --reset.")
    table = argument.open()
    with output.waiting("Reading the sinks"):
        if drop is not None:
            dk.stream.drop_sink(table, drop)
        if reset is not None and batch is not None:
            dk.stream.reset_sink(table, reset, batch_id=batch, query_id=options.get("query"), ref=options["ref"])
        found = dk.stream.sinks(table, sizes=bool(options.get("sizes")))

    return table_answer(table, {"dropped": drop, "reset": reset, "sinks": found})


@verb_command("Promoting", verb="stream.promote")
@click.argument("branch")
@_on_option
@branch_option("bring it to")
@choice_option("--mode", ("merge-on-read", "copy-on-write"), _PROMOTION, default="merge-on-read")
@click.option("--reset", is_flag=True, help="Move BRANCH to the new head, so that it does not grow forever.")
def promote() -> None:
    """Bring to another branch, in one commit, what BRANCH changed since it was last promoted.

    \b
    Examples:
      deletekit promote --warehouse wh demo.users ingestion --on id --reset
    """  # noqa: D301  # click's \b keeps the lines of the examples apart


def _of_format(texts: Mapping[str, str]) -> dict[str, Any]:
    """Return options of a format as `stream.decoder` takes them; it checks them."""
    lists, words = ("ignore", "servers"), {"true": True, "false": False}
    return {name: text.split(",") if name in lists else words.get(text, text) for name, text in texts.items()}


def _open_or_create(argument: TableArgument) -> dk.Table:
    try:
        return argument.open()
    except dk.NotFoundError:
        if argument.warehouse is None:
            raise
    return dk.create_table(argument.open_catalog(), argument.table, _sources().RATE_SCHEMA, format_version=3)


def _sources() -> Any:
    # Imported by name: it imports readers of files, which no other command needs.
    return import_module("deletekit.stream.change_files")


def _batch(progress: dk.stream.BatchProgress) -> dict[str, Any]:
    """Return what a batch did, without the files of its commit."""
    shown = result_fields(progress)
    commit = shown.pop("commit")
    if commit is not None:
        shown |= {"snapshot_id": commit.snapshot_id, "added_delete_files": len(commit.added_delete_files)}
    return shown
