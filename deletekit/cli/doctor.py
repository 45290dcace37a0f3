"""`deletekit doctor`."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click
from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from deletekit.cli.options import output_options
from deletekit.cli.printer import Prose, Unfolded, grid, heading
from deletekit.cli.terminal import Output, show, show_json
from deletekit.cli.text import plain
from deletekit.version import __version__

if TYPE_CHECKING:
    from deletekit.course.diagnosis import Check

__all__ = ["doctor"]

_PARTS = {
    "base": "Reading and writing tables",
    "spark": "Spark",
    "course": "Notebooks",
    "test": "Development",
    "peers": "Development",
}
_STYLE = {"ok": "green", "warning": "yellow", "missing": "bold red"}


@click.command(short_help="Say what works on this machine, and what fixes it.")
@output_options
def doctor(output: Output) -> None:
    """Say what works on this machine, what does not, what is left without it, and the command that fixes it.

    Nothing is installed or changed, and no network is asked. The exit code is 0 when tables can be read and written,
    whatever is missing for Spark and the course; else 1.

    \b
    Examples:
      deletekit doctor
      deletekit doctor --json
    """  # noqa: D301  # click's \b keeps the lines of the examples apart
    # Imports what looks at packages and programs, which no help does.
    from deletekit.course.diagnosis import base_works, diagnose  # noqa: PLC0415

    with output.waiting("Looking around, and trying a small table"):
        checks = diagnose()
    works = base_works(checks)
    if output.as_json:
        show_json({"deletekit": __version__, "base_works": works, "checks": checks})
    else:
        machine = f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"
        head = Text.assemble((f"deletekit {__version__}", "bold"), f" on {plain(machine)}")
        show(head, *_sections(checks), Text(), _verdict(checks, works=works))
    click.get_current_context().exit(0 if works else 1)


def _sections(checks: Sequence[Check]) -> Iterator[RenderableType]:
    for title in dict.fromkeys(_PARTS.values()):
        mine = [check for check in checks if _PARTS[check.part] == title]
        yield heading(title)
        for check in mine:
            yield from _check(check)


def _check(check: Check) -> Iterator[RenderableType]:
    """One line when all is well; else what it means, and the command on a line of its own, to copy."""
    status = Text(f"{check.status:<7}", _STYLE[check.status])
    yield grid(["", "", ""], [(status, f"{check.name:<15}", Prose(check.found))])
    if check.meaning:
        yield Padding(Prose(check.meaning), (0, 0, 0, 11), expand=False)
    if check.fix:
        yield Unfolded(check.fix, style="cyan", indent=11)


def _verdict(checks: Sequence[Check], *, works: bool) -> Text:
    if not works:
        return Text("deletekit does not work here yet.", style="bold red")
    lacking = dict.fromkeys(_PARTS[c.part] for c in checks if c.status == "missing" and c.part in ("spark", "course"))
    rest = f" Not yet: {', '.join(lacking)}." if lacking else ""
    return Text.assemble(("Reading and writing tables works.", "bold green"), rest)
