"""Keep the change rows of a batch on Spark's executors, from the micro-batch to the files that the driver commits.

Spark brings all changes of a key into one partition. Its task parses them, keeps the last change of each key, and
writes these rows to a file, its part of the batch. A part never changes: a task that runs again gives the same rows.
Rows that do not fit become dead letters in files. If a sink widens types, tasks look first which columns need it.

Tasks then write the batch from its parts (`batch_rows.py`), with the index in its files. The driver gets counts,
digests, positions, the files that were written, and for `sequence_by` hashes of deleted keys, but no row and no key.
After a lost race they run again, from the same parts. `discard` removes the parts. Those of a killed process are found
by `remove_orphan_files`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField
from pyspark.sql import DataFrame
from pyspark.sql.types import IntegerType

from deletekit.commit.change import Base
from deletekit.engines.local import LocalEngine
from deletekit.errors import CommitConflictError, InvalidInputError
from deletekit.rows.write_context import WriteContext
from deletekit.spark.columns import column_of, with_arrow_column
from deletekit.spark.data_frames import SparkRows
from deletekit.spark.engine import SparkEngine
from deletekit.spark.types import from_spark
from deletekit.stream.batch_digest import digest_of, key_sum
from deletekit.stream.batch_rows import BatchRows
from deletekit.stream.change_rows import ChangeFormat, Changes, check_columns, read_changes
from deletekit.stream.dead_letters import LetterFile, stage_letters, with_staged
from deletekit.stream.evolve import evolve_table, evolving_rows, schema_for, wide_fields
from deletekit.stream.fitting_rows import UnfitRow, fitting_parts, fitting_rows, is_of_all_rows, too_many
from deletekit.stream.key_hashes import KeyHasher, first_bits
from deletekit.stream.saved_index import Index, file_index
from deletekit.stream.sink_options import Evolve
from deletekit.stream.sink_state import SinkState
from deletekit.stream.split_parts import Part, folded, read_rows, write_part
from deletekit.table.table import Table
from deletekit.verbs.shared.equality_keys import key_column

_BUCKET = "__deletekit_bucket"
_BUCKET_BITS = 12
# Work of a task. Less of it than a task's start is worth makes small files.
_GROUP_BYTES = 16 << 20
_GROUP_KEYS = 1 << 16

Numbers = npt.NDArray[np.int64]


class SplitRows(BatchRows):
    """Change rows of a Spark DataFrame.

    Attributes
    ----------
    given: how many rows the DataFrame had, dead letters too.
    takes_stored: some rows depend on others in a way that tasks do not work out: values that were not sent, and
        tombstones that `sequence_by` has no value of. The batch has to be written in one process.

    Raises InvalidInputError as `read_changes`, and for columns that cannot be added; UnsupportedError under Connect.
    """

    def __init__(self, state: SinkState, frame: DataFrame) -> None:
        metadata, options, letters = state.table.metadata, state.options, state.dead_letters
        engine = state.spark_engine = engine_on(frame, state.engine, state.spark_engine)
        super().__init__(state, engine, LocalEngine(1))
        self._threads, evolve, columns = engine.threads, options.evolve, options.columns
        self._empty = evolving_rows(SparkRows(frame, engine).empty("changes"), metadata.schema, evolve, columns)
        self._wide = self._too_wide(frame, engine) if evolve == "widen" else frozenset[int]()
        self.schema = schema_for(metadata, self._empty, evolve, columns, self._wide)
        form = options.form(self.schema, ordered=False)
        self.fields, empty = form.fields, from_spark(self._empty, self.schema)
        check_columns(empty, self.schema, form)
        most = None if letters is None or is_of_all_rows(empty, self.schema, form) else letters.most
        reads = _Reads(known=metadata.schema, schema=self.schema, form=form, evolve=evolve, most=most)
        self._staging = WriteContext(state.table.io, metadata)
        try:
            staged = _staged(frame, reads, self._staging, engine)
            files = [file for _, file in staged if file is not None]
            self.letters = with_staged(letters, files, state.table.io, engine)
        except BaseException:
            self.discard()
            raise
        parts = self._parts = [part for part, _ in staged if part is not None]
        self.takes_stored = any(part.takes_stored for part in parts)
        self._rows, self.keys = sum(p.rows for p in parts), sum(p.keys for p in parts)
        self.given = self._rows + sum(file.count for file in files)
        self.newest = max((p.newest for p in parts if p.newest is not None), default=None)
        self.digest = digest_of([p.digest for p in parts])

    def __len__(self) -> int:
        return self._rows

    def evolve(self, table: Table) -> None:
        options = self.state.options
        evolve_table(table, self._empty, options.evolve, options.columns, self._wide)
        names = self._empty.column_names
        found, expected = (
            {f.name: f.field_id for f in schema.fields if f.name in names} for schema in (table.schema, self.schema)
        )
        if found != expected:  # tasks made the digest with these ids
            message = "others changed the columns of the batch meanwhile; write it again"
            raise CommitConflictError(message, field="evolve", found=found, expected=expected)

    def parse(self, schema: Schema, fields: tuple[NestedField, ...]) -> None:
        self.schema, self.fields = schema, fields

    def discard(self) -> None:
        self._staging.discard()

    def index(self, base: Base, *, load: bool) -> tuple[Index, int]:
        index = file_index(base, self.fields, self.engine, self.state.file_index, load=load)
        self.state.file_index = index.saved
        return index, len(index.others)

    def groups(self) -> Sequence[Sequence[Part]]:
        """Return the parts in order, in groups of about equal work: at most as many as tasks run at a time."""
        parts = self._parts
        work = max(sum(p.bytes for p in parts) // _GROUP_BYTES, self.keys // _GROUP_KEYS)
        each = max(1, -(-len(parts) // max(1, min(self._threads, work))))
        return [parts[at : at + each] for at in range(0, len(parts), each)]

    def changes(self) -> Callable[[Sequence[Part]], Changes]:
        io, schema = self.state.table.io, self.schema
        form = replace(self.state.options.form(schema, ordered=True), fields=self.fields, order=None)
        return lambda parts: read_changes(pa.concat_tables([read_rows(io, p.path) for p in parts]), schema, form)

    def _too_wide(self, frame: DataFrame, engine: SparkEngine) -> frozenset[int]:
        """Return the ids of the columns with a value that does not fit. Tasks read only those that may have one."""
        metadata, empty, aside = self.state.table.metadata, self._empty, self.state.options.columns
        schema = metadata.schema
        most = schema_for(metadata, empty, "widen", aside, schema.field_ids)
        least = schema_for(metadata, empty, "widen", aside, ())
        names = [old.name for old, new in zip(least.fields, most.fields, strict=True) if old != new]
        if not names:
            return frozenset()

        def found(batches: Iterator[pa.RecordBatch]) -> frozenset[int]:
            rows = (evolving_rows(pa.Table.from_batches([b]), schema, "widen", aside) for b in batches)
            return frozenset[int]().union(*(wide_fields(metadata, some, aside) for some in rows))

        some = frame.select(*(column_of(frame, name) for name in names))
        return frozenset[int]().union(*engine.map_partitions(some, found))


def _staged(
    frame: DataFrame, reads: _Reads, context: WriteContext, engine: SparkEngine
) -> list[tuple[Part | None, LetterFile | None]]:
    """Shuffle the rows by their keys. Write a part for each partition, and a file of its dead letters."""
    names, schema = list(frame.columns), reads.schema
    paths = [schema.find_column_name(f.field_id) or f.name for f in reads.form.fields]
    used = [n for n in names if any(n == p or p.startswith(f"{n}.") for p in paths)]

    def bucket(*columns: pa.Array) -> pa.Array:
        return pa.array(reads.buckets(pa.table(dict(zip(used, columns, strict=True)))), pa.int32())

    def stage(batches: Iterator[pa.RecordBatch]) -> tuple[Part | None, LetterFile | None]:
        held = [batch for batch in batches if len(batch)]
        if not held:
            return None, None
        rows, unfit = reads.fitting(pa.Table.from_batches(held).drop_columns([_BUCKET]))
        letters = stage_letters(context, unfit)
        if not len(rows):
            return None, letters
        changes = read_changes(rows, schema, reads.form)
        return write_part(context, folded(rows, changes), changes, key_sum(changes)), letters

    placed = with_arrow_column(frame, _BUCKET, IntegerType(), bucket, used)
    return engine.map_partitions(placed.repartition(engine.threads, _BUCKET), stage)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reads:
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
            return first_bits(hasher([key_column(read, self.schema, f) for f in self.form.fields]).low, _BUCKET_BITS)

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


def engine_on(frame: DataFrame, engine: object, kept: SparkEngine | None) -> SparkEngine:
    """Return `engine` if it is Spark's, else one on the session of a frame: `kept`, if its context is the same."""
    if isinstance(engine, SparkEngine):
        return engine
    if kept is None or kept.session.sparkContext is not getattr(frame.sparkSession, "sparkContext", None):
        return SparkEngine(frame.sparkSession)
    return kept
