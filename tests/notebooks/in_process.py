"""Run a notebook's cells in this process, around the Spark session that is there."""

from __future__ import annotations

import ast
import io
from contextlib import redirect_stdout
from dataclasses import dataclass
from typing import Any

from nbformat import NotebookNode

from deletekit.course import checking


@dataclass(frozen=True, slots=True)
class Ran:
    """What a cell printed, and the value of its last expression."""

    printed: str
    value: Any

    @property
    def texts(self) -> list[str]:
        """What it printed, and its value as text and as HTML."""
        shown = [] if self.value is None else [repr(self.value)]
        return [*([self.printed] if self.printed else []), *shown, *_html(self.value)]


def run_in_process(notebook: NotebookNode) -> dict[str, Ran]:
    """Run every code cell; by the id of the cell."""
    checking._predictions.clear()
    checking._hints_given.clear()
    names: dict[str, Any] = {"__name__": "__main__"}
    return {cell.id: _run(cell.source, names) for cell in notebook.cells if cell.cell_type == "code"}


def _run(code: str, names: dict[str, Any]) -> Ran:
    body = ast.parse(code).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    printed = io.StringIO()
    value = None
    with redirect_stdout(printed):
        exec(compile(ast.Module(body, []), "cell", "exec"), names)  # noqa: S102 - our own lesson
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)  # noqa: S307 - our own lesson
    return Ran(printed.getvalue(), value)


def _html(value: Any) -> list[str]:
    """The HTML of what has some: a widget gives data and metadata, a verdict its data alone."""
    bundle = value._repr_mimebundle_() if hasattr(value, "_repr_mimebundle_") else {}
    data = bundle[0] if isinstance(bundle, tuple) else bundle
    return [data["text/html"]] if "text/html" in data else []
