"""Run a notebook's cells in this process, without a kernel, and judge what they give."""

import ast
import io
from contextlib import redirect_stdout
from dataclasses import dataclass
from typing import Any
from unittest import mock

import nbformat
from nbformat import NotebookNode

import deletekit.course.workplace  # noqa: F401  # modules that ask for the shell take the real one
from deletekit.course import checking, printing
from deletekit.course.checking import CHECK_TYPE, Verdict
from tests.notebooks.lesson_runs import all_right
from tests.tools.build_notebooks import notebook_file
from tests.tools.lessons import learner, read_source, solved


@dataclass(frozen=True, slots=True)
class Ran:
    """What a cell printed and showed, in order, and the value of its last expression."""

    shown: list[str]
    value: Any

    @property
    def texts(self) -> list[str]:
        """What it printed and showed, and its value as text and as HTML."""
        return [*self.shown, *([] if self.value is None else [repr(self.value)]), *_html(self.value)]


class Screen:
    """Stand in for the shell of a notebook: keep what a cell prints, and what it publishes as text and HTML."""

    def __init__(self) -> None:
        self.display_pub = self
        self.printed = io.StringIO()
        self._shown: list[str] = []

    def publish(self, data: dict[str, str]) -> None:
        self._shown = [*self.shown(), data["text/plain"], data["text/html"]]
        self.printed.seek(0)
        self.printed.truncate()

    def shown(self) -> list[str]:
        return [*self._shown, *filter(None, [self.printed.getvalue()])]


def blank_gives_what_is_committed(language: str, name: str) -> None:
    """Run a lesson as learners get it, and compare what its cells print with the committed notebook."""
    wanted = {
        cell.id: [text for output in cell.outputs for text in texts_of(output)]
        for cell in nbformat.read(notebook_file(language, name), as_version=4).cells
        if cell.cell_type == "code" and "nbval-ignore-output" not in cell.metadata.get("tags", ())
    }
    found = run_in_process(learner(read_source(name)))
    assert {cell: found[cell].texts for cell in wanted} == wanted, (language, name)


def solved_is_all_right(name: str) -> None:
    """Run a lesson with its solutions, and hold that every check says so."""
    values = [ran.value for ran in run_in_process(solved(read_source(name))).values()]
    all_right(name, [v._repr_mimebundle_()[CHECK_TYPE] for v in values if isinstance(v, Verdict)])


def run_in_process(notebook: NotebookNode) -> dict[str, Ran]:
    """Run every code cell; by the id of the cell."""
    names = new_kernel()
    return {cell.id: run_cell(cell.source, names) for cell in notebook.cells if cell.cell_type == "code"}


def new_kernel() -> dict[str, Any]:
    """Give the names of a kernel in which nothing has run."""
    checking._predictions.clear()
    checking._hints_given.clear()
    return {"__name__": "__main__"}


def run_cell(code: str, names: dict[str, Any]) -> Ran:
    body = ast.parse(code).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    screen = Screen()
    value = None
    with redirect_stdout(screen.printed), mock.patch.object(printing, "notebook_shell", return_value=screen):
        exec(compile(ast.Module(body, []), "cell", "exec"), names)  # noqa: S102 - our own lesson
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)  # noqa: S307 - our own lesson
    return Ran(screen.shown(), value)


def _html(value: Any) -> list[str]:
    """The HTML of what has some: a widget gives data and metadata, a verdict its data alone."""
    bundle = value._repr_mimebundle_() if hasattr(value, "_repr_mimebundle_") else {}
    data = bundle[0] if isinstance(bundle, tuple) else bundle
    return [data["text/html"]] if "text/html" in data else []


def texts_of(output: nbformat.NotebookNode) -> list[str]:
    """What an output prints; of a value its text and, if it has one, its HTML."""
    if output.output_type == "stream":
        return [output.text]
    return ["".join(output.data[kind]) for kind in ("text/plain", "text/html") if kind in output.data]
