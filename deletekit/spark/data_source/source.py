"""The data source's entry point, which Spark loads in its own processes and pickles between them.

Spark imports this module in every session that uses any data source written in Python. So it imports only pyspark, and
everything slow when a table is opened.
"""

from importlib import import_module
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamWriter, DataSourceWriter
from pyspark.sql.types import StructType


class DefaultSource(DataSource):
    """Iceberg tables for Spark without an Iceberg jar: `spark.read.format("deletekit").load("namespace.table")`.

    The catalog: the options `warehouse` (the embedded one), or `type`, `uri` and the others that
    `deletekit.load_catalog` takes, or `catalog` with a name that `deletekit.spark.session` or pyiceberg's configuration
    knows; without any, the session's own. A metadata file or a table's directory can be loaded too.

    Options of a read: `snapshot-id`, `as-of-timestamp` (milliseconds), `branch`, `tag` or `ref`; `columns`, separated
    by commas (or `.schema(...)`), for Spark 4.1 tells no Python source which ones a query needs; metadata columns are
    among them on request; `where`, a filter of deletekit's; `split-size`, bytes for a task. Filters of a query are
    taken over where `spark.sql.python.filterPushdown.enabled` is true.

    Options of a write: `branch`, `snapshot-property.<name>`, and `delete-mode` with `key` for upserts; `key-index` as
    `keep` makes an index of the key, a part of the table, in which the tasks of upserts find old rows.

    Options of a stream's write: `sink-id`, `checkpointLocation`, `branch`, and `key`, `order`, `mode` and `change-type`
    as those of `deletekit.stream.sink`; an empty `change-type` means that every row is an upsert.
    """

    _state: Any = None

    @classmethod
    def name(cls) -> str:
        return "deletekit"

    def schema(self) -> StructType:
        from deletekit.spark.data_source.options import READ_OPTIONS, SourceOptions  # noqa: PLC0415  # slow, see above
        from deletekit.spark.data_source.reader import spark_schema  # noqa: PLC0415

        options = SourceOptions(self.options, READ_OPTIONS)
        # The schema and the plan are made in two processes, but must be of the same table state.
        self._state = options.open_table().state
        return spark_schema(self._state.metadata, options)

    def reader(self, schema: StructType) -> DataSourceReader:
        from deletekit.spark.data_source.options import READ_OPTIONS, SourceOptions  # noqa: PLC0415
        from deletekit.spark.data_source.reader import TableReader  # noqa: PLC0415

        options = SourceOptions(self.options, READ_OPTIONS)
        # Spark pickles this source into every task, and no task needs the table's whole metadata.
        state, self._state = self._state or options.open_table().state, None
        return TableReader(state, options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from deletekit.spark.data_source.options import WRITE_OPTIONS, SourceOptions  # noqa: PLC0415
        from deletekit.spark.data_source.writer import TableWriter  # noqa: PLC0415

        options = SourceOptions(self.options, WRITE_OPTIONS)
        kind = TableWriter
        if any(options.get(name) is not None for name in ("delete-mode", "key", "key-index")):
            # By name: the key index is a layer above Spark.
            kind = import_module("deletekit.stream.upsert_writer").UpsertWriter
        return kind(options, schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802  # Spark's name
        from pyspark.sql import datasource  # noqa: PLC0415

        from deletekit.errors import UnsupportedError  # noqa: PLC0415
        from deletekit.spark.data_source.options import STREAM_OPTIONS, SourceOptions  # noqa: PLC0415

        if not hasattr(datasource, "DataSourceStreamArrowWriter"):
            message = "this release of Spark has no stream writer of Arrow rows"
            expected = "Spark 4.1, or foreachBatch with Sink.foreach_batch"
            raise UnsupportedError(message, kind="pyspark", field="writeStream", expected=expected)
        # By name: streams are a layer above Spark.
        kind = import_module("deletekit.stream.stream_writer").StreamWriter
        writer: DataSourceStreamWriter = kind(SourceOptions(self.options, STREAM_OPTIONS), schema, overwrite=overwrite)
        return writer
