"""Read every exercise: texts and answers from lesson_NN.toml, what functions are tried with from lesson_NN.py.

The right function is the solution that learners see, and a function with a mistake is that solution with edits.
"""

import json
import tomllib
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from deletekit.course.answer_kinds import ANSWER_KINDS
from deletekit.course.exercise import Exercise, Functions, Mistake
from deletekit.course.function_answers import function, random_cases, written

SOLUTIONS: Mapping[str, str] = json.loads(Path(__file__).parents[1].joinpath("solutions.json").read_text("utf-8"))
"""The code that answers each exercise, by its id; the notebooks' sources have it."""

_UNWRITTEN = "def none(*_): ...\n\n\ncheck(none, none)"


def _unchanged(answer: Any) -> Any:
    return answer


def _with_pairs(items: list[Any]) -> list[Any]:
    return [tuple(item) if isinstance(item, list) else item for item in items]


_FROM_TOML: Mapping[str, Callable[[Any], Any]] = {"ids": set, "names": set, "list": _with_pairs}
"""How an answer is made of TOML's lists, for the kinds whose answers are sets, or lists of pairs."""


def _read(file: Path) -> list[Exercise]:
    stored = tomllib.loads(file.read_text(encoding="utf-8"))
    return [_exercise(exercise_id, file.stem, **fields) for exercise_id, fields in stored.items()]


def _exercise(
    exercise_id: str,
    module: str,
    *,
    kind: str,
    mistakes: list[Any],
    hints: list[str],
    why: str,
    right: Sequence[Any] = ((),),
    choices: Sequence[str] = (),
) -> Exercise:
    if kind == "function":
        functions: Functions = import_module(f"{__package__}.{module}").FUNCTIONS[exercise_id]
        more = random_cases(functions.inputs)
        answer_kind = function(*functions.cases, more=more, in_place=functions.in_place)
    else:
        answer_kind = ANSWER_KINDS[kind]

    code = SOLUTIONS.get(exercise_id, _UNWRITTEN)  # none yet while the notebooks are built for the first time

    def as_answer(stored: Any) -> Any:
        return written(code, *stored) if kind == "function" else _FROM_TOML.get(kind, _unchanged)(stored)

    def mistake(*, answers: Any, hint: str) -> Mistake:
        names = tuple(answers) if kind == "function" else ()
        return Mistake(answers=tuple(map(as_answer, answers.values() if names else answers)), hint=hint, names=names)

    return Exercise(
        id=exercise_id,
        answer_kind=answer_kind,
        right=tuple(map(as_answer, right)),
        mistakes=tuple(mistake(**fields) for fields in mistakes),
        predicted=f'predict("{exercise_id}"' in code,
        hints=tuple(hints),
        choices=tuple(choices),
        why=why,
    )


EXERCISES: Mapping[str, Exercise] = {
    exercise.id: exercise for file in sorted(Path(__file__).parent.glob("lesson_*.toml")) for exercise in _read(file)
}
