"""Build pages: what all views share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from inspect import signature
from typing import Any

from deletekit.course.translations import Messages
from deletekit.course.views.page import Block, Control, Facts, Line, Mark, Page
from deletekit.course.views.table_view import window
from deletekit.errors import DeletekitError
from deletekit.safe_text import brief, literal, plain

PAGE_LINES = 50
"""Lines of a grid that are sent at once."""
MOST_OPTIONS = 200
"""Choices that a select control offers."""

_LONGEST = 400
_HEX_BYTES = 12
_WORDS = ("more-lines", "previous", "next", "code", "copy", "copied", "loading", "error-title", "state")


def view_name(view: Callable[..., Page]) -> str:
    """Return the name of a view function's widget: `RowFate` for `row_fate`."""
    return "".join(word.capitalize() for word in view.__name__.split("_"))


def make_page(
    messages: Messages,
    view: Callable[..., Page],
    sentence: str,
    *,
    source: str = "table",
    state: Mapping[str, Any] | None = None,
    chosen: Mapping[str, Any] | None = None,
    blocks: Iterable[Block] = (),
    controls: Iterable[Control] = (),
    error: bool = False,
) -> Page:
    """Make the page of a view.

    Parameters
    ----------
    view: the function that makes the page; its defaults are left out of the page's line of Python.
    source: what stands first in that line: `table`, `path`, or nothing.
    state: the arguments that make the page again.
    chosen: the traits that the view gave a value to where its caller left the choice to it.
    """
    defaults = {name: parameter.default for name, parameter in signature(view).parameters.items()}
    given = [source] if source else []
    given += [f"{name}={value!r}" for name, value in (state or {}).items() if value != defaults[name]]
    name = view_name(view)
    return Page(
        view=name,
        title=messages("title-" + name),
        sentence=sentence,
        lang=messages.lang,
        code=f"dk.widgets.{name}({', '.join(given)})",
        blocks=tuple(blocks),
        controls=tuple(controls),
        error=error,
        state=chosen or {},
        words=messages.raw(*_WORDS),
    )


def line(key: str | int, *cells: object, mark: Mark = "") -> Line:
    """Make a line of a grid; a cell that is None is shown as `-`."""
    return Line(key=key, cells=tuple("-" if cell is None else str(cell) for cell in cells), mark=mark)


def check(trait: str, label: str, value: bool) -> Control:  # it is the control's value
    """Make a control that switches a trait on and off."""
    return Control(kind="check", trait=trait, label=label, value=value)


def number(trait: str, label: str, value: int | None, maximum: int, minimum: int = 0) -> Control:
    """Make a control for a number."""
    return Control(kind="number", trait=trait, label=label, value=value, minimum=minimum, maximum=maximum)


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
    """Return the lines to show, the first and the one after the last, and a grid's arguments for the other lines."""
    first, stop = window(start, total, size)
    if stop - first == total:
        return first, stop, {}
    return (
        first,
        stop,
        {
            "shown": messages("page-shown", first=f"{first + 1:,}", last=f"{stop:,}", total=f"{total:,}"),
            "page": trait,
            "previous": first - size if first else None,
            "next": stop if stop < total else None,
        },
    )


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
    return Page(
        view=name,
        title=messages("title-" + name),
        sentence=error_sentence(error, messages, location),
        lang=messages.lang,
        blocks=(error_facts(error, messages, location),),
        error=True,
        words=messages.raw(*_WORDS),
    )


def error_sentence(error: Exception, messages: Messages, location: str = "") -> str:
    """Say what is wrong, without the values."""
    message = error.message if isinstance(error, DeletekitError) else f"{type(error).__name__}: {error}"
    return messages("error", message=_shown(message, location))


def error_facts(error: Exception, messages: Messages, location: str = "", name: str = "error") -> Facts:
    """Say what is wrong, in which file and field, what was found and what was expected."""
    attributes = ("kind", "file", "field", "found", "expected") if isinstance(error, DeletekitError) else ()
    values = ((attribute, getattr(error, attribute)) for attribute in attributes)
    items = tuple((attribute, _shown(value, location)) for attribute, value in values if value is not None)
    return Facts(name=name, caption=messages("error-title"), items=items, mark="wrong")


def _shown(value: Any, location: str) -> str:
    text = plain(value) if isinstance(value, str) else literal(value)
    return brief(text.replace(location.rstrip("/") + "/", "") if location else text, _LONGEST)
