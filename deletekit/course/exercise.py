"""An exercise of the course: its right answers, the mistakes it knows, and what it says to each."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from deletekit.course.answer_kinds import AnswerKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Mistake:
    """A mistake that many learners make: the answers that show it, and a hint that no other mistake has."""

    answers: tuple[Any, ...]
    hint: str


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
    """

    id: str
    answer_kind: AnswerKind
    right: tuple[Any, ...]
    mistakes: tuple[Mistake, ...]
    hints: tuple[str, ...]
    why: str

    @property
    def lesson(self) -> str:
        """Return the number of the lesson, such as `06`."""
        return self.id.partition(".")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Functions:
    """Functions that learners write for one exercise, by the names that the exercise's file has for them.

    Attributes
    ----------
    cases: the arguments of each call that compares two functions.
    """

    cases: Sequence[tuple[Any, ...]]
    by_name: Mapping[str, Callable[..., Any]]


def versions(rule: Callable[..., Any], *names: str) -> dict[str, Callable[..., Any]]:
    """Return a rule, right or with one mistake, by name: the rule takes the name as its first argument."""
    return {name: partial(rule, name) for name in names}
