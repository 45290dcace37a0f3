"""Columns of DataFrames that Spark's workers compute in Arrow arrays, by the code that does it for Arrow rows."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyiceberg.schema import Schema
from pyspark.sql import Column, DataFrame
from pyspark.sql.types import DataType, LongType, StructField, StructType

from deletekit.rows.data_file_writer import partition_columns
from deletekit.rows.input_rows import align
from deletekit.rows.keys import key_frame
from deletekit.spark.errors_in_text import told_in_text
from deletekit.spark.types import from_spark
from deletekit.table.metadata import TableMetadata
from deletekit.table.types import arrow_type

arrow_udf: Any
try:
    from pyspark.sql.pandas.functions import arrow_udf
except ImportError:  # before Spark 4.1
    arrow_udf = None


def with_partition(
    frame: DataFrame, name: str, table_columns: Sequence[str], metadata: TableMetadata
) -> DataFrame | None:
    """Return the rows with a number, equal for rows of one table partition; None if no column determines partitions.

    Parameters
    ----------
    name: of the column that gets the number.
    table_columns: the columns of `frame` that are the table's.

    Only for bringing rows together: two partitions may share a number.
    """
    schema, spec = metadata.schema, metadata.spec
    sources = [schema.find_column_name(f.source_id) or "" for f in spec.fields]
    fields = [f for f in schema.fields if any(n == f.name or n.startswith(f.name + ".") for n in sources)]
    fields = [f for f in fields if f.name in table_columns]
    if not fields:
        return None
    names, part = [f.name for f in fields], Schema(*fields, schema_id=schema.schema_id)

    def number(*columns: pa.Array) -> pa.Array:
        rows = align(from_spark(pa.table(dict(zip(names, columns, strict=True))), part), part)
        absent = {f.name: pa.nulls(len(rows), arrow_type(f.field_type)) for f in schema.fields}
        whole = pa.table(absent | {n: rows.column(n) for n in names})
        hashes = key_frame(partition_columns(metadata, whole, spec)).hash_rows(seed=0)
        return pa.array(hashes.to_numpy().view(np.int64))

    return with_arrow_column(frame, name, LongType(), number, names)


def with_arrow_column(
    frame: DataFrame, name: str, kind: DataType, function: Callable[..., pa.Array], sources: Sequence[str]
) -> DataFrame:
    """Return the rows with a column that `function` computes from others, in Arrow arrays; our errors keep their class.

    Before Spark 4.1, which has functions of Arrow arrays, the whole rows go through Python.
    """
    if arrow_udf is not None:

        def told(*columns: pa.Array) -> pa.Array:
            with told_in_text():
                return function(*columns)

        return frame.withColumn(name, arrow_udf(told, kind)(*(column_of(frame, source) for source in sources)))
    at = [frame.columns.index(source) for source in sources]

    def added(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            with told_in_text():
                columns = [*batch.columns, function(*(batch.column(i) for i in at))]
            yield pa.RecordBatch.from_arrays(columns, [f"c{i}" for i in range(len(columns))])

    # mapInArrow takes a dot in a name for the way into a struct.
    plain = frame.toDF(*(f"c{i}" for i in range(len(frame.columns))))
    schema = StructType([*plain.schema.fields, StructField(f"c{len(frame.columns)}", kind)])
    return plain.mapInArrow(added, schema).toDF(*frame.columns, name)


def column_of(frame: DataFrame, name: str) -> Column:
    """Return a top-level column by its name, which may have any characters."""
    return frame["`" + name.replace("`", "``") + "`"]
