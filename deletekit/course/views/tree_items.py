"""The items of a tree: children are made when they are shown, a hundred at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from deletekit.course.views.page import Mark, Node
from deletekit.safe_text import brief

AT_ONCE = 100
MOST_NODES = 1_000
"""Nodes of one page; the next ones are reached by folding others up."""
LONGEST_SHOWN = 1_000


@dataclass(frozen=True, slots=True)
class Items:
    """Children: how many, and those in a range."""

    total: int
    some: Callable[[int, int], Sequence[Item]]

    @classmethod
    def of(cls, items: Sequence[Item]) -> Items:
        """Return children that exist already."""
        return cls(len(items), lambda start, stop: items[start:stop])


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One thing in a tree; `name` is unique among its siblings and has no slash."""

    name: str
    label: str
    value: str = ""
    mark: Mark = ""
    children: Callable[[], Items] | None = None
    secret: str = ""
    """The value in full, if `value` is short or masked."""


def visible(roots: Items, expanded: frozenset[str]) -> Iterator[tuple[Node, Item]]:
    """Return the visible nodes in order, at most `MOST_NODES`. More than a hundred siblings come in groups."""
    return islice(_walk(roots, expanded, "", 1), MOST_NODES)


def _walk(items: Items, expanded: frozenset[str], prefix: str, level: int) -> Iterator[tuple[Node, Item]]:
    siblings = _grouped(items, 0, items.total)
    for place, item in enumerate(siblings, 1):
        key = prefix + item.name
        opened = item.children is not None and key in expanded
        node = Node(
            key=key,
            level=level,
            label=brief(item.label),
            value=brief(item.value, LONGEST_SHOWN),
            mark=item.mark,
            expandable=item.children is not None,
            expanded=opened,
            position=place,
            size=len(siblings),
        )
        yield node, item
        if opened and item.children is not None:
            yield from _walk(item.children(), expanded, f"{key}/", level + 1)


def _grouped(items: Items, start: int, stop: int) -> Sequence[Item]:
    """Return the children in a range; more than a hundred as groups of a hundred, of ten thousand, ..."""
    if stop - start <= AT_ONCE:
        return items.some(start, stop)
    step = AT_ONCE
    while -(-(stop - start) // step) > AT_ONCE:
        step *= AT_ONCE
    return [_group(items, low, min(low + step, stop)) for low in range(start, stop, step)]


def _group(items: Items, start: int, stop: int) -> Item:
    label = f"{start + 1:,}-{stop:,}"
    return Item(name=f"{start + 1}-{stop}", label=label, children=lambda: Items.of(_grouped(items, start, stop)))
