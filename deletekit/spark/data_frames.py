"""Write the rows of Spark DataFrames on Spark's executors: what `append`, `delete_keys`, `merge` and `upsert` do.

No row comes to the driver; it gets schemas, and the files that were written. Values are checked by the same code as
Arrow rows.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyiceberg.table.sorting import NullOrder, SortDirection
from pyiceberg.types import NestedField
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame

from deletekit.commit.change import Base, RowDelta
from deletekit.deletes.delete_modes import ChangeOptions
from deletekit.engines.local import Engine
from deletekit.errors import InvalidInputError
from deletekit.formats.content_file import DataFile, DeleteFile
from deletekit.rows.data_file_writer import in_pieces, write_data_files
from deletekit.rows.input_rows import align
from deletekit.rows.rolling_files import HELD_BYTES
from deletekit.rows.sort_order import RowOrder
from deletekit.spark.columns import column_of, with_partition
from deletekit.spark.engine import SparkEngine
from deletekit.spark.merge_data_frame import merge_frame
from deletekit.spark.releases import to_arrow
from deletekit.spark.types import from_spark, tables_from_spark
from deletekit.spark.upsert_data_frame import upsert_frame
from deletekit.table.metadata import TableMetadata
from deletekit.table.properties import value_of
from deletekit.verbs.shared.equality_keys import Scope, checked_keys, specs_in_use, write_key_deletes

_PARTITION = "__deletekit_partition"


class SparkRows:
    """A DataFrame as ForeignRows, on the call's engine if that is Spark's, else on one of its own session.

    Raises UnsupportedError for a DataFrame of Spark Connect.
    """

    def __init__(self, frame: DataFrame, engine: Engine) -> None:
        self.frame = frame
        self.engine = engine if isinstance(engine, SparkEngine) else SparkEngine(frame.sparkSession)

    def empty(self, argument: str = "rows") -> pa.Table:
        """Return no rows, with the DataFrame's Arrow types. Raises InvalidInputError for a type that Arrow lacks."""
        for name in self.frame.columns:
            if self.frame.columns.count(name) > 1:
                raise InvalidInputError(f"{argument} have a column twice", kind="column-not-unique", field=name)
        try:
            return to_arrow(self.frame.limit(0))
        except PySparkException as e:
            raise InvalidInputError(
                f"{argument} have a type that does not fit a table", kind="rows", field=argument, found=str(e)
            ) from e

    def append(self, base: Base) -> list[DataFile]:
        """Write the rows in the DataFrame's partitions, or by `write.distribution-mode`; check the columns before.

        Without that property, rows of a sorted table go by ranges, those of a partitioned one by partitions.
        """
        write, metadata = base.write, base.metadata
        schema, spec = metadata.schema, metadata.spec
        align(from_spark(self.empty(), schema), schema)
        order = RowOrder.of(metadata)
        mode = value_of(metadata.properties, "write.distribution-mode") or ("range" if order.fields else "hash")
        together = mode != "none" and bool(spec.fields)  # an unpartitioned table has nothing to hash by
        ranges = self._sort_columns(order, metadata) if mode == "range" else []

        def written(batches: Iterator[pa.RecordBatch]) -> list[DataFile]:
            return write_data_files(write, tables_from_spark(batches, schema))

        placed = with_partition(self.frame, _PARTITION, self.frame.columns, metadata) if together else None
        return self._written(self.frame, placed, written, ranges)

    def _sort_columns(self, order: RowOrder, metadata: TableMetadata) -> list[Column]:
        """Return the columns of a sort order, to place rows by: those that the DataFrame has, without transforms."""
        out = []
        for field in order.fields:
            top, *inner = (metadata.schema.find_column_name(field.source_id) or "").split(".")
            if top in self.frame.columns:
                column = column_of(self.frame, top)
                for name in inner:
                    column = column.getField(name)
                down, last = field.direction == SortDirection.DESC, field.null_order == NullOrder.NULLS_LAST
                out.append(getattr(column, f"{'desc' if down else 'asc'}_nulls_{'last' if last else 'first'}")())
        return out

    def delete_keys(self, base: Base, on: str | Sequence[str] | None, scope: Scope | None) -> list[DeleteFile]:
        """Write equality deletes, each worker of a part of the keys."""
        write, metadata, specs = base.write, base.metadata, specs_in_use(base)
        fields, _ = checked_keys(metadata, self.empty("keys"), on)
        paths = [metadata.schema.find_column_name(f.field_id) or f.name for f in fields]
        needed = {name for path in paths for name in (path, path.split(".")[0])}
        frame = self.frame.select(*(column_of(self.frame, name) for name in self.frame.columns if name in needed))

        def written(batches: Iterator[pa.RecordBatch]) -> list[DeleteFile]:
            files = []
            for rows in in_pieces((pa.Table.from_batches([batch]) for batch in batches), HELD_BYTES):
                keys = checked_keys(metadata, from_spark(rows, metadata.schema), paths)[1]
                files += write_key_deletes(write, specs, keys, fields, scope)
            return files

        return self._written(frame, with_partition(frame, _PARTITION, frame.columns, metadata), written)

    def merge(
        self, base: Base, on: str | Sequence[str], when_matched: str | None, *, inserts: bool, options: ChangeOptions
    ) -> RowDelta:
        """Join on Spark, then change and insert rows in its workers."""
        empty, engine = self.empty("source"), self.engine
        return merge_frame(
            base, self.frame, on, when_matched, inserts=inserts, options=options, empty=empty, engine=engine
        )

    def upsert(self, base: Base, fields: Sequence[NestedField], options: ChangeOptions) -> RowDelta:
        """Join on Spark, then delete old rows and write the new ones in its workers."""
        return upsert_frame(base, self.frame, fields, options, empty=self.empty(), engine=self.engine)

    def _written(
        self,
        frame: DataFrame,
        placed: DataFrame | None,
        write: Callable[[Iterator[pa.RecordBatch]], list[Any]],
        ranges: Sequence[Column] = (),
    ) -> list[Any]:
        """Return the files that `write` makes of the rows of each worker.

        Those of one partition of `placed`, which has its number, or of a range of it and of the sort columns `ranges`,
        go to one worker first.
        """
        frame = frame if placed is None else placed
        if ranges:
            first = [] if placed is None else [frame[_PARTITION]]
            frame = frame.repartitionByRange(*first, *ranges).drop(_PARTITION)
        elif placed is not None:
            frame = frame.repartition(_PARTITION).drop(_PARTITION)
        return [file for files in self.engine.map_partitions(frame, write) for file in files]
