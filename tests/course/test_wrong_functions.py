"""Functions that learners write: wrong ones that one may think of are refused, right ones in other words are not."""

import tomllib
from pathlib import Path

import pytest
from pyroaring import BitMap64

from deletekit.course.checking import judge
from deletekit.course.exercise import Exercise
from deletekit.course.exercises.all import EXERCISES, SOLUTIONS
from deletekit.course.function_answers import written

ANSWERS = tomllib.loads(Path(__file__).with_name("function_answers.toml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("exercise", [e for e in EXERCISES.values() if e.answer_kind.cases], ids=lambda one: one.id)
def test_wrong_functions_are_refused_and_right_ones_in_other_words_are_not(exercise: Exercise) -> None:
    code, answers = SOLUTIONS[exercise.id], ANSWERS[exercise.id]
    assert len(answers["wrong"]) >= 5
    for edits in answers["wrong"]:
        assert edits[0] in code
        assert judge(exercise, written(code, *edits)).status == "not-yet", edits
    right = judge(exercise, written(f"{answers['right']}\n\n\ncheck(id, right)"))
    assert right.status == "correct", right.said


def test_a_bitmap_is_a_set() -> None:
    assert judge(EXERCISES["06.3"], lambda blob: BitMap64.deserialize(blob[8:-4])).status == "correct"
