"""Read every exercise of the course: texts and answers from lesson_NN.toml, functions from lesson_NN.py."""

import tomllib
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from deletekit.course.answer_kinds import ANSWER_KINDS
from deletekit.course.exercise import Exercise, Functions, Mistake
from deletekit.course.function_answers import function, random_cases


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
    exercise_id: str, module: str, *, kind: str, right: list[Any], mistakes: list[Any], hints: list[str], why: str
) -> Exercise:
    if kind == "function":
        functions: Functions = import_module(f"{__package__}.{module}").FUNCTIONS[exercise_id]
        more = random_cases(functions.inputs)
        answer_kind = function(*functions.cases, more=more, in_place=functions.in_place)
        as_answer = functions.by_name.__getitem__
    else:
        answer_kind, as_answer = ANSWER_KINDS[kind], _FROM_TOML.get(kind, _unchanged)

    def answers(stored: list[Any]) -> tuple[Any, ...]:
        return tuple(map(as_answer, stored))

    return Exercise(
        id=exercise_id,
        answer_kind=answer_kind,
        right=answers(right),
        mistakes=tuple(Mistake(answers=answers(m["answers"]), hint=m["hint"]) for m in mistakes),
        hints=tuple(hints),
        why=why,
    )


EXERCISES: Mapping[str, Exercise] = {
    exercise.id: exercise for file in sorted(Path(__file__).parent.glob("lesson_*.toml")) for exercise in _read(file)
}
