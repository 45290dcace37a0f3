"""Lessons that answer and can be explored in a browser alone: for pages of HTML that open from a folder.

An exercise gets a field and its replies. A widget of `EXPLORED` gets the pages that its controls reach. To make them,
the lesson's cells run here, on deletekit alone.
"""

import ast
import io
import json
import os
import tempfile
from collections.abc import Mapping
from contextlib import redirect_stdout
from functools import cache
from typing import Any
from unittest.mock import patch  # it sets variables back

import nbformat
from nbformat import NotebookNode

from deletekit.course.checking import CHECK_TYPE, replies
from deletekit.course.exercises.all import EXERCISES
from deletekit.course.lab import lessons_folder
from deletekit.course.translations import ENGLISH, LANGUAGES, Messages
from deletekit.course.widgets.base import PageWidget, css, esm_of, script
from deletekit.course.widgets.explored import explored

EXPLORED = ("00", "04", "06")
"""Lessons whose widgets can be explored."""


def explorable_lessons(language: str) -> dict[str, NotebookNode]:
    """Return every lesson of a language by the name of its file, with its outputs and with what explores them."""
    lessons = {}
    for file in sorted(lessons_folder(language).glob("*.ipynb")):
        notebook = nbformat.read(file, as_version=4)
        pages = _widget_pages(file.stem) if file.stem[:2] in EXPLORED else {}
        with patch.dict(os.environ, DELETEKIT_LANG=language):
            for cell in notebook.cells:
                if cell.cell_type == "code":
                    _explore(cell, pages.get(cell.id, {}).get(language), Messages(language))
        used = [o for c in notebook.cells for o in c.get("outputs", ()) if "<script" in _html(o)]
        if used:
            used[0].data["text/html"] = f"<style>{css()}</style>\n{_html(used[0])}"
        lessons[file.stem] = notebook
    return lessons


def _explore(cell: NotebookNode, page: tuple[str, Mapping[str, Any]] | None, say: Messages) -> None:
    """Put what explores a cell into its outputs."""
    exercise = EXERCISES.get(cell.metadata.get("exercise", ""))
    cell.outputs = [o for o in cell.outputs if o.get("data", {}).get(CHECK_TYPE, {}).get("status") != "not-answered"]
    if exercise is not None:
        html, replied = f"<p>{say('page-in-notebook')}</p>", replies(exercise)
        if replied:
            words = {"answer": say("page-answer"), "check": say("page-check")}
            html = _with_script({**replied, "words": words}, html, script("answers"))
        cell.outputs = [nbformat.v4.new_output("display_data", {"text/html": html, "text/plain": ""})]
    elif page is not None:
        module, pages = page
        drawing = esm_of(module).replace("export default show", "const widget = show")
        for output in cell.outputs:
            code = f"{drawing}\n{script('without_kernel')}"
            output.data["text/html"] = _with_script({**pages, "beyond": say("page-beyond")}, _html(output), code)


def _with_script(data: Mapping[str, Any], inside: str, code: str) -> str:
    """Return a place, what stands in it without a script, and the script with its data: `<` cannot end the element."""
    stored = json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    return (
        f'<div>{inside}</div><script type="application/json">{stored}</script>\n'
        f"<script>(() => {{\n{code}\n}})();</script>"
    )


def _html(output: NotebookNode) -> str:
    return str(output.get("data", {}).get("text/html", ""))


@cache
def _widget_pages(name: str) -> dict[str, dict[str, tuple[str, Mapping[str, Any]]]]:
    """Run a lesson as learners get it. Return each widget's script and pages, by its cell and the language."""
    notebook = nbformat.read(lessons_folder(ENGLISH) / f"{name}.ipynb", as_version=4)
    space: dict[str, Any] = {"__name__": "__main__"}
    found: dict[str, dict[str, tuple[str, Mapping[str, Any]]]] = {}
    with tempfile.TemporaryDirectory() as folder, redirect_stdout(io.StringIO()):
        own = {"DELETEKIT_COURSE_ENGINE": "local", "DELETEKIT_PROGRESS": f"{folder}/progress.json"}
        with patch.dict(os.environ, own):
            for cell in notebook.cells:
                value = _run(cell.source, space) if cell.cell_type == "code" else None
                if isinstance(value, PageWidget):
                    found[cell.id] = {code: (value.module, data) for code, data in explored(value, LANGUAGES).items()}
    return found


def _run(code: str, names: dict[str, Any]) -> Any:
    """Run a cell, and return the value of its last expression."""
    body = ast.parse(code).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    exec(compile(ast.Module(body, []), "cell", "exec"), names)  # noqa: S102  # our own lesson
    return eval(compile(ast.Expression(last.value), "cell", "eval"), names) if isinstance(last, ast.Expr) else None  # noqa: S307
