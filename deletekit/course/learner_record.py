"""What a learner has done so far, in one small JSON file beside the notebooks.

Law: a file that cannot be read or written costs the memory of what was done, and nothing else.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deletekit.course.exercises.all import EXERCISES
from deletekit.course.language import LANGUAGES, text
from deletekit.course.printing import aligned

__all__ = ["Progress", "done", "progress", "record"]

_FILE = "deletekit-progress.json"
_FILE_VARIABLE = "DELETEKIT_PROGRESS"
_session: dict[str, str] = {}
"""What happened in this process: the only memory where the file cannot be written."""


@dataclass(frozen=True, slots=True)
class Progress:
    """A table of lessons, printed as text."""

    rows: tuple[tuple[str, int, int, int], ...]

    def __repr__(self) -> str:
        head = (text("lesson"), text("right"), text("tried"), text("exercises"))
        return "\n".join(aligned([head, *self.rows]))


def progress() -> Progress:
    """How many exercises of each lesson are right, and tried, in every language together."""
    seen = done()
    lessons = sorted({exercise.lesson for exercise in EXERCISES.values()})
    rows = []
    for lesson in lessons:
        ids = [exercise.id for exercise in EXERCISES.values() if exercise.lesson == lesson]
        rows.append((lesson, sum(seen.get(i) == "correct" for i in ids), sum(i in seen for i in ids), len(ids)))
    return Progress(tuple(rows))


def record(exercise_id: str, status: str) -> None:
    """Remember a try; one that was right stays right."""
    seen = done()
    if seen.get(exercise_id) == "correct" or seen.get(exercise_id) == status:
        return
    _session[exercise_id] = status
    place = _place()
    new = place.with_name(f"{place.name}.{os.getpid()}")
    try:
        new.write_text(json.dumps({**seen, exercise_id: status}, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        new.replace(place)
    except OSError:
        new.unlink(missing_ok=True)


def done() -> dict[str, str]:
    """The status of every exercise tried, by its id."""
    try:
        stored = json.loads(_place().read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        stored = None
    return {**_known(stored), **_session}


def _known(stored: Any) -> dict[str, str]:
    if not isinstance(stored, Mapping):
        return {}
    return {i: status for i, status in stored.items() if i in EXERCISES and status in ("correct", "tried")}


def _place() -> Path:
    """One file for all languages: above the folder of a language, else here."""
    named = os.environ.get(_FILE_VARIABLE)
    if named:
        return Path(named)
    here = Path.cwd()
    return (here.parent if here.name in LANGUAGES else here) / _FILE
