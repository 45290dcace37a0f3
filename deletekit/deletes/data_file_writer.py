"""Arrow rows -> data files: checked against the schema, split by partition, written as Parquet with metrics.

Law: rows in, `DataFile` values out; nothing is committed. A value that does not fit its column is refused by name.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField

from deletekit.deletes.equality_deletes import comparable
from deletekit.deletes.write_context import DEFAULT_TARGET_BYTES, WriteContext, schema_of_spec
from deletekit.errors import InvalidInputError
from deletekit.formats.content_file import DataFile
from deletekit.formats.metrics import collect_metrics, to_optional
from deletekit.formats.parquet import encode_parquet
from deletekit.table.types import arrow_field, arrow_type, partition_types, schema_to_json, stored_value

__all__ = ["align", "split_by_partition", "write_data_files"]


def write_data_files(
    context: WriteContext, table: pa.Table, spec: PartitionSpec, lineage: Sequence[NestedField] = ()
) -> list[DataFile]:
    """Write rows as data files of `spec`, one or more per partition by `write.target-file-size-bytes`.

    Parameters
    ----------
    table: columns of the current schema, as `align` returns them, then those of `lineage`.
    lineage: row lineage columns stored in the file because the rows carry their own values.
    """
    target = context.size_property("write.target-file-size-bytes", DEFAULT_TARGET_BYTES)
    return [
        _write_file(context, part, spec, partition, lineage)
        for partition, rows in split_by_partition(context, table, spec)
        for part in _by_size(rows, target)
    ]


def align(rows: Any, schema: Schema) -> pa.Table:
    """Rows as a table of exactly `schema`'s columns, in order, with field ids.

    Parameters
    ----------
    rows: a pyarrow Table or RecordBatch, anything with `__arrow_c_stream__`, or a list of dicts. Columns are matched by
        name; a missing optional column takes its write default, else null.

    Raises InvalidInputError, naming the column, for an unknown or missing column, a null in a required one, or a value
    that the column's type cannot hold exactly.
    """
    table = _as_table(rows, schema)
    unknown = [n for n in table.column_names if n not in {f.name for f in schema.fields}]
    if unknown:
        raise InvalidInputError(
            "rows have a column the table does not",
            kind="column-not-found",
            field=unknown[0],
            expected=", ".join(schema.column_names),
        )
    columns = [_align_column(table, field) for field in schema.fields]
    return pa.Table.from_arrays(columns, schema=pa.schema([arrow_field(f) for f in schema.fields]))


def split_by_partition(
    context: WriteContext, table: pa.Table, spec: PartitionSpec
) -> Iterator[tuple[tuple[Any, ...], pa.Table]]:
    """Rows grouped by partition tuple (stored values), each group in its original order."""
    if not len(table):
        return
    if not spec.fields:
        yield (), table
        return
    schema = schema_of_spec(context.metadata, spec)
    types = partition_types(spec, schema)
    columns = [_partition_column(table, schema, field) for field in spec.fields]
    groups = group_codes([part for column in columns for part in comparable(column)])
    order = np.argsort(groups, kind="stable")
    starts = np.flatnonzero(np.diff(groups[order], prepend=-1))
    for start, stop in zip(starts, [*starts[1:], len(order)], strict=True):
        first = int(order[start])
        partition = tuple(_stored(column[first], kind) for column, (_, _, kind) in zip(columns, types, strict=True))
        yield partition, table.take(pa.array(order[start:stop]))


def column_at(table: pa.Table, schema: Schema, field_id: int) -> pa.ChunkedArray:
    """A top-level column or nested leaf of `table` by the id it has in `schema`."""
    names = schema.find_column_name(field_id)
    if names is None:
        raise InvalidInputError("no such column", kind="column-not-found", field=str(field_id))
    top = next(f for f in schema.fields if names == f.name or names.startswith(f.name + "."))
    column = table.column(top.name)
    for name in names[len(top.name) + 1 :].split(".") if names != top.name else []:
        column = pc.struct_field(column, name)
    return column


def _as_table(rows: Any, schema: Schema) -> pa.Table:
    try:
        if isinstance(rows, pa.Table):
            return rows
        if isinstance(rows, list):
            known = pa.schema([pa.field(f.name, _plain(arrow_type(f.field_type))) for f in schema.fields])
            given = {name for row in rows for name in row}
            extra = [n for n in given if n not in known.names]
            if extra:
                raise InvalidInputError(
                    "rows have a column the table does not", kind="column-not-found", field=extra[0]
                )
            return pa.Table.from_pylist(rows, schema=pa.schema([f for f in known if f.name in given]))
        return pa.table(rows)
    except (pa.ArrowException, TypeError, ValueError, AttributeError, OverflowError) as e:
        if isinstance(e, InvalidInputError):
            raise
        raise InvalidInputError("rows are not tabular data of the table's types", kind="rows", found=str(e)) from e


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind


def _align_column(table: pa.Table, field: NestedField) -> Any:
    kind = arrow_type(field.field_type)
    if field.name not in table.column_names:
        return _absent(field, kind, len(table))
    column = table.column(field.name)
    if field.required and column.null_count:
        raise InvalidInputError(
            "null in a required column", kind="null-in-required", field=field.name, found=f"{column.null_count} nulls"
        )
    return cast_column(column, field)


def cast_column(column: pa.ChunkedArray, field: NestedField) -> pa.ChunkedArray:
    """A column as the Arrow type of `field`. Raises InvalidInputError for a value that the type cannot hold exactly."""
    try:
        return _cast(column, arrow_type(field.field_type))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as e:
        raise InvalidInputError(
            f"column does not fit the table's type ({e})",
            kind="column-type",
            field=field.name,
            found=str(column.type),
            expected=str(field.field_type),
        ) from e


def _absent(field: NestedField, kind: pa.DataType, rows: int) -> Any:
    if field.write_default is not None:
        return pa.chunked_array([pa.repeat(pa.scalar(field.write_default, _plain(kind)), rows).cast(kind)])
    if field.required:
        raise InvalidInputError("rows lack a required column", kind="column-not-found", field=field.name)
    return pa.chunked_array([pa.nulls(rows, kind)])


def _cast(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    if column.type == kind and not pa.types.is_nested(kind):
        return column
    if isinstance(column.type, pa.BaseExtensionType):
        column = pa.chunked_array([c.storage for c in column.chunks], type=column.type.storage_type)
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if isinstance(kind, pa.BaseExtensionType):
        storage = column.cast(kind.storage_type)
        return pa.chunked_array([pa.ExtensionArray.from_storage(kind, c) for c in storage.chunks], type=kind)
    if (
        pa.types.is_timestamp(kind)
        and pa.types.is_timestamp(column.type)
        and (kind.tz is None) != (column.type.tz is None)
    ):
        raise pa.ArrowInvalid("a timestamp with a zone is not one without")
    if not _same_family(column.type, kind):
        raise pa.ArrowInvalid(f"{column.type} is not {kind}")
    return column.cast(kind)


def _same_family(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether a cast keeps the meaning: numbers to numbers, text to text; never 1 to "1" or "1" to 1."""
    families = [
        ("integer", "floating", "decimal"),
        ("string", "large_string", "string_view"),
        ("binary", "large_binary", "fixed_size_binary", "binary_view"),
        ("boolean",),
        ("date", "timestamp"),
        ("time",),
        ("struct",),
        ("list", "large_list", "fixed_size_list"),
        ("map",),
    ]
    if pa.types.is_null(found) or found == wanted:
        return True
    return any(
        any(getattr(pa.types, f"is_{n}")(found) for n in names)
        and any(getattr(pa.types, f"is_{n}")(wanted) for n in names)
        for names in families
    )


def _partition_column(table: pa.Table, schema: Schema, field: Any) -> pa.Array:
    source = schema.find_field(field.source_id)
    column = column_at(table, schema, field.source_id).combine_chunks()
    if isinstance(column, pa.ChunkedArray):
        column = column.chunk(0) if column.num_chunks else pa.array([], column.type)
    if isinstance(column.type, pa.BaseExtensionType):
        column = column.storage
    if str(field.transform) == "void":
        return pa.nulls(len(column), pa.string())
    result: pa.Array = field.transform.pyarrow_transform(source.field_type)(column)
    return result


def group_codes(columns: Sequence[Any]) -> Any:
    codes = np.zeros(len(columns[0]), dtype=np.int64)
    for column in columns:
        flat = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        encoded = flat.dictionary_encode(null_encoding="encode")
        values = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        _, codes = np.unique(codes * max(len(encoded.dictionary), 1) + values, return_inverse=True)
    return codes


def _stored(scalar: pa.Scalar, kind: str) -> Any:
    if scalar.is_valid and (pa.types.is_temporal(scalar.type)):
        width = pa.int32() if pa.types.is_date32(scalar.type) else pa.int64()
        return scalar.cast(width).as_py()
    return stored_value(scalar.as_py(), kind)


def _by_size(table: pa.Table, target_bytes: int) -> Iterator[pa.Table]:
    # In-memory size stands in for the file's: an upper estimate, since Parquet encodes and compresses.
    pieces = max(1, -(-table.nbytes // target_bytes))
    step = -(-len(table) // pieces)
    for start in range(0, len(table), step):
        yield table.slice(start, step)


def _write_file(
    context: WriteContext,
    rows: pa.Table,
    spec: PartitionSpec,
    partition: tuple[Any, ...],
    lineage: Sequence[NestedField],
) -> DataFile:
    schema = context.metadata.schema
    fields = [arrow_field(f) for f in (*schema.fields, *lineage)]
    table = pa.Table.from_arrays(rows.columns, schema=pa.schema(fields))
    stored_schema = schema_to_json(schema)
    written = encode_parquet(
        table, {"iceberg.schema": json.dumps(stored_schema, separators=(",", ":"))}, context.parquet
    )
    metrics = collect_metrics(table, context.metrics_mode)
    path = context.data_path(spec, partition, ".parquet")
    context.write(path, written.data)
    return DataFile(
        spec_id=spec.spec_id,
        file_path=path,
        file_format="PARQUET",
        partition=partition,
        record_count=len(table),
        file_size_in_bytes=written.size,
        column_sizes=to_optional(written.column_sizes),
        value_counts=to_optional(metrics.value_counts),
        null_value_counts=to_optional(metrics.null_value_counts),
        nan_value_counts=to_optional(metrics.nan_value_counts),
        lower_bounds=to_optional(metrics.lower_bounds),
        upper_bounds=to_optional(metrics.upper_bounds),
        split_offsets=written.split_offsets,
        sort_order_id=0,
    )
