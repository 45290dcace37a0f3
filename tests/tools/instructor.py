"""The pages of notebooks/instructor: a clock, answers and usual wrong answers, made of the lesson, and translations.

An English page keeps what a person has written on it. Languages with a catalog `instructor.po` have pages in a folder,
which are made whole; headings, hints and lessons on them are those of the other catalogs.
"""

import re
from collections.abc import Callable
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

from nbformat import NotebookNode

from deletekit.course.exercise import Mistake
from deletekit.course.exercises.all import EXERCISES
from deletekit.course.translations import LANGUAGES
from deletekit.course.translations import translations as course_translations
from tests.tools import translation
from tests.tools.lessons import NOTEBOOKS, lesson_names, read_source, tags
from tests.tools.translation import blocks, catalog_file, translations

PAGES = NOTEBOOKS / "instructor"
CATALOG = "instructor"
_BLOCK = re.compile(
    r"(?<=<!-- lesson: python -m tests.tools.build_notebooks -->\n).*?(?=<!-- end of lesson -->)", re.DOTALL
)
_MARKED = re.compile(r"<!-- lesson: python -m tests.tools.build_notebooks -->\n.*?<!-- end of lesson -->\n", re.DOTALL)
_MADE = "<!-- Made by python -m tests.tools.build_notebooks from the English page and notebooks/i18n. -->"
# How long a section takes: a cell is run and looked at, prose is read aloud.
_CODE_CELL = 1.0
_WORDS = 80
# A shorter part is one with the next: nobody looks at the clock more often.
_LEAST_MINUTES = 3


# What is generated in English, and translated with the pages.
LESSON = "[The lesson]({link}): {teach} minutes to teach, {exercise} for the exercises."
CLOCK = "| minute | part | exercises |"
MISTAKES = "| exercise | usual wrong answer | what helps |"
OBJECTIVES, END, FUNCTION = "Objectives", "end", "a function: {names}"
ANSWERS = "The answers, as `solution` prints them:"

Say = Callable[[str], str]


class Section(NamedTuple):
    """A part of a lesson: its heading, what it weighs of the teaching minutes, its exercises."""

    heading: str
    weight: float
    exercises: tuple[str, ...]


def instructor_pages() -> dict[Path, str]:
    """Give every page, with what is generated on it: each lesson's, and the first one's translations too."""
    english = {page_of(name): _BLOCK.sub(lambda _, n=name: block(n), _page(name)) for name in lesson_names()}
    first = PAGES / "README.md"
    texts = {first: first.read_text(encoding="utf-8"), **english}
    return english | {
        PAGES / language / file.name: _translated(file.stem, text, language)
        for language in page_languages()
        for file, text in texts.items()
    }


def page_of(name: str) -> Path:
    return PAGES / f"{name}.md"


def page_languages() -> list[str]:
    """List the languages into which the pages are translated."""
    return [language for language in LANGUAGES if catalog_file(language, CATALOG).is_file()]


def page_texts() -> list[str]:
    """List what the catalog of the pages has to translate, once, in order."""
    written = [unit for name in ("README", *lesson_names()) for unit in _written(_page(name))]
    names = [name for e in EXERCISES.values() for mistake in e.mistakes for name in _function_names(mistake)]
    return list(dict.fromkeys([LESSON, CLOCK, MISTAKES, OBJECTIVES, END, FUNCTION, ANSWERS, *written, *names]))


def _page(name: str) -> str:
    file = page_of(name)
    if file.is_file():
        return file.read_text(encoding="utf-8")
    title = re.search(r"^# (.+)$", read_source(name).cells[0].source, re.MULTILINE)
    assert title is not None
    marks = "<!-- lesson: python -m tests.tools.build_notebooks -->\n<!-- end of lesson -->"
    parts = "## Say it in one sentence\n\n## Keep, and cut\n\n## Ask the room\n"
    return f"# Teaching {title[1]}\n\n{marks}\n\n{parts}"


def _written(page: str) -> list[str]:
    """List the paragraphs and the numbered items that a person wrote."""
    return [unit for paragraph in blocks(_MARKED.sub("", page)) for unit in translation.units(paragraph)]


def _translated(name: str, page: str, language: str) -> str:
    """Give a page in a language; what is not translated stays English, and is counted below the title."""
    translated = translations(catalog_file(language, CATALOG))
    written = _written(page)
    done = sum(unit in translated for unit in written)
    line = translation.freshness(language, CATALOG, done, len(written))
    known = {**course_translations(language), **_headings(language, name), **translated}

    def say(text: str) -> str:
        return known.get(text, text)

    def paragraphs(markdown: str) -> list[str]:
        return [translation.translated_block(paragraph, known) for paragraph in blocks(markdown)]

    before, *after = _MARKED.split(page)
    title, *rest = paragraphs(before)
    generated = block(name, language, say).strip() if after else ""
    text = "\n\n".join(filter(None, [title, line, *rest, generated, *paragraphs("".join(after))]))
    return f"{_MADE}\n\n{text}\n".replace("](../", "](../../")


def block(name: str, language: str = "en", say: Say = str) -> str:
    """Give the generated part of a lesson's page."""
    source = read_source(name)
    minutes = source.metadata["deletekit"]["minutes"]
    lesson = say(LESSON).format(link=f"../{language}/{name}.ipynb", **minutes)
    return f"\n{lesson}\n\n{clock(source, say)}\n{answers(source, say)}\n{mistakes(name[:2], say)}\n"


def _headings(language: str, name: str) -> dict[str, str]:
    """Give the translations of a lesson's headings."""
    found = translations(catalog_file(language, name))
    return {e.split("\n")[0][3:]: said.split("\n")[0][3:] for e, said in found.items() if e.startswith("## ")}


def clock(source: NotebookNode, say: Say = str) -> str:
    """Give a table of the sections, with the minute at which each begins and the exercises in it."""
    parts = sections(source)
    minutes = source.metadata["deletekit"]["minutes"]
    teaching = minutes["teach"] / sum(part.weight for part in parts)
    each = minutes["exercise"] / max(1, sum(len(part.exercises) for part in parts))
    slots: list[tuple[float, list[Section]]] = []
    for part in parts:
        length = part.weight * teaching + len(part.exercises) * each
        is_short_end = part is parts[-1] and length < _LEAST_MINUTES
        if slots and (is_short_end or slots[-1][0] < _LEAST_MINUTES):
            slots[-1] = slots[-1][0] + length, [*slots[-1][1], part]
        else:
            slots.append((length, [part]))
    starts = [0.0, *accumulate(length for length, _ in slots)]
    lines = [say(CLOCK), "|---|---|---|"]
    for start, (_, together) in zip(starts, slots, strict=False):
        headings = "; ".join(say(part.heading) for part in together)
        exercises = ", ".join(exercise for part in together for exercise in part.exercises)
        lines.append(f"| {round(start)} | {headings} | {exercises} |")
    return "\n".join([*lines, f"| {round(starts[-1])} | {say(END)} | |", ""])


def answers(source: NotebookNode, say: Say = str) -> str:
    """Give the code of every solution of a lesson."""
    code = [cell.source for cell in source.cells if "solution" in tags(cell)]
    marked = [say(ANSWERS), "", "<!-- not run: the lessons run it -->", "```python"]
    return "\n".join([*marked, "\n\n".join(code), "```", ""])


def sections(source: NotebookNode) -> list[Section]:
    """List the parts of a lesson; the first one is what stands above the first heading."""
    found: list[tuple[str, list[NotebookNode]]] = [(OBJECTIVES, [])]
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


def mistakes(lesson: str, say: Say = str) -> str:
    """Give a table of the wrong answers that checks know, with what helps."""
    lines = [say(MISTAKES), "|---|---|---|"]
    for exercise in sorted((e for e in EXERCISES.values() if e.lesson == lesson), key=lambda e: e.id):
        for mistake in exercise.mistakes:
            names = ", ".join(map(say, _function_names(mistake)))
            value = next((answer for answer in mistake.answers if not callable(answer)), None)
            wrong = say(FUNCTION).format(names=names) if names else shown(value)
            lines.append(f"| {exercise.id} | {wrong} | {_cell(say(mistake.hint))} |")
    return "\n".join([*lines, ""])


def _function_names(mistake: Mistake) -> list[str]:
    """Name the functions that show a mistake; none if values show it."""
    return [name.replace("_", " ") for name in mistake.names]


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
