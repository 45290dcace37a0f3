"""Write a DataFrame: tasks write data files, and the driver commits them all at once.

Only files that successful tasks report are committed, so a retried or speculative task changes nothing. A failed write
removes its files, but never in an unknown commit state.
"""

import uuid
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import types as st
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from deletekit.commit.change import ReadSet, RowDelta
from deletekit.commit.planned_change import check_request, check_same_table, plan_change
from deletekit.commit.swap import commit
from deletekit.errors import CommitStateUnknownError, UnsupportedError
from deletekit.formats.content_file import DataFile
from deletekit.rows.data_file_writer import write_data_files
from deletekit.rows.input_rows import align
from deletekit.rows.write_context import WriteContext, check_parquet_only
from deletekit.spark.data_source.options import SourceOptions
from deletekit.spark.data_source.reader import without_history
from deletekit.spark.releases import arrow_schema_of
from deletekit.spark.types import from_spark, tables_from_spark
from deletekit.table.metadata import MAIN
from deletekit.verbs.shared.guards import Guards

Messages = Sequence[WriterCommitMessage | None]


@dataclass(frozen=True)
class WrittenFiles(WriterCommitMessage):
    """The data files of a successful task."""

    files: tuple[DataFile, ...]


class TableWriter(DataSourceArrowWriter):
    """One append to one table.

    Raises InvalidInputError before any task runs for columns that do not fit, a bad option or branch, or a read-only
    table; UnsupportedError for `mode("overwrite")`.
    """

    def __init__(self, options: SourceOptions, schema: st.StructType, *, overwrite: bool) -> None:
        if overwrite:
            message = "a table cannot be overwritten through this data source"
            expected = 'append; deletekit.delete(table, "true") empties a table'
            raise UnsupportedError(message, "save-mode", "mode", "overwrite", expected)
        self._options = options
        self._ref = options.get("branch") or MAIN
        table = options.open_table()
        self._uuid = table.metadata.table_uuid
        self._io, self._metadata = table.io, without_history(table.metadata)
        check_request(table, self._ref, options.summary)
        check_parquet_only(table.metadata, "write.format.default")
        align(from_spark(arrow_schema_of(schema).empty_table(), table.schema), table.schema)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WrittenFiles:
        # Each attempt of each task gets its own name: this writer is pickled once for all of them.
        context = WriteContext(self._io, self._metadata, str(uuid.uuid4()))
        try:
            files = write_data_files(context, tables_from_spark(iterator, self._metadata.schema))
            return WrittenFiles(tuple(files))
        except BaseException:
            context.discard()
            raise

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Commit all files in one snapshot; a write of no rows makes none."""
        try:
            table = self._options.open_table()
            check_same_table(table, self._uuid)
            delta = RowDelta(added_data_files=_data_files(messages), read_set=ReadSet())
            check, summary = Guards().readable(table.properties), self._options.summary
            commit(plan_change(table, lambda _: delta, ref=self._ref, properties=summary, check=check))
        except CommitStateUnknownError:
            raise  # if it landed, these are the table's files
        except Exception:  # nothing else, such as an interrupt: that may come after the commit
            self._remove(messages)
            raise

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Remove what the tasks of a failed job wrote.

        Spark also calls this after a failed `commit`, which has removed what it may: then no message is missing.
        """
        if any(m is None for m in messages):
            self._remove(messages)

    def _remove(self, messages: Messages) -> None:
        for file in _data_files(messages):
            with suppress(Exception):  # remove_orphan_files finds what storage does not remove
                self._io.delete(file.file_path)


def _data_files(messages: Messages) -> tuple[DataFile, ...]:
    """Return the data files of successful tasks."""
    return tuple(file for message in messages if isinstance(message, WrittenFiles) for file in message.files)
