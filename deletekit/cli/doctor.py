"""The command `doctor`."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click
from rich.console import RenderableType
from rich.text import Text

from deletekit.cli.options import AnswerCommand
from deletekit.cli.printer import grid, heading, indented, prose, unfolded
from deletekit.cli.terminal import Answer, Output
from deletekit.text import plain
from deletekit.version import __version__

if TYPE_CHECKING:
    from deletekit.course.diagnosis import Check

_PARTS = {
    "base": "Reading and writing tables",
    "spark": "Spark",
    "course": "Notebooks",
    "test": "Development",
    "peers": "Development",
}
_STYLE = {"ok": "green", "warning": "yellow", "missing": "bold red"}


@click.command(cls=AnswerCommand)
def doctor(output: Output) -> Answer:
    """Say what works on this machine, what does not, what that means, and which command fixes it.

    Nothing is installed or changed, and the network is not used. The exit code is 0 if tables can be read and written,
    even if something is missing for Spark and the course; else 1.

    \b
    Examples:
      deletekit doctor
      deletekit doctor --json
    """  # noqa: D301  # click's \b keeps the lines of the examples apart
    # Imports what examines packages and programs, which help does not need.
    from deletekit.course.diagnosis import base_works, diagnose  # noqa: PLC0415

    with output.bar("Looking around, and trying a small table"):
        checks = diagnose()
    works = base_works(checks)
    machine = f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"
    title = Text.assemble((f"deletekit {__version__}", "bold"), f" on {plain(machine)}")
    return Answer(
        document={"deletekit": __version__, "base_works": works, "checks": checks},
        text=[title, *_sections(checks), Text(), _verdict(checks, works=works)],
        exit_code=0 if works else 1,
    )


def _sections(checks: Sequence[Check]) -> Iterator[RenderableType]:
    for title in dict.fromkeys(_PARTS.values()):
        mine = [check for check in checks if _PARTS[check.part] == title]
        yield heading(title)
        for check in mine:
            yield from _check(check)


def _check(check: Check) -> Iterator[RenderableType]:
    """Yield one line if all is well; else also what it means, and the command that fixes it on a line of its own."""
    status = Text(f"{check.status:<7}", _STYLE[check.status])
    yield grid(["", "", ""], [(status, f"{check.name:<15}", prose(check.found))])
    if check.meaning:
        yield indented(prose(check.meaning), 11)
    if check.fix:
        yield unfolded(check.fix, "cyan", indent=11)


def _verdict(checks: Sequence[Check], *, works: bool) -> Text:
    if not works:
        return Text("deletekit does not work here yet.", style="bold red")
    lacking = dict.fromkeys(_PARTS[c.part] for c in checks if c.status == "missing" and c.part in ("spark", "course"))
    rest = f" Not yet: {', '.join(lacking)}." if lacking else ""
    return Text.assemble(("Reading and writing tables works.", "bold green"), rest)
