"""Read a table as Spark tasks: the read is planned once, from manifests; then each task reads its own data files.

A plan is a list of values, and a task is a pure function of one of them. No data goes through the planner. Every batch
that leaves a task is Arrow, with every delete applied.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pyarrow as pa
from pyiceberg import types as it
from pyiceberg.schema import Schema
from pyspark.sql import types as st
from pyspark.sql.datasource import DataSourceReader, InputPartition

from deletekit.deletes.plan import plan_scan
from deletekit.deletes.read import ReadContext, read_task
from deletekit.deletes.scan_task import TaskPart, task_parts
from deletekit.errors import InvalidInputError
from deletekit.filters.filter import parse_filter, unbound_filter
from deletekit.spark.data_source.options import SourceOptions
from deletekit.spark.python_process import spare_chores
from deletekit.spark.releases import arrow_schema_of
from deletekit.spark.types import spark_field, spark_type, to_spark
from deletekit.table.catalog import TableState
from deletekit.table.column_names import unknown_column
from deletekit.table.metadata import Snapshot, TableMetadata
from deletekit.table.properties import value_of
from deletekit.table.snapshot import SnapshotReader
from deletekit.table.types import arrow_schema, arrow_type
from deletekit.verbs.scan import METADATA_COLUMNS, ScanResult, is_metadata_column
from deletekit.verbs.shared.read_options import resolve_snapshot

# Iceberg's own defaults; properties and option of the same names.
# A whole batch must fit in the JVM's direct memory, about 512 MB on a small driver.
BATCH_ROWS = 1 << 16
_READ_ROWS = 1 << 17
"""Decoded at once. With twice as many a read takes more memory, with half as many more processor time."""
_LEAST_SPLIT = 16 << 20
"""Iceberg's own: a task of less takes longer to start than to run."""
_HISTORY = ("snapshots", "snapshot-log", "metadata-log", "statistics", "partition-statistics")
SPARK_TYPES = {
    pa.string(): st.StringType(),
    pa.int64(): st.LongType(),
    pa.int32(): st.IntegerType(),
    pa.bool_(): st.BooleanType(),
}


def spark_schema(metadata: TableMetadata, options: SourceOptions) -> st.StructType:
    """Return the columns to read, as Spark's: those of the option `columns`, else all of the table.

    Raises InvalidInputError for an unknown column, UnsupportedError for one of a type that Spark lacks.
    """
    _, schema = _state(metadata, options)
    return st.StructType([spark_column(schema, n) for n in options.columns or [f.name for f in schema.fields]])


def spark_column(schema: Schema, name: str) -> st.StructField:
    """Return a column of the table, or a metadata column, as Spark's. Raises as `spark_schema`."""
    if is_metadata_column(name, schema):
        return st.StructField(name, SPARK_TYPES[METADATA_COLUMNS[name]])
    return spark_field(_column(schema, name))


def spark_rows(rows: pa.Table, fields: Mapping[str, it.NestedField], made: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield rows as Spark takes them, in the columns `made`; `fields` are the columns of the table among them."""
    pairs = ((fields.get(name), column) for name, column in zip(rows.column_names, rows.columns, strict=True))
    columns = [column if field is None else to_spark(column, field.field_type) for field, column in pairs]
    yield from pa.table(columns, schema=made).to_batches(BATCH_ROWS)


def check_ref(metadata: TableMetadata, options: SourceOptions) -> None:
    """Raise InvalidInputError if the option `branch` names a tag, or `tag` a branch."""
    for name in ("branch", "tag"):
        wanted = options.get(name)
        found = metadata.refs.get(wanted or "", {}).get("type", "branch")
        if wanted is not None and wanted in metadata.refs and found != name:
            raise InvalidInputError(f"not a {name}", kind="ref", field=name, found=f"{found} {wanted}")


def without_history(metadata: TableMetadata) -> TableMetadata:
    """Return the metadata that tasks need. It is sent to each task, and the history may be megabytes."""
    return TableMetadata({k: v for k, v in metadata.raw.items() if k not in _HISTORY})


class TableReader(DataSourceReader):
    """One read of one snapshot.

    It takes over no filter of a query (`pushFilters`): Spark 4.1 to 4.3 reads with it in the next query on the same
    DataFrame or view too, and rows would be missing there.

    Parameters
    ----------
    state: the table at the time of `load()`.
    schema: the columns to read: of the table, or what the user's `.schema(...)` says, which may leave out and reorder
        columns and fields of structs, and name metadata columns.

    Raises InvalidInputError for a column or type that the table does not have, a bad filter, or a bad option.
    """

    def __init__(self, state: TableState, options: SourceOptions, schema: st.StructType) -> None:
        self._io, self._metadata = state.io, state.metadata
        self._snapshot, self._schema = _state(state.metadata, options)
        self._columns = [f.name for f in schema.fields]
        self._fields = {
            f.name: _requested(_column(self._schema, f.name), f.dataType, f.nullable, f.name)
            for f in schema.fields
            if not is_metadata_column(f.name, self._schema)
        }
        for field in schema.fields:
            if field.name not in self._fields:
                expected = SPARK_TYPES[METADATA_COLUMNS[field.name]]
                if field.dataType != expected:
                    raise _other_type(field.name, field.dataType, expected)
        arrow_schema(Schema(*self._fields.values()))  # refuses, by name, a type that cannot be read
        self._made = arrow_schema_of(schema)
        self._where = unbound_filter(options.get("where"), self._schema)
        properties = state.metadata.properties
        given = options.number("split-size")
        self._split = given or value_of(properties, "read.split.target-size")
        self._adapts = given is None and value_of(properties, "read.split.adaptive-size.enabled")
        self._open_cost = value_of(properties, "read.split.open-file-cost")

    def partitions(self) -> Sequence[InputPartition]:
        """Plan a partition for about each `split-size` bytes of row groups. Read manifests only."""
        spare_chores()
        reader = SnapshotReader(self._io, self._metadata)
        tasks = plan_scan(self._metadata, self._snapshot, reader, self._where, self._schema)
        parts = list(task_parts(tasks, join=False))
        weights = [_weight(part, self._open_cost) for part in parts]
        return [InputPartition(tuple(parts[run])) for run in even_runs(weights, self._splits(weights))]

    def _splits(self, weights: Sequence[int]) -> int:
        """Return how many partitions to make of parts of so many bytes, one after the other.

        Spark does not tell a Python source how many tasks run at a time. We take the processors of the driver's
        machine, which is right for a local session, and give each the same number of partitions, unless these would be
        too small.
        """
        count, room = 0, 0
        for weight in weights:
            if weight > room:
                count, room = count + 1, self._split
            room -= weight
        if not self._adapts:
            return count
        cores = os.cpu_count() or 1
        return max(count, min(-(-count // cores) * cores, sum(weights) // _LEAST_SPLIT))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        spare_chores()
        if getattr(partition, "value", None) is None:  # Spark calls this for a table without a file
            return
        context = ReadContext(self._io, self._metadata)
        context.loader.expect([part.task for part in partition.value])
        kinds = METADATA_COLUMNS | {n: arrow_type(f.field_type) for n, f in self._fields.items()}
        result = ScanResult(self._columns, self._fields, pa.schema([(n, kinds[n]) for n in self._columns]))
        request = replace(result.request(parse_filter(self._where, self._schema)), batch_rows=_READ_ROWS)
        for part in partition.value:
            for batch in read_task(context, part, request):
                yield from spark_rows(result.of(batch, part.task), self._fields, self._made)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_metadata": without_history(self._metadata), "_snapshot": None}


def even_runs(weights: Sequence[int], count: int) -> list[slice]:
    """Cut weights into `count` runs, or one for each weight if there are fewer, whose sums are about the same."""
    starts: list[int] = []
    size, rest = 0, sum(weights)
    for index, weight in enumerate(weights):
        # `rest`, the open run and all that follows it, is for that run and those still to come.
        share = rest / (count - len(starts) + 1)
        if not starts or size + weight / 2 > share or len(weights) - index <= count - len(starts):
            starts.append(index)
            rest, size = rest - size, 0
        size += weight
    return [slice(*ends) for ends in pairwise([*starts, len(weights)])]


def _weight(part: TaskPart, open_cost: int) -> int:
    """Return the bytes to read for a part; to open the file and to read its deletes is in the first one's."""
    own = max(part.size, 1)
    if part.index:
        return own
    return max(own, open_cost) + sum(d.content_size_in_bytes or d.file_size_in_bytes for d in part.task.delete_files)


def _state(metadata: TableMetadata, options: SourceOptions) -> tuple[Snapshot | None, Schema]:
    check_ref(metadata, options)
    return resolve_snapshot(metadata, **options.snapshot)


def _column(schema: Schema, name: str) -> it.NestedField:
    found = next((f for f in schema.fields if f.name == name), None)
    if found is None:
        raise unknown_column(name, [*(f.name for f in schema.fields), *METADATA_COLUMNS])
    return found


def _requested(field: it.NestedField, wanted: st.DataType, nullable: bool, path: str) -> it.NestedField:
    """Return the part of a column that a Spark schema asks for; its type must be the table's own."""
    if not nullable and not field.required:
        raise InvalidInputError(
            "column may be null", kind="spark-type", field=path, found="not null", expected="nullable"
        )
    return field.model_copy(update={"field_type": _narrowed(field.field_type, wanted, path)})


def _narrowed(kind: it.IcebergType, wanted: st.DataType, path: str) -> it.IcebergType:
    if isinstance(kind, it.StructType) and isinstance(wanted, st.StructType):
        known = {f.name: f for f in kind.fields}
        if not wanted.fields or not known.keys() >= set(wanted.fieldNames()):
            raise _other_type(path, wanted, spark_type(kind, path))
        return it.StructType(
            *(_requested(known[f.name], f.dataType, f.nullable, f"{path}.{f.name}") for f in wanted.fields)
        )
    if isinstance(kind, it.ListType) and isinstance(wanted, st.ArrayType):
        return it.ListType(
            kind.element_id, _narrowed(kind.element_type, wanted.elementType, f"{path}.element"), kind.element_required
        )
    if isinstance(kind, it.MapType) and isinstance(wanted, st.MapType):
        _narrowed(kind.key_type, wanted.keyType, f"{path}.key")
        value = _narrowed(kind.value_type, wanted.valueType, f"{path}.value")
        return it.MapType(kind.key_id, kind.key_type, kind.value_id, value, kind.value_required)
    if spark_type(kind, path) != wanted:
        raise _other_type(path, wanted, spark_type(kind, path))
    return kind


def _other_type(path: str, found: st.DataType, expected: st.DataType) -> InvalidInputError:
    return InvalidInputError(
        "column has another type in the table",
        kind="spark-type",
        field=path,
        found=found.simpleString(),
        expected=expected.simpleString(),
    )
