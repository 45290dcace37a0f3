"""Columns of DataFrames that Spark's workers compute in Arrow arrays, by the code that does it for Arrow rows."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyiceberg.schema import Schema
from pyspark.sql import Column, DataFrame
from pyspark.sql.pandas.functions import arrow_udf

from deletekit.deletes.data_file_writer import partition_columns
from deletekit.deletes.input_rows import align
from deletekit.deletes.keys import key_frame
from deletekit.spark.errors_in_text import told_in_text
from deletekit.spark.types import from_spark
from deletekit.table.metadata import TableMetadata
from deletekit.table.types import arrow_type


def partition_hash(frame: DataFrame, table_columns: Sequence[str], metadata: TableMetadata) -> Column | None:
    """Return a number for each row, equal for rows of one table partition; None if no column determines partitions.

    Parameters
    ----------
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

    return arrow_column(number, "long", frame, names)


def arrow_column(function: Callable[..., pa.Array], kind: str, frame: DataFrame, names: Sequence[str]) -> Column:
    """Return a column that `function` computes from others, in Arrow arrays; our errors keep their class."""

    def told(*columns: pa.Array) -> pa.Array:
        with told_in_text():
            return function(*columns)

    udf: Any = arrow_udf  # its stubs know no function of so many columns
    made: Column = udf(told, kind)(*(column_of(frame, name) for name in names))
    return made


def column_of(frame: DataFrame, name: str) -> Column:
    """Return a top-level column by its name, which may have any characters."""
    return frame["`" + name.replace("`", "``") + "`"]
