"""The course: what its notebooks import. Checks that answer in the learner's language, lessons that build tables, and
short names for the files and snapshots in what is printed.

Names are imported when they are first used: `deletekit doctor` works on a machine that lacks the course's packages.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from deletekit.course.aliases import Aliases
    from deletekit.course.checking import Verdict, check, hint, predict, solution
    from deletekit.course.learner_record import progress
    from deletekit.course.machine_report import doctor
    from deletekit.course.printing import show
    from deletekit.course.workplace import Lesson, lesson

__all__ = [
    "Aliases",
    "Lesson",
    "Verdict",
    "check",
    "doctor",
    "hint",
    "lesson",
    "predict",
    "progress",
    "show",
    "solution",
]

_MODULE_OF = {
    "Aliases": "aliases",
    "Lesson": "workplace",
    "doctor": "machine_report",
    "lesson": "workplace",
    "progress": "learner_record",
    "show": "printing",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'deletekit.course' has no attribute {name!r}")
    return getattr(import_module(f"deletekit.course.{_MODULE_OF.get(name, 'checking')}"), name)
