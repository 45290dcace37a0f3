"""Widgets of a table: TableTree, RowFate, BitmapBytes, SnapshotDiff, SequenceTimeline."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import traitlets

from deletekit.course.views.bitmap_bytes import bitmap_bytes
from deletekit.course.views.page import Page
from deletekit.course.views.row_fate import row_fate
from deletekit.course.views.sequence_timeline import sequence_timeline
from deletekit.course.views.snapshot_diff import snapshot_diff
from deletekit.course.views.table_tree import table_tree
from deletekit.course.views.table_view import TableView, as_table_view
from deletekit.course.widgets.base import PageWidget, Resets
from deletekit.errors import DeletekitError

__all__ = ["BitmapBytes", "RowFate", "SequenceTimeline", "SnapshotDiff", "TableTree", "TableWidget"]


def _name() -> Any:
    """A trait that holds an alias, or None for the view's own choice."""
    return traitlets.Unicode(allow_none=True, default_value=None).tag(sync=True, state=True)


class TableWidget(PageWidget):
    """A widget of a table, which stays as it was when the widget was made.

    Parameters
    ----------
    table: a deletekit or pyiceberg table, or the path of a metadata file or table directory; of anyone's table.
    """

    def __init__(self, table: Any, **state: Any) -> None:
        self._source = table
        super().__init__(**state)

    def _table(self) -> TableView:
        """The table; opened when the first page is made, so that what is wrong with it is shown."""
        if not isinstance(self._source, TableView):
            self._source = as_table_view(self._source)
        return self._source

    def _location(self) -> str:
        try:
            return str(self._table().metadata.location)
        except (DeletekitError, OSError):
            return ""


class TableTree(TableWidget):
    """Metadata, refs and snapshots of a table down to manifest entries, by the names they are stored under.

    Attributes
    ----------
    node: key of the selected line; expanded: keys of the unfolded ones.
    deletes_only: list delete manifests only; raw: ids, paths, times and sizes in full.
    """

    module = "table_tree"

    snapshot = _name()
    node = traitlets.Unicode("").tag(sync=True, state=True)
    expanded = traitlets.List(traitlets.Unicode(), allow_none=True, default_value=None).tag(sync=True, state=True)
    deletes_only = traitlets.Bool(default_value=False).tag(sync=True, state=True)
    raw = traitlets.Bool(default_value=False).tag(sync=True, state=True)

    def view(self) -> Page:
        return table_tree(self._table(), **self._state())


class RowFate(TableWidget):
    """The rows of a data file in order, every delete that has them, and why each is hidden or not.

    Attributes
    ----------
    data_file: as `D1`; row: position of the selected row; start: first row of the page.
    sequence_rule, scope_rule, vector_rule: rules that can be switched off to see what breaks.
    """

    module = "row_fate"
    resets: ClassVar[Resets] = {"data_file": {"row": None, "start": 0}}

    snapshot = _name()
    data_file = _name()
    row = traitlets.Int(allow_none=True, default_value=None).tag(sync=True, state=True)
    start = traitlets.Int(0).tag(sync=True, state=True)
    sequence_rule = traitlets.Bool(default_value=True).tag(sync=True, state=True)
    scope_rule = traitlets.Bool(default_value=True).tag(sync=True, state=True)
    vector_rule = traitlets.Bool(default_value=True).tag(sync=True, state=True)

    def view(self) -> Page:
        return row_fate(self._table(), **self._state())


class BitmapBytes(TableWidget):
    """Every byte of a Puffin or Delta `.bin` file, and a map of positions that can be edited in memory.

    Parameters
    ----------
    source: a table, or the bytes or path of a file.

    Attributes
    ----------
    delete_file: as `V1`; byte: selected byte; start: first byte range of the page.
    position: selected row position; zoom: 0 to 6; edits: positions put in or taken out.
    raw: sizes that depend on the paths in a footer too.
    """

    module = "bitmap_bytes"
    resets: ClassVar[Resets] = {"delete_file": {"byte": None, "start": 0, "position": None, "edits": []}}
    _FILES: ClassVar[tuple[str, ...]] = (".puffin", ".bin")

    snapshot = _name()
    delete_file = _name()
    byte = traitlets.Int(allow_none=True, default_value=None).tag(sync=True, state=True)
    start = traitlets.Int(0).tag(sync=True, state=True)
    position = traitlets.Int(allow_none=True, default_value=None).tag(sync=True, state=True)
    zoom = traitlets.Int(0).tag(sync=True, state=True)
    edits = traitlets.List(traitlets.Int()).tag(sync=True, state=True)
    raw = traitlets.Bool(default_value=False).tag(sync=True, state=True)

    def __init__(self, source: Any, **state: Any) -> None:
        super().__init__(source, **state)

    def view(self) -> Page:
        is_file = isinstance(self._source, str | Path) and str(self._source).endswith(self._FILES)
        source = self._source if is_file or isinstance(self._source, bytes) else self._table()
        return bitmap_bytes(source, **self._state())

    def _location(self) -> str:
        if isinstance(self._source, bytes):
            return ""
        return str(Path(self._source).parent) if isinstance(self._source, str | Path) else super()._location()


class SnapshotDiff(TableWidget):
    """Files, deletes and rows that came and went between two snapshots, and the summary's counters recomputed.

    Attributes
    ----------
    before, after: as `S1`; None is the parent of `after`, and the current snapshot.
    start, row_start: first file and first row of the page.
    """

    module = "snapshot_diff"

    before = _name()
    after = _name()
    start = traitlets.Int(0).tag(sync=True, state=True)
    row_start = traitlets.Int(0).tag(sync=True, state=True)

    def view(self) -> Page:
        return snapshot_diff(self._table(), **self._state())


class SequenceTimeline(TableWidget):
    """Data files and deletes on the axis of sequence numbers, with arrows for what applies.

    Attributes
    ----------
    data_file: the selected one, as `D1`; start: first data file of the page.
    moved, moved_to: a delete, as `E1`, and the sequence number it is thought of as having.
    """

    module = "sequence_timeline"

    snapshot = _name()
    data_file = _name()
    start = traitlets.Int(0).tag(sync=True, state=True)
    moved = _name()
    moved_to = traitlets.Int(allow_none=True, default_value=None).tag(sync=True, state=True)

    def view(self) -> Page:
        return sequence_timeline(self._table(), **self._state())
