"""Read one data file with every delete applied.

The result depends only on the task's values and the files that they name. Positions count the rows of the file from 0.
A deletion vector or position delete is applied by position, and an equality delete by value, before any row is dropped.
Spec: "Row-level Deletes", https://iceberg.apache.org/spec/#row-level-deletes
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.types import DoubleType, FloatType, NestedField

from deletekit.deferred import pc
from deletekit.deletes.delete_loader import DeleteLoader, EqualityKeys, SharedValues
from deletekit.deletes.scan_task import ScanTask, TaskPart
from deletekit.errors import naming
from deletekit.filters.filter import evaluate, filter_field_ids
from deletekit.filters.row_group_pruning import bounds_of, may_match
from deletekit.formats.content_file import ManifestEntry, refuse_encrypted
from deletekit.formats.deletion_vector import PositionBitmap
from deletekit.formats.roaring import unpacked
from deletekit.formats.tabular import ColumnStatistics, RowGroup, TabularFile, open_tabular, rows_only, slices
from deletekit.log import tell_rows
from deletekit.rows.keys import flat
from deletekit.rows.projection import FileColumns, partition_constants, project, with_field_ids
from deletekit.rows.row_lineage import inherited
from deletekit.table.file_io import FileIO, is_remote, open_sized
from deletekit.table.metadata import TableMetadata
from deletekit.table.properties import NAME_MAPPING
from deletekit.table.types import LINEAGE_FIELDS, arrow_type

Numbers = npt.NDArray[np.int64]

_NOWHERE = np.empty(0, np.int64)
_KeySets = Sequence[EqualityKeys]


class ReadContext:
    """What all tasks of one operation share: storage, metadata, and the delete files that are loaded already."""

    def __init__(self, io: FileIO, metadata: TableMetadata) -> None:
        self.io = io
        self.metadata = metadata
        self.loader = DeleteLoader(io, metadata)
        self.paths = self.loader.paths
        self.footers = SharedValues(size=64)
        self.kept: dict[str, TabularFile] = {}


@dataclass(frozen=True)
class ReadRequest:
    """What to read of each row.

    Attributes
    ----------
    fields: the columns to read, of any schema of the table.
    where: bound filter; rows for which it is not true are not `selected`.
    lineage: also read `_row_id` and `_last_updated_sequence_number` (v3; null before the upgrade).
    only_live: leave out row groups that have no live row by statistics, deletes and filter.
    row_ids: let batches tell `row_ids_at`.
    within: bound filter that is true for all rows that matter; with `only_live`, it leaves out row groups too.
    batch_rows: rows of a batch at the most; None for a row group at once, unless that is very large.
    """

    fields: tuple[NestedField, ...]
    where: BooleanExpression = field(default_factory=AlwaysTrue)
    lineage: bool = False
    only_live: bool = False
    row_ids: bool = False
    within: BooleanExpression = field(default_factory=AlwaysTrue)
    batch_rows: int | None = None


@dataclass(frozen=True)
class FileBatch:
    """Consecutive rows of a data file, including deleted ones.

    Attributes
    ----------
    data: the entry of the data file.
    table: the requested columns.
    first_position: position of the first row.
    deleted_mask: True where a delete hides the row; None if no row is hidden.
    selected_mask: True where the filter is true, whether the row is deleted or not; None if it is true for all rows.
    row_ids_at: returns the `_row_id` of rows of the batch. Called on demand: ids of all rows are slow to make.
    """

    data: ManifestEntry
    table: pa.Table
    first_position: int
    deleted_mask: pa.BooleanArray | None
    selected_mask: pa.BooleanArray | None
    row_ids_at: Callable[[Numbers], pa.Array]

    def __len__(self) -> int:
        return len(self.table)

    @property
    def live_mask(self) -> pa.BooleanArray | None:
        """Rows that a query returns: selected and not deleted; None for all."""
        return _live(self.deleted_mask, self.selected_mask)

    @property
    def deleted(self) -> npt.NDArray[np.bool_]:
        """`deleted_mask` as a numpy array."""
        return _numpy(self.deleted_mask, len(self), none=False)

    @property
    def selected(self) -> npt.NDArray[np.bool_]:
        """`selected_mask` as a numpy array."""
        return _numpy(self.selected_mask, len(self), none=True)

    @property
    def live(self) -> npt.NDArray[np.bool_]:
        """`live_mask` as a numpy array."""
        return _numpy(self.live_mask, len(self), none=True)

    def only_live(self, rows: Numbers, numbers: Numbers) -> tuple[Numbers, Numbers]:
        """Return some rows of the batch that a query returns too, and the number of each."""
        live = slice(None) if self.live_mask is None else self.live[rows]
        return rows[live], numbers[live]

    def positions(self, mask: npt.NDArray[np.bool_]) -> Numbers:
        """Return the positions in the file of the rows where `mask` is True."""
        return np.flatnonzero(mask).astype(np.int64) + self.first_position


def read_task(
    context: ReadContext, task: ScanTask | TaskPart, request: ReadRequest, positions: PositionBitmap | None = None
) -> Iterator[FileBatch]:
    """Read a data file, or a part of it, in batches.

    `positions` limits the read to row groups that hold some of them.
    Raises FormatError or NotFoundError, naming the data or delete file that is damaged or missing.
    """
    part = task if isinstance(task, TaskPart) else TaskPart(task)
    with _rows_of(context, part, request) as rows:
        hidden = context.loader.positions(part.task)
        groups = part.of(rows.file.row_groups)
        chosen = (g for g in groups if positions is None or positions.count_in(g.first_position, g.stop))
        for group, key_sets in rows.to_read(chosen, hidden):
            for batch in rows.batches(group, hidden, key_sets):
                yield batch
                tell_rows(len(batch))


def deleted_positions(context: ReadContext, task: ScanTask, within: PositionBitmap | None = None) -> PositionBitmap:
    """Return the positions of a data file that its deletes hide, by position or by value.

    `within` limits the read, as `positions` does in `read_task`.
    """
    batches = read_task(context, task, ReadRequest(()), within)
    return PositionBitmap.union(PositionBitmap.from_mask(b.deleted, b.first_position) for b in batches)


def rows_at(context: ReadContext, task: ScanTask, request: ReadRequest, positions: PositionBitmap) -> pa.Table:
    """Return the rows at some positions of a data file, also hidden ones; for no rows, a table without columns."""
    parts: list[pa.Table] = []
    with _rows_of(context, TaskPart(replace(task, deletes=())), request) as rows:
        for group in rows.file.row_groups:
            if positions.count_in(group.first_position, group.stop):
                parts += rows.at(group, positions)
    return pa.concat_tables(parts) if parts else pa.table({})


@contextmanager
def kept_open(context: ReadContext, task: ScanTask) -> Iterator[None]:
    """Open a data file once for all reads of it inside the block, which only one thread may do."""
    path, closing = task.data_file.file_path, ExitStack()
    context.kept[path] = closing.enter_context(_opened(context, TaskPart(task)))
    try:
        yield
    finally:
        context.kept.pop(path, None)
        closing.close()  # without the block's exception, which is rarely about this file


@contextmanager
def _rows_of(context: ReadContext, part: TaskPart, request: ReadRequest) -> Iterator["_Rows"]:
    key_sets = context.loader.key_sets(part.task)
    with _opened(context, part) as file:
        yield _Rows(context, part.task, request, file, key_sets)


@contextmanager
def _opened(context: ReadContext, part: TaskPart) -> Iterator[TabularFile]:
    """Open the data file, unless it is kept open. Parts of it that are read separately parse its footer once."""
    file = part.task.data_file
    refuse_encrypted(file)
    path, kept = file.file_path, context.kept.get(file.file_path)
    with naming(path):
        if kept is not None:
            yield kept
            return
        with open_sized(context.io, path, file.file_size_in_bytes) as source:
            opened = partial(open_tabular, source, file.file_format, remote=is_remote(path))
            yield opened(parsed=None if part.count == 1 else context.footers.get(path, lambda: opened().parsed))


class _Rows:
    """One open data file: masks its rows by deletes and filter, and projects the requested columns."""

    def __init__(
        self, context: ReadContext, task: ScanTask, request: ReadRequest, file: TabularFile, key_sets: _KeySets
    ) -> None:
        schema = with_field_ids(file.schema, context.metadata.properties.get(NAME_MAPPING))
        self._context = context
        self._task = task
        self._request = request
        self.file = file
        self._key_sets = key_sets
        self._columns = FileColumns(schema, partition_constants(context.metadata, task.data_file))
        self._filter_fields = [context.paths.top_level(i) for i in sorted(filter_field_ids(request.where))]
        judged = {i for keys in key_sets for i in keys.fields} | filter_field_ids(request.within)
        self._judged = self._columns.names([*self._filter_fields, *map(context.paths.top_level, judged)])
        wanted = [context.paths.top_level(f.field_id) for f in request.fields]
        self._wanted = self._columns.names([*wanted, *(LINEAGE_FIELDS if request.lineage or request.row_ids else ())])
        self._schema = pa.schema(
            [pa.field(f.name, arrow_type(f.field_type), not f.required) for f in request.fields]
            + [pa.field(f.name, pa.int64()) for f in LINEAGE_FIELDS if request.lineage]
        )

    def to_read(self, groups: Iterable[RowGroup], hidden: PositionBitmap) -> Iterator[tuple[RowGroup, _KeySets]]:
        """Yield the row groups that can matter, small ones joined, each with the keys that its rows may have."""
        found: tuple[RowGroup, _KeySets] | None = None
        for group in groups:
            is_hidden = hidden.count_in(group.first_position, group.stop) == group.num_rows
            statistics = self.file.statistics(group, self._judged) if self._judged else {}
            if self._request.only_live and (is_hidden or not self._may_match(statistics, group)):
                continue
            key_sets = [] if is_hidden else [k for k in self._key_sets if self._may_hit(k, statistics)]
            joined = found[0].joined(group) if found and found[1] == key_sets else None
            if found and not joined:
                yield found
            found = joined or group, key_sets
        if found:
            yield found

    def batches(self, group: RowGroup, hidden: PositionBitmap, key_sets: _KeySets) -> Iterator[FileBatch]:
        """Yield the batches of a row group. Columns that only the result needs are read last, and only if needed."""
        count = hidden.count_in(group.first_position, group.stop)
        key_ids = [i for keys in key_sets for i in keys.fields] if self.file.remote else []
        first = self._columns.names([*self._filter_fields, *map(self._context.paths.top_level, key_ids)])
        table = self.file.read(group, first) if first else rows_only(group.num_rows)
        deleted = hidden.to_arrow(group.first_position, group.num_rows) if count else None
        for keys in key_sets:
            table, hit = self._hits(keys, group, table)
            deleted = hit if deleted is None else pc.or_(deleted, hit)
        selected = self._selected(table)
        live = _live(deleted, selected)
        if self._request.only_live and live is not None and not live.true_count:
            return
        kept = [n for n in self._wanted if n in table.column_names]
        for at, rows in self._pieces(group, table.select(kept) if kept else table):
            position = group.first_position + at
            hidden_here, chosen = (None if m is None else m.slice(at, len(rows)) for m in (deleted, selected))
            positions = np.arange(position, position + len(rows)) if self._request.lineage else _NOWHERE
            output, row_ids = self._output(rows, positions), partial(self._row_ids, rows, position)
            yield FileBatch(self._task.data, output, position, hidden_here, chosen, row_ids)

    def at(self, group: RowGroup, positions: PositionBitmap) -> Iterator[pa.Table]:
        """Yield the rows of a row group that are at some positions. What is not asked for is dropped first."""
        if not self._wanted:  # nothing of the file: the columns are of its manifest entry, or null
            places = positions.within(group.first_position, group.stop)
            yield self._output(rows_only(len(places)), places)
            tell_rows(group.num_rows)
            return
        for at, rows in self._pieces(group, rows_only(group.num_rows)):
            chosen = positions.mask(group.first_position + at, len(rows))
            places = np.flatnonzero(chosen)
            kept = rows.filter(pa.array(chosen)) if rows.num_columns else rows_only(len(places))
            yield self._output(kept, places + group.first_position + at)
            tell_rows(len(rows))

    def _hits(self, keys: EqualityKeys, group: RowGroup, table: pa.Table) -> tuple[pa.Table, pa.BooleanArray]:
        """Return the table with the columns that had to be read to know which rows have a key, and these rows."""

        def column(at: int) -> pa.ChunkedArray:
            nonlocal table
            names = self._columns.names([self._context.paths.top_level(keys.fields[at])])
            if not set(names) <= set(table.column_names):
                table = _joined(table, self.file.read(group, names))
            return self.column(table, keys.fields[at])

        hit = keys.set.contains_each(len(keys.fields), column, keys.number)
        return table, hit

    def column(self, table: pa.Table, field_id: int) -> pa.ChunkedArray:
        """Return a column or nested leaf by id, with nulls where a parent struct is null."""
        top, path = self._context.paths.path(field_id)
        column = project(table, self._columns, top)
        return pc.struct_field(column, list(path)) if path else column

    def _may_match(self, statistics: Mapping[str, ColumnStatistics], group: RowGroup) -> bool:
        fields = self._context.metadata.all_fields
        filters = [f for f in (self._request.where, self._request.within) if not isinstance(f, AlwaysTrue)]
        nans = self._task.data_file.nan_value_counts if filters else None
        return all(may_match(f, fields, self._columns, statistics, group.num_rows, nans) for f in filters)

    def _may_hit(self, keys: EqualityKeys, statistics: Mapping[str, ColumnStatistics]) -> bool:
        """Return False if some column has no value of a key within the row group's bounds."""
        return keys.set.may_hold([self._bounds(i, statistics) for i in keys.fields])

    def _bounds(self, field_id: int, statistics: Mapping[str, ColumnStatistics]) -> tuple[Any, Any] | None:
        stored = self._columns.by_id.get(field_id)
        if stored is None or stored.name not in statistics or field_id in self._columns.null_parts:
            return None
        kind = self._context.paths.field(field_id).field_type
        if isinstance(kind, FloatType | DoubleType):  # bounds leave out NaN, and do not tell 0.0 from -0.0
            return None
        return bounds_of(kind, stored.type, statistics[stored.name])

    def _selected(self, table: pa.Table) -> pa.BooleanArray | None:
        if isinstance(self._request.where, AlwaysTrue):
            return None
        return flat(evaluate(self._request.where, lambda i: self.column(table, i), len(table)))

    def _pieces(self, group: RowGroup, first: pa.Table) -> Iterator[tuple[int, pa.Table]]:
        """Yield (offset, rows) over a row group, with the output columns; those in `first` are read already."""
        rest, size = [n for n in self._wanted if n not in first.column_names], self._request.batch_rows
        is_read, at = first.num_columns and not rest, 0
        for rows in slices(first, size or group.num_rows) if is_read else self.file.batches(group, rest, size):
            yield at, rows if is_read or not first.num_columns else _joined(first.slice(at, len(rows)), rows)
            at += len(rows)

    def _output(self, table: pa.Table, positions: Numbers) -> pa.Table:
        if not len(self._schema):
            return rows_only(len(table))
        arrays = [self._requested(table, f) for f in self._request.fields]
        if self._request.lineage:
            arrays += self._lineage(table, positions)
        return pa.Table.from_arrays(arrays, schema=self._schema)

    def _row_ids(self, table: pa.Table, first_position: int, places: Numbers) -> pa.Array:
        rows = table.take(pa.array(places)) if table.num_columns else rows_only(len(places))
        return self._lineage(rows, places + first_position)[0]

    def _lineage(self, table: pa.Table, positions: Numbers) -> list[Any]:
        return inherited(self._task.data, positions, *(project(table, self._columns, f) for f in LINEAGE_FIELDS))

    def _requested(self, table: pa.Table, field: NestedField) -> pa.ChunkedArray:
        if self._context.paths.path(field.field_id)[1]:
            return self.column(table, field.field_id)
        return project(table, self._columns, field)


def _joined(first: pa.Table, rest: pa.Table) -> pa.Table:
    names = [*first.column_names, *rest.column_names]
    return pa.Table.from_arrays([*first.columns, *rest.columns], names=names)


def _live(deleted: pa.BooleanArray | None, selected: pa.BooleanArray | None) -> pa.BooleanArray | None:
    if deleted is None or selected is None:
        return selected if deleted is None else pc.invert(deleted)
    return pc.and_not(selected, deleted)


def _numpy(mask: pa.BooleanArray | None, rows: int, *, none: bool) -> npt.NDArray[np.bool_]:
    if mask is None:
        return np.full(rows, none, dtype=np.bool_)
    return unpacked(mask)
