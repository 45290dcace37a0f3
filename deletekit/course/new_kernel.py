"""Say in a notebook what to do when a cell is run before its lesson was set up."""

import sys
from typing import Any

from deletekit.course.printing import notebook_shell
from deletekit.course.translations import text


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
