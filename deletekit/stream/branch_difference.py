"""Compare two snapshots of a branch: which rows it lost, which it got, and where they are.

States are compared, not commits. A row is lost if it was live in the first snapshot and is not in the second, even if
it was only moved. A data file that the first snapshot did not have is new, with all its live rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyiceberg.types import NestedField

from deletekit.commit.change import Base
from deletekit.deletes.keys import KeySet
from deletekit.deletes.merge_previous_deletes import positions_in_file
from deletekit.deletes.plan import plan_scan
from deletekit.deletes.read import ReadContext, ReadRequest, deleted_positions, read_task, rows_at
from deletekit.deletes.scan_task import ScanTask
from deletekit.engines.local import Engine
from deletekit.formats.content_file import DeleteFile
from deletekit.formats.deletion_vector import PositionBitmap
from deletekit.formats.manifest_list import ManifestContent
from deletekit.table.metadata import Snapshot
from deletekit.table.types import arrow_type


@dataclass(frozen=True, slots=True)
class FileRows:
    """A data file of a snapshot, and some of its rows."""

    task: ScanTask
    positions: PositionBitmap


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Two snapshots of a branch, compared for a change of another branch, the target.

    Attributes
    ----------
    before: data files of the first snapshot, by path.
    lost: rows of those files that were live in the first snapshot and are not in the second.
    new_files: data files of the second snapshot alone, with their hidden rows.
    target_files: data files of the target, by path.
    new_deletes: equality deletes of the second snapshot alone.
    """

    context: ReadContext
    before: Mapping[str, ScanTask]
    lost: Mapping[str, FileRows]
    new_files: tuple[FileRows, ...]
    target_files: Mapping[str, ScanTask]
    new_deletes: tuple[DeleteFile, ...]

    def hidden(self, task: ScanTask) -> PositionBitmap:
        """Return the positions that the deletes of a data file hide."""
        return _hidden(self.context, task)

    def deleted_keys(self, fields: Sequence[NestedField]) -> list[pa.Table]:
        """Return the keys of the equality deletes for these columns."""
        ids = tuple(f.field_id for f in fields)
        own = [d for d in self.new_deletes if tuple(sorted(d.equality_ids or ())) == ids]
        return [_table(self.context.loader.key_columns(ids, d)) for d in own]


def difference(base: Base, start: Snapshot, end: Snapshot, engine: Engine) -> Difference:
    """Compare two snapshots, `start` before `end`, for a change of the attempt's base."""
    context = ReadContext(base.table.io, base.metadata)
    before, after, target_files = (_tasks(base, s) for s in (start, end, base.snapshot))
    changed = [t for path, t in before.items() if path not in after or _deletes(after[path]) != _deletes(t)]

    def lost(task: ScanTask) -> FileRows:
        now = after.get(task.data_file.file_path)
        all_rows = PositionBitmap(np.arange(task.data_file.record_count))
        gone = all_rows if now is None else _hidden(context, now)
        return FileRows(task, gone - _hidden(context, task))

    lost_rows = [rows for rows in engine.map(lost, changed) if rows.positions]
    new = [t for path, t in after.items() if path not in before]
    new_files = engine.map(lambda t: FileRows(t, _hidden(context, t)), new)
    known = {d.identity for d in _equality_deletes(base, start)}
    return Difference(
        context=context,
        before=before,
        lost={rows.task.data_file.file_path: rows for rows in lost_rows},
        new_files=tuple(new_files),
        target_files=target_files,
        new_deletes=tuple(d for d in _equality_deletes(base, end) if d.identity not in known),
    )


def keys_at(context: ReadContext, rows: FileRows, fields: Sequence[NestedField]) -> pa.Table:
    """Read the keys of some rows, hidden or not."""
    found = rows_at(context, rows.task, ReadRequest(tuple(fields)), rows.positions)
    empty = pa.table([pa.array([], arrow_type(f.field_type)) for f in fields], names=[f.name for f in fields])
    return found if found.num_columns else empty


def key_positions(
    context: ReadContext, tasks: Sequence[ScanTask], keys: pa.Table, fields: Sequence[NestedField], engine: Engine
) -> Iterator[tuple[str, PositionBitmap]]:
    """Find the live rows of data files that have one of some keys."""
    if not len(keys):
        return
    wanted = KeySet(keys.columns)

    def find(task: ScanTask) -> tuple[str, PositionBitmap]:
        parts = []
        for batch in read_task(context, task, ReadRequest(tuple(fields), only_live=True)):
            hit = wanted.contains(batch.table.columns).to_numpy(zero_copy_only=False) & ~batch.deleted
            parts.append(batch.positions(hit))
        positions = np.concatenate(parts) if parts else np.empty(0, np.int64)
        return task.data_file.file_path, PositionBitmap(positions)

    yield from engine.map(find, tasks)


def _tasks(base: Base, snapshot: Snapshot | None) -> dict[str, ScanTask]:
    return {t.data_file.file_path: t for t in plan_scan(base.metadata, snapshot, base.reader)}


def _equality_deletes(base: Base, snapshot: Snapshot) -> Iterator[DeleteFile]:
    """Yield a snapshot's equality deletes, also those that apply only to data files of the other branch."""
    for entry in base.reader.live_entries(snapshot, ManifestContent.DELETES):
        if isinstance(entry.data_file, DeleteFile) and entry.data_file.kind == "equality-delete":
            yield entry.data_file


def _deletes(task: ScanTask) -> set[Any]:
    return {d.identity for d in task.delete_files}


def _hidden(context: ReadContext, task: ScanTask) -> PositionBitmap:
    if any(d.kind == "equality-delete" for d in task.delete_files):
        return deleted_positions(context, task)
    return positions_in_file(context.loader.positions(task), task.data_file)


def _table(columns: Sequence[Any]) -> pa.Table:
    return pa.table({str(i): c for i, c in enumerate(columns)})
