"""A page: what a view shows, once, as blocks of which text, HTML and the widgets' data are made.

Law: values only, and every value a text. A fact is in a block or it is nowhere, so the three forms cannot disagree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

__all__ = ["Block", "Cells", "Control", "Facts", "Grid", "Line", "Mark", "Node", "Page", "Tree"]

Mark = Literal["", "live", "hidden", "added", "removed", "wrong", "unused"]
"""How a line is drawn; what it means stands in its cells too, because not everybody sees colours."""


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
    select: trait that holds the selected line's key; empty where lines cannot be selected.
    selected: the key it holds.
    numbers: columns that are set to the right.
    shown: `showing 1-50 of 12,340`, empty where all are shown.
    page, previous, next: trait that holds the first line shown, and what it is on the pages beside; None at the ends.
    figure: what a widget draws beside the grid, of the facts that stand in it; text and HTML do without.
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
    limit: the first position that is none any more.
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
        """One character for each cell: `.` none, `+` some, `#` all."""
        return "".join("." if not n else "#" if n >= self._room(i) else "+" for i, n in enumerate(self.counts))

    def lines(self) -> list[tuple[int, str]]:
        """The first position of each line, and its cells' characters."""
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
    """Something a widget offers to change a trait with; text and HTML show the state it has led to.

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
    sentence: what is selected and what that means, in one sentence; widgets have it read aloud.
    code: the line of Python that gives this page again.
    state: the traits as the view understood them: a default becomes what it stands for.
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
        """The block of this name. Raises KeyError."""
        return {b.name: b for b in self.blocks}[name]

    def to_json(self) -> dict[str, Any]:
        """The page as the widgets' JavaScript takes it."""
        raw = asdict(replace(self, blocks=(), state={}))
        raw["blocks"] = [{"type": type(b).__name__.lower(), **asdict(b)} for b in self.blocks]
        del raw["state"]
        return raw

    def facts(self) -> list[str]:
        """Every text that stands on the page, controls left out."""
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
