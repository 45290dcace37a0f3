"""A page: what a view shows, as blocks. Text, HTML and the widgets' data are made of it, so they cannot disagree.

A page has values only, and every value is a text. Below are the builders that all views use.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import wraps
from inspect import signature
from typing import Any, Literal, ParamSpec, Self

from deletekit.course.translations import Messages
from deletekit.errors import DeletekitError
from deletekit.text import brief, literal, plain, without_secrets

PAGE_LINES = 50
"""Lines of a grid that are sent at once."""
MOST_OPTIONS = 200
"""Choices that a select control offers."""

_LONGEST = 400
_HEX_BYTES = 12
_WORDS = (
    *("more-lines", "previous", "next", "code", "copy", "copied", "loading", "error-title", "state", "code-note"),
    *("signs", "sign-live", "sign-hidden", "sign-added", "sign-removed", "sign-wrong"),
)
_VARIES = "…"

P = ParamSpec("P")

Mark = Literal["", "live", "hidden", "added", "removed", "wrong", "unused"]
"""How a line is drawn. Its cells say what it means too, because not everybody sees colours."""


class Varying(str):
    """A text that differs from run to run: a live widget shows `live`. Text and HTML, which are kept, show this."""

    __slots__ = ("live",)
    live: str

    def __new__(cls, live: str, shown: str = _VARIES) -> Self:
        """Make it."""
        made = super().__new__(cls, shown)
        made.live = live
        return made


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
    columns: Sequence[str]
    lines: Sequence[Line]
    select: str = ""
    selected: str | int | None = None
    numbers: Sequence[int] = ()
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
    nodes: Sequence[Node]
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
    """A map of row positions: each cell stands for `per_cell` of them and shows how many are in a set.

    Attributes
    ----------
    first: the first position of the first cell; `width` cells are in a line.
    signs: one character for each cell: how many of its positions are in the set; `meanings` explains them.
    limit: the first position after the last row.
    """

    name: str
    caption: str
    first: int
    per_cell: int
    width: int
    signs: str
    limit: int
    select: str
    selected: int | None
    legend: str
    meanings: tuple[tuple[str, str], ...]
    labels: tuple[str, ...]

    def lines(self) -> list[tuple[int, str]]:
        """Return the first position of each line, and its cells' characters."""
        firsts = range(0, len(self.signs), self.width)
        return [(self.first + i * self.per_cell, self.signs[i : i + self.width]) for i in firsts]


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
    """What a view returns. A view function says what is special about its page, and `view_page` adds the rest.

    Attributes
    ----------
    view: the view's name, as `RowFate`.
    sentence: what is selected and what that means, in one sentence; screen readers read it aloud.
    source: what stands first in `code`: `table`, or `path` and `table`, or the names that the reader has for them.
    arguments: what else stands in `code`; None for a page that has no code.
    note: what the words in `source` stand for, if they are not the reader's names.
    state: the traits that the view chose a value for.
    words: what a widget's own buttons are called.
    """

    view: str = ""
    title: str = ""
    sentence: str
    lang: str = ""
    source: Sequence[str] = ("table",)
    arguments: str | None = None
    note: str = ""
    blocks: Sequence[Block] = ()
    controls: Sequence[Control] = ()
    error: bool = False
    state: Mapping[str, Any] = field(default_factory=dict)
    words: Mapping[str, str] = field(default_factory=dict)

    @property
    def code(self) -> str:
        """The line of Python that makes this page again."""
        words = ", ".join(filter(None, [*self.source, self.arguments]))
        return "" if self.arguments is None else f"dk.widgets.{self.view}({words})"

    def of(self, *names: str | None) -> Self:
        """Return the page with the reader's names for what it shows; None for what has no name."""
        own = dict(zip(self.source, names, strict=False))
        strange = ", ".join(word for word in self.source if not own.get(word))
        note = self.words["code-note"].replace("{source}", strange) if strange and self.code else ""
        return replace(self, source=tuple(own.get(word) or word for word in self.source), note=note)

    def block(self, name: str) -> Block:
        """Return the block of this name. Raises KeyError."""
        return {b.name: b for b in self.blocks}[name]

    def to_json(self) -> dict[str, Any]:
        """Return the page as the widgets' JavaScript reads it."""
        raw = asdict(replace(self, blocks=(), state={})) | {"code": self.code}
        raw["blocks"] = [{"type": type(b).__name__.lower(), **asdict(b)} for b in self.blocks]
        del raw["state"], raw["source"], raw["arguments"]
        seen: dict[str, Any] = _live(raw)
        return seen


# --- builders ---------------------------------------------------------------------------------------------------------


def view_page(ignored: Mapping[str, str] | None = None) -> Callable[[Callable[P, Page]], Callable[P, Page]]:
    """Complete the page of a view function by what its name and its keyword arguments tell.

    Parameters
    ----------
    ignored: arguments that another one, if it is given, makes meaningless: `{"start": "row"}`.
    """

    def decorate(view: Callable[P, Page]) -> Callable[P, Page]:
        defaults = {p.name: p.default for p in signature(view).parameters.values() if p.kind == p.KEYWORD_ONLY}

        @wraps(view)
        def complete(*sources: P.args, **arguments: P.kwargs) -> Page:
            messages = Messages(arguments.get("lang"))  # type: ignore[arg-type]  # every view has this argument
            made = view(*sources, **arguments)
            state = {**defaults, **arguments, **made.state, "lang": defaults["lang"]}
            for name, other in (ignored or {}).items():
                state[name] = state[name] if state[other] is None else defaults[name]
            state = {name: tuple(value) if isinstance(value, list) else value for name, value in state.items()}
            given = [f"{name}={value!r}" for name, value in state.items() if value != defaults[name]]
            return replace(_titled(made, view_name(view), messages), arguments=", ".join(given)).of()

        return complete

    return decorate


def view_name(view: Callable[..., Page]) -> str:
    """Return the name of a view function's widget: `RowFate` for `row_fate`."""
    return "".join(word.capitalize() for word in view.__name__.split("_"))


def _titled(page: Page, name: str, messages: Messages) -> Page:
    words = messages.raw(*_WORDS)
    return replace(page, view=name, title=messages("title-" + name), lang=messages.lang, words=words)


def grid(name: str, caption: str, columns: Iterable[str], lines: Iterable[Line], **more: Any) -> Grid:
    """Make a table; `more` are the other fields of a `Grid`."""
    return Grid(name=name, caption=caption, columns=tuple(columns), lines=tuple(lines), **more)


def line(key: str | int, *cells: object, mark: Mark = "") -> Line:
    """Make a line of a grid; a cell that is None is shown as `-`."""
    shown = ("-" if cell is None else cell if isinstance(cell, str) else str(cell) for cell in cells)
    return Line(key=key, cells=tuple(shown), mark=mark)


def check(trait: str, label: str, value: bool) -> Control:  # it is the control's value
    """Make a control that switches a trait on and off."""
    return Control(kind="check", trait=trait, label=label, value=value)


def number(trait: str, label: str, value: int | None, maximum: int, minimum: int = 0) -> Control:
    """Make a control for a number."""
    return Control(kind="number", trait=trait, label=label, value=value, minimum=minimum, maximum=maximum)


def text(trait: str, label: str, value: str | None) -> Control:
    """Make a control for a text."""
    return Control(kind="text", trait=trait, label=label, value=value)


def live(text: str) -> str:
    """Return what a live widget shows of a text."""
    return text.live if isinstance(text, Varying) else text


def button(trait: str, label: str, value: Any, *, disabled: bool = False) -> Control:
    """Make a control that sets a trait to a value."""
    return Control(kind="button", trait=trait, label=label, value=value, disabled=disabled)


def select(trait: str, label: str, value: Any, values: Iterable[Any], labels: Iterable[str] | None = None) -> Control:
    """Make a control that chooses one of some values; None is shown as `-`, others as they are or by their labels."""
    values = list(values)
    shown = ["-" if v is None else str(v) for v in values] if labels is None else labels
    return Control(kind="select", trait=trait, label=label, value=value, options=tuple(zip(values, shown, strict=True)))


def paging(
    messages: Messages, trait: str, start: int, total: int, size: int = PAGE_LINES
) -> tuple[int, int, dict[str, Any]]:
    """Return the first line to show, the one after the last, and a grid's arguments for the other lines."""
    first = min(max(start, 0), max(total - 1, 0)) // size * size
    stop = min(first + size, total)
    if stop - first == total:
        return first, stop, {}
    shown = messages("page-shown", first=f"{first + 1:,}", last=f"{stop:,}", total=f"{total:,}")
    beside = {"previous": first - size if first else None, "next": stop if stop < total else None}
    return first, stop, {"shown": shown, "page": trait, **beside}


def without_columns(messages: Messages, more: dict[str, Any], left_out: int) -> dict[str, Any]:
    """Add to what `paging` returned how many columns are not shown."""
    if left_out <= 0:
        return more
    said = messages("columns-left-out", count=f"{left_out:,}")
    return {**more, "shown": f"{more['shown']} {said}" if more else said}


def first_bytes(data: bytes, start: int, length: int) -> str:
    """Return the first bytes of a range in hexadecimal digits."""
    some = data[start : start + min(length, _HEX_BYTES)].hex(" ")
    return some + (" …" if length > _HEX_BYTES else "")


def error_page(name: str, error: Exception, messages: Messages, location: str = "") -> Page:
    """Make the page shown instead of one that failed: what is wrong, in which file and field.

    Parameters
    ----------
    name: the view's name, as `RowFate`.
    location: the table's; it is left out of file names, because it differs from machine to machine.
    """
    said, facts = error_sentence(error, messages, location), error_facts(error, messages, location)
    return _titled(Page(sentence=said, blocks=[facts], error=True), name, messages)


def error_sentence(error: Exception, messages: Messages, location: str = "") -> str:
    """Say what is wrong, without the values."""
    message = (
        error.message if isinstance(error, DeletekitError) else without_secrets(f"{type(error).__name__}: {error}")
    )
    return messages("error", message=_shown(message, location))


def error_facts(error: Exception, messages: Messages, location: str = "", name: str = "error") -> Facts:
    """Say what is wrong, in which file and field, what was found and what was expected."""
    attributes = ("kind", "file", "field", "found", "expected") if isinstance(error, DeletekitError) else ()
    values = ((attribute, getattr(error, attribute)) for attribute in attributes)
    items = tuple((attribute, _shown(value, location)) for attribute, value in values if value is not None)
    return Facts(name=name, caption=messages("error-title"), items=items, mark="wrong")


def _live(value: Any) -> Any:
    """Return a value of JSON with what a live widget shows."""
    if isinstance(value, Mapping):
        return {key: _live(v) for key, v in value.items()}
    if isinstance(value, list | tuple):
        return [_live(v) for v in value]
    return live(value) if isinstance(value, str) else value


def _shown(value: Any, location: str) -> str:
    text = plain(value) if isinstance(value, str) else literal(value)
    return brief(text.replace(location.rstrip("/") + "/", "") if location else text, _LONGEST)
