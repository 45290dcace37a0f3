"""Widgets for notebooks: each shows one aspect of a table, and `explore` shows all of a table together, linked."""

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
