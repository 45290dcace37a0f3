"""All widgets: a class for each, which names its view and what the view shows.

The traits of a widget are its view's parameters. Its script is in `static/` and its texts are in `locale/`, by the name
of the view. `__all__` has the public names.
"""

from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

import traitlets
from ipywidgets import Tab

from deletekit.course.drawings.sequence_axis import with_drawing
from deletekit.course.recordings.costs import measure_costs, measure_trial
from deletekit.course.recordings.stream_steps import record_stream
from deletekit.course.recordings.temporary_table import synced_table
from deletekit.course.views.bitmap_bytes import bitmap_bytes, is_vector_file
from deletekit.course.views.cost_meter import cost_meter
from deletekit.course.views.delta_bridge import delta_bridge
from deletekit.course.views.delta_view import DeltaView
from deletekit.course.views.explore import EXPLORED
from deletekit.course.views.page_html import page_html
from deletekit.course.views.row_fate import row_fate
from deletekit.course.views.sequence_timeline import sequence_timeline
from deletekit.course.views.snapshot_diff import snapshot_diff
from deletekit.course.views.stream_stepper import StreamRecord, stream_stepper
from deletekit.course.views.table_tree import table_tree
from deletekit.course.views.table_view import as_table_view
from deletekit.course.widgets.base import SAVED_PAGE, PageWidget, Resets, name_of
from deletekit.errors import DeletekitError
from deletekit.public import public
from deletekit.table.table import Table

__all__ = [
    "BitmapBytes",
    "CostMeter",
    "DeltaBridge",
    "Explorer",
    "RowFate",
    "SequenceTimeline",
    "SnapshotDiff",
    "StreamStepper",
    "TableTree",
    "explore",
]

_tried, _measured = lru_cache(maxsize=16)(measure_trial), lru_cache(maxsize=8)(measure_costs)
_recorded = lru_cache(maxsize=8)(record_stream)

# --- widgets of a table -----------------------------------------------------------------------------------------------


class TableWidget(PageWidget):
    """A widget of a table. It shows the table as it was when the widget was made.

    Parameters
    ----------
    table: a deletekit or pyiceberg table, or the path of a metadata file or table directory.
    name: what the line of Python that is shown calls the table; None is the name that the caller's code has for it.
    """

    def __init__(self, table: Any = None, *, name: str | None = None, **state: Any) -> None:
        self._source = table
        self._own = (name or name_of(table),)
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
    raw: show ids, paths, times and sizes in full; None does so outside of lessons.
    """


class RowFate(TableWidget, view=row_fate):
    """The rows of a data file in order, every delete that has them, and why each is hidden or not.

    Attributes
    ----------
    where: a filter that finds rows of any data file; `hit` is the number of the one shown.
    data_file: as `D1`.
    row: position of the selected row.
    start: first row of the page.
    hidden_only: leave out live rows.
    sequence_rule, scope_rule, vector_rule: rules that can be switched off to see what breaks.
    """

    resets: ClassVar[Resets] = {
        "where": {"hit": 0},
        "data_file": {"where": None, "row": None, "start": 0},
        "row": {"where": None},
        "start": {"where": None},
        "hidden_only": {"start": 0},
    }


class BitmapBytes(TableWidget, view=bitmap_bytes):
    """Every byte of a Puffin or Delta `.bin` file, and a map of positions that can be edited in memory.

    Parameters
    ----------
    table: a table, or the bytes or path of a file.

    Attributes
    ----------
    delete_file: as `V1`.
    byte: selected byte.
    start: first byte range of the page.
    position: selected row position.
    zoom: 0 for a position in each square, 1 for 4, 2 for 16, and so on; None shows the whole file.
    edits: positions added or removed.
    raw: show the sizes that depend on the paths in a footer; None does so outside of lessons.
    """

    resets: ClassVar[Resets] = {"delete_file": {"byte": None, "start": 0, "position": None, "zoom": None, "edits": []}}

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


class SequenceTimeline(TableWidget, view=with_drawing(sequence_timeline)):
    """Data files and deletes on the axis of sequence numbers, with arrows for what applies.

    Attributes
    ----------
    data_file: the selected one, as `D1`.
    start: first data file of the page.
    moved, moved_to: a delete, as `E1`, and the sequence number that it is moved to.
    """


# --- widgets of what is measured, stepped through or synced in a temporary directory ----------------------------------


class CostMeter(TableWidget, view=cost_meter):
    """The same rows deleted in each mode of a format version, side by side: by dry runs, which write nothing.

    Parameters
    ----------
    table: your own table, as for the other widgets; None makes one in a temporary directory.

    Attributes
    ----------
    where: which rows of your table, as in `dk.delete`.
    rows, files, percent, format_version: the table that is made, and the share of its rows to delete.
    """

    def _sources(self) -> tuple[Any, ...]:
        """Return the costs, or the name of a table whose rows are not chosen yet."""
        if self._source is None:
            return (_tried(self.rows, self.files, self.percent, self.format_version),)
        (view,) = super()._sources()
        return (_measured(view, self.where) if self.where else view.name,)


class StreamStepper(PageWidget, view=stream_stepper):
    """A change stream through the real sink, batch by batch: what each did, and what a stop leaves behind.

    Attributes
    ----------
    step: batches applied.
    mode: of the sink.
    format_version: of the table.
    crash: where the sink is stopped in the last batch.
    resumed: another process goes on.
    checkpoint_check: False for a writer that is not a sink and does not check which batch was the last.
    """

    resets: ClassVar[Resets] = {"crash": {"resumed": False}}

    @property
    def table(self) -> Table:
        """The table after these steps, read-only. Raises InvalidInputError if the widget shows one."""
        return self._record().table

    def _sources(self) -> tuple[Any, ...]:
        """Return what the steps did."""
        return (self._record(),)

    def _record(self) -> StreamRecord:
        state = self.state()
        del state["lang"]
        return _recorded(state.pop("step"), **state)


class DeltaBridge(PageWidget, view=delta_bridge):
    """A Delta table's actions, the Iceberg entries they became, and a vector's bytes in both, aligned.

    Parameters
    ----------
    path: the Delta table's folder; or, alone, an Iceberg table that `sync_delta` made of it.
    table: an Iceberg table that `sync_delta` made of it; without it the widget makes a temporary one of a folder.

    Attributes
    ----------
    version: of the Delta table.
    vector: the selected one, as `V1`.
    start, entry_start, part_start: first action, data file and part of the vector of the page.
    """

    # Another version has other vectors, and another vector other parts.
    resets: ClassVar[Resets] = {
        "version": {"vector": None, "start": 0, "entry_start": 0, "part_start": 0},
        "vector": {"part_start": 0},
    }

    def __init__(self, path: Any = None, table: Any = None, **state: Any) -> None:
        self._source: Any = path
        self._table = table
        self._own = (name_of(path), None if table is None else name_of(table))
        super().__init__(**state)

    def _sources(self) -> tuple[Any, ...]:
        """Return the Delta table. It is opened when the first page is made, so that what is wrong with it is shown."""
        if not isinstance(self._source, DeltaView):
            self._source = DeltaView(self._source, self._table, synced_table)
        return (self._source,)

    def _location(self) -> str:
        return self._source.root if isinstance(self._source, DeltaView) else str(self._source)


# --- all widgets of a table -------------------------------------------------------------------------------------------


class Explorer(Tab):  # type: ignore[misc]  # ipywidgets has no types
    """The widgets of one table, one to be seen at a time.

    Attributes
    ----------
    tree, rows, bytes, diff, timeline: the widgets. A snapshot or file chosen in one is chosen in all.
    """

    def __init__(self, table: Any, lang: str | None = None, **state: Any) -> None:
        view = as_table_view(table)
        name = name_of(table)
        self.tree = TableTree(view, name=name, lang=lang, **state)
        self.rows = RowFate(view, name=name, lang=lang, **state)
        self.bytes = BitmapBytes(view, name=name, lang=lang, **state)
        self.diff = SnapshotDiff(view, name=name, lang=lang)
        self.timeline = SequenceTimeline(view, name=name, lang=lang, **state)
        self._links = [
            *(traitlets.link((self.tree, "snapshot"), (w, "snapshot")) for w in (self.rows, self.bytes, self.timeline)),
            traitlets.link((self.tree, "snapshot"), (self.diff, "after")),
        ]
        self.tree.observe(self._chosen, "node")
        self.rows.observe(self._row, ["data_file", "row"])
        self.timeline.observe(self._file, "data_file")
        super().__init__(self.widgets, titles=[w.shown.title for w in self.widgets], selected_index=0)
        self.add_class("dk-explore")

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
        data[SAVED_PAGE] = {}
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
