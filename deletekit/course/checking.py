"""CHECK an answer, note a prediction, give a hint, show the solution.

No answer makes a check raise an error: `...` counts as not answered, and what cannot be read as an
answer of another kind. No answer runs for long either, as far as `time_limit` reaches.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar

from deletekit.course import feedback
from deletekit.course.answer_kinds import ANSWER_KINDS, NotThisKind, letters, unanswered
from deletekit.course.exercise import Exercise
from deletekit.course.exercises.all import EXERCISES, SOLUTIONS
from deletekit.course.learner_record import record
from deletekit.course.time_limit import TookTooLong, time_limit
from deletekit.course.translations import is_translated, text

T = TypeVar("T")
Status = Literal["correct", "not-yet", "not-answered", "other-kind", "noted", "no-exercise"]

CHECK_TYPE = "application/vnd.deletekit.check+json"
"""The MIME type of a verdict for programs; the tests of the notebooks count these."""

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


def check(exercise_id: Any = None, answer: Any = _NO_ANSWER) -> Verdict:
    """Judge an answer; without one, judge the prediction that was noted.

    Returns the verdict in the language of the course. A known mistake gets its own hint; any other wrong answer is told
    what is wrong with it; a wrong prediction gets the right answer and the reason. An id that does not exist gets a
    verdict that names the nearest ids.
    """
    exercise = _find(exercise_id)
    if exercise is None:
        return _no_exercise(exercise_id)
    given = _predictions.get(exercise.id, ...) if answer is _NO_ANSWER else answer
    if answer is _NO_ANSWER and given is ...:
        return _no_prediction(exercise)
    verdict = judge(exercise, given)
    if verdict.status in ("correct", "not-yet"):
        record(exercise.id, "correct" if verdict.status == "correct" else "tried")
    if verdict.status == "not-yet" and answer is _NO_ANSWER:
        return replace(verdict, said=_after_prediction(exercise, verdict.mistake))
    return verdict


def predict(exercise_id: Any = None, answer: Any = ...) -> Verdict:
    """Note what the learner expects. `check` judges it after the cell that shows the answer.

    An answer of another kind cannot be right: the verdict says so, and it is not noted. Nor is an answer where no
    prediction is asked for.
    """
    exercise = _find(exercise_id)
    if exercise is None:
        return _no_exercise(exercise_id)
    if not exercise.predicted:
        return _no_prediction(exercise)
    try:
        value = _read(exercise, answer)
    except NotThisKind as e:
        return _other_kind(exercise, e, text("It is not noted: write your prediction once more."))
    _predictions[exercise.id] = answer
    if value is ...:
        said = text(
            "{id}: no prediction yet. Write one down before you run on: a wrong one teaches most.", id=exercise.id
        )
        return Verdict(exercise=exercise.id, status="not-answered", said=f"… {said}")
    return Verdict(exercise=exercise.id, status="noted", said=text("{id}: noted. Now run and see.", id=exercise.id))


def hint(exercise_id: Any = None) -> None:
    """Print the next hint: first a nudge, last nearly the answer. After it, name `solution`, and begin again."""
    exercise = _find(exercise_id)
    if exercise is None:
        print(_no_exercise(exercise_id).said)  # noqa: T201
        return
    number = _hints_given.get(exercise.id, 0) % (len(exercise.hints) + 1)
    _hints_given[exercise.id] = number + 1
    if number == len(exercise.hints):
        print(text('{id}: that was the last hint. solution("{id}") shows the answer, and why.', id=exercise.id))  # noqa: T201
        return
    head = text("{id}, hint {number} of {total}:", id=exercise.id, number=number + 1, total=len(exercise.hints))
    print(head, _exercise_text(exercise.hints[number]))  # noqa: T201


def solution(exercise_id: Any = None) -> None:
    """Print the code that answers an exercise, and why."""
    exercise = _find(exercise_id)
    if exercise is None:
        print(_no_exercise(exercise_id).said)  # noqa: T201
        return
    print(f"{SOLUTIONS[exercise.id]}\n\n{_exercise_text(exercise.why)}")  # noqa: T201


def judge(exercise: Exercise, answer: Any) -> Verdict:
    """Judge an answer without remembering it."""
    try:
        value = _read(exercise, answer)
        known = None if value is ... else _known(exercise, value)
    except NotThisKind as e:
        return _other_kind(exercise, e)
    if value is ...:
        said = text('{id}: not answered yet. Put your answer where ... stands; hint("{id}") helps.', id=exercise.id)
        return Verdict(exercise=exercise.id, status="not-answered", said=f"… {said}")
    if known == 0:
        said = f"✓ {text('{id}: correct.', id=exercise.id)} {_exercise_text(exercise.why)}"
        return Verdict(exercise=exercise.id, status="correct", said=said)
    if known:
        helps = _exercise_text(exercise.mistakes[known - 1].hint)
    else:
        details = _details(lambda: feedback.of_choices(exercise, value) or feedback.on_wrong(exercise, answer, value))
        between = "\n" if "\n" in details else " "
        helps = between.join(filter(None, (details, text('hint("{id}") helps.', id=exercise.id))))
    said = f"✗ {text('{id}: not yet.', id=exercise.id)} {helps}"
    return Verdict(exercise=exercise.id, status="not-yet", said=said, mistake=known)


def replies(exercise: Exercise) -> dict[str, Any]:
    """Return what `answers.js` replies where no kernel is; nothing for answers that it cannot read.

    `replies` has each answer that the exercise knows as text, and its reply. `other` is for every other answer, and
    `strange` for what is of another kind.
    """
    kind = next((name for name in ("number", "text", "ids") if ANSWER_KINDS[name] is exercise.answer_kind), None)
    if kind is None or exercise.choices:
        return {}
    said = []
    for one in (*exercise.right, *(one for mistake in exercise.mistakes for one in mistake.answers)):
        verdict = judge(exercise, one)
        late = exercise.predicted and verdict.mistake
        said.append([str(one), _after_prediction(exercise, verdict.mistake) if late else verdict.said])
    hinted = f"✗ {text('{id}: not yet.', id=exercise.id)} {_exercise_text(exercise.hints[0])}"
    other = _after_prediction(exercise, None) if exercise.predicted else hinted
    strange = _other_kind(exercise, NotThisKind()).said
    return {"kind": kind, "predicted": exercise.predicted, "replies": said, "other": other, "strange": strange}


def _read(exercise: Exercise, answer: Any) -> Any:
    """Return an answer as it compares, and `...` for one that is missing. Raise NotThisKind, and no other error."""
    return _guarded(lambda: ... if unanswered(answer) else _in_english(exercise, exercise.answer_kind.read(answer)))


def _in_english(exercise: Exercise, value: Any) -> Any:
    """Return an answer with the English names of what an exercise lets one choose from."""
    english = {letters(text(choice)): letters(choice) for choice in exercise.choices}
    if isinstance(value, frozenset):
        return frozenset(english.get(name, name) for name in value)
    return english.get(value, value) if english else value


def _known(exercise: Exercise, value: Any) -> int | None:
    """Return 0 for a right answer, the number of a known mistake, or None. Raise NotThisKind, and no other error."""
    read, told = exercise.answer_kind.read, exercise.answer_kind.told

    def telling(answer: Any) -> Any:
        """Return what tells a mistake: of a function, what it does in the cases that were written for that."""
        return answer[:told] if told else answer

    def find() -> int | None:
        if value in map(read, exercise.right):
            return 0
        shown = telling(value)
        mistakes = enumerate(exercise.mistakes, 1)
        return next((n for n, known in mistakes if shown in (telling(read(one)) for one in known.answers)), None)

    return _guarded(find)


def _guarded(call: Callable[[], T]) -> T:
    """Call what looks at an answer: whatever the values in it raise, and where they take too long, is NotThisKind."""
    try:
        with time_limit(feedback.SECONDS):
            return call()
    except NotThisKind:
        raise
    except (Exception, TookTooLong) as e:
        raise NotThisKind from e


def _other_kind(exercise: Exercise, found: NotThisKind, *more: str) -> Verdict:
    said = text("{id}: the answer is {kind}.", id=exercise.id, kind=text(exercise.answer_kind.description))
    details = _details(lambda: feedback.of_another_kind(exercise, found))
    said = " ".join(filter(None, ("✗", said, details, *more)))
    return Verdict(exercise=exercise.id, status="other-kind", said=said)


def _details(say: Callable[[], str]) -> str:
    """Return what is said about an answer; nothing where its values prevent even that."""
    try:
        return _guarded(say)
    except NotThisKind:
        return ""


def _after_prediction(exercise: Exercise, mistake: int | None) -> str:
    """Say after a wrong prediction what helps with the mistake, what is right, and why."""
    said = text("{id}: it came out differently.", id=exercise.id)
    helps = _exercise_text(exercise.mistakes[mistake - 1].hint) if mistake else ""
    right = text("The answer: {right}.", right=feedback.short(exercise.right[0]))
    return " ".join(filter(None, ("✗", said, helps, right, _exercise_text(exercise.why))))


def _no_prediction(exercise: Exercise) -> Verdict:
    if not exercise.predicted:
        said = text('{id} asks for no prediction: answer with check("{id}", ...).', id=exercise.id)
        return Verdict(exercise=exercise.id, status="not-answered", said=f"… {said}")
    said = text(
        '{id}: no prediction yet. Write one where predict("{id}", ...) stands, run that cell, and then this one; '
        'hint("{id}") helps.',
        id=exercise.id,
    )
    return Verdict(exercise=exercise.id, status="not-answered", said=f"… {said}")


def _exercise_text(english: str) -> str:
    """Return a text of an exercise in the learner's language, or in English with a sentence that says so."""
    if is_translated(english):
        return text(english)
    return f"{english} ({text('This exercise is in English only so far.')})"


def _find(exercise_id: Any) -> Exercise | None:
    return EXERCISES.get(exercise_id) if isinstance(exercise_id, str) else None


def _no_exercise(exercise_id: Any) -> Verdict:
    if exercise_id is None:
        said = text('Write the number of an exercise between the brackets, such as "{id}".', id=next(iter(EXERCISES)))
        return Verdict(exercise="", status="no-exercise", said=f"… {said}")
    given, nearest = feedback.short(exercise_id), ", ".join(feedback.nearest(EXERCISES, exercise_id))
    said = text("There is no exercise {id}; the nearest: {nearest}.", id=given, nearest=nearest)
    return Verdict(exercise=given, status="no-exercise", said=f"✗ {said}")
