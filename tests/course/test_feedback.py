"""What a wrong answer is told: where it differs, of which form it is, and never what is right."""

import json
import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import nbclient
import nbformat
import numpy as np
import pytest

from deletekit.course import check, feedback
from deletekit.course.answer_kinds import ANSWER_KINDS
from deletekit.course.checking import judge
from deletekit.course.exercise import Exercise
from deletekit.course.exercises.all import EXERCISES
from deletekit.course.function_answers import function


def exercise(kind: Any, *right: Any) -> Exercise:
    texts: Mapping[str, Any] = {"hints": ("A hint.",), "why": "A reason."}
    return Exercise(id="00.1", answer_kind=kind, right=right, mistakes=(), **texts)


def said(right: Any, answer: Any, kind: str) -> str:
    """What is said between the head and the pointer to the hints."""
    verdict = judge(exercise(ANSWER_KINDS[kind], right), answer)
    assert verdict.status == "not-yet"
    return verdict.said.removeprefix("✗ 00.1: not yet.").removesuffix('hint("00.1") helps.').strip()


def said_to(answer: Any, right: Callable[..., Any], *cases: tuple[Any, ...]) -> str:
    verdict = judge(exercise(function(*cases), right), answer)
    assert verdict.status == "not-yet"
    return verdict.said.removeprefix("✗ 00.1: not yet.").removesuffix('hint("00.1") helps.').strip()


# --- functions --------------------------------------------------------------------------------------------------------


def doubled(number: int) -> int:
    return 2 * number


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (lambda n: n * n, "f(5)\n  yours     25\n  expected  10"),
        (lambda n: None if n else 0, "f(5) returned None: is `return` missing?"),
        (str, "f(0)\n  yours     '0' (str)\n  expected  0 (int)"),
        (lambda n: iter([n]), "f(0)\n  yours     <list_iterator> (list_iterator)\n  expected  0 (int)"),
        (len, "f(0) raised TypeError: object of type 'int' has no len()."),
        (lambda: 1, "Number of arguments: your function takes 0, the check gives 1."),
        (lambda _a, _b, _c=1: 1, "Number of arguments: your function takes 2-3, the check gives 1."),
    ],
)
def test_functions(answer: Callable[..., Any], expected: str) -> None:
    assert said_to(answer, doubled, (0,), (5,)) == expected


def test_the_line_is_the_learners_also_where_a_library_raised() -> None:
    def read(text: str) -> Any:
        return json.loads(text)

    assert said_to(read, doubled, ("{",)) == (
        "read('{') raised JSONDecodeError: Expecting property name enclosed in double quotes: line 1 column 2 "
        f"(char 1), in line {read.__code__.co_firstlineno + 1}: `return json.loads(text)`."
    )


def test_a_body_of_dots_is_not_answered() -> None:
    def dots(number: int) -> Any: ...

    def described(number: int) -> Any:
        """Say what it will do."""
        ...  # noqa: PIE790

    def returned(number: int) -> Any:
        return ...

    for blank in (dots, described, returned, lambda _: ...):
        assert judge(exercise(function((1,)), doubled), blank).status == "not-answered"


def test_what_is_no_function() -> None:
    verdict = check("07.2", (1, 2, 3))
    assert verdict.status == "other-kind"
    assert verdict.said == (
        "✗ 07.2: the answer is a function. (1, 2, 3) is of type tuple. "
        "Give the function by its name, without brackets behind it."
    )


def test_the_nearest_right_function_is_the_one_to_differ_from() -> None:
    of_two_forms = exercise(function((1,), (2,)), lambda n: {n}, lambda n: [n])
    assert "f(2)\n  yours     [3]\n  expected  [2]" in judge(of_two_forms, lambda n: [n if n == 1 else 3]).said


def test_long_arguments_have_rows_of_their_own_with_their_names() -> None:
    def applies(delete: Any, data: Any) -> Any:
        return len(delete) > 3

    delete, data = {"path": "x" * 40}, {"path": "y" * 40}
    assert said_to(applies, lambda *_: True, (delete, data)).splitlines() == [
        "applies(...)",
        f"  delete    {delete}",
        f"  data      {data}",
        "  yours     False",
        "  expected  True",
    ]


def test_what_a_function_keeps_and_changes_is_named() -> None:
    def counted(numbers: list[int], seen: list[int] = []) -> int:  # noqa: B006
        seen.extend(numbers)
        return len(seen)

    def popped(numbers: list[int]) -> int:
        return sum(numbers.pop() > 0 for _ in range(len(numbers)))

    assert said_to(counted, len, ([1],)) == (
        "The second of two equal calls: does something stay from the first? counted([1])\n  yours     2\n  expected  1"
    )
    assert said_to(popped, len, ([1, 2],)) == "popped([1, 2]) changed what it was given: work on a copy."
    assert judge(exercise(function(([1, 2],), in_place=True), len), popped).status == "correct"


# --- what would hurt --------------------------------------------------------------------------------------------------


def test_an_endless_loop_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    def endless(number: int) -> int:
        while number:
            try:
                number += 1
            except Exception:  # noqa: BLE001
                return 0
        return 0

    monkeypatch.setattr(feedback, "SECONDS", 0.2)
    started = time.monotonic()
    assert said_to(endless, doubled, (0,), *[(1,)] * 50) == (
        "The check was stopped after 0.2 seconds, in endless(1): is there a loop without an end?"
    )
    assert time.monotonic() - started < 2


@pytest.mark.slow
def test_a_kernel_stops_the_loop_and_goes_on(tmp_path: Path) -> None:
    cells = [
        "from deletekit.course import check, feedback\nfeedback.SECONDS = 0.5",
        "def split(position):\n    while True:\n        pass\n\ncheck('07.2', split)",
        "def split(position):\n    return position / 0\n\ncheck('07.2', split)",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    nbclient.NotebookClient(notebook, timeout=60, resources={"metadata": {"path": str(tmp_path)}}).execute()
    _, loop, error = ("".join(o["data"]["text/plain"] for o in cell.outputs) for cell in notebook.cells)
    assert "stopped after 0.5 seconds, in split(0)" in loop
    assert "in line 2: `return position / 0`" in error


def test_an_answer_that_takes_long_to_read_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    wide: Any = [0] * 10
    for _ in range(7):
        wide = [wide] * 30
    monkeypatch.setattr(feedback, "SECONDS", 0.2)
    started = time.monotonic()
    assert check("07.1", wide).status == "other-kind"
    assert judge(exercise(function((1,)), doubled), lambda _: wide).status == "not-yet"
    assert time.monotonic() - started < 3


@pytest.mark.parametrize("error", [SystemExit, GeneratorExit, RecursionError, MemoryError, StopIteration])
def test_whatever_a_function_raises_is_its_outcome(error: type[BaseException]) -> None:
    def raising(number: int) -> int:
        raise error(number)

    assert said_to(raising, doubled, (1,)).startswith(f"raising(1) raised {error.__name__}: 1, in line ")


def test_an_interrupt_is_the_learners() -> None:
    def interrupted(number: int) -> int:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        judge(exercise(function((1,)), doubled), interrupted)


class Loud:
    def __repr__(self) -> str:
        return "\x1b[31mLOUD"


class Mute(Exception):  # noqa: N818
    def __str__(self) -> str:
        raise ValueError


class Odd(int):
    def __eq__(self, other: object) -> bool:
        raise RuntimeError

    __hash__ = int.__hash__


def raises_mute(number: int) -> int:
    raise Mute


@pytest.mark.sampled(3, tier=1)
@pytest.mark.parametrize(
    "answer",
    [
        lambda _: Loud(),
        lambda _: [Loud()],
        lambda _: "\x1b[31m" + "x" * 10**6,
        lambda _: "\u202e",
        lambda _: 10**5000,
        lambda _: Odd(1),
        lambda _: {Odd(1): Loud()},
        lambda _: list(range(10**6)),
        raises_mute,
    ],
)
def test_strange_results_are_cut_and_harmless(answer: Callable[[int], Any]) -> None:
    shown = judge(exercise(function((1,)), lambda n: [n]), answer).said
    assert len(shown) < 1000
    assert shown.replace("\n", "").isprintable()
    assert "LOUD" not in shown
    assert " at 0x" not in shown


# --- the other kinds --------------------------------------------------------------------------------------------------


_DICT = {"D1": {1}, "D2": {2}}


@pytest.mark.parametrize(
    ("kind", "right", "answer", "shown"),
    [
        ("dict", _DICT, {"C1": {1}, "D2": {2}}, "Missing keys: 'D1'. Unknown keys: 'C1'."),
        ("dict", _DICT, {"D1": [1], "D2": {2}}, "Entry 'D1' is [1], of type list; it should be of type set."),
        ("dict", _DICT, {"D1": {9}, "D2": {2}}, "Wrong entries: 1 of 2."),
        ("names", {"D1", "E1"}, {"D1", "E9"}, "Entries that do not belong there: 1; missing: 1."),
        ("ids", {1, 2, 3}, np.array([3, 4]), "Entries that do not belong there: 1; missing: 2."),
        ("list", ["a", "b", "c"], ["a", "b"], "Length: 2 instead of 3."),
        ("list", ["a", "b", "c"], ["c", "b", "a"], "All entries are there, but not in this order."),
        (
            "list",
            ["a", "b", "c"],
            ["a", ("b", 1), "c"],
            "Entry 2 is ('b', 1), of type tuple; it should be of type str.",
        ),
        ("text", "<", ">", ""),
        ("number", 4, 5, ""),
    ],
)
def test_what_differs(kind: str, right: Any, answer: Any, shown: str) -> None:
    assert said(right, answer, kind) == shown


@pytest.mark.parametrize(
    ("kind", "right", "answer"),
    [
        ("dict", {"a": "run", "b": 1}, {"A": "RUN", "b": 1}),
        ("names", {"D1", "E1"}, ["d 1", "E-1"]),
        ("list", ["first", "half"], ["First", "half "]),
        ("text", "deletion-vector", "\uff24eletion Vector"),
    ],
)
def test_capital_letters_spaces_and_signs_do_not_count(kind: str, right: Any, answer: Any) -> None:
    assert judge(exercise(ANSWER_KINDS[kind], right), answer).status == "correct"


@pytest.mark.parametrize(
    ("kind", "answer", "shown"),
    [
        ("names", "D1", "'D1' is of type str."),
        ("ids", 2, "2 is of type int."),
        ("ids", {}, "{} is of type dict."),
        ("number", True, "True is of type bool."),
        ("text", 1, "1 is of type int."),
        ("ids", range(10**5), ""),
    ],
)
def test_another_kind(kind: str, answer: Any, shown: str) -> None:
    verdict = judge(exercise(ANSWER_KINDS[kind], 1), answer)
    assert verdict.status == "other-kind"
    assert verdict.said == f"✗ 00.1: the answer is {ANSWER_KINDS[kind].description}. {shown}".rstrip()


# --- every exercise, in every language --------------------------------------------------------------------------------


def test_the_right_answer_is_never_said() -> None:
    # What a learner gave is shown, so the wrong answers are those that have nothing of the right one.
    for one in EXERCISES.values():
        if one.answer_kind.cases:
            continue
        right = one.right[0]
        wrong: Any = dict.fromkeys(right, "?") if isinstance(right, dict) else ["?"] if isinstance(right, list) else -1
        shown = judge(one, wrong).said
        values = right.values() if isinstance(right, dict) else right if isinstance(right, set | list) else [right]
        for value in values:
            assert not re.search(rf"'{re.escape(str(value))}'", shown.removeprefix(f"✗ {one.id}")), (one.id, shown)
