"""Changing rows of data files: find them, then hide, rewrite or drop, by mode.

Law: a pure task over disjoint data files. It reads before it writes, folds in the deletes a file already has, writes
its own files or none, and returns what a RowDelta needs; it commits nothing.
Spec: "Row-level Deletes", "Deletion Vectors", "Row Lineage"; Java SparkPositionDeltaWrite, BaseDVFileWriter.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.types import NestedField

from deletekit.deletes.data_file_writer import write_data_files
from deletekit.deletes.plan import ScanTask
from deletekit.deletes.read import (
    LAST_UPDATED_FIELD,
    ROW_ID_FIELD,
    FileBatch,
    ReadContext,
    ReadRequest,
    read_task,
)
from deletekit.deletes.replace import HiddenRows, check_rows, own_deletes, replace_deletes
from deletekit.deletes.write_context import WriteContext
from deletekit.formats.content_file import DataFile, DeleteFile, ManifestEntry
from deletekit.formats.deletion_vector import PositionBitmap
from deletekit.table.types import arrow_field

__all__ = ["Change", "ChangeOptions", "ChangeResult", "RowMode", "change_files"]

RowMode = Literal["copy-on-write", "position-delete", "deletion-vector", "equality-delete"]
LINEAGE = (ROW_ID_FIELD, LAST_UPDATED_FIELD)


class Change(Protocol):
    """What to do to rows: which ones, and what they become.

    Attributes
    ----------
    request: what `match` needs to read.
    replaces: changed rows live on as what `new_rows` makes of them; else they go, and it is not called.
    """

    request: ReadRequest
    replaces: bool

    def match(self, batch: FileBatch) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.int64] | None]:
        """Rows to change (never deleted ones), and per changed row an index `new_rows` will be given back."""

    def new_rows(self, current: pa.Table, index: npt.NDArray[np.int64] | None) -> pa.Table:
        """What the rows `current` (all table columns) become: a table of equally many rows."""


@dataclass(frozen=True)
class ChangeOptions:
    """How to write a change.

    Attributes
    ----------
    granularity: `file`, a position delete file or Puffin file for each data file, or `partition`.
    with_rows: store the deleted rows in position delete files.
    key_fields: columns whose values to return for equality deletes.
    """

    mode: RowMode
    granularity: str = "partition"
    with_rows: bool = False
    key_fields: tuple[NestedField, ...] = ()


@dataclass
class ChangeResult:
    """What one worker did.

    Attributes
    ----------
    keys: per (spec id, partition), key columns of the rows to delete by value.
    targets: paths of the data files that have rows which the change matched, or only looked up.
    """

    added_data_files: list[DataFile] = field(default_factory=list)
    removed_data_files: list[ManifestEntry] = field(default_factory=list)
    added_delete_files: list[DeleteFile] = field(default_factory=list)
    removed_delete_files: list[ManifestEntry] = field(default_factory=list)
    keys: list[tuple[int, tuple[Any, ...], pa.Table]] = field(default_factory=list)
    matched_rows: int = 0
    seen: list[npt.NDArray[np.int64]] = field(default_factory=list)
    targets: list[str] = field(default_factory=list)


def change_files(
    context: ReadContext, write: WriteContext, tasks: Iterable[ScanTask], change: Change, options: ChangeOptions
) -> ChangeResult:
    """Apply a change to the data files of `tasks`, one after the other, and write what the mode calls for.

    A data file all of whose live rows are to go is dropped, with its deletion vector and its own position deletes,
    instead of being covered whole.
    """
    result = ChangeResult()
    hidden = _changed(context, write, tasks, change, options, result)
    rows = partial(_rows_at, context) if options.with_rows else None
    done = replace_deletes(write, context.loader, hidden, granularity=options.granularity, rows=rows)
    result.added_delete_files += done.added_delete_files
    result.removed_delete_files += done.removed_delete_files
    result.removed_data_files += done.removed_data_files
    return result


def _changed(
    context: ReadContext,
    write: WriteContext,
    tasks: Iterable[ScanTask],
    change: Change,
    options: ChangeOptions,
    result: ChangeResult,
) -> Iterator[HiddenRows]:
    """Do what the mode calls for to each data file, but for the rows to hide by position, which come out."""
    for task in tasks:
        found = _find(context, task, change)
        result.matched_rows += len(found.positions)
        if found.index is not None:
            result.seen.append(found.index)
        if found.positions or (found.index is not None and len(found.index)):
            result.targets.append(task.data_file.file_path)
        if found.positions and _apply(context, write, task, found, change, options, result):
            yield HiddenRows(task, found.positions)


@dataclass(frozen=True)
class _Found:
    """Matching rows of one data file: their positions, and the change's index per row."""

    positions: PositionBitmap
    index: npt.NDArray[np.int64] | None


def _find(context: ReadContext, task: ScanTask, change: Change) -> _Found:
    parts: list[npt.NDArray[np.int64]] = []
    indexes: list[npt.NDArray[np.int64]] = []
    for batch in read_task(context, task, replace(change.request, only_live=True)):
        check_rows(task.data_file, batch.first_position + len(batch))
        mask, index = change.match(batch)
        parts.append(batch.positions(mask))
        if index is not None:
            indexes.append(index)
    positions = PositionBitmap(np.concatenate(parts)) if parts else PositionBitmap()
    return _Found(positions, np.concatenate(indexes) if indexes else None)


def _is_whole(context: ReadContext, task: ScanTask, positions: PositionBitmap) -> bool:
    """Whether these live rows are all the live rows of their file."""
    rows, hidden = task.data_file.record_count, context.loader.positions(task)
    if len(positions) == rows - hidden.count_in(0, rows):
        return True
    if not any(d.kind == "equality-delete" for d in task.delete_files):
        return False
    batches = read_task(context, task, ReadRequest((), only_live=True))
    return len(positions) == sum(len(b) - (0 if b.deleted_mask is None else b.deleted_mask.true_count) for b in batches)


def _apply(
    context: ReadContext,
    write: WriteContext,
    task: ScanTask,
    found: _Found,
    change: Change,
    options: ChangeOptions,
    result: ChangeResult,
) -> bool:
    """Write what becomes of the rows, and remove the file or name their keys; whether they are yet to be hidden."""
    hides = False
    replaced = _changed_rows(context, task, found, change, keep_lineage=options.mode != "equality-delete")
    if options.mode == "equality-delete":
        fields = ReadRequest(options.key_fields)
        keys = pa.concat_tables(
            [b.table.filter(pa.array(m)) for b, m in _masked(context, task, fields, found.positions)]
        )
        result.keys.append((task.data_file.spec_id, task.data_file.partition, keys))
    elif _is_whole(context, task, found.positions):
        _drop(task, result)
    elif options.mode == "copy-on-write":
        _drop(task, result)
        replaced = _with_kept_rows(context, task, found.positions, replaced)
    else:
        hides = True
    if replaced is not None and len(replaced):
        lineage = LINEAGE if LINEAGE[0].name in replaced.column_names else ()
        result.added_data_files += write_data_files(write, replaced, context.metadata.spec, lineage)
    return hides


def _drop(task: ScanTask, result: ChangeResult) -> None:
    """Remove a data file, and with it the deletes that name it alone."""
    result.removed_data_files.append(task.data)
    result.removed_delete_files += own_deletes(task)


def _rows_at(context: ReadContext, task: ScanTask, positions: PositionBitmap) -> pa.Table:
    """The rows at some positions, hidden ones included, with field ids: a position delete file's `row` column."""
    fields = context.metadata.schema.fields
    parts = [b.table.filter(pa.array(m)) for b, m in _masked(context, task, ReadRequest(tuple(fields)), positions)]
    table = pa.concat_tables(parts)
    return pa.Table.from_arrays(table.columns, schema=pa.schema([arrow_field(f) for f in fields]))


def _masked(
    context: ReadContext, task: ScanTask, request: ReadRequest, positions: PositionBitmap
) -> list[tuple[FileBatch, npt.NDArray[np.bool_]]]:
    # Deletes are left out: the positions say which rows are meant, and applying deletes again would cost a pass.
    bare = replace(task, deletes=())
    batches = read_task(context, bare, request, positions)
    return [(b, positions.mask(b.first_position, len(b))) for b in batches]


def _lineage_of(context: ReadContext, task: ScanTask) -> bool:
    return context.metadata.version.has_row_lineage and task.data_file.first_row_id is not None


def _changed_rows(
    context: ReadContext, task: ScanTask, found: _Found, change: Change, *, keep_lineage: bool
) -> pa.Table | None:
    """The new rows in position order; with lineage, each keeps its `_row_id` and has no last-updated number yet."""
    if not change.replaces:
        return None
    lineage = keep_lineage and _lineage_of(context, task)
    request = ReadRequest(tuple(context.metadata.schema.fields), AlwaysTrue(), lineage)
    masked = _masked(context, task, request, found.positions)
    current = pa.concat_tables([b.table.filter(pa.array(m)) for b, m in masked])
    columns = [f.name for f in request.fields]
    changed = change.new_rows(current.select(columns), found.index)
    if not lineage:
        return changed
    nulls = pa.nulls(len(current), pa.int64())
    return changed.append_column(LINEAGE[0].name, current.column(LINEAGE[0].name)).append_column(LINEAGE[1].name, nulls)


def _with_kept_rows(
    context: ReadContext, task: ScanTask, changed: PositionBitmap, new_rows: pa.Table | None
) -> pa.Table:
    """A rewritten file's rows: the live ones not changed, and the changed ones, in their old order."""
    request = ReadRequest(tuple(context.metadata.schema.fields), AlwaysTrue(), _lineage_of(context, task))
    parts, positions = [], []
    for batch in read_task(context, task, request):
        keep = ~batch.deleted & ~changed.mask(batch.first_position, len(batch))
        parts.append(batch.table.filter(pa.array(keep)))
        positions.append(batch.positions(keep))
    kept = pa.concat_tables(parts)
    if new_rows is None:
        return kept
    where = np.concatenate([*positions, changed.to_numpy()])
    plain = pa.schema([pa.field(f.name, f.type) for f in kept.schema])
    both = pa.concat_tables([pa.Table.from_arrays(t.columns, schema=plain) for t in (kept, new_rows)])
    return both.take(pa.array(np.argsort(where, kind="stable")))
