"""Keep filters flat: what visits an expression calls itself for each level, and Python allows about 1,000 calls."""

import heapq
from collections.abc import Callable
from typing import Any

from pyiceberg import expressions as ex

LEVELS = 100
"""So many levels may a filter or a value have."""


def with_few_levels(
    expression: ex.BooleanExpression, exact: Callable[[ex.BooleanExpression], ex.BooleanExpression]
) -> ex.BooleanExpression:
    """Return an expression of the same tests without NOT. A chain of AND or OR gets as few levels as it can have.

    Parameters
    ----------
    exact: is called with each test; what it returns takes its place.

    Raises ValueError for more than `LEVELS` levels.
    """
    made: list[tuple[int, ex.BooleanExpression]] = []
    todo: list[Any] = [(expression, False)]
    while todo:
        one, is_not = todo.pop()
        if not isinstance(one, ex.BooleanExpression):  # an operator, whose parts are made
            made[-is_not:] = [_joined(one, made[-is_not:])]
            continue
        operator, parts = _chain(one, is_not)
        if operator is None:
            one, is_not = parts[0]
            made.append((0, exact(~one if is_not else one)))
        else:
            todo.append((operator, len(parts)))
            todo += reversed(parts)
    return made[0][1]


def _chain(expression: ex.BooleanExpression, is_not: bool) -> tuple[Any, list[tuple[ex.BooleanExpression, bool]]]:
    """Return AND, OR or None for a single test, and what it joins, each with whether it is negated."""
    operator: Any = None
    parts: list[tuple[ex.BooleanExpression, bool]] = []
    todo: list[tuple[Any, bool]] = [(expression, is_not)]
    while todo:
        one, is_not = todo.pop()
        while isinstance(one, ex.Not):
            one, is_not = one.child, not is_not
        joins = (ex.And if isinstance(one, ex.And) != is_not else ex.Or) if isinstance(one, ex.And | ex.Or) else None
        operator = operator or (None if parts else joins)
        if joins is not None and joins is operator:
            todo += [(one.right, is_not), (one.left, is_not)]
        else:
            parts.append((one, is_not))
    return operator, parts


def _joined(operator: Any, parts: list[tuple[int, ex.BooleanExpression]]) -> tuple[int, ex.BooleanExpression]:
    """Join expressions, each with its levels, in pairs of those with the fewest levels."""
    heap = [(levels, number, part) for number, (levels, part) in enumerate(parts)]
    heapq.heapify(heap)
    while len(heap) > 1:
        first, second = heapq.heappop(heap), heapq.heappop(heap)
        left, right = sorted((first, second), key=lambda one: one[1])
        levels = second[0] + 1
        if levels > LEVELS:
            raise ValueError(f"more than {LEVELS} levels of AND, OR and NOT in each other")
        heapq.heappush(heap, (levels, left[1], operator(left[2], right[2])))
    return heap[0][0], heap[0][2]
