"""Widgets for notebooks: each shows one thing of a table, and with `explore` they are shown together, linked."""

from deletekit.course.widgets.explore import Explorer, explore
from deletekit.course.widgets.tables import BitmapBytes, RowFate, SequenceTimeline, SnapshotDiff, TableTree
from deletekit.course.widgets.workloads import CostMeter, DeltaBridge, StreamStepper

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
