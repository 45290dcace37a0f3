"""Every test of the course: a language that is named, and a memory of its own."""

from pathlib import Path

import pytest

from deletekit.course import checking
from deletekit.course import learner_record as record


@pytest.fixture(autouse=True)
def fresh_learner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DELETEKIT_PROGRESS", str(tmp_path / "progress.json"))
    monkeypatch.setenv("DELETEKIT_LANG", "en")
    monkeypatch.setattr(checking, "_predictions", {})
    monkeypatch.setattr(checking, "_hints_given", {})
    monkeypatch.setattr(record, "_memory", {})
