"""Options that several commands share, and the kinds of commands: plain, with an answer, and on a table."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from deletekit.cli.table_argument import TableArgument
from deletekit.cli.terminal import Output, show_error
from deletekit.engines.local import PROGRESS
from deletekit.errors import DeletekitError, InvalidInputError
from deletekit.table.modes import DELETE_MODES
from deletekit.text import plain

Callback = Callable[..., Any]
Decorator = Callable[[Callback], Callback]

TRACEBACK = "deletekit.traceback"
"""Where a click context holds whether `--traceback` was given."""
INTERRUPTED = "deletekit.interrupted"
"""Where it holds the warning to print if Ctrl-C ends the command."""
_ONE_OF = "deletekit_one_of"
_AT_MOST = 'Refuse a change of more than N rows of the table, or of such a share: "1 %".'
_READABLE_BY = "Write so that this engine reads the table right, or refuse; repeatable."
_EXAMPLES = {
    "KEY=VALUE": "uri=http://localhost:8181",
    "COLUMN=VALUE": "name='Ann'",
    "NAME=VALUE": "truncate=apply",
    "A,B=C": "s3a,s3n=s3",
}


# --- values -----------------------------------------------------------------------------------------------------------


def number_or_text(text: str) -> int | str:
    """Return a time, or a limit of rows, as the verbs take it: a number if it has only digits."""
    return int(text) if text.isascii() and text.isdigit() else text


def key_values(_: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    """Return repeated KEY=VALUE options as one mapping (a callback of click)."""
    pairs = {}
    for value in values:
        key, equals, text = value.partition("=")
        if not equals or not key:
            # Do not repeat the value: it may be a password whose key was forgotten.
            raise click.BadParameter(f"each is {parameter.metavar}, such as {_EXAMPLES[str(parameter.metavar)]}")
        if key in pairs:
            raise click.BadParameter(f"given twice: {plain(key)}")
        pairs[key] = text
    return pairs


def _remember_traceback(context: click.Context, _: click.Parameter, value: bool) -> None:
    context.meta[TRACEBACK] = value


# --- options ----------------------------------------------------------------------------------------------------------


def branch_option(what: str) -> Decorator:
    """Add `--ref` with the default main; `what` says what happens to the branch."""
    return click.option("--ref", default="main", metavar="BRANCH", help=f"Branch to {what}.")


def limit_option(what: str) -> Decorator:
    """Add `--limit`: print at most so many of something."""
    number = click.IntRange(min=0)
    return click.option("--limit", type=number, default=50, metavar="N", help=f"{what} to show; 0 shows all.")


def number_option(name: str, what: str, kind: Any = int, metavar: str = "N") -> Decorator:
    """Add an option that takes a number."""
    return click.option(name, type=kind, metavar=metavar, help=what)


def repeated_option(name: str, argument: str, metavar: str, what: str, **more: Any) -> Decorator:
    """Add an option that may be given several times."""
    return click.option(name, argument, multiple=True, metavar=metavar, help=what, **more)


def choice_option(name: str, choices: Sequence[str], what: str, **more: Any) -> Decorator:
    """Add an option that takes one of some words."""
    return click.option(name, type=click.Choice(choices), help=what, **more)


def mode_option(verb: str) -> Decorator:
    """Add `--mode`: how deleted rows are written."""
    what = f"{', '.join(DELETE_MODES[:-1])} or {DELETE_MODES[-1]}.  [default: the table's write.{verb}.mode]"
    return choice_option("--mode", DELETE_MODES, what, metavar="MODE")


def one_of(message: str, *names: str, needed: bool = False) -> Decorator:
    """Let an AnswerCommand refuse more than one of these options, and none of them if one is needed."""

    def decorated(command: Callback) -> Callback:
        vars(command)[_ONE_OF] = message, names, needed
        return command

    return decorated


dry_run_option = click.option("--dry-run", is_flag=True, help="Say what would be done, and change nothing.")


def guard_options(command: Callback) -> Callback:
    """Add the options that let a change be refused: of how many rows it may be, and who must read the table after."""
    for decorator in (
        dry_run_option,
        repeated_option("--readable-by", "readable_by", "ENGINE", _READABLE_BY),
        number_option("--expect", "Refuse a change that is not about exactly N rows of the table."),
        number_option("--at-most", _AT_MOST, number_or_text, "N"),
    ):
        command = decorator(command)
    return command


older_than_option = click.option(
    "--older-than",
    type=number_or_text,
    metavar="TIME",
    help="ISO 8601 (UTC unless it names a zone), or milliseconds since 1970.",
)
other_locations_option = repeated_option(
    "--other-location",
    "other_locations",
    "DIR",
    "Treat files of this folder as the table's too, so they may be removed; repeatable.",
)


def snapshot_options(command: Callback) -> Callback:
    """Add the options that choose a snapshot to read. At most one of them may be given."""
    as_of = "Read what was current on main then: ISO 8601 (UTC unless it names a zone), or milliseconds since 1970."
    only_one = "--snapshot, --ref and --as-of each choose a snapshot; give one of them."
    for decorator in (
        one_of(only_one, "snapshot_id", "ref", "as_of"),
        click.option("--as-of", type=number_or_text, metavar="TIME", help=as_of),
        click.option("--ref", metavar="NAME", help="Read the head of this branch or tag.  [default: main]"),
        click.option("--snapshot", "snapshot_id", type=int, metavar="ID", help="Read the snapshot with this id."),
    ):
        command = decorator(command)
    return command


_PROPERTY: tuple[Any, ...] = ("-p", "--property", "properties")
_KEY_VALUES: dict[str, Any] = {"multiple": True, "metavar": "KEY=VALUE", "callback": key_values}
_PROPERTIES = "Property of --catalog (uri=..., type=rest){}. Repeatable."

catalog_property_option = click.option(*_PROPERTY, help=_PROPERTIES.format(""), **_KEY_VALUES)

_TRACEBACK_OPTION = click.Option(
    ["--traceback"],
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_remember_traceback,
    help="If something fails, show where in the code.",
)
_OUTPUT_OPTIONS = (
    click.Option(["--json", "as_json"], is_flag=True, help="Print the result as JSON."),
    click.Option(["-q", "--quiet"], is_flag=True, help="Show no progress."),
)
_EMBEDDED = "TABLE is namespace.table in the embedded catalog of this directory."
_NAME = "Name of the embedded catalog; Spark and others must use the same.  [default: local]"
_CATALOG = "TABLE is namespace.table in this pyiceberg catalog (~/.pyiceberg.yaml, ...)."
_CATALOG_PARAMETERS = (
    click.Option(["--warehouse"], metavar="DIR", help=_EMBEDDED),
    click.Option(["--catalog-name"], metavar="NAME", help=_NAME),
    click.Option(["--catalog"], metavar="NAME", help=_CATALOG),
    click.Option(_PROPERTY, help=_PROPERTIES.format(", or of the storage of a metadata file"), **_KEY_VALUES),
)


def _table_names(ctx: click.Context, _: click.Parameter, begun: str) -> list[str]:
    """Return the tables that a shell offers; none where the catalog cannot be asked."""
    where = {name: ctx.params.get(name) for name in ("warehouse", "catalog", "catalog_name")}
    with ctx, suppress(Exception):
        argument = TableArgument(table=begun, **where, properties=ctx.params.get("properties") or {})
        return [name for name in argument.existing_catalog().tables() if name.startswith(begun)]
    return []


_TABLE_PARAMETERS = (click.Argument(["table"], metavar="TABLE", shell_complete=_table_names), *_CATALOG_PARAMETERS)
_SOURCE_PARAMETERS = (
    click.Argument(["source"], metavar="SOURCE", required=False),
    click.Argument(["table"], metavar="TABLE", required=False),
    *_CATALOG_PARAMETERS,
)
_NAMESPACE_PARAMETERS = (click.Argument(["table"], metavar="[NAMESPACE]", default=""), *_CATALOG_PARAMETERS)


# --- commands ---------------------------------------------------------------------------------------------------------


class Command(click.Command):
    """A command that prints by itself."""

    def __init__(self, name: str | None, *, params: Sequence[click.Parameter] = (), **settings: Any) -> None:
        super().__init__(name, params=[*params, _TRACEBACK_OPTION], **settings)


class AnswerCommand(Command):
    """A command whose function takes `output` and returns an `Answer`, which is printed as text or JSON.

    An option that is not given is not passed on: the default of the function, or of the verb that it calls, holds.
    """

    def __init__(self, name: str | None, *, params: Sequence[click.Parameter] = (), **settings: Any) -> None:
        super().__init__(name, params=[*params, *_OUTPUT_OPTIONS], **settings)

    def invoke(self, ctx: click.Context) -> None:
        output = Output(ctx.params.pop("as_json"), ctx.params.pop("quiet"))
        PROGRESS.set(None)  # until a command gives its label
        ctx.params = {name: value for name, value in ctx.params.items() if value is not None and value != ()}
        message, names, needed = getattr(self.callback, _ONE_OF, ("", (), False))
        given = sum(name in ctx.params and ctx.params[name] is not False for name in names)
        if given > 1 or (needed and not given):
            raise click.UsageError(message, ctx)
        ctx.params["output"] = output
        answer = super().invoke(ctx)
        output.show(answer)
        ctx.exit(answer.exit_code)


class Program(AnswerCommand):
    """A program of its own, which prints errors as commands of deletekit do."""

    def invoke(self, ctx: click.Context) -> None:
        try:
            super().invoke(ctx)
        except DeletekitError as e:
            show_error(e, with_traceback=ctx.meta.get(TRACEBACK, False))
            ctx.exit(1)


class TableCommand(Command):
    """A command on one table, which its function takes as `argument`."""

    own_params: tuple[click.Parameter, ...] = _TABLE_PARAMETERS

    def __init__(self, name: str | None, *, params: Sequence[click.Parameter] = (), **settings: Any) -> None:
        super().__init__(name, params=[*self.own_params, *params], **settings)

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


class CatalogAnswerCommand(TableAnswerCommand):
    """A command on a catalog that returns an `Answer`; its `argument` has a namespace, or "", in place of a table."""

    own_params = _NAMESPACE_PARAMETERS


class SourceAnswerCommand(TableAnswerCommand):
    """A command with SOURCE before TABLE; both may be left out."""

    own_params = _SOURCE_PARAMETERS


def check_new(target: Path, *, overwrite: bool) -> None:
    """Raise InvalidInputError for a file that exists, unless it may be replaced."""
    if target.exists() and not overwrite:
        expected = "another name, or --overwrite"
        raise InvalidInputError("file exists already", kind="output-exists", file=str(target), expected=expected)


def when_interrupted(warning: str) -> None:
    """Print this warning if Ctrl-C ends the command from here on."""
    click.get_current_context().meta[INTERRUPTED] = warning
