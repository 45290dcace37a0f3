"""Why a row is hidden or not: every delete that has it, and the three rules that decide, each of which can be broken.

Law: believes nothing; a verdict is reached by applying each delete file on its own, and then the rules to the outcome.
Spec: "Scan Planning", https://iceberg.apache.org/spec/#scan-planning
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from pyiceberg.types import NestedField

from deletekit.course.views.table_view import TableView, delete_of
from deletekit.deletes.plan import ScanTask
from deletekit.deletes.read import ReadRequest, read_task
from deletekit.deletes.which_apply import is_global, referenced_path
from deletekit.formats.content_file import DeleteFile, FileContent, ManifestEntry, partition_key
from deletekit.formats.deletion_vector import PositionBitmap
from deletekit.formats.manifest_list import ManifestContent
from deletekit.table.metadata import Snapshot

__all__ = ["MOST_OTHERS", "Fate", "Hit", "Reason", "Rules", "fates"]

MOST_OTHERS = 200
"""Deletes that do not apply, and are looked into for whether they have the row all the same."""

Reason = Literal["applies", "older", "scope", "vector-wins"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The rules of the specification; each can be switched off to see what it is for.

    Attributes
    ----------
    sequence: an equality delete applies to older data files only (`<`), not to those of its own commit (`<=`).
    scope: an equality or position delete of a partition applies to that partition only.
    vector_wins: beside a deletion vector, position delete files do not count.
    """

    sequence: bool = True
    scope: bool = True
    vector_wins: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A delete file that has the row's position or key, and whether it hides the row."""

    entry: ManifestEntry
    reason: Reason

    @property
    def hides(self) -> bool:
        return self.reason == "applies"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fate:
    """One row: its values and every delete that has it."""

    position: int
    values: tuple[Any, ...]
    hits: tuple[Hit, ...]

    @property
    def live(self) -> bool:
        return not any(hit.hides for hit in self.hits)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fates:
    """Some rows of a data file, and the deletes that were looked into; `left_out` says how many were not."""

    rows: tuple[Fate, ...]
    candidates: tuple[tuple[ManifestEntry, Reason], ...]
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
    """The fate of rows `start .. stop - 1` of a data file. Raises as `read_task`."""
    candidates, left_out = _candidates(view, snapshot, data, rules)
    task = ScanTask(data)
    wanted = PositionBitmap.from_range(start, max(stop, start))
    hits = [(entry, reason, _has(view, task, entry, start, stop, wanted)) for entry, reason in candidates]
    rows = []
    for position, values in _rows(view, task, fields, start, stop, wanted):
        mine = tuple(Hit(entry=e, reason=r) for e, r, mask in hits if mask[position - start])
        rows.append(Fate(position=position, values=values, hits=mine))
    return Fates(rows=tuple(rows), candidates=tuple(candidates), left_out=left_out)


def _candidates(
    view: TableView, snapshot: Snapshot, data: ManifestEntry, rules: Rules
) -> tuple[list[tuple[ManifestEntry, Reason]], int]:
    """Deletes that may have rows of the file; those that apply by the specification all, of the others some."""
    index = view.index(snapshot)
    applying = index.for_data_file(data)
    known = {e.data_file.identity for e in applying}
    vector = next((e for e in applying if delete_of(e).is_deletion_vector), None)
    found: list[tuple[ManifestEntry, Reason]] = [(e, "applies") for e in applying]
    live = view.live(snapshot, ManifestContent.DELETES)
    others: list[tuple[ManifestEntry, Reason]] = []
    looked = 0
    for entry in live if len(live) <= MOST_OTHERS * 50 else ():
        if entry.data_file.identity in known or not _about(delete_of(entry), data):
            continue
        looked += 1
        if len(others) < MOST_OTHERS:
            others.append((entry, _reason(view, entry, data, vector, rules)))
    left_out = looked - len(others) if len(live) <= MOST_OTHERS * 50 else len(live) - len(applying)
    names = view.aliases
    return sorted(found + others, key=lambda item: (item[0].sequence_number or 0, names.order(item[0]))), left_out


def _about(delete: DeleteFile, data: ManifestEntry) -> bool:
    """Whether a delete could have rows of the data file at all, whatever the rules."""
    if delete.content == FileContent.EQUALITY_DELETES:
        return True
    path = referenced_path(delete)
    return path is None or path == data.data_file.file_path


def _reason(
    view: TableView, entry: ManifestEntry, data: ManifestEntry, vector: ManifestEntry | None, rules: Rules
) -> Reason:
    """What keeps a delete from applying; the rules that are switched off keep none."""
    delete = delete_of(entry)
    number, data_number = entry.sequence_number or 0, data.sequence_number or 0
    equality = delete.content == FileContent.EQUALITY_DELETES
    everywhere = equality and is_global(view.metadata.specs[delete.spec_id])
    if rules.scope and not everywhere and referenced_path(delete) is None and _scope(delete) != _scope(data.data_file):
        return "scope"
    if number < data_number or (equality and rules.sequence and number == data_number):
        return "older"
    if not equality and vector is not None and rules.vector_wins:
        return "vector-wins"
    return "applies"


def _scope(file: Any) -> tuple[int, tuple[Any, ...]]:
    return file.spec_id, partition_key(file.partition)


def _has(
    view: TableView, task: ScanTask, entry: ManifestEntry, start: int, stop: int, wanted: PositionBitmap
) -> npt.NDArray[np.bool_]:
    """Which of the rows one delete file has, by position or key alone."""
    delete = delete_of(entry)
    if delete.content == FileContent.POSITION_DELETES:
        return view.context.loader.positions_of(delete, task.data_file.file_path).mask(start, max(stop - start, 0))
    found = np.zeros(max(stop - start, 0), np.bool_)
    for batch in read_task(view.context, replace(task, deletes=(entry,)), ReadRequest(()), wanted):
        low, high = max(batch.first_position, start), min(batch.first_position + len(batch), stop)
        if low < high:
            found[low - start : high - start] = batch.deleted[low - batch.first_position : high - batch.first_position]
    return found


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
