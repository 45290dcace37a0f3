"""Remember which exercises a learner has tried and solved, in one small JSON file beside the notebooks.

If the file cannot be read or written, only that memory is lost: nothing here raises an error for it.
"""

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deletekit.course.exercises.all import EXERCISES
from deletekit.course.lab import titles
from deletekit.course.printing import aligned
from deletekit.course.tracks import TRACKS, WHOLE_COURSE, plan_of
from deletekit.course.translations import LANGUAGES, language, text
from deletekit.html_table import safe_html

FILE_NAME = "deletekit-progress.json"
_FILE_VARIABLE = "DELETEKIT_PROGRESS"
_TRACK = "track"
_memory: dict[str, Any] = {}
"""What this process has added to the file: the only memory if the file cannot be written.

By exercise `correct` or `tried`.
"""


@dataclass(frozen=True, slots=True)
class Progress:
    """For each lesson: its number, how many exercises are right, tried, and there, and its right predictions.

    Attributes
    ----------
    titles: of the lessons, by their number.
    still_open: the ids of exercises that are not right yet and of predictions to be made, in the order of the track.
    """

    rows: tuple[tuple[str, int, int, int, str], ...]
    titles: Mapping[str, str] = field(default_factory=dict)
    still_open: tuple[str, ...] = ()
    track: str = WHOLE_COURSE

    def __repr__(self) -> str:
        top = (text("lesson"), text("right"), text("tried"), text("exercises"), text("right predictions"), text("open"))
        shown = [
            (self.titles.get(number, number), *counts, ", ".join(self._open_of(number)))
            for number, *counts in self.rows
        ]
        table = aligned([top, *shown])
        on_track = [self._on_track()] if self.track != WHOLE_COURSE else []
        return "\n".join([*table, "", *on_track, self._next()])

    def _repr_html_(self) -> str:
        """Return a bar for each lesson: how many of its exercises are right. The text says more."""
        bars = ""
        for number, right, _, total, _ in self.rows:
            title = safe_html(self.titles.get(number, number))
            bar = f'<progress value="{right}" max="{max(total, 1)}" aria-label="{title}"></progress>'
            bars += f'<tr><th scope="row" style="text-align:left">{title}</th><td>{bar} {right}/{total}</td></tr>'
        return f"<table>{bars}</table><p>{safe_html(self._next())}</p>"

    def _open_of(self, lesson: str) -> list[str]:
        """Return the numbers of the exercises of a lesson that are open, without that of the lesson."""
        return [i.partition(".")[2] for i in self.still_open if i.partition(".")[0] == lesson]

    def _on_track(self) -> str:
        return text(
            "Your track: {track}. Its next lesson is named below; the links at the end of lessons lead through the "
            "whole course.",
            track=self.track,
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
    seen = done()
    track = track_of(stored)
    plan = plan_of(track)
    rows = []
    for lesson, all_ids in plan.items():
        predictions = [i for i in all_ids if EXERCISES[i].predicted]
        ids = [i for i in all_ids if i not in predictions]
        right, foreseen = (sum(seen.get(i) == "correct" for i in some) for some in (ids, predictions))
        rows.append((lesson, right, sum(i in seen for i in ids), len(ids), f"{foreseen}/{len(predictions)}"))
    wanted = [i for ids in plan.values() for i in ids]
    return Progress(
        rows=tuple(rows),
        titles=titles(language()),
        still_open=tuple(i for i in wanted if not (i in seen if EXERCISES[i].predicted else seen.get(i) == "correct")),
        track=track,
    )


def record(exercise_id: str, status: str) -> None:
    """Remember a try. An exercise that was right stays right."""
    if _stored().get(exercise_id) not in ("correct", status):
        _remember(exercise_id, status)


def record_track(folder: Path, track: str) -> None:
    """Remember the track of the course in a folder."""
    _write(folder / FILE_NAME, {**_read(folder / FILE_NAME), _TRACK: track})


def recorded_track(folder: Path) -> str:
    """Return the track of the course in a folder; the whole course if none was chosen."""
    return track_of(_read(folder / FILE_NAME))


def track_of(stored: Mapping[str, Any]) -> str:
    """Return the track that a file of progress names."""
    track = stored.get(_TRACK)
    return track if isinstance(track, str) and track in TRACKS else WHOLE_COURSE


def done() -> dict[str, str]:
    """Return the status of every exercise that was tried, by its id."""
    return {key: value for key, value in _stored().items() if key in EXERCISES}


def _stored() -> dict[str, Any]:
    """Return what the file and this process have: what is right in one of them is right."""
    stored = _read(_file())
    return {**stored, **{key: value for key, value in _memory.items() if stored.get(key) != "correct"}}


def _remember(key: str, value: str) -> None:
    _memory[key] = value
    _write(_file(), _stored())


def _read(file: Path) -> dict[str, Any]:
    """Return what is in a file, without what this version does not know."""
    try:
        stored = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return {key: value for key, value in stored.items() if _is_known(key, value)} if isinstance(stored, dict) else {}


def _is_known(key: str, value: Any) -> bool:
    return value in ("correct", "tried") if key in EXERCISES else key == _TRACK


def _write(file: Path, stored: Mapping[str, Any]) -> None:
    new = file.with_name(f"{file.name}.{os.getpid()}")
    try:
        new.write_text(json.dumps(stored, indent=1, sort_keys=True) + "\n", encoding="utf-8")
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
