"""A page: what a view shows, as blocks. Text, HTML and the widgets' data are made of it, so they cannot disagree.

A page has values only, and every value is a text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

Mark = Literal["", "live", "hidden", "added", "removed", "wrong", "unused"]
"""How a line is drawn. Its cells say what it means too, because not everybody sees colours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of a grid; `key` is what selecting it sets the grid's trait to."""

    key: str | int
    cells: tuple[str, ...]
    mark: Mark = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """A table; the first column names each line.

    Attributes
    ----------
    select: trait that holds the selected line's key; empty if lines cannot be selected.
    selected: the key it holds.
    numbers: columns that are aligned to the right.
    shown: `showing 1-50 of 12,340`; empty if all are shown.
    page, previous, next: trait that holds the first line shown, and its value on the pages beside; None at the ends.
    figure: what a widget draws beside the grid, from facts in the grid; text and HTML do not show it.
    """

    name: str
    caption: str
    columns: tuple[str, ...]
    lines: tuple[Line, ...]
    select: str = ""
    selected: str | int | None = None
    numbers: tuple[int, ...] = ()
    shown: str = ""
    page: str = ""
    previous: int | None = None
    next: int | None = None
    figure: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A visible node of a tree; `position` of `size` siblings, 1-based."""

    key: str
    level: int
    label: str
    value: str = ""
    mark: Mark = ""
    expandable: bool = False
    expanded: bool = False
    position: int = 1
    size: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """A tree's visible nodes in order; `select` and `expand` name the traits of the selected and expanded keys."""

    name: str
    caption: str
    nodes: tuple[Node, ...]
    select: str
    selected: str
    expand: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Names and values."""

    name: str
    caption: str
    items: tuple[tuple[str, str], ...]
    mark: Mark = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cells:
    """A map of row positions: each cell stands for `per_cell` of them and says how many are in a set.

    Attributes
    ----------
    first: the first position of the first cell; `width` cells are in a line.
    counts: positions of the set in each cell; the last cell may stand for fewer positions than the others.
    limit: the first position after the last row.
    """

    name: str
    caption: str
    first: int
    per_cell: int
    width: int
    counts: tuple[int, ...]
    limit: int
    select: str
    selected: int | None
    legend: str
    labels: tuple[str, ...]

    def signs(self) -> str:
        """Return one character for each cell: `.` none, `+` some, `#` all."""
        return "".join("." if not n else "#" if n >= self._room(i) else "+" for i, n in enumerate(self.counts))

    def lines(self) -> list[tuple[int, str]]:
        """Return the first position of each line, and its cells' characters."""
        signs = self.signs()
        step = self.width * self.per_cell
        return [
            (self.first + i * step, signs[i * self.width :][: self.width]) for i in range(-(-len(signs) // self.width))
        ]

    def _room(self, cell: int) -> int:
        start = self.first + cell * self.per_cell
        return max(min(start + self.per_cell, self.limit) - start, 1)


Block = Grid | Tree | Facts | Cells


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """An input of a widget that changes a trait; text and HTML show the resulting state.

    `kind` is `select`, `check`, `number`, `text` or `button` (which sets the trait to `value`).
    """

    kind: Literal["select", "check", "number", "text", "button"]
    trait: str
    label: str
    value: Any
    options: tuple[tuple[Any, str], ...] = ()
    minimum: int = 0
    maximum: int = 0
    disabled: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """What a view returns.

    Attributes
    ----------
    view: the view's name, as `RowFate`.
    sentence: what is selected and what that means, in one sentence; screen readers read it aloud.
    code: the line of Python that makes this page again.
    state: the traits that the view chose a value for.
    words: what a widget's own buttons are called.
    """

    view: str
    title: str
    sentence: str
    lang: str
    code: str = ""
    blocks: tuple[Block, ...] = ()
    controls: tuple[Control, ...] = ()
    error: bool = False
    state: Mapping[str, Any] = field(default_factory=dict)
    words: Mapping[str, str] = field(default_factory=dict)

    def block(self, name: str) -> Block:
        """Return the block of this name. Raises KeyError."""
        return {b.name: b for b in self.blocks}[name]

    def to_json(self) -> dict[str, Any]:
        """Return the page as the widgets' JavaScript reads it."""
        raw = asdict(replace(self, blocks=(), state={}))
        raw["blocks"] = [{"type": type(b).__name__.lower(), **asdict(b)} for b in self.blocks]
        del raw["state"]
        return raw

    def facts(self) -> list[str]:
        """Return every text of the page, without the controls."""
        found = [self.title, self.sentence, self.code]
        for block in self.blocks:
            found += [block.caption, *_texts(block)]
        return [text for text in found if text]


def _texts(block: Block) -> Sequence[str]:
    if isinstance(block, Grid):
        return [*block.columns, *(c for line in block.lines for c in line.cells), block.shown]
    if isinstance(block, Tree):
        return [text for n in block.nodes for text in (n.label, n.value)]
    if isinstance(block, Facts):
        return [text for item in block.items for text in item]
    return [block.legend, *(text for first, signs in block.lines() for text in (f"{first:,}", signs))]
