"""The fate of some rows of a data file: their values, and every delete that names them, with its verdict.

`deletekit.deletes.verdict` decides; here the deletes to ask are chosen.
Spec: "Scan Planning", https://iceberg.apache.org/spec/#scan-planning
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pyiceberg.types import NestedField

from deletekit.course.views.table_view import TableView, delete_of
from deletekit.deletes.read import ReadRequest, read_task
from deletekit.deletes.scan_task import ScanTask
from deletekit.deletes.verdict import NamingDelete, Rules, named_positions, reason_of
from deletekit.deletes.which_apply import referenced_path
from deletekit.formats.content_file import ManifestEntry
from deletekit.formats.deletion_vector import PositionBitmap
from deletekit.formats.manifest_list import ManifestContent
from deletekit.table.metadata import Snapshot

MOST_OTHERS = 200
"""Limit on non-applying deletes that are still opened to see whether they contain the row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fate:
    """One row: its values and every delete that has it."""

    position: int
    values: tuple[Any, ...]
    hits: tuple[NamingDelete, ...]

    @property
    def live(self) -> bool:
        return not any(hit.hides for hit in self.hits)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fates:
    """Some rows of a data file, and the deletes that were looked into; `left_out` says how many were not."""

    rows: tuple[Fate, ...]
    candidates: tuple[NamingDelete, ...]
    left_out: int


def fates(
    view: TableView,
    snapshot: Snapshot,
    data: ManifestEntry,
    fields: tuple[NestedField, ...],
    start: int,
    stop: int,
    rules: Rules,
) -> Fates:
    """Return the fate of rows `start .. stop - 1` of a data file. Raises as `read_task`."""
    candidates, left_out = _candidates(view, snapshot, data, rules)
    wanted = PositionBitmap.from_range(start, max(stop, start))
    naming = [(d, named_positions(view.context, data, d.entry, wanted)) for d in candidates]
    rows = []
    for position, values in _rows(view, ScanTask(data), fields, start, stop, wanted):
        mine = tuple(delete for delete, positions in naming if position in positions)
        rows.append(Fate(position=position, values=values, hits=mine))
    return Fates(rows=tuple(rows), candidates=tuple(candidates), left_out=left_out)


def _candidates(
    view: TableView, snapshot: Snapshot, data: ManifestEntry, rules: Rules
) -> tuple[list[NamingDelete], int]:
    """Return deletes that may name rows of the file: all that apply by the specification, and some of the others."""
    index = view.index(snapshot)
    applying = index.for_data_file(data)
    known = {e.data_file.identity for e in applying}
    has_vector = any(delete_of(e).is_deletion_vector for e in applying)
    found = [NamingDelete(entry=e, reason="applies") for e in applying]
    live = view.live(snapshot, ManifestContent.DELETES)
    others: list[NamingDelete] = []
    looked = 0
    for entry in live if len(live) <= MOST_OTHERS * 50 else ():
        of_another_file = referenced_path(entry.data_file) not in (None, data.data_file.file_path)
        if of_another_file or entry.data_file.identity in known:
            continue
        looked += 1
        if len(others) < MOST_OTHERS:
            reason = reason_of(entry, data, view.metadata.specs, has_vector=has_vector, rules=rules)
            others.append(NamingDelete(entry=entry, reason=reason))
    left_out = looked - len(others) if len(live) <= MOST_OTHERS * 50 else len(live) - len(applying)
    names = view.aliases
    return sorted(found + others, key=lambda d: (d.entry.sequence_number or 0, names.order(d.entry))), left_out


def _rows(
    view: TableView, task: ScanTask, fields: tuple[NestedField, ...], start: int, stop: int, wanted: PositionBitmap
) -> Iterator[tuple[int, tuple[Any, ...]]]:
    for batch in read_task(view.context, task, ReadRequest(fields), wanted):
        low, high = max(batch.first_position, start), min(batch.first_position + len(batch), stop)
        if low < high:
            part = batch.table.slice(low - batch.first_position, high - low)
            columns = [column.to_pylist() for column in part.columns]
            for i in range(high - low):
                yield low + i, tuple(column[i] for column in columns)
