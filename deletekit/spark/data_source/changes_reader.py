"""Read the changes of a table as Spark tasks: `spark.read` with the option `changes-from`.

The rules of what a change is are those of `deletekit.changes`. Here its tasks become partitions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, get_args

import pyarrow as pa
from pyspark.sql import types as st
from pyspark.sql.datasource import DataSourceReader, InputPartition

from deletekit.deletes.read import ReadContext
from deletekit.errors import InvalidInputError
from deletekit.spark.data_source.options import SourceOptions, names_of
from deletekit.spark.data_source.reader import (
    SPARK_TYPES,
    check_ref,
    spark_column,
    spark_rows,
    without_history,
)
from deletekit.spark.python_process import spare_chores
from deletekit.spark.releases import arrow_schema_of
from deletekit.table.catalog import TableState
from deletekit.table.table import Table
from deletekit.tools.change_reader import ChangeReader, ChangeTask
from deletekit.tools.changes import Changes, Mode, changes

START = "start"
"""In place of a snapshot's id: before the first row."""


def changes_of(table: Table, options: SourceOptions) -> Changes:
    """Return the changes that options ask for. Raises InvalidInputError for a bad option, and as `changes`."""
    check_ref(table.metadata, options)
    start = options.get("changes-from")
    if start is None:
        expected = "the id of a snapshot, or start; a stream has the option starting"
        raise InvalidInputError("changes since when?", kind="option", field="changes-from", expected=expected)
    inverse = options.get("changes-inverse") or "false"
    if inverse.lower() not in ("true", "false"):
        expected = "true or false"
        raise InvalidInputError("bad option", kind="option", field="changes-inverse", found=inverse, expected=expected)
    return changes(
        table,
        None if start == START else options.number("changes-from"),
        options.number("changes-to"),
        ref=options.snapshot["ref"],
        inverse=inverse.lower() == "true",
        **change_arguments(options),
    )


def change_arguments(options: SourceOptions) -> dict[str, Any]:
    """Return the arguments of `changes` that a batch and a stream have. Raises InvalidInputError for a bad option."""
    mode, on = options.get("changes-mode") or "all", options.get("changes-on")
    if mode not in get_args(Mode):
        expected = " or ".join(get_args(Mode))
        raise InvalidInputError("bad option", kind="option", field="changes-mode", found=mode, expected=expected)
    named = None if on is None else names_of(on)
    return {"mode": mode, "on": named, "columns": options.columns, "where": options.get("where")}


def spark_schema_of_changes(found: Changes) -> st.StructType:
    """Return the columns of changes as Spark's. Raises UnsupportedError for one of a type that Spark lacks."""
    own = [spark_column(found.schema, name) for name in found.columns]
    about = list(found.arrow_schema)[len(own) :]
    return st.StructType([*own, *(st.StructField(f.name, SPARK_TYPES[f.type], f.nullable) for f in about)])


def check_spark_schema(found: Changes, schema: st.StructType) -> None:
    """Raise InvalidInputError if a user's schema has other columns than the changes."""
    expected = spark_schema_of_changes(found).simpleString()
    if schema.simpleString() != expected:
        message, told = "changes have columns of their own", f"{expected}; the option columns chooses among them"
        raise InvalidInputError(message, kind="spark-type", field="schema", found=schema.simpleString(), expected=told)


def sent(found: Changes) -> ChangeReader:
    """Return the reader of changes as it is sent to tasks."""
    reader = found.reader()
    return replace(reader, context=ReadContext(reader.context.io, without_history(reader.context.metadata)))


def spark_changes(reader: ChangeReader, task: ChangeTask, made: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the changes of a task as Spark takes them, in the columns `made`."""
    for rows in reader.read(task):
        yield from spark_rows(rows, reader.fields, made)


class ChangesReader(DataSourceReader):
    """One read of the changes between two snapshots.

    Parameters
    ----------
    state: the table at the time of `load()`.
    schema: what `spark_schema_of_changes` gave.

    Raises as `changes_of`, before any task runs.
    """

    def __init__(self, state: TableState, options: SourceOptions, schema: st.StructType) -> None:
        self._changes = changes_of(Table((options.path,), state), options)
        check_spark_schema(self._changes, schema)
        self._reader: ChangeReader | None = None  # tasks have it alone
        self._made = arrow_schema_of(schema)

    def partitions(self) -> Sequence[InputPartition]:
        """Plan a partition for each task. Reads manifests and deletes, and may read key columns."""
        spare_chores()
        return [InputPartition(task) for task in self._changes.tasks()]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        spare_chores()
        if getattr(partition, "value", None) is not None:  # Spark calls this if there is no change
            yield from spark_changes(self._reader or sent(self._changes), partition.value, self._made)

    def __getstate__(self) -> dict[str, Any]:
        return {"_reader": sent(self._changes), "_made": self._made}
