"""The data source's entry point, which Spark loads in its own processes and pickles between them.

Spark imports this module in every session that uses any data source written in Python. So it imports only pyspark, and
everything slow when a table is opened.
"""

from typing import Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType


class DefaultSource(DataSource):
    """Iceberg tables for Spark without an Iceberg jar: `spark.read.format("deletekit").load("namespace.table")`.

    The catalog: the options `warehouse` (the embedded one), or `type`, `uri` and the others that
    `deletekit.load_catalog` takes, or `catalog` with a name that `deletekit.spark.session` or pyiceberg's configuration
    knows; without any, the session's own. A metadata file or a table's directory can be loaded too.

    Options of a read: `snapshot-id`, `as-of-timestamp` (milliseconds), `branch`, `tag` or `ref`; `columns`, separated
    by commas (or `.schema(...)`), for Spark tells no Python source which ones a query needs; metadata columns are
    among them on request; `where`, a filter of deletekit's, which skips files; `split-size`, bytes for a task. A filter
    of the query is evaluated by Spark, for Spark 4.1 to 4.3 mixes up the filters that two queries push down.

    Options of a read of changes, as `deletekit.changes` has them: `changes-from` and `changes-to`, ids of snapshots
    (`start` is before the first row, and without `changes-to` it is the head of `branch`, `tag` or `ref`),
    `changes-mode` (`all`, `net`, `upsert`), `changes-on`, separated by commas, `changes-inverse` (`true`), `columns`
    and `where`.

    Options of a stream's read, which gives changes: `starting`, for a new checkpoint: `full` (first all rows as
    inserts), `now`, `start`, or the id of a snapshot whose changes the reader has; `max-snapshots-per-trigger`;
    `branch`, `changes-mode`, `changes-on`, `columns` and `where`. The trigger `availableNow` runs one batch, so with a
    limit it stops there: Spark 4.1 does not tell a Python source more. The columns are those of the table at `load()`.

    Options of a write, which appends: `branch`, `snapshot-property.<name>`. `deletekit.upsert(table, frame)` upserts,
    and `writeStream.foreachBatch(sink.foreach_batch)` writes a stream.
    """

    _state: Any = None

    @classmethod
    def name(cls) -> str:
        return "deletekit"

    def schema(self) -> StructType:
        from deletekit.spark.data_source import changes_reader, options, reader, stream_reader  # noqa: PLC0415  # slow
        from deletekit.spark.python_process import spare_chores  # noqa: PLC0415

        spare_chores()
        known = options.read_options(self.options)
        given = options.SourceOptions(self.options, known)
        # The schema and the plan are made in two processes, but must be of the same table state.
        table = given.open_table()
        self._state = table.state
        if known is options.READ_OPTIONS:
            return reader.spark_schema(table.metadata, given)
        if known is options.CHANGES_OPTIONS:
            return changes_reader.spark_schema_of_changes(changes_reader.changes_of(table, given))
        return changes_reader.spark_schema_of_changes(stream_reader.stream_changes(table, table.schema, given))

    def reader(self, schema: StructType) -> DataSourceReader:
        from deletekit.errors import InvalidInputError  # noqa: PLC0415  # slow, see above
        from deletekit.spark.data_source import changes_reader, options, reader  # noqa: PLC0415

        known = options.read_options(self.options)
        given = options.SourceOptions(self.options, known)
        state = self._taken_state() or given.open_table().state
        if known is options.STREAM_READ_OPTIONS:
            message, expected = "only a stream has this option", "readStream, or the option changes-from"
            raise InvalidInputError(message, kind="option", field="starting", expected=expected)
        of_changes = known is options.CHANGES_OPTIONS
        kind = changes_reader.ChangesReader if of_changes else reader.TableReader
        return kind(state, given, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  # Spark's name
        from deletekit.spark.data_source import options, stream_reader  # noqa: PLC0415  # slow, see above

        given = options.SourceOptions(self.options, options.STREAM_READ_OPTIONS)
        state = self._taken_state()
        return stream_reader.ChangeStreamReader(None if state is None else state.metadata.schema, given, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from deletekit.spark.data_source.options import WRITE_OPTIONS, SourceOptions  # noqa: PLC0415
        from deletekit.spark.data_source.writer import TableWriter  # noqa: PLC0415

        return TableWriter(SourceOptions(self.options, WRITE_OPTIONS), schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: ARG002, N802  # Spark's
        from deletekit.errors import UnsupportedError  # noqa: PLC0415  # slow, see above

        message = "a stream cannot be written through this data source"
        expected = "writeStream.foreachBatch(sink.foreach_batch), with deletekit.stream.sink"
        raise UnsupportedError(message, kind="save-mode", field="writeStream", expected=expected)

    def _taken_state(self) -> Any:
        """Return the state that `schema` saw, and forget it.

        Spark pickles this source into every task, and no task needs the table's whole metadata.
        """
        state, self._state = self._state, None
        return state
