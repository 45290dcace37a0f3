"""Reading one data file with every delete applied.

Law: a task is a pure function of its values and the files they name. Positions are absolute ordinals in the file; a
deletion vector or position delete is applied by position, an equality delete by value, before any row is dropped.
Spec: "Row-level Deletes", https://iceberg.apache.org/spec/#row-level-deletes
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField

from deletekit.deletes.delete_loader import DeleteLoader
from deletekit.deletes.field_path import FieldPaths
from deletekit.deletes.filter import evaluate, filter_field_ids
from deletekit.deletes.projection import FileColumns, project, with_field_ids
from deletekit.deletes.scan_planning import ScanTask
from deletekit.errors import DeletekitError, FormatError
from deletekit.formats.content_file import ManifestEntry, refuse_encrypted
from deletekit.formats.decimals import decimal_of_bytes
from deletekit.formats.tabular import RowGroup, TabularFile, open_tabular
from deletekit.table.file_io import FileIO
from deletekit.table.metadata import TableMetadata
from deletekit.table.types import arrow_type

__all__ = ["LAST_UPDATED_ID", "ROW_ID_ID", "FileBatch", "ReadContext", "ReadRequest", "read_task"]

ROW_ID_ID = 2147483540
LAST_UPDATED_ID = 2147483539
ROW_ID_FIELD = NestedField(ROW_ID_ID, "_row_id", LongType(), required=False)
LAST_UPDATED_FIELD = NestedField(LAST_UPDATED_ID, "_last_updated_sequence_number", LongType(), required=False)


@dataclass(frozen=True)
class ReadContext:
    """What every task of one operation shares: storage, metadata, and the delete files already loaded."""

    io: FileIO
    metadata: TableMetadata
    loader: DeleteLoader = field(init=False)
    paths: FieldPaths = field(init=False)

    def __post_init__(self) -> None:
        paths = FieldPaths(self.metadata)
        object.__setattr__(self, "paths", paths)
        object.__setattr__(self, "loader", DeleteLoader(self.io, self.metadata, paths))


@dataclass(frozen=True)
class ReadRequest:
    """What to read of each row.

    Attributes
    ----------
    fields: the columns to project, of any schema of the table.
    where: bound filter; rows for which it is not true are not `selected`.
    lineage: also read `_row_id` and `_last_updated_sequence_number` (v3; null before the upgrade).
    """

    fields: tuple[NestedField, ...]
    where: BooleanExpression = field(default_factory=AlwaysTrue)
    lineage: bool = False


@dataclass(frozen=True)
class FileBatch:
    """Consecutive rows of a data file, deleted ones included.

    Attributes
    ----------
    table: the requested columns.
    first_position: position of the first row.
    deleted: True where some delete hides the row.
    selected: True where the filter is true, whether the row is deleted or not.
    """

    table: pa.Table
    first_position: int
    deleted: npt.NDArray[np.bool_]
    selected: npt.NDArray[np.bool_]

    @property
    def live(self) -> npt.NDArray[np.bool_]:
        """Rows a query returns: selected and not deleted."""
        return self.selected & ~self.deleted

    def positions(self, mask: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
        """Absolute positions of the rows where `mask` is True."""
        return np.flatnonzero(mask).astype(np.int64) + self.first_position


def read_task(context: ReadContext, task: ScanTask, request: ReadRequest) -> Iterator[FileBatch]:
    """Read a data file, one batch per row group.

    Raises FormatError or NotFoundError naming the data or delete file that is damaged or missing.
    """
    refuse_encrypted(task.data_file)
    positions = context.loader.positions(task)
    key_sets = context.loader.key_sets(task)
    file_path = task.data_file.file_path
    try:
        with context.io.open(file_path) as source:
            file = open_tabular(source, task.data_file.file_format)
            schema = with_field_ids(file.schema, context.metadata.properties.get("schema.name-mapping.default"))
            columns = FileColumns(schema, _constants(context, task.data))
            rows = _Rows(context, task, request, file, columns)
            for group in file.row_groups:
                table = rows.read(group, [top for keys in key_sets for top in keys.top_level])
                deleted = positions.mask(group.first_position, group.num_rows)
                for keys in key_sets:
                    if not deleted.all():
                        deleted |= keys.set.contains([rows.column(table, f) for f in keys.fields])
                yield rows.batch(table, group, deleted)
    except DeletekitError as e:
        raise e.in_file(file_path) from e


class _Rows:
    """One open data file: reads row groups once and projects whatever is asked for from them."""

    def __init__(
        self, context: ReadContext, task: ScanTask, request: ReadRequest, file: TabularFile, columns: FileColumns
    ) -> None:
        self._context = context
        self._task = task
        self._request = request
        self._file = file
        self._columns = columns
        self._filter_fields = [context.paths.top_level(i) for i in sorted(filter_field_ids(request.where))]

    def read(self, group: RowGroup, key_fields: Sequence[NestedField]) -> pa.Table:
        wanted = [*(self._top_level(f) for f in self._request.fields), *self._filter_fields, *key_fields]
        if self._request.lineage:
            wanted += [ROW_ID_FIELD, LAST_UPDATED_FIELD]
        names = list(dict.fromkeys(self._columns.names(wanted)))
        table = self._file.read(group, names)
        if len(table) != group.num_rows:
            raise FormatError("row group is cut off", kind="truncated", found=len(table), expected=group.num_rows)
        return table

    def column(self, table: pa.Table, field_id: int) -> pa.ChunkedArray:
        """A column or nested leaf by id, with nulls where a parent struct is null."""
        top, path = self._context.paths.path(field_id)
        column = project(table, self._columns, top)
        return pc.struct_field(column, list(path)) if path else column

    def batch(self, table: pa.Table, group: RowGroup, deleted: npt.NDArray[np.bool_]) -> FileBatch:
        rows = group.num_rows
        if isinstance(self._request.where, AlwaysTrue):
            selected = np.ones(rows, dtype=np.bool_)
        else:
            mask = evaluate(self._request.where, lambda i: self.column(table, i), rows)
            selected = mask.to_numpy(zero_copy_only=False) if rows else np.zeros(0, dtype=np.bool_)
        return FileBatch(self._output(table, group), group.first_position, deleted, selected)

    def _output(self, table: pa.Table, group: RowGroup) -> pa.Table:
        fields = list(self._request.fields)
        arrays = [self._requested(table, f) for f in fields]
        schema = [pa.field(f.name, arrow_type(f.field_type), not f.required) for f in fields]
        if self._request.lineage:
            arrays += self._lineage(table, group)
            schema += [pa.field(f.name, pa.int64()) for f in (ROW_ID_FIELD, LAST_UPDATED_FIELD)]
        if not arrays:
            return table.select([])
        return pa.Table.from_arrays(arrays, schema=pa.schema(schema))

    def _top_level(self, field: NestedField) -> NestedField:
        return self._context.paths.top_level(field.field_id) if self._is_nested(field) else field

    def _requested(self, table: pa.Table, field: NestedField) -> pa.ChunkedArray:
        if self._is_nested(field):
            return self.column(table, field.field_id)
        return project(table, self._columns, field)

    def _is_nested(self, field: NestedField) -> bool:
        return bool(self._context.paths.path(field.field_id)[1])

    def _lineage(self, table: pa.Table, group: RowGroup) -> list[Any]:
        """Stored values where not null, else first_row_id + position and the file's data sequence number (v3)."""
        first = self._task.data_file.first_row_id
        if first is None:
            return [pa.nulls(group.num_rows, pa.int64())] * 2
        start = first + group.first_position
        ids = pa.array(np.arange(start, start + group.num_rows, dtype=np.int64))
        stored_ids = project(table, self._columns, ROW_ID_FIELD)
        stored_seq = project(table, self._columns, LAST_UPDATED_FIELD)
        seq = pa.scalar(self._task.data.sequence_number, pa.int64())
        return [pc.coalesce(stored_ids, ids), pc.coalesce(stored_seq, seq)]


def _constants(context: ReadContext, data: ManifestEntry) -> dict[int, pa.Scalar]:
    """Identity partition values, for columns that the data file leaves out (Hive-style files)."""
    spec = context.metadata.specs[data.data_file.spec_id]
    if not spec.fields:
        return {}
    out: dict[int, pa.Scalar] = {}
    for partition_field, value in zip(spec.fields, data.data_file.partition, strict=True):
        source = context.metadata.all_fields.get(partition_field.source_id)
        if source is not None and isinstance(partition_field.transform, IdentityTransform):
            out[source.field_id] = _constant(value, source)
    return out


def _constant(value: Any, source: NestedField) -> pa.Scalar:
    kind = arrow_type(source.field_type)
    if isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    if value is not None and pa.types.is_decimal(kind):
        return pa.scalar(decimal_of_bytes(value, kind.scale), kind)
    return pa.scalar(value, kind)
