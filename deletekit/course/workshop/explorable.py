"""Lessons that answer and can be explored in a browser alone: for pages of HTML that open from a folder.

An exercise gets a field and its replies. A widget of `EXPLORED` gets the pages that its controls reach. To make them,
the lesson's cells run here, on deletekit alone.
"""

import ast
import io
import json
import os
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import redirect_stdout, suppress
from functools import cache, partial
from heapq import heappop, heappush
from typing import Any
from unittest.mock import patch  # it sets variables back

import nbformat
from nbformat import NotebookNode

from deletekit.course.checking import CHECK_TYPE, replies
from deletekit.course.exercises.all import EXERCISES
from deletekit.course.lab import lessons_folder
from deletekit.course.translations import ENGLISH, LANGUAGES, Messages
from deletekit.course.views.page import Cells, Grid, Page
from deletekit.course.widgets.base import PageWidget, esm_of, script
from deletekit.errors import DeletekitError

EXPLORED = ("00", "04", "06")
"""Lessons whose widgets can be explored."""

MOST_PAGES = 200
_MOST_NUMBERS = 8
"""Values that a field for a number offers in advance."""

# As JavaScript's `JSON.stringify` writes it.
_json = partial(json.dumps, ensure_ascii=False, separators=(",", ":"))


def explorable_lessons(language: str) -> dict[str, NotebookNode]:
    """Return every lesson of a language by the name of its file, with its outputs and with what explores them.

    A page with it needs the style of the widgets.
    """
    lessons = {}
    for file in sorted(lessons_folder(language).glob("*.ipynb")):
        notebook = nbformat.read(file, as_version=4)
        pages = _widget_pages(file.stem) if file.stem[:2] in EXPLORED else {}
        with patch.dict(os.environ, DELETEKIT_LANG=language):
            for cell in notebook.cells:
                if cell.cell_type == "code":
                    _explore(cell, pages.get(cell.id), Messages(language))
        lessons[file.stem] = notebook
    return lessons


def _explore(cell: NotebookNode, widget: tuple[str, dict[str, Any]] | None, say: Messages) -> None:
    """Put what explores a cell into its outputs."""
    exercise = EXERCISES.get(cell.metadata.get("exercise", ""))
    cell.outputs = [o for o in cell.outputs if o.get("data", {}).get(CHECK_TYPE, {}).get("status") != "not-answered"]
    if exercise is not None:
        stored = {**replies(exercise), "words": say.raw("page-answer", "page-check")}
        html = _with_script(stored, f"<p>{say('page-in-notebook')}</p>", script("answers"))
        cell.outputs = [nbformat.v4.new_output("display_data", {"text/html": html, "text/plain": ""})]
    elif widget is not None:
        module, pages = widget
        code = esm_of(module).replace("export default show", "const widget = show") + script("without_kernel")
        data = cell.outputs[0].data
        stored = {**pages[say.lang], "beyond": say("page-beyond")}
        data["text/html"] = _with_script(stored, data["text/html"], code)


def _with_script(data: Mapping[str, Any], inside: str, code: str) -> str:
    """Return a place, what stands in it without a script, and the script with its data: `<` cannot end the element."""
    stored = _json(data).replace("<", "\\u003c")
    stored = f'<div>{inside}</div><script type="application/json">{stored}</script>'
    return f"{stored}\n<script>(() => {{\n{code}\n}})();</script>"


@cache
def _widget_pages(name: str) -> dict[str, tuple[str, dict[str, Any]]]:
    """Run a lesson as learners get it. Return the script of each widget by its cell, and its pages by the language."""
    notebook = nbformat.read(lessons_folder(ENGLISH) / f"{name}.ipynb", as_version=4)
    space: dict[str, Any] = {"__name__": "__main__"}
    found = {}
    with tempfile.TemporaryDirectory() as folder, redirect_stdout(io.StringIO()):
        own = {"DELETEKIT_COURSE_ENGINE": "local", "DELETEKIT_PROGRESS": f"{folder}/progress.json"}
        with patch.dict(os.environ, own):
            for cell in notebook.cells:
                value = _run(cell.source, space) if cell.cell_type == "code" else None
                if isinstance(value, PageWidget):
                    found[cell.id] = (value.module, explored(value, LANGUAGES))
    return found


def _run(code: str, names: dict[str, Any]) -> Any:
    """Run a cell, and return the value of its last expression."""
    body = ast.parse(code).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    exec(compile(ast.Module(body, []), "cell", "exec"), names)  # noqa: S102  # our own lesson
    return eval(compile(ast.Expression(last.value), "cell", "eval"), names) if isinstance(last, ast.Expr) else None  # noqa: S307


def explored(widget: PageWidget, languages: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return for each language what `without_kernel.js` reads. The widget must show a table.

    `steps` has, for each page, where each choice leads: the traits that it sets, as JSON, and the number of a page. The
    first page is the present one. What stands on several pages is once in `parts`; `pages` have its number. A control
    that leads nowhere is left out.

    Choices among few are combined first, as long as there are fewer than `MOST_PAGES` pages.
    """
    reached = _reached(widget)
    numbers = {state: i for i, state in enumerate(reached)}
    steps = [{choice: numbers[to] for choice, to in leads.items() if to in numbers} for leads in reached.values()]
    offered = {trait for leads in steps for choice in leads for trait in json.loads(choice)}
    found = {}
    for code in languages:
        parts: dict[str, int] = {}
        pages = [widget.view(**json.loads(state), lang=code).to_json() for state in reached]
        for page in pages:
            page["controls"] = [c for c in page["controls"] if c["trait"] in offered]
            for name in ("controls", "blocks"):
                page[name] = [parts.setdefault(_json(part), len(parts)) for part in page[name]]
        found[code] = {"pages": pages, "parts": list(map(json.loads, parts)), "steps": steps}
    return found


def _reached(widget: PageWidget) -> dict[str, dict[str, str]]:
    """Return the states that can be reached, the present one first, and by its choices the states that follow."""

    @cache
    def page_of(state: str) -> Page | None:
        with suppress(DeletekitError):  # such as a position behind the last row
            return widget.view(**json.loads(state), lang="en")
        return None

    reached: dict[str, dict[str, str]] = {}
    waiting = [(0, _json({name: value for name, value in widget.state().items() if name != "lang"}))]
    while waiting and len(reached) < MOST_PAGES:
        far, key = heappop(waiting)
        page, state = page_of(key), json.loads(key)
        if page is None or key in reached:
            continue
        choices, reached[key] = list(_choices(page)), {}
        among = Counter(map(tuple, choices))
        for choice in choices:
            changed = [name for name in choice if state[name] != choice[name]]
            resets = {name: value for other in changed for name, value in widget.resets.get(other, {}).items()}
            after = {**state, **choice, **resets}
            made = page_of(_json(after))
            if made is not None:
                after |= {name: value for name, value in made.state.items() if name in after}
                reached[key][_json(choice)] = _json(after)
                heappush(waiting, (far + among[tuple(choice)], _json(after)))
    return reached


def _choices(page: Page) -> Iterator[dict[str, Any]]:
    """Yield what the script of a widget sets on a page, in the order in which the script sets it."""
    for c in page.controls:
        numbers = [None, *range(c.minimum, min(c.maximum + 1, c.minimum + _MOST_NUMBERS))]
        values = {"select": [value for value, _ in c.options], "number": numbers, "check": [not c.value]}
        # `raw` shows what another machine has otherwise.
        yield from (
            {c.trait: value} for value in values.get(c.kind, [c.value]) if c.kind != "text" and c.trait != "raw"
        )
    for block in page.blocks:
        if isinstance(block, Grid) and block.select:
            yield from ({block.select: line.key} for line in block.lines)
        elif isinstance(block, Cells):
            for position in range(block.first, block.first + len(block.signs) * block.per_cell, block.per_cell):
                yield from ({block.select: position}, {block.select: position, "zoom": 0})
