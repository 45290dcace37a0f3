"""One lesson of each language, blank and solved, in this process: the first tier's share of the course."""

from pathlib import Path

import pytest

from deletekit.course.translations import LANGUAGES
from tests.notebooks.in_process import blank_gives_what_is_committed, solved_is_all_right
from tests.notebooks.lesson_runs import PLAIN


@pytest.mark.first_tier
@pytest.mark.parametrize(("language", "name"), list(zip(LANGUAGES, PLAIN[2:], strict=False)))
def test_a_lesson_runs_blank_and_solved(
    language: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DELETEKIT_COURSE_ENGINE", "local")
    monkeypatch.setenv("DELETEKIT_PROGRESS", str(tmp_path / "progress.json"))
    monkeypatch.setenv("DELETEKIT_LANG", language)
    blank_gives_what_is_committed(language, name)
    solved_is_all_right(name)
