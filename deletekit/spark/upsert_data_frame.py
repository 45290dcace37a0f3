"""UPSERT with a Spark DataFrame: Spark joins, and workers delete the old rows of their data files and write new ones.

Keys are equal as in every upsert: NULL equals NULL. The rows of the source stay on the executors, and are read once.
Spec: "Row-level Deletes", "Row Lineage".
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
from pyiceberg.types import NestedField
from pyspark.sql import DataFrame, Window, functions
from pyspark.sql.types import BinaryType

from deletekit.commit.change import Base, ReadSet, RowDelta
from deletekit.deletes.delete_modes import ChangeOptions, ChangeResult, change_files
from deletekit.deletes.plan import plan_scan
from deletekit.deletes.read import ReadContext
from deletekit.errors import InvalidInputError
from deletekit.formats.content_file import DataFile, DeleteFile
from deletekit.rows.data_file_writer import write_data_files
from deletekit.rows.input_rows import align
from deletekit.rows.keys import KeyNumbers, column_at, key_bytes
from deletekit.rows.rolling_files import HELD_BYTES
from deletekit.rows.row_lineage import with_row_ids
from deletekit.spark.columns import with_arrow_column, with_partition
from deletekit.spark.engine import SparkEngine
from deletekit.spark.merge_data_frame import FILE, KEY, PLACE, POSITION, ROW_ID, Matches, live_keys, placed_rows
from deletekit.spark.types import from_spark
from deletekit.table.metadata import TableMetadata
from deletekit.verbs.shared.equality_keys import key_column, partitionable, specs_in_use, write_key_deletes
from deletekit.verbs.shared.row_changes import collect_delta, filter_of_reads, merged_results
from deletekit.verbs.upsert import not_unique

_SOURCE, _WRITES, _TWICE = (f"__deletekit_{name}" for name in ("source", "writes", "twice"))
_OWN = (KEY, FILE, POSITION, ROW_ID, _SOURCE, _WRITES, _TWICE)


def upsert_frame(
    base: Base,
    source: DataFrame,
    fields: Sequence[NestedField],
    options: ChangeOptions,
    *,
    empty: pa.Table,
    engine: SparkEngine,
) -> RowDelta:
    """Plan, join on Spark, delete old rows and write the new ones in its workers. Raises as `upsert`.

    Parameters
    ----------
    fields: the key columns, which the source must have.
    empty: no rows, with the columns of `source`; they are checked before anything runs.
    """
    metadata = base.metadata
    align(from_spark(empty, metadata.schema), metadata.schema)
    keyed = _with_keys(source, fields, metadata, empty.column_names)
    if options.mode == "equality-delete":
        return _blind(base, keyed, fields, engine)
    context, write = ReadContext(base.table.io, metadata), base.write
    tasks = list(plan_scan(metadata, base.snapshot, base.reader))
    lineage = metadata.version.has_row_lineage
    table = live_keys(context, tasks, fields, key_bytes, source.sparkSession, engine, row_ids=True)
    rows = _with_choice(table.join(keyed.withColumn(_SOURCE, functions.monotonically_increasing_id()), KEY, "right"))
    placed = with_partition(rows, PLACE, empty.column_names, metadata)

    def work(batches: Iterator[pa.RecordBatch]) -> ChangeResult:
        replaced = _Replaced(write, tasks, "delete", True, fields=tuple(fields), lineage=lineage)
        result = change_files(context, write, replaced.of(batches), replaced, options)
        replaced.flush()
        result.added_data_files += replaced.inserted
        return replace(result, seen=[])

    total = merged_results(engine.map_partitions(placed_rows(rows, placed), work))
    return collect_delta(base, total, options, filter_of_reads(metadata, "merge"))


def _with_keys(
    source: DataFrame, fields: Sequence[NestedField], metadata: TableMetadata, names: Sequence[str]
) -> DataFrame:
    """Return the rows with the bytes of their keys. Raises InvalidInputError for a source without a key column."""
    schema = metadata.schema
    paths = [schema.find_column_name(f.field_id) or f.name for f in fields]
    for path in paths:
        if path not in names and path.split(".")[0] not in names:
            message = "rows lack a key column"
            raise InvalidInputError(message, kind="column-not-found", field=path, found=", ".join(names))
    used = [n for n in names if any(p == n or p.startswith(f"{n}.") for p in paths)]

    def key(*columns: pa.Array) -> pa.Array:
        given = from_spark(pa.table(dict(zip(used, columns, strict=True))), schema)
        return key_bytes([key_column(given, schema, f) for f in fields])

    return with_arrow_column(source, KEY, BinaryType(), key, used)


def _with_choice(joined: DataFrame) -> DataFrame:
    """Say of each match whether its source row is written with it, and whether its key is in the source twice.

    A source row may match several rows of the table. It takes the smallest of their row ids, as in every upsert.
    """
    of_key = Window.partitionBy(KEY)
    first = of_key.orderBy(functions.asc_nulls_last(ROW_ID), FILE, POSITION)
    twice = functions.min(_SOURCE).over(of_key) != functions.max(_SOURCE).over(of_key)
    writes = functions.row_number().over(first) == 1
    return joined.withColumn(_TWICE, twice).withColumn(_WRITES, writes)


@dataclass
class _Replaced(Matches):
    """The change of one worker: it deletes the matches of its data files, and writes the rows that replace them."""

    fields: tuple[NestedField, ...] = ()
    lineage: bool = False
    _waiting: list[pa.Table] = field(default_factory=list)

    def flush(self) -> None:
        """Write the rows that wait."""
        if self._waiting:
            rows, self._waiting = pa.concat_tables(self._waiting), []
            self.inserted += write_data_files(self.write, rows)

    def _take(self, matches: pa.Table) -> None:
        self._positions = np.unique(matches.column(POSITION).to_numpy())
        self._add(matches)

    def _insert(self, batches: Iterable[pa.RecordBatch]) -> None:
        for batch in batches:
            self._add(pa.Table.from_batches([batch]))

    def _add(self, rows: pa.Table) -> None:
        twice = rows.column(_TWICE).to_numpy()
        if twice.any():
            raise not_unique(self.fields, f"a key of {int(np.count_nonzero(twice))} rows or more")
        chosen = rows.filter(rows.column(_WRITES))
        drops = [name for name in _OWN if name in chosen.column_names]
        new = align(from_spark(chosen.drop_columns(drops), self._schema), self._schema)
        self._waiting.append(with_row_ids(new, chosen.column(ROW_ID)) if self.lineage else new)
        if sum(table.nbytes for table in self._waiting) >= HELD_BYTES:
            self.flush()


def _blind(base: Base, keyed: DataFrame, fields: Sequence[NestedField], engine: SparkEngine) -> RowDelta:
    """Write the rows and equality deletes of their keys, without looking for old rows."""
    write, metadata, specs = base.write, base.metadata, specs_in_use(base)
    schema, ids = metadata.schema, [f.field_id for f in fields]
    names = [n for n in keyed.columns if n != KEY]
    placed = with_partition(keyed, PLACE, names, metadata) if partitionable(metadata, fields) else None
    rows = keyed.repartition(KEY) if placed is None else placed.repartition(PLACE).drop(PLACE)

    def work(batches: Iterator[pa.RecordBatch]) -> tuple[list[DataFile], list[DeleteFile]]:
        held = [from_spark(pa.Table.from_batches([b]).drop_columns([KEY]), schema) for b in batches if len(b)]
        if not held:
            return [], []
        new = pa.concat_tables([align(table, schema) for table in held])
        keys = pa.table({str(i): column_at(new, schema, i) for i in ids})
        different = len(KeyNumbers(keys.columns))
        if different < len(keys):
            raise not_unique(fields, f"{len(keys)} rows of {different} keys")
        return write_data_files(write, new), write_key_deletes(write, specs, keys, fields, None)

    done = engine.map_partitions(rows, work)
    return RowDelta(
        added_data_files=tuple(f for files, _ in done for f in files),
        added_delete_files=tuple(f for _, files in done for f in files),
        read_set=ReadSet(),
    )
