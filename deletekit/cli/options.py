"""Arguments that several commands share: which table, which snapshot, what kind of answer."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import click

from deletekit.cli.terminal import Output

__all__ = [
    "SnapshotChoice",
    "TableSource",
    "dry_run_option",
    "interrupted",
    "key_values",
    "other_locations_option",
    "output_options",
    "snapshot_options",
    "table_options",
    "time_of",
    "traceback_option",
    "when_interrupted",
    "with_traceback",
]

Command = Callable[..., None]

_TRACEBACK = "deletekit.traceback"
_INTERRUPTED = "deletekit.interrupted"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSource:
    """What the user said about where the table is."""

    table: str
    warehouse: str | None
    catalog: str | None
    catalog_name: str
    properties: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotChoice:
    """Which snapshot: at most one of the three is given."""

    snapshot_id: int | None
    ref: str | None
    as_of: int | str | None

    def arguments(self) -> dict[str, Any]:
        """As the verbs take them."""
        given = {"snapshot_id": self.snapshot_id, "ref": self.ref, "as_of": self.as_of}
        return {name: value for name, value in given.items() if value is not None}


def table_options(command: Command) -> Command:
    """TABLE and the options that say what it means, handed on as `source`."""

    @click.argument("table", metavar="TABLE")
    @click.option(
        "--warehouse",
        metavar="DIR",
        help="TABLE is namespace.table in the embedded catalog of this directory.",
    )
    @click.option(
        "--catalog-name",
        metavar="NAME",
        help="Name the embedded catalog goes by; Spark and others must use the same.  [default: local]",
    )
    @click.option(
        "--catalog", metavar="NAME", help="TABLE is namespace.table in this pyiceberg catalog (~/.pyiceberg.yaml, ...)."
    )
    @click.option(
        "-p",
        "--property",
        "properties",
        multiple=True,
        metavar="KEY=VALUE",
        callback=key_values,
        help="Property of --catalog (uri=..., type=rest), or of the storage of a metadata file. Repeatable.",
    )
    @functools.wraps(command)
    def packed(
        table: str,
        warehouse: str | None,
        catalog_name: str | None,
        catalog: str | None,
        properties: Mapping[str, str],
        **rest: Any,
    ) -> None:
        if warehouse is not None and catalog is not None:
            raise click.UsageError("--warehouse and --catalog name two different catalogs; give one of them.")
        if catalog_name is not None and warehouse is None:
            raise click.UsageError(
                "--catalog-name is the name of --warehouse's catalog; other catalogs: --catalog NAME."
            )
        if properties and warehouse is not None:
            raise click.UsageError("the embedded catalog of --warehouse has no properties to set.")
        source = TableSource(
            table=table,
            warehouse=warehouse,
            catalog=catalog,
            catalog_name=catalog_name or "local",
            properties=properties,
        )
        command(source=source, **rest)

    return packed


def snapshot_options(command: Command) -> Command:
    """Time travel, handed on as `at`."""

    @click.option("--snapshot", "snapshot_id", type=int, metavar="ID", help="The snapshot of this id.")
    @click.option("--ref", metavar="NAME", help="The head of this branch or tag.  [default: main]")
    @click.option(
        "--as-of",
        metavar="TIME",
        help="What was current on main then: ISO 8601 (UTC unless it says otherwise), or milliseconds since 1970.",
    )
    @functools.wraps(command)
    def packed(snapshot_id: int | None, ref: str | None, as_of: str | None, **rest: Any) -> None:
        if sum(given is not None for given in (snapshot_id, ref, as_of)) > 1:
            raise click.UsageError("--snapshot, --ref and --as-of each choose a snapshot; give one of them.")
        command(at=SnapshotChoice(snapshot_id=snapshot_id, ref=ref, as_of=time_of(as_of)), **rest)

    return packed


def time_of(text: str | None) -> int | str | None:
    """A time as the verbs take it: milliseconds where it is only digits."""
    return int(text) if text is not None and text.isascii() and text.isdigit() else text


def dry_run_option(command: Command) -> Command:
    """`--dry-run`."""
    return click.option("--dry-run", is_flag=True, help="Say what would be done, and change nothing.")(command)


def other_locations_option(command: Command) -> Command:
    """`--other-location`, handed on as `other_locations`."""
    return click.option(
        "--other-location",
        "other_locations",
        multiple=True,
        metavar="DIR",
        help="Files of this folder are the table's too, and may be removed; repeatable.",
    )(command)


def output_options(command: Command) -> Command:
    """`--json`, `--quiet` and `--traceback`, handed on as `output`."""

    @click.option("--json", "as_json", is_flag=True, help="Answer in JSON.")
    @click.option("-q", "--quiet", is_flag=True, help="Show no progress.")
    @traceback_option
    @functools.wraps(command)
    def packed(as_json: bool, quiet: bool, **rest: Any) -> None:
        command(output=Output(as_json, quiet), **rest)

    return packed


def traceback_option(command: Command) -> Command:
    """`--traceback`, which only the handler of errors asks for."""
    return click.option(
        "--traceback",
        is_flag=True,
        expose_value=False,
        is_eager=True,
        callback=_remember_traceback,
        help="When something fails, show where in the code.",
    )(command)


def when_interrupted(warning: str) -> None:
    """Have Ctrl-C from here on say so."""
    click.get_current_context().meta[_INTERRUPTED] = warning


def interrupted(context: click.Context) -> str:
    """What Ctrl-C has to say."""
    return str(context.meta.get(_INTERRUPTED, ""))


def with_traceback(context: click.Context) -> bool:
    """Whether `--traceback` was given."""
    return bool(context.meta.get(_TRACEBACK))


def key_values(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    """KEY=VALUE options as a mapping: click's callback."""
    del context, parameter
    pairs = {}
    for value in values:
        key, equals, text = value.partition("=")
        if not equals or not key:
            # Not the value itself: it may be a password whose key was forgotten.
            raise click.BadParameter("each is KEY=VALUE, such as uri=http://localhost:8181")
        pairs[key] = text
    return pairs


def _remember_traceback(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    del parameter
    context.meta[_TRACEBACK] = value
