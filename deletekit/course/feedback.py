"""Say what is wrong with an answer that no known mistake explains, and never what is right.

Values are written in short, so that the text has no addresses, and no command for a terminal.
"""

import re
from collections.abc import Iterable, Mapping
from heapq import nsmallest
from itertools import zip_longest
from reprlib import Repr
from types import FunctionType
from typing import Any

from deletekit.course.answer_kinds import NotThisKind, comparable, letters, plain
from deletekit.course.exercise import Exercise
from deletekit.course.function_answers import Outcome, arguments_taken, place_of
from deletekit.course.printing import in_columns
from deletekit.course.translations import text
from deletekit.text import brief

SECONDS = 5
"""For how long reading an answer may run, with all calls of a function."""

_LONGEST_TEXT = 300
_LONGEST_CALL = 80
_MOST_NAMED = 6


def of_another_kind(exercise: Exercise, found: NotThisKind) -> str:
    """Say which value is not of the kind that the exercise asks for."""
    if not found.args:
        return ""
    said = text("{shown} is of type {type}.", shown=short(found.args[0]), type=_type(found.args[0]))
    if exercise.answer_kind.cases:
        said += " " + text("Give the function by its name, without brackets behind it.")
    return said


def on_wrong(exercise: Exercise, answer: Any, value: Any) -> str:
    """Say what is wrong with an answer, beside the right answer that is nearest to it.

    `value` is the answer as its kind has read it.
    """
    kind = exercise.answer_kind
    if kind.cases:
        wanted: tuple[Outcome, ...] = min(map(kind.read, exercise.right), key=lambda right: _distance(value, right))
        return _on_function(answer, kind.cases, value, wanted)
    read = [kind.read(right) for right in exercise.right]
    # A set may be given as a list too, so it is compared as it was read. Entries of lists and dicts are shown as given.
    given, rights = (value, read) if isinstance(value, frozenset) else (plain(answer), exercise.right)
    return _difference(given, min(rights, key=lambda right: _distance(given, right)))


def of_choices(exercise: Exercise, value: Any) -> str:
    """List what may be answered, if an answer is nothing of that."""
    given = value if isinstance(value, frozenset) else {value}
    if not exercise.choices or given <= set(map(letters, exercise.choices)):
        return ""
    shown = [f"{choice} ({text(choice)})" if text(choice) != choice else choice for choice in exercise.choices]
    return text("What may be answered: {choices}.", choices=", ".join(shown))


def nearest(known: Iterable[str], exercise_id: Any) -> list[str]:
    """Return the one id that was meant (`4.2`, `04,2`), or the three that are nearest."""
    written = short(exercise_id) if isinstance(exercise_id, str | int | float) else ""
    numbers = [int(digits) for digits in re.findall(r"\d+", written)[:2]]
    lesson, number = (*numbers, *(0, 1)[len(numbers) :])

    def distance(other: str) -> tuple[int, int]:
        its_lesson, its_number = map(int, other.split("."))
        return abs(its_lesson - lesson), abs(its_number - number)

    found = nsmallest(3, known, key=distance)
    return found[:1] if distance(found[0]) == (0, 0) else sorted(found)


def short(value: Any) -> str:
    """Write a value as Python does, cut where it is long; of an object that has no such form, only the type."""
    try:
        return brief(_SHOWN.repr(plain(value)), _LONGEST_TEXT)
    except Exception:  # noqa: BLE001  # a value may raise whatever one does with it
        return f"<{_type(value)}>"


class _Short(Repr):
    def __init__(self) -> None:
        super().__init__()
        self.maxdict = self.maxlist = self.maxtuple = self.maxset = 10
        self.maxstring = self.maxother = 80

    def repr_instance(self, x: Any, level: int) -> str:
        """Write what has no method of its own: reprlib would write the address of an object."""
        if type(x) in (bytes, bytearray, float, complex, bool, range, type(None), type(...)):
            return super().repr_instance(x, level)
        simple = plain(x)
        return f"<{_type(x)}>" if simple is x else self.repr1(simple, level)


_SHOWN = _Short()


def _on_function(answer: Any, cases: tuple[Any, ...], given: tuple[Outcome, ...], wanted: tuple[Outcome, ...]) -> str:
    """Say what is wrong with the first outcome that differs: its call, what it returned, and what is right."""
    number, outcome = next(
        (n, mine) for n, (mine, right) in enumerate(zip(given, wanted, strict=True)) if mine != right
    )
    case, right = cases[number], wanted[number]
    name = answer.__name__ if isinstance(answer, FunctionType) and answer.__name__.isidentifier() else "f"
    call = brief(f"{name}({', '.join(map(short, case))})", _LONGEST_TEXT)
    if outcome.how == "not called":
        fewest, most = arguments_taken(answer) or (0, 0)
        takes = fewest if fewest == most else f"{fewest}-{most}" if most < float("inf") else f"{fewest}+"
        counts = {"takes": takes, "gives": len(case)}
        return text("Number of arguments: your function takes {takes}, the check gives {gives}.", **counts)
    if outcome.how == "stopped":
        return text(
            "The check was stopped after {seconds} seconds, in {call}: is there a loop without an end?",
            seconds=SECONDS,
            call=call,
        )
    if outcome.error is not None:
        return _on_error(call, outcome.error)
    if outcome.returned is None and right.returned is not None:
        return text("{call} returned None: is `return` missing?", call=call)
    if outcome.value == right.value:
        return text("{call} changed what it was given: work on a copy.", call=call)
    again = (
        text("The second of two equal calls: does something stay from the first?")
        if cases[:number][-1:] == (case,)
        else ""
    )
    mine, theirs = short(outcome.returned), short(right.returned)
    if _form(outcome.returned) != _form(right.returned):
        mine, theirs = f"{mine} ({_type(outcome.returned)})", f"{theirs} ({_type(right.returned)})"
    rows = [(text("yours"), mine), (text("expected"), theirs)]
    if len(call) > _LONGEST_CALL:
        names = [*(answer.__code__.co_varnames if isinstance(answer, FunctionType) else ()), *[""] * len(case)]
        call, rows = f"{name}(...)", [*zip(names, map(short, case), strict=False), *rows]
    return "\n".join([" ".join(filter(None, (again, call))), *(f"  {line}" for line in in_columns(rows))])


def _on_error(call: str, error: BaseException) -> str:
    try:
        message = brief(": ".join(filter(None, (type(error).__name__, str(error)))), _LONGEST_TEXT).rstrip(".")
    except Exception:  # noqa: BLE001  # an exception of the learner's may not be able to say what it is
        message = _type(error)
    place = place_of(error)
    if place is None:
        return text("{call} raised {error}.", call=call, error=message)
    line, source = place
    where = f"{line}: `{brief(source)}`" if source else str(line)
    return text("{call} raised {error}, in line {where}.", call=call, error=message, where=where)


def _difference(given: Any, right: Any) -> str:
    """Say how a value differs from one of the same form; nothing where that would be the right answer."""
    given, right = plain(given), plain(right)
    if isinstance(given, Mapping) and isinstance(right, Mapping):
        return _of_dicts(given, right)
    if isinstance(given, set | frozenset) and isinstance(right, set | frozenset):
        return _of_sets(given, right)
    if isinstance(given, list | tuple) and isinstance(right, list | tuple):
        return _of_lists(given, right)
    return ""


def _of_dicts(given: Mapping[Any, Any], right: Mapping[Any, Any]) -> str:
    mine, theirs = _by_comparable(given), _by_comparable(right)
    missing, unknown = _without(theirs, mine), _without(mine, theirs)
    said = [
        text("Missing keys: {keys}.", keys=_listed(missing)) if missing else "",
        text("Unknown keys: {keys}.", keys=_listed(unknown)) if unknown else "",
        _of_entries([(short(key), given[key], right[theirs[k]]) for k, key in mine.items() if k in theirs]),
    ]
    return " ".join(filter(None, said))


def _of_lists(given: list[Any] | tuple[Any, ...], right: list[Any] | tuple[Any, ...]) -> str:
    if len(given) != len(right):
        return text("Length: {given} instead of {wanted}.", given=len(given), wanted=len(right))
    mine, theirs = list(map(comparable, given)), list(map(comparable, right))
    if mine != theirs and all(mine.count(entry) == theirs.count(entry) for entry in mine):
        return text("All entries are there, but not in this order.")
    return _of_entries([(str(n), mine, theirs) for n, (mine, theirs) in enumerate(zip(given, right, strict=True), 1)])


def _of_entries(entries: list[tuple[str, Any, Any]]) -> str:
    """Say of entries, each with its name and the right one, which has another form, else how many are wrong."""
    for name, mine, theirs in entries:
        if _form(mine) != _form(theirs):
            types = {"type": _type(mine), "wanted": _type(theirs)}
            return text(
                "Entry {entry} is {shown}, of type {type}; it should be of type {wanted}.",
                entry=name,
                shown=short(mine),
                **types,
            )
    wrong = sum(not _same(mine, theirs) for _, mine, theirs in entries)
    return text("Wrong entries: {wrong} of {total}.", wrong=wrong, total=len(entries)) if wrong else ""


def _of_sets(given: Iterable[Any], right: Iterable[Any]) -> str:
    mine, theirs = _by_comparable(given), _by_comparable(right)
    counts = {"wrong": len(_without(mine, theirs)), "missing": len(_without(theirs, mine))}
    return text("Entries that do not belong there: {wrong}; missing: {missing}.", **counts)


def _listed(names: list[Any]) -> str:
    return ", ".join([*map(short, names[:_MOST_NAMED]), *["…"][: len(names) > _MOST_NAMED]])


def _without(values: dict[Any, Any], others: dict[Any, Any]) -> list[Any]:
    return [value for key, value in values.items() if key not in others]


def _by_comparable(values: Iterable[Any]) -> dict[Any, Any]:
    return {comparable(value): value for value in values}


def _distance(given: Any, right: Any) -> int:
    """Count what differs, and once more if the form does."""
    try:
        if isinstance(given, Mapping) and isinstance(right, Mapping):
            same = sum(key in right and _same(given[key], right[key]) for key in given)
            return max(len(given), len(right)) - same
        if isinstance(given, frozenset) and isinstance(right, frozenset):
            return len(given ^ right)
        if isinstance(given, list | tuple) and isinstance(right, list | tuple):
            return sum(not _same(mine, theirs) for mine, theirs in zip_longest(given, right))
    except NotThisKind:
        pass
    return int(given != right) + int(_form(given) != _form(right))


def _same(given: Any, right: Any) -> bool:
    if isinstance(given, Outcome):
        return bool(given == right)
    return bool(comparable(given) == comparable(right))


def _form(value: Any) -> str:
    """Return the type of a value as it compares: 2.0 is a whole number, and a tuple a list."""
    value = plain(value)
    if isinstance(value, float) and value.is_integer():
        return "int"
    if isinstance(value, Mapping):
        return "dict"
    return {"tuple": "list", "frozenset": "set"}.get(type(value).__name__, type(value).__name__)


def _type(value: Any) -> str:
    return brief(type(value).__name__, _LONGEST_TEXT // 4)
