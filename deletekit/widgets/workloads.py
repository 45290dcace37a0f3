"""Widgets of no Iceberg table: CostMeter, StreamStepper and DeltaBridge.

Law: as the others; what they measure or step through is their own, in memory or in a temporary directory.
"""

from __future__ import annotations

from pathlib import Path

import traitlets

from deletekit.views.cost_meter import cost_meter
from deletekit.views.delta_bridge import delta_bridge
from deletekit.views.page import Page
from deletekit.views.stream_stepper import stream_stepper
from deletekit.widgets.base import PageWidget

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
    """A change stream batch by batch: what is written, what a reader sees, and what a crash leaves behind.

    Attributes
    ----------
    step: batches applied; mode: how the writer deletes; crash: where it crashed; resumed: it runs again;
    checkpoint_check: on start it looks which checkpoint was committed last.
    """

    module = "stream_stepper"

    step = traitlets.Int(1).tag(sync=True, state=True)
    mode = traitlets.Unicode("equality-and-position").tag(sync=True, state=True)
    crash = traitlets.Unicode("").tag(sync=True, state=True)
    resumed = traitlets.Bool(default_value=False).tag(sync=True, state=True)
    checkpoint_check = traitlets.Bool(default_value=True).tag(sync=True, state=True)

    def view(self) -> Page:
        return stream_stepper(**self._state())


class DeltaBridge(PageWidget):
    """A Delta table's actions, the Iceberg entries they become, and a vector's bytes in both, aligned.

    Parameters
    ----------
    path: the Delta table's directory.

    Attributes
    ----------
    version: of the table; vector: the selected one, as `V1`; start: first action of the page.
    """

    module = "delta_bridge"

    version = traitlets.Int(allow_none=True, default_value=None).tag(sync=True, state=True)
    vector = traitlets.Unicode(allow_none=True, default_value=None).tag(sync=True, state=True)
    start = traitlets.Int(0).tag(sync=True, state=True)

    def __init__(self, path: str | Path, **state: object) -> None:
        self._path = path
        super().__init__(**state)

    def view(self) -> Page:
        return delta_bridge(self._path, **self._state())

    def _location(self) -> str:
        return str(self._path)
