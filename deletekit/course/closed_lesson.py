"""Say in a notebook what to do when a cell is run before its lesson was set up, or after it was closed."""

import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from deletekit.course.printing import notebook_shell
from deletekit.course.translations import text

_EVENT = "pre_run_cell"
_said: list[Callable[[Any], None]] = []


def closed_text(number: str) -> str:
    """Return the sentence for the learner."""
    return text('Lesson {number} is closed: run the cell with lesson("{number}") and those below it.', number=number)


def say_before_cells(sentence: str | None) -> None:
    """Print a sentence before each cell that is run from now on, but the one that sets up a lesson; None ends that.

    Nothing is printed outside of IPython.
    """
    shell = notebook_shell()
    if shell is None:
        return
    while _said:
        with suppress(ValueError):
            shell.events.unregister(_EVENT, _said.pop())
    if sentence is not None:

        def say(cell: Any) -> None:
            if "lesson(" not in cell.raw_cell:
                print(sentence)  # noqa: T201

        shell.events.register(_EVENT, say)
        _said.append(say)


def explain_missing_names(number: str) -> None:
    """Show one sentence in the place of a NameError until the cell that sets up a lesson has run in this kernel."""

    def show(shell: Any, kind: type[BaseException], error: Any, trace: Any, tb_offset: int | None = None) -> None:
        if "deletekit.course.workplace" not in sys.modules:  # that cell imports it
            said = text(
                'This is a new kernel: the cell with lesson("{number}") has not run in it. Choose Run > Run All Above '
                "Selected Cell, and then run this cell again.",
                number=number,
            )
            error._render_traceback_ = lambda: [said]
        shell.showtraceback((kind, error, trace), tb_offset=tb_offset)

    notebook_shell().set_custom_exc((NameError,), show)
