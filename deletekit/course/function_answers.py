"""Call a function that a learner wrote with the arguments of its exercise, and keep what each call did."""

import inspect
import linecache
import marshal
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from random import Random
from types import FunctionType
from typing import Any, Literal

from pyroaring import BitMap

from deletekit.course.answer_kinds import AnswerKind, NotThisKind, comparable
from deletekit.course.time_limit import TookTooLong

_How = Literal["returned", "returned an object", "changed its arguments", "raised", "stopped", "not called"]

_SEED = 20
_RANDOM_CASES = 400


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one call did. Two outcomes are equal if `how` and `value` are.

    Attributes
    ----------
    value: what was returned, as it compares; of an object that does not compare, or of an error, the name of its type.
    returned: what was returned, as it is.
    error: what was raised.
    """

    how: _How
    value: Any = None
    returned: Any = field(default=None, compare=False)
    error: BaseException | None = field(default=None, compare=False)


def function(*cases: tuple[Any, ...], more: Iterable[tuple[Any, ...]] = (), in_place: bool = False) -> AnswerKind:
    """Return the kind of a function, which is compared by what it returns or raises for each tuple of arguments.

    Parameters
    ----------
    cases: they tell which mistake a function has.
    more: they are tried too.
    in_place: the function may change its arguments.
    """
    # The first case comes twice: a function that keeps something from call to call differs in the second.
    tried = (*cases, *cases[:1], *more)

    def read(answer: Any) -> Any:
        if not callable(answer):
            raise NotThisKind(answer)
        outcomes = tuple(_outcomes(answer, tried, in_place=in_place))
        return ... if _is_blank(answer, outcomes) else outcomes

    return AnswerKind("a function", read, tried, len(cases))


def written(solution: str, *edits: str) -> Callable[..., Any]:
    """Return the function that a solution defines. `edits`: what stands there and what is written for it, in turn."""
    for old, new in zip(edits[::2], edits[1::2], strict=True):
        solution = solution.replace(old, new)
    definition, _, call = solution.rpartition("\n\n\ncheck(")
    names: dict[str, Any] = {"struct": struct, "zlib": zlib, "BitMap": BitMap}  # lessons import these before
    exec(definition, names)  # noqa: S102  # deletekit's own text
    function: Callable[..., Any] = names[call.rpartition(", ")[2].rstrip(")\n")]
    return function


def random_cases(inputs: Callable[[Random], tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Draw arguments for a function: the same in every run, the shortest first."""
    random = Random(_SEED)  # noqa: S311  # no secret
    return sorted((inputs(random) for _ in range(_RANDOM_CASES)), key=lambda case: len(repr(case)))


def arguments_taken(answer: Callable[..., Any]) -> tuple[int, float] | None:
    """Return how few and how many arguments a function takes by position; None where it does not say."""
    try:
        parameters = list(inspect.signature(answer).parameters.values())
    except Exception:  # noqa: BLE001  # a builtin has no signature, and an object may have a strange one
        return None
    by_position = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    fewest = sum(p.default is p.empty for p in by_position)
    return fewest, float("inf") if any(p.kind is p.VAR_POSITIONAL for p in parameters) else len(by_position)


def place_of(error: BaseException) -> tuple[int, str] | None:
    """Return the line of the learner's function in which an error came up, and its source, which may be empty.

    What the function calls in other files is not looked at: the learner's line is the one that called it.
    """
    step = error.__traceback__ and error.__traceback__.tb_next  # the first step is the call in this file
    if step is None:
        return None
    file, line = step.tb_frame.f_code.co_filename, 0
    while step is not None:
        if step.tb_frame.f_code.co_filename == file:
            line = step.tb_lineno
        step = step.tb_next
    return line, linecache.getline(file, line).strip()


def _outcomes(answer: Callable[..., Any], cases: tuple[tuple[Any, ...], ...], *, in_place: bool) -> Iterator[Outcome]:
    taken = arguments_taken(answer)
    stopped = False
    for case in cases:
        if taken and not taken[0] <= len(case) <= taken[1]:
            yield Outcome("not called")
        elif stopped:  # the time is up
            yield Outcome("stopped")
        else:
            outcome = _outcome(answer, case, in_place=in_place)
            stopped = outcome.how == "stopped"
            yield outcome


def _outcome(answer: Callable[..., Any], case: tuple[Any, ...], *, in_place: bool) -> Outcome:
    # A function that changes its arguments must not change the next case; nor are equal values one object, for `is`.
    arguments = marshal.loads(marshal.dumps(case, 2))  # noqa: S302  # our own bytes
    try:
        returned = answer(*arguments)
        how, value = _read(returned)
        changed = not in_place and _read(arguments) != _read(case)
        return Outcome("changed its arguments" if changed else how, value, returned)
    except TookTooLong:
        return Outcome("stopped")
    except KeyboardInterrupt:
        raise
    except BaseException as e:  # noqa: BLE001  # a learner's function may raise anything, and that is its outcome
        return Outcome("raised", type(e).__name__, error=e)


def _read(returned: Any) -> tuple[_How, Any]:
    try:
        return "returned", returned if returned is ... else comparable(returned, text=str)
    except NotThisKind:
        return "returned an object", type(returned).__name__


def _is_blank(answer: Callable[..., Any], outcomes: tuple[Outcome, ...]) -> bool:
    """Return whether the body of a function is still `...`. It returns None then, but so does one without `return`."""
    if all(outcome.value is ... for outcome in outcomes):
        return True
    if not isinstance(answer, FunctionType) or len(answer.__code__.co_code) > len(_blank.__code__.co_code):
        return False
    return all(o.how == "returned" and (o.value is None or o.value is ...) for o in outcomes)


def _blank() -> None: ...
