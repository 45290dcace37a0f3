"""What all views build their pages with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deletekit.course.views.messages import Messages
from deletekit.course.views.page import Facts, Page
from deletekit.course.views.table_view import window
from deletekit.errors import DeletekitError
from deletekit.formats.safe_text import literal, plain

__all__ = [
    "PAGE_LINES",
    "code_line",
    "error_facts",
    "error_page",
    "error_sentence",
    "paging",
    "without_columns",
    "words",
]

PAGE_LINES = 50
"""Lines of a grid that are sent at once."""

_LONGEST = 400
_WORDS = ("more-lines", "previous", "next", "code", "copy", "copied", "loading", "error-title", "state")


def code_line(view: str, source: str, state: Mapping[str, Any], defaults: Mapping[str, Any]) -> str:
    """The Python that makes this view again: `source` and what differs from the defaults."""
    given = [source] if source else []
    given += [f"{name}={value!r}" for name, value in state.items() if value != defaults.get(name)]
    return f"dk.widgets.{view}({', '.join(given)})"


def paging(
    messages: Messages, trait: str, start: int, total: int, size: int = PAGE_LINES
) -> tuple[int, int, dict[str, Any]]:
    """The lines to show, first and one behind the last, and what a grid says and offers of the others."""
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
    """What `paging` said, and how many columns are left out."""
    if left_out <= 0:
        return more
    said = messages("columns-left-out", count=f"{left_out:,}")
    return {**more, "shown": f"{more['shown']} {said}" if more else said}


def words(messages: Messages) -> dict[str, str]:
    """What every widget's own buttons are called."""
    return messages.raw(*_WORDS)


def error_page(view: str, error: Exception, messages: Messages, location: str = "") -> Page:
    """The page shown in place of one that cannot be made: what is wrong, in which file and field.

    Parameters
    ----------
    location: the table's, which is left out of file names: it differs from machine to machine.
    """
    return Page(
        view=view,
        title=messages("title-" + view),
        sentence=error_sentence(error, messages, location),
        lang=messages.lang,
        blocks=(error_facts(error, messages, location),),
        error=True,
        words=words(messages),
    )


def error_sentence(error: Exception, messages: Messages, location: str = "") -> str:
    """What is wrong, without the values."""
    message = error.message if isinstance(error, DeletekitError) else f"{type(error).__name__}: {error}"
    return messages("error", message=_cut(_shown(message, location)))


def error_facts(error: Exception, messages: Messages, location: str = "", name: str = "error") -> Facts:
    """What is wrong, in which file and field, what was found and what expected."""
    items = []
    if isinstance(error, DeletekitError):
        for attribute in ("kind", "file", "field", "found", "expected"):
            value = getattr(error, attribute)
            if value is not None:
                items.append((attribute, _cut(_shown(value, location))))
    return Facts(name=name, caption=messages("error-title"), items=tuple(items), mark="wrong")


def _shown(value: Any, location: str) -> str:
    text = plain(value) if isinstance(value, str) else literal(value)
    return text.replace(location.rstrip("/") + "/", "") if location else text


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
