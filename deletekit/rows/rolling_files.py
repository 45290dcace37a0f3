"""Write the data files of many partitions at once, row group by row group, in bounded memory.

The rows of each partition wait until they fill a row group. If all that wait take too much memory, those of the
partitions with the most rows are written first. A file ends near `write.target-file-size-bytes`, and the next one
begins. Java: RollingFileWriter, FanoutWriter.
"""

import json
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

from deletekit.errors import storage_error
from deletekit.formats.content_file import DataFile, partition_key
from deletekit.formats.metrics import MetricsCollector, collect_metrics
from deletekit.formats.parquet import ParquetOptions, ParquetStream, encode_parquet, rows_per_group
from deletekit.rows.row_lineage import stored_fields
from deletekit.rows.write_context import WriteContext, described
from deletekit.table.file_io import is_remote
from deletekit.table.metadata import TableMetadata
from deletekit.table.properties import value_of
from deletekit.table.types import arrow_field, schema_to_json

HELD_BYTES = 128 << 20
"""Rows of so many bytes wait at most, in all partitions together: what a worker on a small machine can spare."""

# What a column of a small table takes in memory beside its values, about.
_COLUMN_BYTES = 512
# A file this close to its target size is full: the next row group would be small.
_FULL_SHARE_OF_TARGET = 0.9
# An open file takes about a megabyte, and of an object store its client holds ten more.
_MOST_OPEN_LOCAL, _MOST_OPEN_REMOTE = 64, 16
# pyarrow holds the dictionary of the last column until the next row group, with its hash table some 15 MB. When more
# files are open than this, those that are opened get small dictionaries.
_WITH_LARGE_DICTIONARIES = 4
_SMALL_DICTIONARY_BYTES = 64 << 10


@dataclass(slots=True, eq=False)
class _Waiting:
    """The rows of one partition that wait, and the file that they go to if one is open."""

    partition: tuple[Any, ...]
    tables: list[pa.Table] = field(default_factory=list)
    rows: int = 0
    size: int = 0
    file: "_OpenFile | None" = None


class RollingFiles:
    """The data files of one write. Leaving the `with` block closes those that an error left open; it removes none.

    Parameters
    ----------
    rows_per_file: how many rows a file gets; None ends it by its size.
    order_id: of the sort order that the rows of each partition come in; 0 for none.
    """

    def __init__(self, context: WriteContext, rows_per_file: int | None = None, order_id: int = 0) -> None:
        self._order_id = order_id
        self._context = context
        self._options = context.parquet
        self._rows_per_file = rows_per_file
        self._target: int = value_of(context.metadata.properties, "write.target-file-size-bytes")
        self._partitions: dict[tuple[Any, ...], _Waiting] = {}
        self._open: list[_Waiting] = []  # the one that was written to last is last
        self._done: list[DataFile] = []
        self._held = 0
        self._encoded_row: float | None = None  # bytes that a row takes on disk, by what was written last

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for waiting in self._open:
            if waiting.file is not None:
                waiting.file.abandon()

    def add(self, partition: tuple[Any, ...], rows: pa.Table) -> None:
        """Take rows of a partition, after those that it has. Whole row groups are written."""
        waiting = self._partitions.setdefault(partition_key(partition), _Waiting(partition))
        waiting.tables.append(rows)
        self._count(waiting, len(rows), held_bytes(rows))
        if waiting.rows > self._next_rows(waiting):
            self._write(waiting)

    def make_room(self) -> None:
        """Write the largest partitions until what waits is well below the limit."""
        limit = max(HELD_BYTES, self._options.row_group_bytes)
        if self._held > limit:
            for waiting in sorted(self._partitions.values(), key=lambda w: w.size, reverse=True):
                self._write(waiting, everything=True)
                if self._held <= limit * 3 // 4:
                    break

    def finish(self) -> list[DataFile]:
        """Write all rows that wait, end all files, and return them; those of one partition are in the rows' order."""
        for waiting in self._partitions.values():
            if waiting.file is None and 0 < waiting.rows <= self._next_rows(waiting):
                rows = pa.concat_tables(waiting.tables)
                file = _whole_file(self._context, rows, waiting.partition, self._options)
                self._done.append(replace(file, sort_order_id=self._order_id))
                continue
            if waiting.rows:
                self._write(waiting, everything=True)
            self._end(waiting)
        return self._done

    def _next_rows(self, waiting: _Waiting) -> int:
        """Return how many rows the next row group of a partition gets at most."""
        held_row, file = waiting.size / max(1, waiting.rows), waiting.file
        group = rows_per_group(held_row, self._options)
        if self._rows_per_file is not None:
            return min(group, self._rows_per_file - (file.rows if file else 0))
        # Before the first row group, the size in memory is an upper estimate: Parquet encodes and compresses.
        room = (self._target - (file.size if file else 0)) / max(1, self._encoded_row or held_row)
        return max(1, int(min(group, room)))

    def _write(self, waiting: _Waiting, *, everything: bool = False) -> None:
        """Write the rows of a partition that fill row groups, or all of them."""
        rows = pa.concat_tables(waiting.tables)
        while len(rows):
            count = self._next_rows(waiting)
            if count >= len(rows) and not everything:
                break
            group = rows.slice(0, count)
            self._append(waiting, group)
            rows = rows.slice(count)
            self._count(waiting, -len(group), -waiting.size * len(group) // waiting.rows)
        self._count(waiting, 0, (held_bytes(rows) if len(rows) else 0) - waiting.size)
        waiting.tables = [rows] if len(rows) else []

    def _append(self, waiting: _Waiting, rows: pa.Table) -> None:
        """Write one row group, in a new file if the partition has none open. End the file if it is full."""
        if waiting.file is None:
            options = self._options
            if len(self._open) >= _WITH_LARGE_DICTIONARIES:
                options = replace(options, dictionary_bytes=min(options.dictionary_bytes, _SMALL_DICTIONARY_BYTES))
            waiting.file = _OpenFile(self._context, waiting.partition, rows, options)
        else:
            self._open.remove(waiting)
        self._open.append(waiting)
        file = waiting.file
        file.write(rows)
        self._encoded_row = file.size / file.rows
        if file.rows == self._rows_per_file or (
            self._rows_per_file is None and file.size >= _FULL_SHARE_OF_TARGET * self._target
        ):
            self._end(waiting)
        if len(self._open) > (_MOST_OPEN_REMOTE if is_remote(file.path) else _MOST_OPEN_LOCAL):
            self._end(self._open[0])

    def _end(self, waiting: _Waiting) -> None:
        if waiting.file is not None:
            self._done.append(replace(waiting.file.end(), sort_order_id=self._order_id))
            self._open.remove(waiting)
            waiting.file = None

    def _count(self, waiting: _Waiting, rows: int, size: int) -> None:
        waiting.rows += rows
        waiting.size += size
        self._held += size


class _OpenFile:
    """A data file that grows by row groups. `context` remembers it before the first byte is written.

    Parameters
    ----------
    first: rows of the file, for their columns.
    """

    def __init__(
        self, context: WriteContext, partition: tuple[Any, ...], first: pa.Table, options: ParquetOptions
    ) -> None:
        self._context, self._partition = context, partition
        self.path = context.data_path(context.metadata.spec, partition, ".parquet")
        context.remember(self.path)
        with ExitStack() as storage:
            sink = storage.enter_context(context.io.create(self.path))
            self._parquet = ParquetStream(sink, _stored(context.metadata, first).schema, options, len(first))
            self._storage = storage.pop_all()
        self._metrics = MetricsCollector(context.metrics_mode)
        self.rows = 0

    @property
    def size(self) -> int:
        """The bytes on disk so far."""
        return self._parquet.size

    def write(self, rows: pa.Table) -> None:
        """Write one row group."""
        table = _stored(self._context.metadata, rows)
        try:
            self._parquet.write(table)
        except OSError as e:
            raise storage_error(e, self.path) from e
        self._metrics.add(table)
        self.rows += len(rows)

    def end(self) -> DataFile:
        """Write the footer and close the file."""
        with self._storage:  # which translates errors
            written = self._parquet.close(_footer(self._context.metadata))
        spec, metrics = self._context.metadata.spec, self._metrics.metrics()
        return DataFile(**described(spec, self._partition, self.path, written, metrics, self.rows))

    def abandon(self) -> None:
        """Close the file as it is."""
        self._parquet.abandon()
        with suppress(Exception):
            self._storage.close()


def _whole_file(context: WriteContext, rows: pa.Table, partition: tuple[Any, ...], options: ParquetOptions) -> DataFile:
    """Write a file of one row group, in one call to storage."""
    metadata, table = context.metadata, _stored(context.metadata, rows)
    written = encode_parquet(table, _footer(metadata), options)
    metrics = collect_metrics(table, context.metrics_mode)
    fields = context.write_parquet(metadata.spec, partition, ".parquet", written, metrics, len(table))
    return DataFile(**fields)


def _stored(metadata: TableMetadata, rows: pa.Table) -> pa.Table:
    """Return rows with the field ids that the file has."""
    schema = pa.schema([arrow_field(f) for f in stored_fields(metadata, rows)])
    return pa.Table.from_arrays(rows.columns, schema=schema)


def _footer(metadata: TableMetadata) -> dict[str, str]:
    return {"iceberg.schema": json.dumps(schema_to_json(metadata.schema), separators=(",", ":"))}


def held_bytes(table: pa.Table) -> int:
    """Return how much memory rows take that wait."""
    size: int = table.nbytes + _COLUMN_BYTES * table.num_columns
    return size
