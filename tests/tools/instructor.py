"""What a page of notebooks/instructor says that the lesson knows: the clock, and what is usually answered wrongly.

It is made from the source and the exercises. What a person has written on the page stays.
"""

from __future__ import annotations

import re
from importlib import import_module
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

from nbformat import NotebookNode

from deletekit.course.exercise import Exercise, Mistake
from deletekit.course.exercises.all import EXERCISES
from tests.tools.lessons import NOTEBOOKS, lesson_names, read_source

PAGES = NOTEBOOKS / "instructor"
_BLOCK = re.compile(
    r"(?<=<!-- lesson: python -m tests.tools.build_notebooks -->\n).*?(?=<!-- end of lesson -->)", re.DOTALL
)
# How long a section takes: a cell is run and looked at, prose is read aloud.
_CODE_CELL = 1.0
_WORDS = 80


class Section(NamedTuple):
    """A part of a lesson: its heading, what it weighs of the teaching minutes, its exercises."""

    heading: str
    weight: float
    exercises: tuple[str, ...]


def instructor_pages() -> dict[Path, str]:
    """Give every page of a lesson that there is, with what is generated on it."""
    return {page_of(name): _BLOCK.sub(lambda _, n=name: block(n), _page(name)) for name in lesson_names()}


def page_of(name: str) -> Path:
    return PAGES / f"{name}.md"


def _page(name: str) -> str:
    file = page_of(name)
    if file.is_file():
        return file.read_text(encoding="utf-8")
    title = re.search(r"^# (.+)$", read_source(name).cells[0].source, re.MULTILINE)
    assert title is not None
    marks = "<!-- lesson: python -m tests.tools.build_notebooks -->\n<!-- end of lesson -->"
    parts = "## Say it in one sentence\n\n## Keep, and cut\n\n## Ask the room\n"
    return f"# Teaching {title[1]}\n\n{marks}\n\n{parts}"


def block(name: str) -> str:
    """Give the generated part of a lesson's page."""
    source = read_source(name)
    minutes = source.metadata["deletekit"]["minutes"]
    return (
        f"\n[The lesson](../en/{name}.ipynb): {minutes['teach']} minutes to teach, {minutes['exercise']} for the "
        f"exercises.\n\n{clock(source)}\n{mistakes(name[:2])}\n"
    )


def clock(source: NotebookNode) -> str:
    """Give a table of the sections, with the minute at which each begins and the exercises in it."""
    parts = sections(source)
    minutes = source.metadata["deletekit"]["minutes"]
    teaching = minutes["teach"] / sum(part.weight for part in parts)
    each = minutes["exercise"] / max(1, sum(len(part.exercises) for part in parts))
    lengths = [part.weight * teaching + len(part.exercises) * each for part in parts]
    starts = [0.0, *accumulate(lengths)]
    lines = ["| minute | part | exercises |", "|---|---|---|"]
    for start, part in zip(starts, parts, strict=False):
        lines.append(f"| {round(start)} | {part.heading} | {', '.join(part.exercises)} |")
    return "\n".join([*lines, f"| {round(starts[-1])} | end | |", ""])


def sections(source: NotebookNode) -> list[Section]:
    """List the parts of a lesson; the first one is what stands above the first heading."""
    found: list[tuple[str, list[NotebookNode]]] = [("Objectives", [])]
    for cell in source.cells:
        heading = re.search(r"^## (.+)$", cell.source, re.MULTILINE) if cell.cell_type == "markdown" else None
        if heading:
            found.append((heading[1], []))
        found[-1][1].append(cell)
    return [Section(heading, sum(map(_weight, cells)), _exercises(cells)) for heading, cells in found]


def _weight(cell: NotebookNode) -> float:
    if cell.cell_type == "markdown":
        return len(cell.source.split()) / _WORDS
    return 0.0 if "exercise" in cell.metadata else _CODE_CELL


def _exercises(cells: list[NotebookNode]) -> tuple[str, ...]:
    return tuple(sorted({cell.metadata["exercise"] for cell in cells if "exercise" in cell.metadata}))


def mistakes(lesson: str) -> str:
    """Give a table of the wrong answers that checks know, with what helps."""
    lines = ["| exercise | usual wrong answer | what helps |", "|---|---|---|"]
    for exercise in sorted((e for e in EXERCISES.values() if e.lesson == lesson), key=lambda e: e.id):
        for mistake in exercise.mistakes:
            wrong = next((shown(a) for a in mistake.answers if not callable(a)), None) or _functions(exercise, mistake)
            lines.append(f"| {exercise.id} | {wrong} | {_cell(mistake.hint)} |")
    return "\n".join([*lines, ""])


def _functions(exercise: Exercise, mistake: Mistake) -> str:
    """Name the functions that show a mistake, by the names that the exercise has for them."""
    module = import_module(f"deletekit.course.exercises.lesson_{exercise.lesson}")
    by_name = module.FUNCTIONS[exercise.id].by_name
    names = [name.replace("_", " ") for name, function in by_name.items() if function in mistake.answers]
    return f"a function: {', '.join(names)}"


def shown(answer: Any) -> str:
    """Write an answer as code; sets in order, for theirs changes from run to run."""
    return f"`{_cell(_code(answer))}`"


def _code(answer: Any) -> str:
    if isinstance(answer, set | frozenset) and answer:
        return f"{{{', '.join(_code(item) for item in sorted(answer, key=lambda item: (str(type(item)), item)))}}}"
    if isinstance(answer, dict):
        return f"{{{', '.join(f'{_code(key)}: {_code(value)}' for key, value in answer.items())}}}"
    if isinstance(answer, list):
        return f"[{', '.join(map(_code, answer))}]"
    return repr(answer)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
