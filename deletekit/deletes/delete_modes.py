"""Change rows of data files: find them, then hide them, rewrite their files or remove these, by mode.

One call changes a group of data files that no other call has. It returns what a `RowDelta` needs and commits nothing.
Spec: "Row-level Deletes", "Deletion Vectors", "Row Lineage"; Java SparkPositionDeltaWrite, BaseDVFileWriter.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyiceberg.types import NestedField

from deletekit.deletes.merge_previous_deletes import HiddenRows, check_rows, hides_all_rows, replace_deletes
from deletekit.deletes.read import FileBatch, ReadContext, ReadRequest, kept_open, read_task, rows_at
from deletekit.deletes.scan_task import ScanTask
from deletekit.deletes.which_apply import own_deletes
from deletekit.formats.content_file import DataFile, DeleteFile, ManifestEntry
from deletekit.formats.deletion_vector import PositionBitmap
from deletekit.formats.reserved_fields import LINEAGE_NAMES
from deletekit.rows.data_file_writer import write_data_files
from deletekit.rows.rolling_files import HELD_BYTES, held_bytes
from deletekit.rows.row_lineage import has_lineage, with_row_ids
from deletekit.rows.write_context import WriteContext
from deletekit.table.modes import RowMode
from deletekit.table.types import arrow_field

Places = npt.NDArray[np.int64] | npt.NDArray[np.bool_]
Index = npt.NDArray[np.int64] | None

# The new rows of several data files wait for each other until they take so much memory, in each worker.
_WAITING_BYTES = HELD_BYTES // 4
# Fewer bytes in all are left to the process that commits, which writes those of all workers together.
_LEFT_BYTES = 4 << 20


class Change(Protocol):
    """Which rows to change, and what they become.

    Attributes
    ----------
    request: what `match` needs to read.
    replaces: whether changed rows become the rows of `new_rows`. Otherwise they are deleted, and it is not called.
    needs: the table's columns that `new_rows` reads, in order; None is all.
    """

    request: ReadRequest
    replaces: bool
    needs: Sequence[NestedField] | None = None

    def match(self, batch: FileBatch) -> tuple[Places, Index]:
        """Return the places in the batch of the live rows to change, and for each an index that `new_rows` gets.

        Indexes behind those are of rows that are only looked up; they are in `ChangeResult.seen` too. Without indexes,
        a mask of the batch may take the place of the places: that is faster for many rows.
        """

    def stays(self, index: Index) -> npt.NDArray[np.bool_] | None:
        """Return which of the rows to change become a row of `new_rows`; the others are deleted. None: all do."""
        del index
        return None

    def new_rows(self, current: pa.Table, index: Index) -> pa.Table:
        """Return what rows become: a table of equally many rows. `current` has the columns `needs` of them."""
        del current, index
        raise AssertionError("deleted rows become nothing")


@dataclass(frozen=True)
class ChangeOptions:
    """How to write a change.

    Attributes
    ----------
    granularity: `file`, a position delete file or Puffin file for each data file, or `partition`.
    with_rows: store the deleted rows in position delete files.
    key_fields: columns whose values are returned for equality deletes.
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
    rows: new rows that are not written yet: `write_rows` takes them.
    keys: per (spec id, partition), the key columns of the rows to delete by value.
    matched_rows: how many rows the change matched.
    seen: indexes from `Change.match`, one array per data file.
    targets: paths of the data files with rows that the change matched or only looked up.
    """

    added_data_files: list[DataFile] = field(default_factory=list)
    removed_data_files: list[ManifestEntry] = field(default_factory=list)
    added_delete_files: list[DeleteFile] = field(default_factory=list)
    removed_delete_files: list[ManifestEntry] = field(default_factory=list)
    rows: list[pa.Table] = field(default_factory=list)
    keys: list[tuple[int, tuple[Any, ...], pa.Table]] = field(default_factory=list)
    matched_rows: int = 0
    seen: list[npt.NDArray[np.int64]] = field(default_factory=list)
    targets: list[str] = field(default_factory=list)


def change_files(
    context: ReadContext,
    write: WriteContext,
    tasks: Iterable[ScanTask],
    change: Change,
    options: ChangeOptions,
    *,
    groups: int = 1,
) -> ChangeResult:
    """Apply a change to the data files of `tasks`, one after the other, and write what the mode asks for.

    A data file without a live row left is removed with its own deletes, in every mode but equality-delete. Without
    copy-on-write the new rows of several data files go to one file, and a few may be left in `ChangeResult.rows`:
    the fewer, the more `groups` of tasks leave theirs.
    Raises FormatError or NotFoundError for files that cannot be read.
    """
    changes = _Changes(context, write, change, options)
    rows = changes.stored_rows if options.with_rows else None
    hidden = changes.rows_to_hide(tasks)
    done = replace_deletes(write, context.loader, hidden, granularity=options.granularity, rows=rows)
    result = changes.result
    result.added_delete_files += done.added_delete_files
    result.removed_delete_files += done.removed_delete_files
    result.removed_data_files += done.removed_data_files
    changes.make_room(_LEFT_BYTES // groups)
    return result


def write_rows(write: WriteContext, rows: Sequence[pa.Table]) -> list[DataFile]:
    """Write new rows together: columns of the current schema, then in some tables those of the lineage.

    A row without a lineage gets a new id, as in a file that stores none.
    """
    widest = max((table.num_columns for table in rows), default=0)
    equal = [t if t.num_columns == widest else with_row_ids(t, pa.nulls(len(t), pa.int64())) for t in rows]
    if len(equal) > 1:
        joined = _joined(equal)
        equal = [joined if held_bytes(joined) > HELD_BYTES else joined.combine_chunks()]  # which copies them
    return [file for table in equal for file in write_data_files(write, table)]


def _positions(places: Places, start: int) -> PositionBitmap:
    if places.dtype == np.bool_:
        return PositionBitmap.from_mask(places.view(np.bool_), start)
    return PositionBitmap(places + start)


def _joined(tables: Sequence[pa.Table]) -> pa.Table:
    """Return the rows of tables with equal columns, whatever these say of NULL."""
    plain = pa.schema([pa.field(f.name, f.type) for f in tables[0].schema])
    return pa.concat_tables([pa.Table.from_arrays(t.columns, schema=plain) for t in tables])


@dataclass
class _Changes:
    """One change, applied to data files; `result` is what it has done so far."""

    context: ReadContext
    write: WriteContext
    change: Change
    options: ChangeOptions
    result: ChangeResult = field(default_factory=ChangeResult)
    waiting_bytes: int = 0

    def rows_to_hide(self, tasks: Iterable[ScanTask]) -> Iterator[HiddenRows]:
        """Do what the mode asks for with each data file; yield the rows that must still be hidden by position."""
        result = self.result
        for task in tasks:
            with kept_open(self.context, task):
                positions, index, seen = self._find(task)
                result.matched_rows += len(positions)
                if seen is not None:
                    result.seen.append(seen)
                if positions or (seen is not None and len(seen)):
                    result.targets.append(task.data_file.file_path)
                if positions and self._apply(task, positions, index):
                    yield HiddenRows(task, positions)

    def stored_rows(self, task: ScanTask, positions: PositionBitmap) -> pa.Table:
        """Return the rows at some positions, also hidden ones, with field ids: the `row` column of position deletes."""
        fields = self.context.metadata.schema.fields
        table = rows_at(self.context, task, ReadRequest(tuple(fields)), positions)
        return pa.Table.from_arrays(table.columns, schema=pa.schema([arrow_field(f) for f in fields]))

    def _find(self, task: ScanTask) -> tuple[PositionBitmap, Index, Index]:
        """Return the positions of the matching rows of one data file, the change's index of each, and all indexes."""
        parts: list[PositionBitmap] = []
        indexes: list[npt.NDArray[np.int64]] = []
        seen: list[npt.NDArray[np.int64]] = []
        for batch in read_task(self.context, task, replace(self.change.request, only_live=True)):
            check_rows(task.data_file, batch.first_position + len(batch))
            places, index = self.change.match(batch)
            parts.append(_positions(places, batch.first_position))
            if index is not None:
                indexes.append(index[: len(places)])
                seen.append(index)
        positions = PositionBitmap.union(parts)
        if not indexes:
            return positions, None, None
        return positions, np.concatenate(indexes), np.concatenate(seen)

    def _apply(self, task: ScanTask, positions: PositionBitmap, index: Index) -> bool:
        """Write what the rows become, and remove the file or collect keys. Return whether rows must still be hidden."""
        mode, hides = self.options.mode, False
        replaced, staying = None, positions
        if self.change.replaces:
            stays = self.change.stays(index)
            if stays is not None and index is not None:
                staying, index = PositionBitmap(positions.to_numpy()[stays]), index[stays]
            replaced = self._changed_rows(task, staying, index) if staying else None
        if mode == "equality-delete":
            keys = rows_at(self.context, task, ReadRequest(self.options.key_fields), positions)
            self.result.keys.append((task.data_file.spec_id, task.data_file.partition, keys))
        elif hides_all_rows(self.context, task, positions):
            self._remove(task)
        elif mode == "copy-on-write":
            self._remove(task)
            replaced = self._with_kept_rows(task, positions, staying, replaced)
        else:
            hides = True
        if replaced is not None and len(replaced):
            self.result.rows.append(replaced)
            self.waiting_bytes += held_bytes(replaced)
            # A file that copy-on-write rewrites stays by itself: joined with others, its bounds would exclude less.
            self.make_room(0 if mode == "copy-on-write" else _WAITING_BYTES)
        return hides

    def make_room(self, most: int) -> None:
        """Write the rows that wait if they take more than `most` bytes."""
        if self.waiting_bytes > most:
            self.result.added_data_files += write_rows(self.write, self.result.rows)
            self.result.rows, self.waiting_bytes = [], 0

    def _remove(self, task: ScanTask) -> None:
        """Remove a data file, with its own deletes."""
        self.result.removed_data_files.append(task.data)
        self.result.removed_delete_files += own_deletes(task.data_file.file_path, task.deletes)

    def _all_columns(self, task: ScanTask) -> ReadRequest:
        """Return the request for whole rows; they have a lineage if the data file has row ids."""
        metadata = self.context.metadata
        return ReadRequest(tuple(metadata.schema.fields), lineage=has_lineage(metadata, task.data_file))

    def _changed_rows(self, task: ScanTask, positions: PositionBitmap, index: Index) -> pa.Table:
        """Return the new rows in position order. With lineage, each keeps its `_row_id`; its number is null."""
        request = self._all_columns(task)
        if self.change.needs is not None:
            request = replace(request, fields=tuple(self.change.needs))
        if self.options.mode == "equality-delete":  # which does not know the row that it hides
            request = replace(request, lineage=False)
        current = rows_at(self.context, task, request, positions)
        rows = self.change.new_rows(current.select([f.name for f in request.fields]), index)
        return with_row_ids(rows, current.column(LINEAGE_NAMES[0])) if request.lineage else rows

    def _with_kept_rows(
        self, task: ScanTask, changed: PositionBitmap, staying: PositionBitmap, new_rows: pa.Table | None
    ) -> pa.Table:
        """Return the rows of the rewritten file in their old order: live rows that did not change, and changed ones."""
        parts, positions = [], []
        for batch in read_task(self.context, task, self._all_columns(task)):
            keep = ~batch.deleted & ~changed.mask(batch.first_position, len(batch))
            parts.append(batch.table.filter(pa.array(keep)))
            positions.append(batch.positions(keep))
        kept = pa.concat_tables(parts)
        if new_rows is None:
            return kept
        where = np.concatenate([*positions, staying.to_numpy()])
        return _joined([kept, new_rows]).take(pa.array(np.argsort(where, kind="stable")))
