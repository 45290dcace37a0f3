"""Show results in a notebook: the fields of each as HTML, by names and units as the command line prints them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast, dataclass_transform

from deletekit.html_table import html_table, number_columns
from deletekit.text import count, field_name, field_text, first, json_ready

_T = TypeVar("_T")
_EMPTY: tuple[Any, ...] = (None, "", [], {}, 0, "0")
_MOST_ROWS = 20


@dataclass_transform(frozen_default=True, kw_only_default=True)
def result(cls: type[_T]) -> type[_T]:
    """Make a class of results: a frozen dataclass, its fields given by name, that a notebook shows as HTML."""
    made: Any = dataclass(frozen=True, slots=True, kw_only=True)(cls)
    made._repr_html_ = result_html  # IPython's name
    return cast("type[_T]", made)


def result_html(value: Any) -> str:
    """Return a result as HTML: its fields that hold something, then a table of each list of records."""
    shown = {name: v for name, v in json_ready(value).items() if v not in _EMPTY}
    lists = {n: v for n, v in shown.items() if isinstance(v, list) and isinstance(v[0], dict)}
    parts = [facts_html(type(value).__name__, {n: v for n, v in shown.items() if n not in lists})]
    return "\n".join([*parts, *(records_html(field_name(n), items) for n, items in lists.items())])


def facts_html(caption: str, facts: Mapping[str, Any]) -> str:
    """Return names and values as HTML, one pair a row; a mapping's own pairs stand below its name."""
    pairs: dict[str, Any] = {}
    for name, value in facts.items():
        pairs |= value if isinstance(value, dict) else {name: value}
    rows = [(field_name(n), field_text(n, value)) for n, value in pairs.items() if value not in _EMPTY]
    return html_table((), rows or [("nothing", "")], caption=caption)


def records_html(caption: str, items: Sequence[Mapping[str, Any]]) -> str:
    """Return the first records as HTML, a column for each field that one of them holds."""
    names = list(dict.fromkeys(n for item in items for n, v in item.items() if v not in _EMPTY))
    shown, left = first(items, _MOST_ROWS)
    rows = [[field_text(n, item.get(n)) for n in names] for item in shown]
    title = f"{caption}: {count(len(items), 'row')}, the first {len(shown)}" if left else caption
    numbers = number_columns([item.get(n) for n in names] for item in shown)
    return html_table([field_name(n) for n in names], rows, caption=title, numbers=numbers)
