"""Sources of lessons follow the rules of notebooks/README.md, and what is generated is as a build leaves it."""

import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import nbformat
import pytest

from deletekit.course.exercises.all import EXERCISES
from deletekit.course.translations import LANGUAGES
from tests.tools.build_notebooks import NOTEBOOKS, clean, differences, notebook_file
from tests.tools.lessons import learner, lesson_names, read_source, solved, tags

MOST_EXERCISES = 7
"""More tire a learner; `notebooks/README.md` says so too."""

lessons = pytest.mark.parametrize("name", lesson_names())
COMMITTED = [(language, name) for name in lesson_names() for language in LANGUAGES]
committed = pytest.mark.parametrize(("language", "name"), COMMITTED)


def stored(language: str, name: str) -> nbformat.NotebookNode:
    return nbformat.read(notebook_file(language, name), as_version=4)


@pytest.mark.first_tier
def test_everything_generated_is_as_built() -> None:
    assert differences() == [], "run `python -m tests.tools.build_notebooks`"


@lessons
def test_a_lesson_has_its_parts(name: str) -> None:
    source = read_source(name)
    course = source.metadata["deletekit"]
    assert re.fullmatch(r"\d\d_[a-z0-9_]+", name)
    assert course["lesson"] == name[:2]
    assert course["needs"] in ("plain", "spark")
    assert len(course["objectives"]) >= 3
    teach, exercise = course["minutes"]["teach"], course["minutes"]["exercise"]
    first = source.cells[0].source
    assert first.startswith(f"# {name[:2]} · ")
    assert f"**{teach} minutes to read and run, {exercise} for the exercises.**" in first
    text = "\n".join(cell.source for cell in source.cells if cell.cell_type == "markdown")
    for heading in ("## Predict", "## Break it", "## Key points"):
        assert heading in text
    links = re.findall(r"https://iceberg\.apache\.org/[a-z-]+/#[a-z0-9-]+", text.split("## Key points")[1])
    assert links, "key points lead to the specification"


@lessons
def test_every_exercise_of_a_lesson_is_asked_answered_and_known(name: str) -> None:
    cells = read_source(name).cells
    blank = [cell.metadata["exercise"] for cell in cells if "exercise" in tags(cell)]
    answered = [cell.metadata["exercise"] for cell in cells if "solution" in tags(cell)]
    assert blank == answered == [e for e, exercise in EXERCISES.items() if exercise.lesson == name[:2]]
    assert len(blank) <= MOST_EXERCISES
    text = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    assert [e for e in blank if f"**{e}**" not in text] == []
    assert [cell.source for cell in cells if "exercise" in tags(cell) and "..." not in cell.source] == []
    assert [cell.source for cell in cells if "solution" in tags(cell) and "..." in cell.source] == []


def test_every_exercise_has_a_lesson() -> None:
    assert {exercise.lesson for exercise in EXERCISES.values()} == {name[:2] for name in lesson_names()}


@lessons
def test_steps_have_names_of_their_own_and_a_lesson_ends_by_letting_go(name: str) -> None:
    cells = [cell.source for cell in read_source(name).cells if cell.cell_type == "code"]
    steps = re.findall(r'here\.rewind\("([^"]+)"', "\n".join(cells))
    assert len(set(steps)) == len(steps) == "\n".join(cells).count("here.rewind(")
    assert cells[-1] == "here.close()"


@lessons
def test_headings_never_skip_a_level_and_images_say_what_they_show(name: str) -> None:
    text = "\n".join(cell.source for cell in read_source(name).cells if cell.cell_type == "markdown")
    levels = [len(marks) for marks in re.findall(r"^(#+) ", text, re.MULTILINE)]
    assert levels[0] == levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert re.findall(r"!\[\s*\]", text) == []
    assert re.findall(r"<img(?![^>]*alt=\"[^\"]+\")[^>]*>", text) == []


@lessons
def test_learners_get_no_solution_and_the_solved_course_no_blank(name: str) -> None:
    source = read_source(name)
    assert not any("solution" in tags(cell) for cell in learner(source).cells)
    assert not any("exercise" in tags(cell) for cell in solved(source).cells)
    ids = [cell["id"] for cell in source.cells]
    assert len(set(ids)) == len(ids)


# --- what is committed ------------------------------------------------------------------------------------------------


# A path of some machine, an address of memory, a uuid, a snapshot id, a time of day that is not a row's.
LEAKS = re.compile(
    r"(?<![\w.])/(?:tmp|home|Users|root|var|work|private)/|0x[0-9a-f]{9,}|\b[0-9a-f]{8}-[0-9a-f]{4}-|\b\d{15,}\b"
)


def texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [text for inner in value.values() for text in texts(inner)]
    return [text for inner in value for text in texts(inner)] if isinstance(value, list) else []


@committed
def test_a_committed_notebook_is_as_a_build_leaves_it(language: str, name: str) -> None:
    """Run in order, with the code of the English one, and nothing of a machine or of one run."""
    notebook = stored(language, name)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    english = [cell for cell in stored("en", name).cells if cell.cell_type == "code"]
    assert [(cell.id, cell.source) for cell in code] == [(cell.id, cell.source) for cell in english]
    outputs = [text for cell in code for text in texts(cell.outputs)]
    assert [match[0] for text in outputs for match in LEAKS.finditer(text)] == []
    assert not any("stderr" in (output.get("name") or "") for cell in code for output in cell.outputs)
    assert set(notebook.metadata) == {"deletekit", "kernelspec", "language_info"}
    assert {key for cell in notebook.cells for key in cell.metadata} <= {"tags", "exercise"}
    assert json.dumps(clean(stored(language, name))) == json.dumps(notebook)
    text = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    targets = [t.partition("#")[0] for t in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in t]
    assert [target for target in targets if not (notebook_file(language, name).parent / target).is_file()] == []


def test_every_notebook_has_a_source() -> None:
    there = {str(file.relative_to(NOTEBOOKS)) for file in Path(NOTEBOOKS).rglob("*.ipynb")}
    assert there == {f"{language}/{name}.ipynb" for language, name in COMMITTED}
