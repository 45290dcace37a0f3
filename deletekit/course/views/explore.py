"""The views of one table together, as one HTML document."""

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from deletekit.course.translations import Messages
from deletekit.course.views.bitmap_bytes import bitmap_bytes
from deletekit.course.views.page import Page, error_page, view_name
from deletekit.course.views.page_html import document_html
from deletekit.course.views.row_fate import row_fate
from deletekit.course.views.sequence_timeline import sequence_timeline
from deletekit.course.views.snapshot_diff import snapshot_diff
from deletekit.course.views.table_tree import table_tree
from deletekit.course.views.table_view import TableView, as_table_view
from deletekit.errors import DeletekitError

EXPLORED: dict[str, Callable[..., Page]] = {
    view_name(view): view for view in (table_tree, row_fate, bitmap_bytes, snapshot_diff, sequence_timeline)
}
"""The views of a table, by the names of their widgets."""


def explore_pages(table: Any, *, snapshot: str | None = None, lang: str | None = None) -> list[Page]:
    """Return each view's page of a snapshot; the page of a view that fails says why.

    Raises NotFoundError or FormatError if the table cannot be opened.
    """
    view = as_table_view(table)
    messages = Messages(lang)
    pages = []
    for name, make in EXPLORED.items():
        chosen = {"after" if name == "SnapshotDiff" else "snapshot": snapshot}
        try:
            pages.append(make(view, lang=messages.lang, **chosen))
        except (DeletekitError, OSError, pa.ArrowException) as e:
            pages.append(error_page(name, e, messages, view.metadata.location))
    return pages


def explore_html(view: TableView, messages: Messages, pages: Sequence[Page]) -> str:
    """Return the pages as one HTML document that loads nothing."""
    title = messages("title-explore", table=view.name)
    return document_html(title, messages.lang, messages("contents"), pages)
