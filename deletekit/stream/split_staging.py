"""Parse the rows of a Spark DataFrame in tasks, and stage them as the parts of a batch.

The driver knows the columns and their types. Rows that do not fit become dead letters in staged files. If a sink widens
types, tasks look first which columns need it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyiceberg.schema import Schema
from pyspark.sql import DataFrame
from pyspark.sql.types import IntegerType

from deletekit.errors import InvalidInputError
from deletekit.rows.write_context import WriteContext
from deletekit.spark.columns import column_of, with_arrow_column
from deletekit.spark.data_frames import SparkRows
from deletekit.spark.engine import SparkEngine
from deletekit.spark.types import from_spark
from deletekit.stream.batch_digest import key_sum
from deletekit.stream.change_rows import ChangeFormat, check_columns, read_changes
from deletekit.stream.dead_letters import LetterFile, stage_letters
from deletekit.stream.evolve import evolve_table, evolving_rows, schema_for, wide_fields
from deletekit.stream.fitting_rows import UnfitRow, fitting_parts, fitting_rows, is_of_all_rows, too_many
from deletekit.stream.key_hashes import KeyHasher, bucket_of
from deletekit.stream.sink_options import Evolve
from deletekit.stream.sink_state import SinkState
from deletekit.stream.split_parts import Part, folded, write_part
from deletekit.table.table import Table
from deletekit.verbs.shared.equality_keys import key_column

_BUCKET = "__deletekit_bucket"
_BUCKETS = 1 << 12

Staged = tuple[Part | None, LetterFile | None]
Numbers = npt.NDArray[np.int64]


class GivenFrame:
    """A DataFrame of change rows, and the schema and form that they are parsed by.

    Raises InvalidInputError as `check_columns`, and for columns that cannot be added.
    """

    def __init__(self, state: SinkState, frame: DataFrame) -> None:
        metadata, options = state.table.metadata, state.options
        evolve, columns = options.evolve, options.columns
        self.frame, self._state, self._columns = frame, state, columns
        self.engine = state.spark_engine = engine_on(frame, state.engine, state.spark_engine)
        given = SparkRows(frame, self.engine).empty("changes")
        self._empty = evolving_rows(given, metadata.schema, evolve, columns)
        self._wide = self._too_wide() if evolve == "widen" else frozenset()
        schema = schema_for(metadata, self._empty, evolve, columns, self._wide)
        form = options.form(schema, ordered=False)
        empty = from_spark(self._empty, schema)
        check_columns(empty, schema, form)
        letters = state.dead_letters
        self.reads = Reads(
            known=metadata.schema,
            schema=schema,
            form=form,
            evolve=evolve,
            most=None if letters is None or is_of_all_rows(empty, schema, form) else letters.most,
        )

    @property
    def names(self) -> list[str]:
        """The columns of the rows."""
        return list(self._empty.column_names)

    def evolve(self, table: Table) -> None:
        """Give the table the schema that the rows need."""
        evolve_table(table, self._empty, self._state.options.evolve, self._columns, self._wide)

    def staged(self, context: WriteContext) -> list[Staged]:
        """Shuffle the rows by their keys. Write a part for each partition, and a file of its dead letters."""
        reads, names, schema = self.reads, list(self.frame.columns), self.reads.schema
        paths = [schema.find_column_name(f.field_id) or f.name for f in reads.form.fields]
        used = [n for n in names if any(n == p or p.startswith(f"{n}.") for p in paths)]

        def bucket(*columns: pa.Array) -> pa.Array:
            return pa.array(reads.buckets(pa.table(dict(zip(used, columns, strict=True)))), pa.int32())

        def stage(batches: Iterator[pa.RecordBatch]) -> Staged:
            rows = table_of(batches)
            if not len(rows):
                return None, None
            rows, unfit = reads.fitting(rows.drop_columns([_BUCKET]))
            letters = stage_letters(context, unfit)
            if not len(rows):
                return None, letters
            changes = read_changes(rows, schema, reads.form)
            return write_part(context, folded(rows, changes), changes, key_sum(changes)), letters

        placed = with_arrow_column(self.frame, _BUCKET, IntegerType(), bucket, used)
        return self.engine.map_partitions(placed.repartition(self.engine.threads, _BUCKET), stage)

    def _too_wide(self) -> frozenset[int]:
        """Return the ids of the columns with a value that does not fit. Tasks read only those that may have one."""
        metadata, empty, aside = self._state.table.metadata, self._empty, self._columns
        schema = metadata.schema
        most = schema_for(metadata, empty, "widen", aside, schema.field_ids)
        least = schema_for(metadata, empty, "widen", aside, ())
        names = [old.name for old, new in zip(least.fields, most.fields, strict=True) if old != new]
        if not names:
            return frozenset()

        def found(batches: Iterator[pa.RecordBatch]) -> frozenset[int]:
            rows = (evolving_rows(pa.Table.from_batches([b]), schema, "widen", aside) for b in batches)
            return frozenset[int]().union(*(wide_fields(metadata, some, aside) for some in rows))

        frame = self.frame.select(*(column_of(self.frame, name) for name in names))
        return frozenset[int]().union(*self.engine.map_partitions(frame, found))


@dataclass(frozen=True, slots=True, kw_only=True)
class Reads:
    """What makes change rows of the rows of a DataFrame, in any process.

    Attributes
    ----------
    known: the table's schema before the batch; schema: the one that the rows need.
    most: how many rows of the batch may be dead letters; None: none become any.
    """

    known: Schema
    schema: Schema
    form: ChangeFormat
    evolve: Evolve
    most: int | None

    def fitting(self, rows: pa.Table) -> tuple[pa.Table, Sequence[UnfitRow]]:
        """Return the rows that fit the table, and those that do not. Raises InvalidInputError as `fitting_rows`."""
        rows = evolving_rows(rows, self.known, self.evolve, (self.form.change_type, self.form.order))
        if self.most is None:
            return self._read(rows), ()
        rows, unfit = fitting_rows(rows, self.schema, self.form, self.most, self._read)
        return self._read(rows), unfit

    def buckets(self, keys: pa.Table) -> Numbers:
        """Return the bucket of each key. Keys that do not fit are in any one, if they may be dead letters."""
        hasher = KeyHasher(self.form.fields)

        def of(some: pa.Table) -> Numbers:
            read = self._read(some)
            return bucket_of(hasher([key_column(read, self.schema, f) for f in self.form.fields]), _BUCKETS)

        return of(keys) if self.most is None else _tolerant(of, keys, self.most)

    def _read(self, rows: pa.Table) -> pa.Table:
        return from_spark(rows, self.schema)


def _tolerant(of: Callable[[pa.Table], Numbers], keys: pa.Table, most: int) -> Numbers:
    """Return `of` the keys, and 0 for those that raise."""
    found, unfit = np.zeros(len(keys), np.int64), count(1)

    def make(start: int, end: int) -> None:
        found[start:end] = of(keys.slice(start, end - start))

    def refuse(_: int, error: InvalidInputError) -> None:
        if next(unfit) > most:
            raise too_many(f"more rows than {most} do not fit the table; one: {error}", most) from error

    if len(keys):
        for _ in fitting_parts(make, refuse, 0, len(keys)):
            pass
    return found


def table_of(batches: Iterator[pa.RecordBatch]) -> pa.Table:
    """Return the rows of a partition; a table without columns if there are none."""
    held = list(batches)
    return pa.Table.from_batches(held) if held else pa.table({})


def engine_on(frame: DataFrame, engine: object, kept: SparkEngine | None) -> SparkEngine:
    """Return `engine` if it is Spark's, else one on the session of a frame: `kept`, if its context is the same."""
    if isinstance(engine, SparkEngine):
        return engine
    if kept is None or kept.session.sparkContext is not getattr(frame.sparkSession, "sparkContext", None):
        return SparkEngine(frame.sparkSession)
    return kept
