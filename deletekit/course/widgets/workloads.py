"""Widgets that are given no Iceberg table: CostMeter, StreamStepper and DeltaBridge.

Law: as the others; what they measure, step through or sync on trial is their own, in a temporary directory.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import traitlets

from deletekit.course.views.cost_meter import cost_meter
from deletekit.course.views.delta_bridge import delta_bridge
from deletekit.course.views.delta_view import DeltaView
from deletekit.course.views.page import Page
from deletekit.course.views.stream_stepper import stream_stepper, stream_table
from deletekit.course.widgets.base import PageWidget, Resets
from deletekit.table.table import Table

__all__ = ["CostMeter", "DeltaBridge", "StreamStepper"]


class CostMeter(PageWidget):
    """The same rows deleted in each mode, measured side by side on tables of its own.

    Attributes
    ----------
    rows, files, percent: the workload; times: show seconds too.
    """

    module = "cost_meter"

    rows = traitlets.Int(20_000).tag(sync=True, state=True)
    files = traitlets.Int(4).tag(sync=True, state=True)
    percent = traitlets.Int(1).tag(sync=True, state=True)
    times = traitlets.Bool(default_value=False).tag(sync=True, state=True)

    def view(self) -> Page:
        return cost_meter(**self._state())


class StreamStepper(PageWidget):
    """A change stream through the real sink, batch by batch: what each did, and what a stop in the midst of it leaves.

    Attributes
    ----------
    step: batches applied; mode: of the sink; format_version: of the table.
    crash: where the sink is stopped in the last batch; resumed: another process goes on.
    checkpoint_check: False for a writer that is no sink, and does not look which batch was the last.
    """

    module = "stream_stepper"
    resets: ClassVar[Resets] = {"crash": {"resumed": False}}

    step = traitlets.Int(1).tag(sync=True, state=True)
    mode = traitlets.Unicode("auto").tag(sync=True, state=True)
    format_version = traitlets.Int(3).tag(sync=True, state=True)
    crash = traitlets.Unicode("").tag(sync=True, state=True)
    resumed = traitlets.Bool(default_value=False).tag(sync=True, state=True)
    checkpoint_check = traitlets.Bool(default_value=True).tag(sync=True, state=True)

    @property
    def table(self) -> Table:
        """The table as it is after these steps, read-only. Raises InvalidInputError where the widget shows one."""
        state = {name: value for name, value in self._state().items() if name != "lang"}
        return stream_table(**state).table

    def view(self) -> Page:
        return stream_stepper(**self._state())


class DeltaBridge(PageWidget):
    """A Delta table's actions, the Iceberg entries they became, and a vector's bytes in both, aligned.

    Parameters
    ----------
    path: the Delta table's folder.
    table: an Iceberg table that `sync_delta` made of it; without it one is made on trial, and removed afterwards.

    Attributes
    ----------
    version: of the Delta table; vector: the selected one, as `V1`.
    start, entry_start, part_start: first action, data file and part of the vector of the page.
    """

    module = "delta_bridge"
    # Another version has other vectors, and another vector other parts.
    resets: ClassVar[Resets] = {
        "version": {"vector": None, "start": 0, "entry_start": 0, "part_start": 0},
        "vector": {"part_start": 0},
    }

    version = traitlets.Int(allow_none=True, default_value=None).tag(sync=True, state=True)
    vector = traitlets.Unicode(allow_none=True, default_value=None).tag(sync=True, state=True)
    start = traitlets.Int(0).tag(sync=True, state=True)
    entry_start = traitlets.Int(0).tag(sync=True, state=True)
    part_start = traitlets.Int(0).tag(sync=True, state=True)

    def __init__(self, path: str | Path, table: Any = None, **state: Any) -> None:
        self._source: Any = path
        self._table = table
        super().__init__(**state)

    def view(self) -> Page:
        if not isinstance(self._source, DeltaView):
            self._source = DeltaView(self._source, self._table)
        return delta_bridge(self._source, **self._state())

    def _location(self) -> str:
        return self._source.root if isinstance(self._source, DeltaView) else str(self._source)
