"""Remember which exercises a learner has tried and solved, in one small JSON file beside the notebooks.

If the file cannot be read or written, only that memory is lost: nothing here raises an error for it.
"""

import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deletekit.course.exercises.all import EXERCISES
from deletekit.course.lab import titles
from deletekit.course.printing import aligned
from deletekit.course.tracks import TRACKS, WHOLE_COURSE, plan_of
from deletekit.course.translations import LANGUAGES, language, text

FILE_NAME = "deletekit-progress.json"
_FILE_VARIABLE = "DELETEKIT_PROGRESS"
_LOOKED_AT = "looked-at"
_TRACK = "track"
_session: dict[str, str] = {}
"""The results of this process: the only memory if the file cannot be written."""
_looked: dict[str, dict[str, int]] = {}
"""How many different hints of an exercise this process has shown, and whether its solution."""


@dataclass(frozen=True, slots=True)
class Progress:
    """For each lesson: its number, and how many exercises are right, tried, and there. Prints as a table.

    Attributes
    ----------
    titles: of the lessons, by their number.
    still_open: the ids of exercises that are not right yet, in the order of the track.
    hints, solutions: how many the learner has looked at.
    """

    rows: tuple[tuple[str, int, int, int], ...]
    titles: Mapping[str, str] = field(default_factory=dict)
    still_open: tuple[str, ...] = ()
    hints: int = 0
    solutions: int = 0
    track: str = WHOLE_COURSE

    def __repr__(self) -> str:
        head = (text("lesson"), text("right"), text("tried"), text("exercises"), text("open"))
        shown = [
            (self.titles.get(number, number), *counts, ", ".join(self._open_of(number)))
            for number, *counts in self.rows
        ]
        table = aligned([head, *shown])
        on_track = [self._on_track()] if self.track != WHOLE_COURSE else []
        return "\n".join([*table, "", *on_track, self._looked_at(), self._next()])

    def _open_of(self, lesson: str) -> list[str]:
        """Return the numbers of the exercises of a lesson that are open, without that of the lesson."""
        return [i.partition(".")[2] for i in self.still_open if i.partition(".")[0] == lesson]

    def _on_track(self) -> str:
        return text(
            "Your track: {track}. Its next lesson is named below; the links at the end of lessons lead through the "
            "whole course.",
            track=self.track,
        )

    def _looked_at(self) -> str:
        return text(
            "Hints you have looked at: {hints}. Solutions: {solutions}. Both are there to learn from.",
            hints=self.hints,
            solutions=self.solutions,
        )

    def _next(self) -> str:
        if not self.still_open:
            return text("Every exercise is right. Well done!")
        following = self.still_open[0]
        lesson = following.partition(".")[0]
        return text("Next: exercise {id} of {lesson}.", id=following, lesson=self.titles.get(lesson, lesson))


def progress() -> Progress:
    """Count the exercises of each lesson that are right and that were tried, in all languages together.

    Where `deletekit lab` was started with a track, its lessons and exercises are shown, in its order.
    """
    stored = _stored()
    seen, looked = _results(stored), _looks(stored)
    track = track_of(stored)
    plan = plan_of(track)
    rows = []
    for lesson, ids in plan.items():
        rows.append((lesson, sum(seen.get(i) == "correct" for i in ids), sum(i in seen for i in ids), len(ids)))
    wanted = [i for ids in plan.values() for i in ids]
    return Progress(
        rows=tuple(rows),
        titles=titles(language()),
        still_open=tuple(i for i in wanted if seen.get(i) != "correct"),
        hints=sum(looked.get(i, {}).get("hints", 0) for i in wanted),
        solutions=sum(looked.get(i, {}).get("solution", 0) for i in wanted),
        track=track,
    )


def record(exercise_id: str, status: str) -> None:
    """Remember a try. An exercise that was right stays right."""
    seen = done()
    if seen.get(exercise_id) == "correct" or seen.get(exercise_id) == status:
        return
    _session[exercise_id] = status
    _write(_file(), lambda stored: {**stored, **_results(stored)})


def record_look(exercise_id: str, what: str, number: int = 1) -> None:
    """Remember that a learner looked at the hints of an exercise up to a number, or at its solution.

    Parameters
    ----------
    what: `hints` or `solution`.
    """
    before = _looks(_stored()).get(exercise_id, {})
    if before.get(what, 0) >= number:
        return
    _looked[exercise_id] = {**before, what: number}
    _write(_file(), lambda stored: {**stored, _LOOKED_AT: _looks(stored)})


def record_track(folder: Path, track: str) -> None:
    """Remember the track of the course in a folder."""
    _write(folder / FILE_NAME, lambda stored: {**stored, _TRACK: track})


def recorded_track(folder: Path) -> str:
    """Return the track of the course in a folder; the whole course if none was chosen."""
    return track_of(_read(folder / FILE_NAME))


def track_of(stored: Mapping[str, Any]) -> str:
    """Return the track that a file of progress names."""
    track = stored.get(_TRACK)
    return track if isinstance(track, str) and track in TRACKS else WHOLE_COURSE


def done() -> dict[str, str]:
    """Return the status of every exercise that was tried, by its id."""
    return _results(_stored())


def _stored() -> dict[str, Any]:
    return _read(_file())


def _read(file: Path) -> dict[str, Any]:
    try:
        stored = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return _known(stored) if isinstance(stored, Mapping) else {}


def _known(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Return what this version knows of a file: statuses by exercise, what was looked at, and the track."""
    known = {i: status for i, status in stored.items() if i in EXERCISES and status in ("correct", "tried")}
    looked = stored.get(_LOOKED_AT)
    if isinstance(looked, Mapping):
        known[_LOOKED_AT] = {
            i: {what: n for what, n in counts.items() if what in ("hints", "solution") and type(n) is int and n > 0}
            for i, counts in looked.items()
            if i in EXERCISES and isinstance(counts, Mapping)
        }
    track = track_of(stored)
    return {**known, _TRACK: track} if track != WHOLE_COURSE else known


def _results(stored: Mapping[str, Any]) -> dict[str, str]:
    """Return the results of the file and of this process: what is right in one of them is right."""
    found = {i: status for i, status in stored.items() if i in EXERCISES}
    return {**found, **{i: status for i, status in _session.items() if found.get(i) != "correct"}}


def _looks(stored: Mapping[str, Any]) -> dict[str, dict[str, int]]:
    return {**stored.get(_LOOKED_AT, {}), **_looked}


def _write(file: Path, changed: Callable[[dict[str, Any]], Mapping[str, Any]]) -> None:
    new = file.with_name(f"{file.name}.{os.getpid()}")
    try:
        new.write_text(json.dumps(changed(_read(file)), indent=1, sort_keys=True) + "\n", encoding="utf-8")
        new.replace(file)
    except OSError:
        with suppress(OSError):
            new.unlink()


def _file() -> Path:
    """Return the file's path: one for all languages, above the folder of a language, else in the current folder."""
    named = os.environ.get(_FILE_VARIABLE)
    if named:
        return Path(named)
    here = Path.cwd()
    return (here.parent if here.name in LANGUAGES else here) / FILE_NAME
