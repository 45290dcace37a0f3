"""Write a stream of change rows with `writeStream.format("deletekit")`: tasks stage rows, and each epoch is one batch.

Spark calls the writer in processes of its own. Tasks write their rows to files. The process that commits has no Spark
session, so it applies the batch as a sink does with rows that it holds. `foreachBatch` with `Sink.foreach_batch` keeps
the rows on the executors.

A batch is known by the query's id and its number. Spark does not tell a writer the id; it is in the checkpoint.
So a query with another checkpoint is another query, and is refused.
"""

import json
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import types as st
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.pandas.types import to_arrow_schema

from deletekit.deletes.write_context import WriteContext
from deletekit.errors import DeletekitError, InvalidInputError, UnsupportedError
from deletekit.spark.data_source.options import SourceOptions, names_of
from deletekit.spark.data_source.reader import without_history
from deletekit.spark.types import from_spark
from deletekit.stream.change_rows import ChangeFormat, check_columns
from deletekit.stream.sink import Sink, sink
from deletekit.stream.split_parts import read_rows, rows_path, write_rows_file
from deletekit.table.file_io import try_delete
from deletekit.table.metadata import MAIN
from deletekit.table.table import Table


@dataclass(frozen=True)
class StagedRows(WriterCommitMessage):
    """The file that a successful task wrote; None if it had no rows."""

    path: str | None


class StreamWriter(DataSourceStreamArrowWriter):
    """The writer of one epoch to one table.

    Raises InvalidInputError before any task runs for a bad option, branch or key, and for columns that no change rows
    of the table have; UnsupportedError for the output mode `complete`.
    """

    def __init__(self, options: SourceOptions, schema: st.StructType, *, overwrite: bool) -> None:
        if overwrite:
            raise UnsupportedError(
                "a stream of changes cannot overwrite its table in each batch",
                kind="output-mode",
                field="outputMode",
                found="complete",
                expected="append or update, of change rows",
            )
        self._options = options
        if options.get("sink-id") is None:
            message = "a stream needs a name in its table"
            raise InvalidInputError(message, kind="option", field="sink-id", expected="the option sink-id")
        if options.get("checkpointlocation") is None:
            message = "the query is known by its checkpoint, which only an option of the writer tells"
            expected = '.option("checkpointLocation", ...)'
            raise InvalidInputError(message, kind="option", field="checkpointLocation", expected=expected)
        table = options.open_table()
        self._io, self._metadata = table.io, without_history(table.metadata)
        self._none = to_arrow_schema(schema).empty_table()
        with self._sink(table) as opened:
            form = ChangeFormat(
                fields=opened.state.key_fields(table.schema), change_type=self._change_type, order=self._order
            )
            check_columns(from_spark(self._none, table.schema), table.schema, form)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedRows:
        held = [batch for batch in iterator if len(batch)]
        if not held:
            return StagedRows(None)
        # Each attempt of each task gets its own name: this writer is pickled once for all of them.
        context = WriteContext(self._io, self._metadata, str(uuid.uuid4()))
        rows = from_spark(pa.Table.from_batches(held), self._metadata.schema)
        try:
            write_rows_file(context, rows)
        except BaseException:
            context.discard()
            raise
        return StagedRows(rows_path(context))

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803  # Spark's
        """Apply the rows of all tasks as one batch, unless the table has it, and remove their files."""
        paths = _paths(messages)
        try:
            table = self._options.open_table()
            query_id = self._query_id()
            staged = [read_rows(self._io, path) for path in paths]
            rows = pa.concat_tables(staged or [from_spark(self._none, table.schema)])
            with self._sink(table) as opened:
                opened.write(rows, batchId, query_id=query_id, ordered=False)
        finally:
            self._remove(paths)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803
        """Remove what the tasks of a failed epoch staged."""
        self._remove(_paths(messages))

    @property
    def _change_type(self) -> str | None:
        named = self._options.get("change-type")
        return "_change_type" if named is None else named or None

    @property
    def _order(self) -> str | None:
        return self._options.get("order")

    def _sink(self, table: Table) -> Sink:
        key, mode, options = self._options.get("key"), self._options.get("mode") or "auto", self._options
        return sink(
            table,
            options.get("sink-id") or "",
            equality_fields=None if key is None else names_of(key),
            mode=mode,  # type: ignore[arg-type]  # checked there
            ref=options.get("branch") or MAIN,
            change_type=self._change_type,
            order=self._order,
        )

    def _query_id(self) -> str:
        """Return the query's id from the checkpoint. Without it, a lost checkpoint could not be told from a repeat."""
        path = f"{str(self._options.get('checkpointlocation')).rstrip('/')}/metadata"
        try:
            query_id = json.loads(self._io.read(path))["id"]
        except (DeletekitError, OSError, ValueError, KeyError, TypeError) as e:
            raise InvalidInputError(
                "the query's id cannot be read from its checkpoint",
                kind="checkpoint",
                field="checkpointLocation",
                file=path,
                found=str(e),
                expected="a checkpoint that the table's catalog can read, or foreachBatch",
            ) from e
        return str(query_id)

    def _remove(self, paths: Sequence[str]) -> None:
        for path in paths:
            try_delete(self._io, path)


def _paths(messages: Sequence[WriterCommitMessage | None]) -> list[str]:
    return [m.path for m in messages if isinstance(m, StagedRows) and m.path is not None]
