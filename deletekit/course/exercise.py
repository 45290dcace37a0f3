"""An exercise: what is accepted, which mistakes are known, and what is said to each.

Law: values only. What is typical must have its own words: every known mistake has a hint that no other one has.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from deletekit.course.answer_values import Form

__all__ = ["Exercise", "Mistake"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mistake:
    """A wrong answer that many give: the answers it shows in, and what helps whoever gave one."""

    answers: tuple[Any, ...]
    hint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Exercise:
    """One exercise of a lesson.

    Attributes
    ----------
    id: `06.2`, the second of lesson 06.
    form: what the answer is.
    accepts: right answers, in every way that one may write them.
    mistakes: at least two.
    hints: steps on the way, from a nudge to nearly all.
    why: what is said to a right answer, and with the solution.
    """

    id: str
    form: Form
    accepts: tuple[Any, ...]
    mistakes: tuple[Mistake, ...]
    hints: tuple[str, ...]
    why: str

    @property
    def lesson(self) -> str:
        return self.id.partition(".")[0]
