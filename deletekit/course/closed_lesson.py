"""Say in a notebook what to do when a cell is run after its lesson was closed."""

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
