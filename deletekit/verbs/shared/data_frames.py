"""Write and join the rows of Spark DataFrames on Spark's executors.

No row comes to the driver; it gets schemas, and the files that were written. Values are checked by the same code as
Arrow rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np
import pyarrow as pa
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema

from deletekit.deletes.data_file_writer import partition_columns, write_data_files
from deletekit.deletes.input_rows import align
from deletekit.deletes.keys import key_frame
from deletekit.deletes.write_context import WriteContext
from deletekit.engines.current import engine_or_default
from deletekit.engines.local import Engine
from deletekit.errors import InvalidInputError
from deletekit.formats.content_file import DataFile
from deletekit.table.metadata import TableMetadata
from deletekit.table.properties import value_of
from deletekit.table.types import arrow_type
from deletekit.verbs.shared.spark_rows import from_spark

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from deletekit.engines.spark import SparkEngine

# A worker writes what it got whenever it has so much: files end there, and at the target size.
_CHUNK_BYTES = 128 << 20
_PARTITION = "__deletekit_partition"


def is_data_frame(rows: Any) -> TypeGuard[DataFrame]:
    """Return whether rows are a DataFrame of PySpark, without importing it."""
    return type(rows).__name__ == "DataFrame" and type(rows).__module__.startswith("pyspark.sql.")


def engine_of(frame: DataFrame, engine: Engine | None = None) -> SparkEngine:
    """Return the Spark engine of a call, or one on the DataFrame's session. Raises UnsupportedError for Connect."""
    from deletekit.engines.spark import SparkEngine  # noqa: PLC0415  # pyspark is an extra

    chosen = engine_or_default(engine)
    return chosen if isinstance(chosen, SparkEngine) else SparkEngine(frame.sparkSession)


def empty_rows(frame: DataFrame, argument: str = "rows") -> pa.Table:
    """Return no rows, with the Arrow types of a DataFrame. Raises InvalidInputError for a type that Arrow lacks."""
    from pyspark.errors import PySparkException  # noqa: PLC0415  # pyspark is an extra

    for name in frame.columns:
        if frame.columns.count(name) > 1:
            raise InvalidInputError(f"{argument} have a column twice", kind="column-not-unique", field=name)
    try:
        return frame.limit(0).toArrow()
    except PySparkException as e:
        raise InvalidInputError(
            f"{argument} have a type that does not fit a table", kind="rows", field=argument, found=str(e)
        ) from e


def append_frame(frame: DataFrame, write: WriteContext, metadata: TableMetadata, engine: SparkEngine) -> list[DataFile]:
    """Write the rows of a DataFrame as data files, in its partitions or by `write.distribution-mode`.

    Raises InvalidInputError for rows that do not fit the schema: their columns before anything runs.
    """
    schema, spec = metadata.schema, metadata.spec
    align(from_spark(empty_rows(frame), schema), schema)
    place = None if distribution_mode(metadata) == "none" else partition_hash(frame, frame.columns, metadata)

    def written(batches: Iterator[pa.RecordBatch]) -> list[DataFile]:
        chunks = (align(from_spark(rows, schema), schema) for rows in in_chunks(batches))
        return [file for rows in chunks for file in write_data_files(write, rows, spec)]

    return [file for files in engine.map_partitions(together(frame, place), written) for file in files]


def together(frame: DataFrame, place: Column | None) -> DataFrame:
    """Bring the rows of a DataFrame with the same `place` into one of its partitions; None changes nothing."""
    return frame if place is None else frame.withColumn(_PARTITION, place).repartition(_PARTITION).drop(_PARTITION)


def distribution_mode(metadata: TableMetadata) -> str:
    """Return `write.distribution-mode`: `none`, or `hash`, the default of partitioned tables; `range` is `hash`.

    An unpartitioned table has nothing to hash by. Raises InvalidInputError for any other.
    """
    partitioned = bool(metadata.spec.fields)
    mode: str = value_of(metadata.properties, "write.distribution-mode") or "hash"
    return mode if partitioned else "none"


def partition_hash(frame: DataFrame, table_columns: Sequence[str], metadata: TableMetadata) -> Column | None:
    """Return a number for each row, equal for rows of one table partition; None if no column determines partitions.

    Parameters
    ----------
    table_columns: the columns of `frame` that are the table's.

    Only for bringing rows together: two partitions may share a number.
    """
    schema, spec = metadata.schema, metadata.spec
    names = _source_columns(schema, spec, table_columns)
    if not names:
        return None
    fields = Schema(*(f for f in schema.fields if f.name in names), schema_id=schema.schema_id)

    def number(*columns: pa.Array) -> pa.Array:
        rows = align(from_spark(pa.table(dict(zip(names, columns, strict=True))), fields), fields)
        absent = {f.name: pa.nulls(len(rows), arrow_type(f.field_type)) for f in schema.fields}
        whole = pa.table(absent | {n: rows.column(n) for n in names})
        hashes = key_frame(partition_columns(metadata, whole, spec)).hash_rows(seed=0)
        return pa.array(hashes.to_numpy().view(np.int64))

    return arrow_column(number, "long", frame, names)


def arrow_column(function: Callable[..., pa.Array], kind: str, frame: DataFrame, names: Sequence[str]) -> Column:
    """Return a column that `function` computes from others, in Arrow arrays; our errors keep their class."""
    from pyspark.sql.pandas.functions import arrow_udf  # noqa: PLC0415  # pyspark is an extra

    from deletekit.engines.serialization import told_in_text  # noqa: PLC0415  # needs pyspark

    def told(*columns: pa.Array) -> pa.Array:
        with told_in_text():
            return function(*columns)

    udf: Any = arrow_udf  # its stubs know no function of so many columns
    made: Column = udf(told, kind)(*(column_of(frame, name) for name in names))
    return made


def column_of(frame: DataFrame, name: str) -> Column:
    """Return a top-level column by its name, which may have any characters."""
    return frame["`" + name.replace("`", "``") + "`"]


def _source_columns(schema: Schema, spec: PartitionSpec, table_columns: Sequence[str]) -> list[str]:
    """Return the top-level columns that a partition is computed from."""
    found = [schema.find_column_name(f.source_id) or "" for f in spec.fields]
    tops = [f.name for f in schema.fields if any(n == f.name or n.startswith(f.name + ".") for n in found)]
    return [name for name in tops if name in table_columns]


def in_chunks(batches: Iterable[pa.RecordBatch], size: int = _CHUNK_BYTES) -> Iterator[pa.Table]:
    """Yield tables of about `size` bytes, joined from batches; none for no rows."""
    waiting: list[pa.RecordBatch] = []
    waiting_bytes = 0
    for batch in batches:
        if not len(batch):
            continue
        waiting.append(batch)
        waiting_bytes += batch.nbytes
        if waiting_bytes >= size:
            yield pa.Table.from_batches(waiting)
            waiting, waiting_bytes = [], 0
    if waiting:
        yield pa.Table.from_batches(waiting)
