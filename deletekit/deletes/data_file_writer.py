"""Write Arrow rows as data files: split by partition, as Parquet, with metrics. Nothing is committed."""

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.transforms import VoidTransform

from deletekit.deletes.keys import KeyNumbers, column_at, flat
from deletekit.deletes.row_lineage import stored_fields
from deletekit.deletes.sort_order import RowOrder
from deletekit.deletes.write_context import WriteContext
from deletekit.formats.content_file import DataFile
from deletekit.formats.metrics import collect_metrics
from deletekit.formats.parquet import encode_parquet
from deletekit.table.metadata import TableMetadata
from deletekit.table.partition import partition_values, schema_of_spec
from deletekit.table.properties import value_of
from deletekit.table.types import arrow_field, partition_types, schema_to_json, stored_value


def write_data_files(
    context: WriteContext, table: pa.Table, rows_per_file: int | None = None, order: RowOrder | None = None
) -> list[DataFile]:
    """Write rows as data files of the table's partition spec, one or more per partition.

    Parameters
    ----------
    table: columns of the current schema, as `align` returns them, then those of the row lineage if it must be stored.
    rows_per_file: how many rows a file gets; None ends it before it exceeds `write.target-file-size-bytes`.
    order: of the rows of a partition; None: the table's sort order.
    """
    order = RowOrder.of(context.metadata) if order is None else order
    spec, target = context.metadata.spec, value_of(context.metadata.properties, "write.target-file-size-bytes")
    return [
        _write_file(context, rows.slice(start, step), partition, order.order_id)
        for partition, unsorted in split_by_partition(context, table, spec)
        for rows in (order.sorted(context.metadata, unsorted),)
        for step in (rows_per_file or _rows_of_size(rows, target),)
        for start in range(0, len(rows), step)
    ]


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
        source = metadata.schema.find_type(field.source_id)
        return partition_values(field, source, flat(column_at(table, metadata.schema, field.source_id)))

    return [values(field) for field in spec.fields]


def _rows_of_size(table: pa.Table, target_bytes: int) -> int:
    # The size in memory is an upper estimate of the file's: Parquet encodes and compresses.
    pieces: int = max(1, -(-table.nbytes // target_bytes))
    return -(-len(table) // pieces)


def _write_file(context: WriteContext, rows: pa.Table, partition: tuple[Any, ...], order_id: int) -> DataFile:
    metadata = context.metadata
    fields = stored_fields(metadata, rows)
    table = pa.Table.from_arrays(rows.columns, schema=pa.schema([arrow_field(f) for f in fields]))
    footer = {"iceberg.schema": json.dumps(schema_to_json(metadata.schema), separators=(",", ":"))}
    written = encode_parquet(table, footer, context.parquet)
    metrics = collect_metrics(table, context.metrics_mode)
    described = context.write_parquet(metadata.spec, partition, ".parquet", written, metrics, len(table))
    return DataFile(sort_order_id=order_id, **described)
