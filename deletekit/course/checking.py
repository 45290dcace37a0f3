"""CHECK an answer, note a prediction, give a hint, show the solution.

No answer makes a check raise an error: `...` counts as not answered, and what cannot be read as an
answer of another kind.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from deletekit.course.answer_kinds import NotThisKind, unanswered
from deletekit.course.exercise import Exercise
from deletekit.course.exercises.all import EXERCISES
from deletekit.course.learner_record import record, record_look
from deletekit.course.translations import is_translated, text
from deletekit.errors import InvalidInputError

Status = Literal["correct", "not-yet", "not-answered", "other-kind", "noted"]

CHECK_TYPE = "application/vnd.deletekit.check+json"
"""The MIME type of a verdict for programs; the tests of the notebooks count these."""

_SOLUTIONS = Path(__file__).parent / "solutions.json"
_NO_ANSWER = object()
_predictions: dict[str, Any] = {}
_hints_given: dict[str, int] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The judgement of an answer and the text for the learner. `mistake` is the number, from 1, of a known mistake."""

    exercise: str
    status: Status
    said: str
    mistake: int | None = None

    def __repr__(self) -> str:
        return self.said

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        del include, exclude
        facts = {"exercise": self.exercise, "status": self.status, "mistake": self.mistake}
        return {"text/plain": self.said, CHECK_TYPE: facts}


def check(exercise_id: str, answer: Any = _NO_ANSWER) -> Verdict:
    """Judge an answer; without one, judge the prediction that was noted.

    Returns the verdict in the language of the course. A known mistake gets its own hint. Raises InvalidInputError if
    the exercise does not exist, and no other error.
    """
    exercise = _find(exercise_id)
    verdict = judge(exercise, _predictions.get(exercise_id, ...) if answer is _NO_ANSWER else answer)
    if verdict.status in ("correct", "not-yet"):
        record(exercise_id, "correct" if verdict.status == "correct" else "tried")
    return verdict


def predict(exercise_id: str, answer: Any) -> Verdict:
    """Note what the learner expects. `check` judges it after the cell that shows the answer."""
    exercise = _find(exercise_id)
    _predictions[exercise_id] = answer
    if unanswered(answer):
        said = text(
            "{id}: no prediction yet. Write one down before you run on: a wrong one teaches most.", id=exercise.id
        )
        return Verdict(exercise=exercise.id, status="not-answered", said=f"… {said}")
    return Verdict(exercise=exercise.id, status="noted", said=text("{id}: noted. Now run and see.", id=exercise.id))


def hint(exercise_id: str) -> None:
    """Print the next hint. The first one is a nudge, the last one nearly the answer; then the first comes again."""
    exercise = _find(exercise_id)
    number = _hints_given.get(exercise_id, 0) % len(exercise.hints)
    _hints_given[exercise_id] = number + 1
    record_look(exercise_id, "hints", number + 1)
    head = text("{id}, hint {number} of {total}:", id=exercise.id, number=number + 1, total=len(exercise.hints))
    print(head, _exercise_text(exercise.hints[number]))  # noqa: T201


def solution(exercise_id: str) -> None:
    """Print the code that answers an exercise, and why."""
    exercise = _find(exercise_id)
    record_look(exercise_id, "solution")
    code = json.loads(_SOLUTIONS.read_text(encoding="utf-8"))[exercise.id]
    print(f"{code}\n\n{_exercise_text(exercise.why)}")  # noqa: T201


def judge(exercise: Exercise, answer: Any) -> Verdict:
    """Judge an answer without remembering it."""
    try:
        value = ... if unanswered(answer) else exercise.answer_kind.read(answer)
    except NotThisKind:
        said = text("{id}: the answer is {kind}.", id=exercise.id, kind=text(exercise.answer_kind.description))
        return Verdict(exercise=exercise.id, status="other-kind", said=f"✗ {said}")
    if value is ...:
        said = text('{id}: not answered yet. Put your answer where ... stands; hint("{id}") helps.', id=exercise.id)
        return Verdict(exercise=exercise.id, status="not-answered", said=f"… {said}")
    if value in [exercise.answer_kind.read(right) for right in exercise.right]:
        said = f"✓ {text('{id}: correct.', id=exercise.id)} {_exercise_text(exercise.why)}"
        return Verdict(exercise=exercise.id, status="correct", said=said)
    not_yet = f"✗ {text('{id}: not yet.', id=exercise.id)}"
    for number, mistake in enumerate(exercise.mistakes, 1):
        if value in [exercise.answer_kind.read(wrong) for wrong in mistake.answers]:
            said = f"{not_yet} {_exercise_text(mistake.hint)}"
            return Verdict(exercise=exercise.id, status="not-yet", said=said, mistake=number)
    helps = text('hint("{id}") helps.', id=exercise.id)
    return Verdict(exercise=exercise.id, status="not-yet", said=f"{not_yet} {helps}")


def _exercise_text(english: str) -> str:
    """Return a text of an exercise in the learner's language, or in English with a sentence that says so."""
    if is_translated(english):
        return text(english)
    return f"{english} ({text('This exercise is in English only so far.')})"


def _find(exercise_id: str) -> Exercise:
    found = next((e for known, e in EXERCISES.items() if known == exercise_id), None)
    if found is None:
        raise InvalidInputError(
            "no such exercise", kind="exercise", field="exercise_id", found=exercise_id, expected=", ".join(EXERCISES)
        )
    return found
