"""An exercise of the course: its right answers, the mistakes it knows, and what it says to each."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from deletekit.course.answer_kinds import AnswerKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Mistake:
    """A mistake that many learners make: the answers that show it, and a hint that no other mistake has.

    `names` are those of answers that are functions.
    """

    answers: tuple[Any, ...]
    hint: str
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Exercise:
    """One exercise of a lesson.

    Attributes
    ----------
    id: `06.2`, the second of lesson 06.
    answer_kind: what the answer is.
    right: right answers, in every way that a learner may write them.
    mistakes: at least two.
    hints: steps to the answer, from a nudge to nearly all of it.
    why: the reason, shown with a right answer and with the solution.
    predicted: it asks for a prediction, which is judged once the answer has been seen.
    choices: the names among which an answer chooses, if it does; their translations count too.
    """

    id: str
    answer_kind: AnswerKind
    right: tuple[Any, ...]
    mistakes: tuple[Mistake, ...]
    hints: tuple[str, ...]
    why: str
    predicted: bool = False
    choices: tuple[str, ...] = ()

    @property
    def lesson(self) -> str:
        """Return the number of the lesson, such as `06`."""
        return self.id.partition(".")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Functions:
    """What the functions that learners write for one exercise are tried with.

    Attributes
    ----------
    cases: the arguments of the first calls, the plainest first. They tell every known mistake from the right function.
    inputs: draws the arguments of one more call. The solution takes them all, and every right function agrees on them.
    in_place: the function may change its arguments.
    """

    cases: Sequence[tuple[Any, ...]]
    inputs: Callable[[Random], tuple[Any, ...]]
    in_place: bool = False
