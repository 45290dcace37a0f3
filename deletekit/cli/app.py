"""The program `deletekit`: its commands, and how their errors are printed."""

import atexit
import errno
import gc
import warnings
from typing import Any

import click

from deletekit.cli.commands import ELSEWHERE, LISTED, SETTINGS, Commands
from deletekit.text import without_secrets
from deletekit.version import __version__

_CTRL_C = 130
_SIMILAR = 0.75  # less is misleading: create is like readers
_OBJECTS = 50_000
"""So many new objects are looked through for garbage at a time: 700 are too few for what mostly imports, and ends."""


class _Program(click.Group):
    """Prints an error as one block on standard error. Exit code 1; 2 for wrong usage (by click), 130 for Ctrl-C."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            from deletekit.cli.options import INTERRUPTED  # noqa: PLC0415  # the help needs no options

            click.echo(f"\nInterrupted. {ctx.meta.get(INTERRUPTED, '')}".rstrip(), err=True)
            ctx.exit(_CTRL_C)
        except click.ClickException as e:
            vars(e)["message"] = without_secrets(e.message)
            raise
        except (click.exceptions.Exit, click.Abort):
            raise
        except Exception as e:
            if isinstance(e, OSError) and e.errno == errno.EPIPE:
                raise  # `| head` closed the pipe; click ends without a message
            from deletekit.cli.options import TRACEBACK  # noqa: PLC0415  # nor a terminal
            from deletekit.cli.terminal import show_error  # noqa: PLC0415

            show_error(e, with_traceback=ctx.meta.get(TRACEBACK, False))
            ctx.exit(1)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        name = args[0]
        if name in self.commands or name.startswith("-") or ctx.resilient_parsing:
            return super().resolve_command(ctx, args)
        from difflib import get_close_matches  # noqa: PLC0415  # only for a mistake

        near = get_close_matches(name, LISTED, cutoff=_SIMILAR)
        does = ELSEWHERE.get(name) or (f"Did you mean {' or '.join(near)}?" if near else "`deletekit -h` lists them.")
        raise click.UsageError(f"No such command {name!r}. {does}", ctx)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, LISTED[name][1]) for name in self.list_commands(ctx)])


@click.group(cls=_Program, context_settings=SETTINGS)
@click.version_option(__version__, prog_name="deletekit")
def main() -> None:
    """Look at the row-level deletes of Apache Iceberg tables, make them, and clean up after them.

    \b
    Examples:
      deletekit tour
      deletekit lab
      deletekit inspect path/to/table --deletes
      deletekit explain path/to/table "id = 1"
      deletekit delete --warehouse DIR demo.users "id = 1"
      deletekit verify path/to/table
      deletekit expire-snapshots --warehouse DIR demo.users --dry-run
      deletekit doctor

    \b
    Completion by the shell's Tab key, in the shell's start file:
      bash  eval "$(_DELETEKIT_COMPLETE=bash_source deletekit)"
      zsh   eval "$(_DELETEKIT_COMPLETE=zsh_source deletekit)"
      fish  _DELETEKIT_COMPLETE=fish_source deletekit | source
    """  # noqa: D301  # click's \b keeps the lines of the examples apart
    # The line of code that warns does not help a user of commands.
    warnings.formatwarning = lambda message, *_, **__: f"warning: {message}\n"
    gc.set_threshold(_OBJECTS)
    atexit.unregister(gc.freeze)  # of a call before
    atexit.register(gc.freeze)  # nor at the end, where all memory goes anyway: a twentieth of a short command


main.commands = Commands()  # type: ignore[assignment]  # no command is added later
