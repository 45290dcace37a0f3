"""`deletekit tour` hands over to the tour."""

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from rich.console import Console

from tests.cli.conftest import Run


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Put a tour that only remembers how it was called where the real one is."""
    made: list[dict[str, Any]] = []
    module = ModuleType("deletekit.course.tour")
    module.run_tour = lambda directory, console, keep: made.append(  # type: ignore[attr-defined]
        {"directory": directory, "console": console, "keep": keep}
    )
    monkeypatch.setitem(sys.modules, "deletekit.course.tour", module)
    return made


def test_arguments(run: Run, calls: list[dict[str, Any]], tmp_path: Path) -> None:
    assert run("tour").exit_code == 0
    assert run("tour", tmp_path / "new", "--no-keep").exit_code == 0
    assert [(c["directory"], c["keep"]) for c in calls] == [(None, True), (tmp_path / "new", False)]
    assert all(isinstance(c["console"], Console) for c in calls)


def test_what_was_there_before_is_not_removed(run: Run, calls: list[dict[str, Any]], fresh: Path) -> None:
    result = run("tour", fresh, "--no-keep")
    assert result.exit_code == 2
    assert calls == []
    assert run("tour", fresh).exit_code == 0
