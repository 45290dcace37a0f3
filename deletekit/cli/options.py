"""Options that several commands share, and the two kinds of commands: with a table as argument, and without."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import click

from deletekit.cli.table_argument import TableArgument
from deletekit.cli.terminal import Output

Callback = Callable[..., Any]
Decorator = Callable[[Callback], Callback]

_TRACEBACK = "deletekit.traceback"
_INTERRUPTED = "deletekit.interrupted"


# --- values -----------------------------------------------------------------------------------------------------------


def time_of(text: str) -> int | str:
    """Return a time as the verbs take it: a number of milliseconds if it has only digits."""
    return int(text) if text.isascii() and text.isdigit() else text


def key_values(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    """Return repeated KEY=VALUE options as one mapping (a callback of click)."""
    del context
    pairs = {}
    for value in values:
        key, equals, text = value.partition("=")
        if not equals or not key:
            # Do not repeat the value: it may be a password whose key was forgotten.
            raise click.BadParameter(f"each is {parameter.metavar}, such as uri=http://localhost:8181")
        pairs[key] = text
    return pairs


def _remember_traceback(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    del parameter
    context.meta[_TRACEBACK] = value


def _parameters(decorator: Decorator) -> list[click.Parameter]:
    return click.command()(decorator(lambda: None)).params


# --- options ----------------------------------------------------------------------------------------------------------


def branch_option(what: str) -> Decorator:
    """Add `--ref` with the default main; `what` says what happens to the branch."""
    return click.option("--ref", default="main", show_default=True, metavar="BRANCH", help=f"Branch to {what}.")


def limit_option(what: str) -> Decorator:
    """Add `--limit`: print at most so many of something."""
    limit = click.IntRange(min=0)
    return click.option(
        "--limit", type=limit, default=50, show_default=True, metavar="N", help=f"{what} to show; 0 shows all."
    )


def catalog_property_option(what: str) -> Decorator:
    """Add `-p KEY=VALUE`, repeatable, as the mapping `properties`."""
    return click.option(
        "-p", "--property", "properties", multiple=True, metavar="KEY=VALUE", callback=key_values, help=what
    )


traceback_option = click.option(
    "--traceback",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_remember_traceback,
    help="If something fails, show where in the code.",
)
dry_run_option = click.option("--dry-run", is_flag=True, help="Say what would be done, and change nothing.")
older_than_option = click.option(
    "--older-than",
    type=time_of,
    metavar="TIME",
    help="ISO 8601 (UTC unless it names a zone), or milliseconds since 1970.",
)
other_locations_option = click.option(
    "--other-location",
    "other_locations",
    multiple=True,
    metavar="DIR",
    help="Treat files of this folder as the table's too, so they may be removed; repeatable.",
)


def snapshot_options(command: Callback) -> Callback:
    """Add the options that choose a snapshot to read. At most one of them may be given."""

    @click.option("--snapshot", "snapshot_id", type=int, metavar="ID", help="Read the snapshot with this id.")
    @click.option("--ref", metavar="NAME", help="Read the head of this branch or tag.  [default: main]")
    @click.option(
        "--as-of",
        type=time_of,
        metavar="TIME",
        help="Read what was current on main then: ISO 8601 (UTC unless it names a zone), or milliseconds since 1970.",
    )
    @functools.wraps(command)
    def with_one_snapshot(**options: Any) -> Any:
        if len(options.keys() & {"snapshot_id", "ref", "as_of"}) > 1:
            raise click.UsageError("--snapshot, --ref and --as-of each choose a snapshot; give one of them.")
        return command(**options)

    return with_one_snapshot


_TABLE_PARAMETERS: list[click.Parameter] = [
    click.Argument(["table"], metavar="TABLE"),
    click.Option(
        ["--warehouse"], metavar="DIR", help="TABLE is namespace.table in the embedded catalog of this directory."
    ),
    click.Option(
        ["--catalog-name"],
        metavar="NAME",
        help="Name of the embedded catalog; Spark and others must use the same.  [default: local]",
    ),
    click.Option(
        ["--catalog"],
        metavar="NAME",
        help="TABLE is namespace.table in this pyiceberg catalog (~/.pyiceberg.yaml, ...).",
    ),
    *_parameters(
        catalog_property_option(
            "Property of --catalog (uri=..., type=rest), or of the storage of a metadata file. Repeatable."
        )
    ),
]
_OUTPUT_PARAMETERS: list[click.Parameter] = [
    click.Option(["--json", "as_json"], is_flag=True, help="Print the result as JSON."),
    click.Option(["-q", "--quiet"], is_flag=True, help="Show no progress."),
    *_parameters(traceback_option),
]


# --- commands ---------------------------------------------------------------------------------------------------------


class AnswerCommand(click.Command):
    """A command whose function takes `output` and returns an `Answer`, which is printed as text or JSON.

    An option that is not given is not passed on: the default of the function, or of the verb that it calls, holds.
    """

    def __init__(self, name: str | None, *, params: Sequence[click.Parameter] = (), **settings: Any) -> None:
        super().__init__(name, params=[*params, *_OUTPUT_PARAMETERS], **settings)

    def invoke(self, ctx: click.Context) -> None:
        output = Output(ctx.params.pop("as_json"), ctx.params.pop("quiet"))
        ctx.params = {name: value for name, value in ctx.params.items() if value is not None and value != ()}
        ctx.params["output"] = output
        answer = super().invoke(ctx)
        output.show(answer)
        ctx.exit(answer.exit_code)


class TableCommand(click.Command):
    """A command on one table, which its function takes as `argument`."""

    def __init__(self, name: str | None, *, params: Sequence[click.Parameter] = (), **settings: Any) -> None:
        super().__init__(name, params=[*_TABLE_PARAMETERS, *params], **settings)

    def invoke(self, ctx: click.Context) -> Any:
        names = ("table", "warehouse", "catalog", "catalog_name", "properties")
        try:
            ctx.params["argument"] = TableArgument(**{name: ctx.params.pop(name) for name in names})
        except click.UsageError as e:
            e.ctx = ctx  # so that the message names the command's help
            raise
        return super().invoke(ctx)


class TableAnswerCommand(TableCommand, AnswerCommand):
    """A command on one table that returns an `Answer`."""


# --- what the handler of errors asks for ------------------------------------------------------------------------------


def when_interrupted(warning: str) -> None:
    """Print this warning if Ctrl-C ends the command from here on."""
    click.get_current_context().meta[_INTERRUPTED] = warning


def interrupted(context: click.Context) -> str:
    """Return the warning to print after Ctrl-C."""
    return str(context.meta.get(_INTERRUPTED, ""))


def with_traceback(context: click.Context) -> bool:
    """Return whether `--traceback` was given."""
    return bool(context.meta.get(_TRACEBACK))
