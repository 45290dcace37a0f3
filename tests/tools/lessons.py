"""The sources of the notebooks: read, and turned into what learners get and into what has every solution in it.

A cell's id is made from its content. Nothing here knows a language or runs a cell.
"""

import hashlib
import json
import re
from pathlib import Path

import jupytext
import nbformat
from nbformat import NotebookNode

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = ROOT / "notebooks"
SOURCES = NOTEBOOKS / "src"
SOLUTIONS = ROOT / "deletekit" / "course" / "solutions.json"


def lesson_names() -> list[str]:
    return sorted(file.stem for file in SOURCES.glob("*.py"))


def needs_spark(name: str) -> bool:
    """Whether a lesson is about Spark, so that only a machine with Java can make its outputs."""
    return bool(read_source(name).metadata["deletekit"]["needs"] == "spark")


def read_source(name: str) -> NotebookNode:
    """Read a source; cells get ids that stay theirs while they do not change."""
    notebook = jupytext.read(SOURCES / f"{name}.py")
    seen: dict[str, int] = {}
    for cell in notebook.cells:
        cell.metadata.pop("lines_to_next_cell", None)  # jupytext's own note
        words = f"{name}:{cell.cell_type}:{cell.source}"
        seen[words] = seen.get(words, 0) + 1
        cell["id"] = hashlib.sha256(f"{words}:{seen[words]}".encode()).hexdigest()[:12]
    course = notebook.metadata["deletekit"]
    course["objectives"] = objectives(notebook)
    notebook.metadata = nbformat.from_dict(
        {
            "deletekit": course,
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        }
    )
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    return notebook


def objectives(notebook: NotebookNode) -> list[str]:
    """List what the first cell says that one will be able to do."""
    return re.findall(r"^- (.+)$", notebook.cells[0].source, re.MULTILINE)


def tags(cell: NotebookNode) -> set[str]:
    return set(cell.metadata.get("tags", ()))


def learner(notebook: NotebookNode) -> NotebookNode:
    """Leave the solutions out."""
    return _without(notebook, "solution")


def solved(notebook: NotebookNode) -> NotebookNode:
    """Put each solution in the place of its exercise."""
    return _without(notebook, "exercise")


def _without(notebook: NotebookNode, tag: str) -> NotebookNode:
    kept = nbformat.from_dict(json.loads(json.dumps(notebook)))
    kept.cells = [cell for cell in kept.cells if tag not in tags(cell)]
    return kept


def solutions() -> dict[str, str]:
    """Give the code of every solution by the id of its exercise: what `solution()` prints."""
    return {
        cell.metadata["exercise"]: cell.source
        for name in lesson_names()
        for cell in read_source(name).cells
        if "solution" in tags(cell)
    }


def assert_unrun_copy(copy: Path, lesson: Path) -> None:
    """Hold that a copy is a lesson of the repository as if nothing had run in it."""
    wanted = nbformat.read(lesson, as_version=4)
    assert any(cell.get("outputs") for cell in wanted.cells), f"{lesson} has lost its outputs"
    for cell in wanted.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    found = nbformat.read(copy, as_version=4)
    nbformat.validate(found)
    assert found == wanted, copy
