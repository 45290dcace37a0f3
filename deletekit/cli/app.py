"""The program `deletekit`: its commands, and how their errors are printed."""

from __future__ import annotations

import errno
import warnings
from importlib import import_module
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from deletekit.cli.clean_up import expire_snapshots, remove_orphan_files, rewrite_manifests
from deletekit.cli.delete import delete
from deletekit.cli.delta import clean_up_delta, repack, sync_delta
from deletekit.cli.doctor import doctor
from deletekit.cli.explain import explain
from deletekit.cli.explore import explore
from deletekit.cli.inspect import inspect
from deletekit.cli.lab import lab
from deletekit.cli.options import INTERRUPTED, TRACEBACK, Command
from deletekit.cli.pipeline import pipeline
from deletekit.cli.refs import cherry_pick, fast_forward, rollback, set_current_snapshot
from deletekit.cli.repair import repair
from deletekit.cli.rewrite import (
    compact,
    convert_equality_deletes,
    erase,
    remove_dangling_deletes,
    rewrite_position_deletes,
)
from deletekit.cli.stream import promote, sinks, stream
from deletekit.cli.terminal import show_error
from deletekit.cli.verify import verify
from deletekit.cli.workshop_bundle import workshop_bundle
from deletekit.version import __version__

_CTRL_C = 130


class _Program(click.Group):
    """Prints an error as one block on standard error. Exit code 1; 2 for wrong usage (by click), 130 for Ctrl-C."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            click.echo(f"\nInterrupted. {ctx.meta.get(INTERRUPTED, '')}".rstrip(), err=True)
            ctx.exit(_CTRL_C)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except Exception as e:
            if isinstance(e, OSError) and e.errno == errno.EPIPE:
                raise  # `| head` closed the pipe; click ends without a message
            show_error(e, with_traceback=ctx.meta.get(TRACEBACK, False))
            ctx.exit(1)


_SETTINGS: dict[str, Any] = {"help_option_names": ["-h", "--help"], "max_content_width": 80, "show_default": True}


@click.group(cls=_Program, context_settings=_SETTINGS)
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
    """  # noqa: D301  # click's \b keeps the lines of the examples apart
    # The line of code that warns does not help a user of commands.
    warnings.formatwarning = lambda message, *_, **__: f"warning: {message}\n"


@click.command(cls=Command, short_help="See every kind of delete on real rows.")
@click.argument("directory", required=False, type=click.Path(file_okay=False, path_type=Path))
@click.option("--keep/--no-keep", default=True, help="Keep the tables to look at.")
def tour(directory: Path | None, *, keep: bool) -> None:
    """Walk through every kind of delete on real rows, in tables created in DIRECTORY or in a temporary directory.

    \b
    Examples:
      deletekit tour
      deletekit tour my-tour --no-keep
    """  # noqa: D301  # click's \b keeps the lines of the examples apart
    if not keep and directory is not None and directory.is_dir() and any(directory.iterdir()):
        raise click.UsageError(
            f"--no-keep would remove what is in {directory} already; give a directory that is empty."
        )
    # Imported by name: the tour imports everything, and no other command needs it.
    module = import_module("deletekit.course.tour")
    module.run_tour(directory, console=Console(highlight=False), keep=keep)


_LOOKING = (tour, lab, workshop_bundle, inspect, explain, explore, verify, doctor)
_CHANGING = (pipeline, delete, stream, sinks, promote, rollback, set_current_snapshot, cherry_pick, fast_forward)
_CLEANING_UP = (expire_snapshots, remove_orphan_files, rewrite_manifests, repair)
_REWRITING = (compact, rewrite_position_deletes, convert_equality_deletes, remove_dangling_deletes, erase)
_DELTA = (sync_delta, clean_up_delta, repack)

for command in (*_LOOKING, *_CHANGING, *_CLEANING_UP, *_REWRITING, *_DELTA):
    # click keeps a command's help option from its first context, which may be one without `main`.
    command.context_settings = _SETTINGS
    main.add_command(command)
