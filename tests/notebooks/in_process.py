"""Run a notebook's cells in this process, around the Spark session that is there."""

from __future__ import annotations

import ast
import io
from contextlib import redirect_stdout
from typing import Any

from nbformat import NotebookNode

from deletekit.course import checking


def outputs_in_process(notebook: NotebookNode) -> dict[str, list[str]]:
    """Give what each code cell prints, and its last expression as text and as HTML, by the id of the cell."""
    checking._predictions.clear()
    checking._hints_given.clear()
    names: dict[str, Any] = {"__name__": "__main__"}
    return {cell.id: _outputs(cell.source, names) for cell in notebook.cells if cell.cell_type == "code"}


def _outputs(code: str, names: dict[str, Any]) -> list[str]:
    body = ast.parse(code).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    printed = io.StringIO()
    value = None
    with redirect_stdout(printed):
        exec(compile(ast.Module(body, []), "cell", "exec"), names)  # noqa: S102 - our own lesson
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)  # noqa: S307 - our own lesson
    shown = [] if value is None else [repr(value)]
    return [*([printed.getvalue()] if printed.getvalue() else []), *shown, *_html(value)]


def _html(value: Any) -> list[str]:
    """The HTML of what has some: a widget gives data and metadata, a verdict its data alone."""
    bundle = value._repr_mimebundle_() if hasattr(value, "_repr_mimebundle_") else {}
    data = bundle[0] if isinstance(bundle, tuple) else bundle
    return [data["text/html"]] if "text/html" in data else []
