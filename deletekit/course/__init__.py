"""The course, as its notebooks import it: checks in the learner's language, tables for lessons, short names for files.

Names are imported when they are first used, so that `deletekit doctor` works without the course's packages.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from deletekit.course.aliases import Aliases
    from deletekit.course.checking import Verdict, check, hint, predict, solution
    from deletekit.course.diagnosis import doctor
    from deletekit.course.learner_record import progress
    from deletekit.course.printing import show
    from deletekit.course.race import Meanwhile, outcome
    from deletekit.course.workplace import Lesson, lesson

__all__ = [
    "Aliases",
    "Lesson",
    "Meanwhile",
    "Verdict",
    "check",
    "doctor",
    "hint",
    "lesson",
    "outcome",
    "predict",
    "progress",
    "show",
    "solution",
]

_MODULE_OF = {
    "Aliases": "aliases",
    "Lesson": "workplace",
    "Meanwhile": "race",
    "doctor": "diagnosis",
    "lesson": "workplace",
    "outcome": "race",
    "progress": "learner_record",
    "show": "printing",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'deletekit.course' has no attribute {name!r}")
    return getattr(import_module(f"deletekit.course.{_MODULE_OF.get(name, 'checking')}"), name)
