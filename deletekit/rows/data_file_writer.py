"""Write Arrow rows as data files: split by partition, as Parquet, with metrics. Nothing is committed."""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.transforms import VoidTransform

from deletekit.formats.content_file import DataFile
from deletekit.rows.keys import KeyNumbers, column_at, flat
from deletekit.rows.rolling_files import HELD_BYTES, RollingFiles
from deletekit.rows.sort_order import RowOrder
from deletekit.rows.write_context import WriteContext
from deletekit.table.metadata import TableMetadata
from deletekit.table.partition import schema_of_spec
from deletekit.table.properties import value_of
from deletekit.table.transforms import partition_values
from deletekit.table.types import partition_types, stored_value

# Rows are split by partition in pieces of about this size: a split copies them.
_PIECE_BYTES = 16 << 20


def write_data_files(
    context: WriteContext,
    rows: pa.Table | Iterable[pa.Table],
    rows_per_file: int | None = None,
    order: RowOrder | None = None,
) -> list[DataFile]:
    """Write rows as data files of the table's partition spec, one or more per partition.

    Rows that come as several tables are written as they come. No more of them are held than `HELD_BYTES` of
    `rolling_files`, or than a row group if that is larger.

    Parameters
    ----------
    rows: columns of the current schema, as `align` returns them, then those of the row lineage if it must be stored.
    rows_per_file: how many rows a file gets; None ends it at `write.target-file-size-bytes`, encoded.
    order: of the rows of a file; None: the table's sort order. Of rows that come as several tables, those that are held
        at a time are sorted, and go to files of their own.
    """
    order = RowOrder.of(context.metadata) if order is None else order
    tables, spec = [rows] if isinstance(rows, pa.Table) else rows, context.metadata.spec

    def written(pieces: Iterable[pa.Table]) -> list[DataFile]:
        with RollingFiles(context, rows_per_file, order.order_id) as files:
            for piece in pieces:
                for partition, part in split_by_partition(context, piece, spec):
                    files.add(partition, order.sorted(context.metadata, part))
                files.make_room()
            return files.finish()

    if order.fields:
        runs = tables if isinstance(rows, pa.Table) else in_pieces(tables, HELD_BYTES)
        return [file for run in runs for file in written([run])]
    # Not larger than a file: with small files, the first must be there soon.
    target = value_of(context.metadata.properties, "write.target-file-size-bytes")
    return written(in_pieces(tables, _PIECE_BYTES if rows_per_file else min(_PIECE_BYTES, target)))


def split_by_partition(
    context: WriteContext, table: pa.Table, spec: PartitionSpec
) -> Iterator[tuple[tuple[Any, ...], pa.Table]]:
    """Yield each partition (stored values) and its rows, in their original order."""
    if not len(table):
        return
    if not spec.fields:
        yield (), table
        return
    kinds = [kind for _, _, kind in partition_types(spec, schema_of_spec(context.metadata, spec))]
    columns = partition_columns(context.metadata, table, spec)
    groups = KeyNumbers(columns).of_rows
    order = np.argsort(groups, kind="stable")
    starts = np.flatnonzero(np.diff(groups[order], prepend=-1))
    for start, stop in zip(starts, [*starts[1:], len(order)], strict=True):
        first = int(order[start])
        partition = tuple(stored_value(column[first], kind) for column, kind in zip(columns, kinds, strict=True))
        yield partition, table.take(pa.array(order[start:stop]))


def partition_columns(metadata: TableMetadata, table: pa.Table, spec: PartitionSpec) -> list[pa.Array]:
    """Return the partition values of rows, a column for each field of `spec`.

    `table` has the columns of the current schema that the fields need. A `void` field needs none: its source column may
    be dropped.
    """

    def values(field: PartitionField) -> pa.Array:
        if isinstance(field.transform, VoidTransform):
            return pa.nulls(len(table), pa.string())
        return partition_values(field.transform, flat(column_at(table, metadata.schema, field.source_id)))

    return [values(field) for field in spec.fields]


def in_pieces(tables: Iterable[pa.Table], most: int) -> Iterator[pa.Table]:
    """Yield the same rows in tables of about `most` bytes: large ones are cut, small ones joined."""
    waiting: list[pa.Table] = []
    size = 0
    for table in tables:
        step = max(1, len(table) * most // max(1, table.nbytes))
        for start in range(0, len(table), step):
            waiting.append(table.slice(start, step))
            size += waiting[-1].nbytes
            if size >= most:
                yield pa.concat_tables(waiting)
                waiting, size = [], 0
    if waiting:
        yield pa.concat_tables(waiting)
