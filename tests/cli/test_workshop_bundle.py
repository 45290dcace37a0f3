"""`deletekit workshop-bundle`: what it refuses. tests/operations/workshop makes and installs bundles."""

import importlib.util
from pathlib import Path

import pytest

from tests.cli.conftest import Run


def test_a_folder_with_something_in_it_stays_as_it_is(run: Run, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    for place in (tmp_path, tmp_path / "mine"):
        result = run("workshop-bundle", place)
        assert result.exit_code == 1
        assert "new or empty" in result.output
    assert [file.name for file in tmp_path.iterdir()] == ["mine"]


def test_an_unknown_machine_is_refused(run: Run, tmp_path: Path) -> None:
    assert run("workshop-bundle", tmp_path / "new", "--platform", "beos-ppc").exit_code == 2
    result = run("workshop-bundle", tmp_path / "new", "--python", "3.10")
    assert result.exit_code == 1
    assert "3.11, 3.12" in result.output
    assert list(tmp_path.iterdir()) == []


def test_without_the_packages_of_the_course_it_says_how_to_get_them(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "nbconvert" else found(name))
    result = run("workshop-bundle", tmp_path / "new")
    assert result.exit_code == 1
    assert "pip install 'deletekit[course]'" in result.output
    assert "without nbconvert" in result.output
