"""All widgets of one table together, linked: what is chosen in one is shown in the others."""

from __future__ import annotations

from typing import Any

import traitlets
from ipywidgets import VBox

from deletekit.course.translations import Messages
from deletekit.course.views.explore import EXPLORED, explore_html
from deletekit.course.views.page_html import page_html
from deletekit.course.views.table_view import as_table_view
from deletekit.course.widgets.base import PageWidget
from deletekit.course.widgets.tables import BitmapBytes, RowFate, SequenceTimeline, SnapshotDiff, TableTree
from deletekit.public import public


class Explorer(VBox):  # type: ignore[misc]  # ipywidgets has no types
    """The widgets of one table, one below the other.

    Attributes
    ----------
    tree, rows, bytes, diff, timeline: the widgets. A snapshot or file chosen in one is chosen in all.
    """

    def __init__(self, table: Any, lang: str | None = None, **state: Any) -> None:
        view = as_table_view(table)
        self._source = view
        self.tree = TableTree(view, lang=lang, **state)
        self.rows = RowFate(view, lang=lang, **state)
        self.bytes = BitmapBytes(view, lang=lang, **state)
        self.diff = SnapshotDiff(view, lang=lang)
        self.timeline = SequenceTimeline(view, lang=lang, **state)
        self._links = [
            *(traitlets.link((self.tree, "snapshot"), (w, "snapshot")) for w in (self.rows, self.bytes, self.timeline)),
            traitlets.link((self.tree, "snapshot"), (self.diff, "after")),
        ]
        self.tree.observe(self._chosen, "node")
        self.rows.observe(self._row, ["data_file", "row"])
        self.timeline.observe(self._file, "data_file")
        super().__init__([self.tree, self.rows, self.bytes, self.diff, self.timeline])

    def to_html(self) -> str:
        """Return the widgets' present pages as one HTML document that loads nothing."""
        messages = Messages(self.tree.lang)
        return explore_html(self._source, messages, [w.shown for w in self.widgets])

    @property
    def widgets(self) -> tuple[PageWidget, ...]:
        """The widgets, in the order of `EXPLORED`."""
        return (self.tree, self.rows, self.bytes, self.diff, self.timeline)

    def __repr__(self) -> str:
        return f"explore: {', '.join(EXPLORED)}"

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        made = super()._repr_mimebundle_(**kwargs)
        data = dict(made[0] if isinstance(made, tuple) else made or {})
        data["text/plain"] = repr(self)
        data["text/html"] = "\n".join(page_html(w.shown) for w in self.widgets)
        return data, {}

    def _chosen(self, change: Any) -> None:
        """Choose in the other widgets the snapshot or entry that was chosen in the tree."""
        parts = change["new"].split("/")
        if len(parts) > 1 and parts[0] == "snapshots":
            self.tree.snapshot = parts[1]
        name = next((p for p in reversed(parts) if p[:1] in "DV" and p[1:].isdigit()), "")
        if name.startswith("D"):
            self.rows.data_file = name
        elif name:
            self.bytes.delete_file = name

    def _row(self, change: Any) -> None:
        """Show the chosen row in its file's deletion vector, if there is one, and its file on the timeline."""
        del change
        self.timeline.data_file = self.rows.data_file
        vectors = (line.cells for b in self.rows.shown.blocks if b.name == "deletes" for line in b.lines)  # type: ignore[union-attr]
        vector = next((cells[0] for cells in vectors if cells[0].startswith("V")), None)
        if vector is not None:
            self.bytes.delete_file = vector
            self.bytes.position = self.rows.row

    def _file(self, change: Any) -> None:
        if change["new"] is not None:
            self.rows.data_file = change["new"]


@public
def explore(table: Any, *, lang: str | None = None) -> Explorer:
    """Look at a table with all widgets at once, linked.

    Parameters
    ----------
    table: a deletekit or pyiceberg table, or the path of a metadata file or table directory.
    lang: one of `en`, `ko`, `ja`, `zh-CN`, `es`; None is DELETEKIT_LANG, or the language of the notebook's folder.

    Raises NotFoundError or FormatError if the table cannot be opened. Other errors are shown inside the widgets. Raises
    EnvironmentMissingError without anywidget.
    """
    return Explorer(table, lang=lang)
