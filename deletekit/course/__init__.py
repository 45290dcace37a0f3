"""The course: what its notebooks import. Checks that answer in the learner's language, lessons that build tables, and
short names for the files and snapshots in what is printed.

Law: a lesson's cells are the same in every language and on every engine; an exercise never fails, whatever its answer.
"""

from deletekit.course.aliases import Aliases
from deletekit.course.checking import Verdict, check, hint, predict, solution
from deletekit.course.machine_line import doctor
from deletekit.course.printing import show
from deletekit.course.progress import progress
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
