"""Widgets without an Iceberg table: CostMeter, StreamStepper and DeltaBridge.

What they measure, step through or sync is in a temporary directory.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

from deletekit.course.recordings.costs import measure_costs
from deletekit.course.recordings.delta_tables import synced_table
from deletekit.course.recordings.stream_steps import record_stream
from deletekit.course.views.cost_meter import cost_meter
from deletekit.course.views.delta_bridge import delta_bridge
from deletekit.course.views.delta_view import DeltaView
from deletekit.course.views.stream_stepper import StreamRecord, stream_stepper
from deletekit.course.widgets.base import PageWidget, Resets
from deletekit.table.table import Table

_measured = lru_cache(maxsize=16)(measure_costs)
_recorded = lru_cache(maxsize=8)(record_stream)


class CostMeter(PageWidget, view=cost_meter):
    """The same rows deleted in each mode, measured side by side on temporary tables.

    Attributes
    ----------
    rows, files, percent: the workload.
    times: show seconds too.
    """

    def _sources(self) -> tuple[Any, ...]:
        """Return what the workload costs."""
        return (_measured(self.rows, self.files, self.percent),)


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
        state = self._state()
        del state["lang"]
        return _recorded(state.pop("step"), **state)


class DeltaBridge(PageWidget, view=delta_bridge):
    """A Delta table's actions, the Iceberg entries they became, and a vector's bytes in both, aligned.

    Parameters
    ----------
    path: the Delta table's folder.
    table: an Iceberg table that `sync_delta` made of it; without it the widget makes a temporary one.

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

    def __init__(self, path: str | Path, table: Any = None, **state: Any) -> None:
        self._source: Any = path
        self._table = table
        super().__init__(**state)

    def _sources(self) -> tuple[Any, ...]:
        """Return the Delta table. It is opened when the first page is made, so that what is wrong with it is shown."""
        if not isinstance(self._source, DeltaView):
            self._source = DeltaView(self._source, self._table, synced_table)
        return (self._source,)

    def _location(self) -> str:
        return self._source.root if isinstance(self._source, DeltaView) else str(self._source)
