"""Every exercise: what it accepts is accepted, each known mistake is rejected with its own hint, blank is no error."""

import re
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from deletekit.course.checking import judge
from deletekit.course.exercise import Exercise
from deletekit.course.exercises.all import EXERCISES

exercises = pytest.mark.parametrize("exercise", EXERCISES.values(), ids=EXERCISES)


def infinite() -> Any:
    while True:
        yield 1


class Hostile:
    """Raises at whatever one does with it."""

    def __eq__(self, other: object) -> bool:
        raise RuntimeError

    def __hash__(self) -> int:
        raise RuntimeError

    def __iter__(self) -> Any:
        raise RuntimeError

    def __len__(self) -> int:
        raise RuntimeError

    def __str__(self) -> str:
        raise RuntimeError

    __repr__ = __str__


ODD_ANSWERS = [
    None,
    True,
    "",
    "DROP TABLE users",
    -1,
    10**4000,
    float("nan"),
    float("inf"),
    [],
    {},
    set(),
    [[]],
    {"a": {"b": [1, {2}]}},
    infinite(),
    range(10**12),
    [Hostile()],
    Hostile(),
    {"x": Hostile()},
    b"\xff",
    np.array([[1, 2], [3, 4]]),
    np.array(["a"]),
    pa.array([1, None]),
    pa.table({"id": [1]}),
    object(),
    int,
    lambda: 1,
    lambda *_: 1 / 0,
    lambda *_: Hostile(),
    len,
]


BLANKS = [..., [...], {1, ...}, {"a": ...}, {"a": [1, (...,)]}, lambda *_: ..., lambda *_: None]


@exercises
def test_right_answers_are_accepted_and_each_mistake_is_rejected_with_its_own_hint(exercise: Exercise) -> None:
    assert re.fullmatch(r"\d\d\.\d+", exercise.id)
    assert EXERCISES[exercise.id] is exercise
    assert exercise.right
    assert [judge(exercise, answer).status for answer in exercise.right] == ["correct"] * len(exercise.right)
    hints = [mistake.hint for mistake in exercise.mistakes]
    assert len(set(hints)) == len(hints) >= 2
    assert all([*hints, exercise.hints, exercise.why])
    for number, mistake in enumerate(exercise.mistakes, 1):
        assert mistake.answers
        for answer in mistake.answers:
            verdict = judge(exercise, answer)
            assert (verdict.status, verdict.mistake) == ("not-yet", number)
            assert mistake.hint in verdict.said


@exercises
def test_blank_is_not_answered_and_no_answer_makes_a_check_fail(exercise: Exercise) -> None:
    for blank in BLANKS:
        # A function is an answer to no other exercise, so there it is of another kind.
        wanted = {"not-answered"} if not callable(blank) else {"not-answered", "other-kind"}
        assert judge(exercise, blank).status in wanted
    rights = [exercise.answer_kind.read(answer) for answer in exercise.right]
    for answer in ODD_ANSWERS:
        verdict = judge(exercise, answer)
        assert verdict.said
        if verdict.status == "correct":
            assert exercise.answer_kind.read(answer) in rights


NUMBERS = [2, 2.0, np.int64(2), np.float64(2), pa.scalar(2)]
IDS = [{2, 4}, [4, 2], (2, 4, 4), np.array([2, 4]), pa.array([2, 4]), pa.chunked_array([[2], [4]])]


def test_an_answer_is_the_same_whatever_library_it_comes_from() -> None:
    for name, answers in {"00.1": NUMBERS, "00.2": IDS, "06.2": ["PFA1", b"PFA1"]}.items():
        for answer in answers:
            assert judge(EXERCISES[name], answer).status == "correct", answer
    assert judge(EXERCISES["06.2"], b"").status == "not-yet"
    assert judge(EXERCISES["06.2"], b"\xd1\xd39d").mistake == 1
