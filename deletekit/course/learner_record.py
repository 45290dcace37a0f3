"""Remember which exercises a learner has tried and solved, in one small JSON file beside the notebooks.

If the file cannot be read or written, only that memory is lost: nothing here raises an error for it.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deletekit.course.exercises.all import EXERCISES
from deletekit.course.printing import aligned
from deletekit.course.translations import LANGUAGES, text

_FILE_NAME = "deletekit-progress.json"
_FILE_VARIABLE = "DELETEKIT_PROGRESS"
_session: dict[str, str] = {}
"""The results of this process: the only memory if the file cannot be written."""


@dataclass(frozen=True, slots=True)
class Progress:
    """For each lesson: its number, and how many exercises are right, tried, and there. Prints as a table."""

    rows: tuple[tuple[str, int, int, int], ...]

    def __repr__(self) -> str:
        head = (text("lesson"), text("right"), text("tried"), text("exercises"))
        return "\n".join(aligned([head, *self.rows]))


def progress() -> Progress:
    """Count the exercises of each lesson that are right and that were tried, in all languages together."""
    seen = done()
    lessons = sorted({exercise.lesson for exercise in EXERCISES.values()})
    rows = []
    for lesson in lessons:
        ids = [exercise.id for exercise in EXERCISES.values() if exercise.lesson == lesson]
        rows.append((lesson, sum(seen.get(i) == "correct" for i in ids), sum(i in seen for i in ids), len(ids)))
    return Progress(tuple(rows))


def record(exercise_id: str, status: str) -> None:
    """Remember a try. An exercise that was right stays right."""
    seen = done()
    if seen.get(exercise_id) == "correct" or seen.get(exercise_id) == status:
        return
    _session[exercise_id] = status
    file = _file()
    new = file.with_name(f"{file.name}.{os.getpid()}")
    try:
        new.write_text(json.dumps({**seen, exercise_id: status}, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        new.replace(file)
    except OSError:
        new.unlink(missing_ok=True)


def done() -> dict[str, str]:
    """Return the status of every exercise that was tried, by its id."""
    try:
        stored = json.loads(_file().read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        stored = None
    return {**_known(stored), **_session}


def _known(stored: Any) -> dict[str, str]:
    if not isinstance(stored, Mapping):
        return {}
    return {i: status for i, status in stored.items() if i in EXERCISES and status in ("correct", "tried")}


def _file() -> Path:
    """Return the file's path: one for all languages, above the folder of a language, else in the current folder."""
    named = os.environ.get(_FILE_VARIABLE)
    if named:
        return Path(named)
    here = Path.cwd()
    return (here.parent if here.name in LANGUAGES else here) / _FILE_NAME
