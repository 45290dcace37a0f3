"""The command `changes`: which rows a table lost and gained, on the screen, in a file, or as they come."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import click

import deletekit as dk
from deletekit.cli.options import TableAnswerCommand, choice_option, one_of, repeated_option, when_interrupted
from deletekit.cli.rows import shown_rows
from deletekit.cli.table_argument import TableArgument
from deletekit.cli.terminal import Answer, Output
from deletekit.cli.verb_command import table_answer
from deletekit.errors import InvalidInputError
from deletekit.text import count

_ROWS = 50
_FORMATS = ("table", "parquet", "jsonl", "debezium")
_TARGET = click.Path(path_type=Path)
_FROM = "Changes after this snapshot.  [default: all; with --follow, first the rows of the oldest snapshot]"
_MODE = "Every snapshot by itself, the two ends compared, or the newest row of each key."
_KEY = "Column that tells which row an update is of; repeatable.  [default: row ids, the schema's]"
_FORMAT = "[default: by the suffix of FILE; jsonl with --follow; table]"
_OUTPUT = "Write to this file; with --follow, to this folder, a file for each snapshot."
_LIMIT = "Show at most N changes on the screen; 0 shows all.  [default: 50]"
_POLL = "With --follow: ask the table again after so many seconds."
_IDLE = "With --follow: end after so many seconds without a new snapshot; 0 ends at the newest."
_SNAPSHOTS = "With --follow: end after so many snapshots."
_seconds = click.FloatRange(min=0)


@click.command(cls=TableAnswerCommand)
@one_of("--to and --ref each say where the changes end; give one of them.", "to_snapshot", "ref")
@click.option("--from", "from_snapshot", type=int, metavar="ID", help=_FROM)
@click.option("--to", "to_snapshot", type=int, metavar="ID", help="Changes up to this snapshot.  [default: the newest]")
@click.option("--ref", metavar="NAME", help="Changes up to the head of this branch or tag.  [default: main]")
@choice_option("--mode", ("all", "net", "upsert"), _MODE, default="all")
@repeated_option("--on", "on", "COLUMN", _KEY)
@repeated_option("--column", "columns", "COLUMN", "Compare and give this column; repeatable.  [default: all]")
@click.option("--where", metavar="WHERE", help="Only rows for which this is true, as in SQL.")
@click.option("--inverse", is_flag=True, help="If the branch went back, first undo its snapshots.")
@choice_option("--format", _FORMATS, _FORMAT)
@click.option("-o", "--output", "target", type=_TARGET, metavar="PATH", help=_OUTPUT)
@click.option("--overwrite", is_flag=True, help="Replace FILE where it exists.")
@click.option("--limit", type=click.IntRange(min=0), metavar="N", help=_LIMIT)
@click.option("--follow", is_flag=True, help="Go on with each new snapshot, until Ctrl-C.")
@click.option("--poll", type=_seconds, default=2.0, metavar="SECONDS", help=_POLL)
@click.option("--until-idle", type=_seconds, metavar="SECONDS", help=_IDLE)
@click.option("--snapshots", type=click.IntRange(min=1), metavar="N", help=_SNAPSHOTS)
def changes(
    argument: TableArgument,
    output: Output,
    *,
    format: str | None = None,  # noqa: A002  # the option's name
    target: Path | None = None,
    overwrite: bool,
    limit: int | None = None,
    follow: bool,
    poll: float,
    until_idle: float | None = None,
    snapshots: int | None = None,
    **asked: Any,
) -> Answer:
    """Give the rows that TABLE lost and gained between two snapshots, whatever kind of delete hid them.

    They are shown, or written as they are read. Without -o, jsonl and debezium go to standard output, and nothing else
    does. With --follow, the snapshots that are done are told on standard error; the id of the last one is the --from to
    go on with. A folder needs none: its newest file tells it, and each snapshot is in one file, however often the
    command is killed and started again.

    \b
    Examples:
      deletekit changes --warehouse wh demo.users --from 4358109269873137077
      deletekit changes --warehouse wh demo.users --mode net -o changes.parquet
      deletekit changes --catalog prod demo.users --follow --format debezium
      deletekit changes --catalog prod demo.users --follow -o changes/
    """  # noqa: D301  # click's \b keeps the lines of the examples apart
    kind = format or ("jsonl" if follow else "table" if target is None else _format_of(target))
    _check_usage(kind, target, output, follow=follow, overwrite=overwrite, limit=limit, **asked)
    if not follow and (until_idle is not None or snapshots is not None):
        raise click.UsageError("--until-idle and --snapshots need --follow.")
    if follow:
        ends = {"poll": poll, "idle": until_idle, "most": snapshots}
        return _follow(argument, output, kind, target, ends, asked)
    table = argument.open()
    if target is not None:
        return _to_file(table, output, kind, target, overwrite, asked)
    if kind != "table":
        from deletekit.cli.change_writers import print_changes  # noqa: PLC0415  # not for help

        print_changes(dk.changes(table, **asked), kind)
        return Answer(document=None, text=())
    return _on_screen(table, output, _ROWS if limit is None else limit, asked)


def _format_of(target: Path) -> str:
    from deletekit.cli.change_writers import format_of  # noqa: PLC0415  # not for help

    return format_of(target)


def _check_usage(
    kind: str,
    target: Path | None,
    output: Output,
    *,
    follow: bool,
    overwrite: bool,
    limit: int | None,
    mode: str,
    to_snapshot: int | None = None,
    **_: Any,
) -> None:
    """Raise UsageError for options that do not go together."""
    on_screen = target is None and not follow
    wrong = {
        "--follow gives jsonl, debezium, or parquet in a folder.": follow and kind == "table",
        "--format parquet needs -o.": target is None and kind == "parquet",
        "--format table is for the screen; -o takes parquet, jsonl and debezium.": not on_screen and kind == "table",
        "--overwrite is about the FILE of --output.": overwrite and (target is None or follow),
        "--limit is about the screen.": limit is not None and kind != "table",
        f"--json has no place: {kind} on standard output is JSON. Give -o, or leave one out.": (
            output.as_json and target is None and kind != "table"
        ),
        "--follow goes on after the newest snapshot; --to names an end. Give one of them.": (
            follow and to_snapshot is not None
        ),
        "--follow gives each snapshot by itself; --mode net compares two. Give one of them.": (
            follow and mode == "net"
        ),
    }
    for message, is_wrong in wrong.items():
        if is_wrong:
            raise click.UsageError(message)


def _on_screen(table: dk.Table, output: Output, limit: int, asked: Mapping[str, Any]) -> Answer:
    import pyarrow as pa  # noqa: PLC0415  # not for help

    from deletekit.table.python_values import python_rows  # noqa: PLC0415

    with output.bar("Reading changes"):
        result = dk.changes(table, **asked)
        batches: list[pa.RecordBatch] = []
        for batch in result.to_batches():
            batches.append(batch)
            if limit and sum(map(len, batches)) > limit:
                break
    found = pa.Table.from_batches(batches, result.arrow_schema)
    first = "_change_type"
    found = found.select([first, *(name for name in found.column_names if name != first)])
    rows = python_rows(found.slice(0, limit or None))
    document = {**_about(result), "columns": found.column_names, "rows": rows, "more": len(found) > len(rows)}
    return Answer(document=document, text=shown_rows(found, rows, "No changes."))


def _to_file(
    table: dk.Table, output: Output, kind: str, target: Path, overwrite: bool, asked: Mapping[str, Any]
) -> Answer:
    from deletekit.cli.change_writers import write_changes  # noqa: PLC0415  # not for help

    with output.bar("Reading changes"):
        result = dk.changes(table, **asked)
        rows = write_changes(result, kind, target, overwrite=overwrite)
    written = {"format": kind, "file": str(target), "rows": rows, "bytes": target.stat().st_size}
    return Answer(document={**_about(result), **written})


def _about(result: dk.results.Changes) -> dict[str, Any]:
    ends = {"from_snapshot": result.from_snapshot, "to_snapshot": result.to_snapshot}
    ids = {name: None if end is None else end.snapshot_id for name, end in ends.items()}
    return {"table": result.table.name, "mode": result.mode, **ids}


def _follow(
    argument: TableArgument,
    output: Output,
    kind: str,
    target: Path | None,
    ends: Mapping[str, Any],
    asked: Mapping[str, Any],
) -> Answer:
    from deletekit.cli.change_writers import ChangeFolder, following_steps, print_changes  # noqa: PLC0415
    from deletekit.stream.sources.table import changes_of_step  # noqa: PLC0415

    table = argument.open()
    if table.catalog is None:
        message, expected = "a table that is opened by its path does not change", "--warehouse DIR or --catalog NAME"
        raise InvalidInputError(message, kind="read-only", field="--follow", found=argument.table, expected=expected)
    at, done, rows = asked.get("from_snapshot"), 0, 0
    folder = None if target is None else ChangeFolder(target, kind)
    again = "Start it again{}."
    if folder is not None:
        at, again = folder.open(at), "Start it again: it goes on behind the newest file."
    when_interrupted(again.format("" if at is None else f" with --from {at}"))
    view = {name: asked[name] for name in ("on", "columns", "where") if name in asked}
    # Of one snapshot, the modes `all` and `net` are the same.
    mode: Literal["upsert", "net"] = "upsert" if asked["mode"] == "upsert" else "net"
    ref = asked.get("ref", "main")
    first = 0 if folder is None else folder.number
    for step in following_steps(table, at, ref, first=first, inverse=asked["inverse"], **ends):
        result = changes_of_step(table, step, mode, **view)
        written = print_changes(result, kind) if folder is None else folder.write(result, step)
        at = step.end
        done, rows = done + 1, rows + written
        when_interrupted(again.format("" if at is None else f" with --from {at}"))
        told = "before the first row" if at is None else f"snapshot {at}"
        output.progress(f"{told}: {count(written, 'change')}")
    if folder is None:
        return Answer(document=None, text=())
    document = {"format": kind, "folder": str(target), "snapshot_id": at, "snapshots": done, "rows": rows}
    return table_answer(table, document)
