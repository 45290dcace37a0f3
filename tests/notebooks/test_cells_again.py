"""A learner runs cells twice, out of order, and interrupts them: each runs again, and says what it said."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from nbformat import NotebookNode

from deletekit.table.catalog import SqlStore
from tests.notebooks.in_process import Ran, new_kernel, run_cell
from tests.tools.lessons import lesson_names, read_source, solved

QUICK = "17_what_changed"
"""A lesson whose steps build on one another: the first tier's share."""
lessons = pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.first_tier if n == QUICK else pytest.mark.slow) for n in lesson_names()]
)


@pytest.fixture(autouse=True)
def learner_without_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DELETEKIT_COURSE_ENGINE", "local")
    monkeypatch.setenv("DELETEKIT_PROGRESS", str(tmp_path / "progress.json"))
    monkeypatch.setenv("DELETEKIT_LANG", "en")


def code_of(name: str) -> list[NotebookNode]:
    """The cells of a solved lesson, but those that are to say something else each time."""
    cells = [cell for cell in solved(read_source(name)).cells if cell.cell_type == "code"]
    return [cell for cell in cells if not cell.source.startswith("hint(")]


@pytest.mark.sampled(4)
@lessons
def test_a_cell_says_the_same_when_it_is_run_twice(name: str) -> None:
    cells = code_of(name)
    kernel = new_kernel()
    once = [run_cell(cell.source, kernel).texts for cell in cells]
    kernel = new_kernel()
    for cell, said in zip(cells, once, strict=True):
        assert [run_cell(cell.source, kernel).texts for _ in range(2)] == [said, said], cell.source


@pytest.mark.sampled(5)
@lessons
def test_after_the_whole_lesson_each_cell_runs_again_from_the_last_to_the_first(name: str) -> None:
    kernel = new_kernel()
    cells = code_of(name)
    for cell in cells + cells[::-1]:
        run_cell(cell.source, kernel)


@pytest.mark.sampled(5)
@lessons
def test_an_interrupted_cell_runs_again(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cells, kernel = code_of(name), new_kernel()
    clean: list[tuple[Ran, int]] = []
    for cell in cells:
        with commits(monkeypatch) as done:
            ran = run_cell(cell.source, kernel)
        # A widget of a recording writes its tables once, and keeps what it has seen.
        clean.append((ran, 0 if "dk.widgets" in cell.source else len(done)))
    assert sum(number for _, number in clean), "the catalog is watched"
    kernel = new_kernel()
    for cell, (said, number) in zip(cells, clean, strict=True):
        # Ctrl-C just before its first commit, and just after one in the middle.
        for at in ("before", "after") if number else ():
            with commits(monkeypatch, stop=(at, 1 if at == "before" else (number + 1) // 2)):
                interrupted(cell.source, kernel)
        assert run_cell(cell.source, kernel).texts == said.texts, cell.source


def interrupted(code: str, kernel: dict[str, Any]) -> None:
    with redirect_stdout(StringIO()), pytest.raises(KeyboardInterrupt):
        run_cell(code, kernel)


@contextmanager
def commits(monkeypatch: pytest.MonkeyPatch, stop: tuple[str, int] | None = None) -> Iterator[list[str]]:
    """Note each commit of a table to the catalog; raise KeyboardInterrupt before or after the one of this number."""
    done: list[str] = []

    def noting(call: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*arguments: Any, **named: Any) -> Any:
            done.append(call.__name__)
            if stop == ("before", len(done)):
                raise KeyboardInterrupt
            result = call(*arguments, **named)
            if stop == ("after", len(done)):
                raise KeyboardInterrupt
            return result

        return noted

    with monkeypatch.context() as patched:
        for method in ("create", "commit"):
            patched.setattr(SqlStore, method, noting(getattr(SqlStore, method)))
        yield done
