"""Widgets of a table: TableTree, RowFate, BitmapBytes, SnapshotDiff, SequenceTimeline."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from deletekit.course.views.bitmap_bytes import bitmap_bytes, is_vector_file
from deletekit.course.views.row_fate import row_fate
from deletekit.course.views.sequence_timeline import sequence_timeline
from deletekit.course.views.snapshot_diff import snapshot_diff
from deletekit.course.views.table_tree import table_tree
from deletekit.course.views.table_view import as_table_view
from deletekit.course.widgets.base import PageWidget, Resets
from deletekit.errors import DeletekitError


class TableWidget(PageWidget):
    """A widget of a table. It shows the table as it was when the widget was made.

    Parameters
    ----------
    table: a deletekit or pyiceberg table, or the path of a metadata file or table directory.
    """

    def __init__(self, table: Any, **state: Any) -> None:
        self._source = table
        super().__init__(**state)

    def _sources(self) -> tuple[Any, ...]:
        """Return the table. It is opened when the first page is made, so that what is wrong with it is shown."""
        self._source = as_table_view(self._source)
        return (self._source,)

    def _location(self) -> str:
        try:
            return str(as_table_view(self._source).metadata.location)
        except (DeletekitError, OSError):
            return ""


class TableTree(TableWidget, view=table_tree):
    """Metadata, refs and snapshots of a table down to manifest entries, by their names in the files.

    Attributes
    ----------
    node: key of the selected line.
    expanded: keys of the unfolded lines.
    deletes_only: list delete manifests only.
    raw: show ids, paths, times and sizes in full.
    """


class RowFate(TableWidget, view=row_fate):
    """The rows of a data file in order, every delete that has them, and why each is hidden or not.

    Attributes
    ----------
    data_file: as `D1`.
    row: position of the selected row.
    start: first row of the page.
    sequence_rule, scope_rule, vector_rule: rules that can be switched off to see what breaks.
    """

    resets: ClassVar[Resets] = {"data_file": {"row": None, "start": 0}}


class BitmapBytes(TableWidget, view=bitmap_bytes):
    """Every byte of a Puffin or Delta `.bin` file, and a map of positions that can be edited in memory.

    Parameters
    ----------
    source: a table, or the bytes or path of a file.

    Attributes
    ----------
    delete_file: as `V1`.
    byte: selected byte.
    start: first byte range of the page.
    position: selected row position.
    zoom: 0 to 6.
    edits: positions added or removed.
    raw: show the sizes that depend on the paths in a footer.
    """

    resets: ClassVar[Resets] = {"delete_file": {"byte": None, "start": 0, "position": None, "edits": []}}

    def __init__(self, source: Any, **state: Any) -> None:
        super().__init__(source, **state)

    def _sources(self) -> tuple[Any, ...]:
        """Return the table, or the bytes or path of the file."""
        return (self._source,) if is_vector_file(self._source) else super()._sources()

    def _location(self) -> str:
        if isinstance(self._source, bytes):
            return ""
        return str(Path(self._source).parent) if isinstance(self._source, str | Path) else super()._location()


class SnapshotDiff(TableWidget, view=snapshot_diff):
    """Files, deletes and rows that came and went between two snapshots, and the summary's counters recomputed.

    Attributes
    ----------
    before: as `S1`; None is the parent of `after`.
    after: as `S2`; None is the current snapshot.
    start, row_start: first file and first row of the page.
    """


class SequenceTimeline(TableWidget, view=sequence_timeline):
    """Data files and deletes on the axis of sequence numbers, with arrows for what applies.

    Attributes
    ----------
    data_file: the selected one, as `D1`.
    start: first data file of the page.
    moved, moved_to: a delete, as `E1`, and the sequence number that it is moved to.
    """
