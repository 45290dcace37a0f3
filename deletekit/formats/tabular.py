"""Read rows of a Parquet, Avro or ORC file as Arrow, with field ids and absolute row positions.

A position is the number of a row in the physical file, from 0, whatever was skipped before it.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa

from deletekit.deferred import pq
from deletekit.errors import DeletekitError, FormatError, UnsupportedError, is_storage_failure, storage_error
from deletekit.formats.avro_table import read_avro_table
from deletekit.formats.content_file import file_format_of
from deletekit.formats.orc_layout import check_orc
from deletekit.formats.parquet import PYARROW
from deletekit.formats.read_ahead import ReadAhead

JOINED_ROWS, JOINED_BYTES = 1 << 20, 64 << 20
"""Row groups that are no larger together are read in one piece."""
BATCH_ROWS, WHOLE_BYTES = 1 << 20, 256 << 20
"""A row group of more rows is read in batches of so many if its columns take more bytes. Whole takes a tenth less."""
_ROWS_OF_ONE_THREAD = 1 << 16
"""To hand a column to another thread takes as long as to decode some thousand values."""
_EXACT_ORC = 25
_BYTES_OF = {pa.string(): pa.binary(), pa.large_string(): pa.large_binary()}
_WRAPS_ORC_TIMESTAMPS = PYARROW < _EXACT_ORC
"""An older pyarrow says nothing where a timestamp leaves the nanoseconds' range (1677 to 2262): 9999-12-31 is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowGroup:
    """A piece of a file that can be read on its own: a Parquet row group or some, or a whole ORC or Avro file.

    Attributes
    ----------
    index, count: of the first row group, and how many there are.
    size: bytes of the encoded columns before they were compressed, as the footer has it.
    """

    index: int
    first_position: int
    num_rows: int
    size: int = field(default=0, compare=False)
    count: int = 1

    @property
    def stop(self) -> int:
        """The position behind the last row."""
        return self.first_position + self.num_rows

    @property
    def indices(self) -> list[int]:
        """The row groups."""
        return list(range(self.index, self.index + self.count))

    def joined(self, after: "RowGroup") -> "RowGroup | None":
        """Return this piece with the one right behind it; None for one elsewhere, or if both are too large together.

        A row group that is read on its own takes as long as thousands of rows.
        """
        rows, size = self.num_rows + after.num_rows, self.size + after.size
        if self.index + self.count != after.index or rows > JOINED_ROWS or size > JOINED_BYTES:
            return None  # positions do not tell whether an empty row group lies between
        return replace(self, num_rows=rows, size=size, count=self.count + after.count)


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnStatistics:
    """A Parquet column chunk's statistics; `lower` and `upper` are physical values (int, float, bytes), or None."""

    values: int
    nulls: int | None
    lower: Any
    upper: Any


class TabularFile(ABC):
    """A readable data or delete file.

    `parsed` is what `open_tabular` takes back, or None; `remote` is that columns are better read together than late.
    """

    schema: pa.Schema
    metadata: dict[str, str]
    row_groups: tuple[RowGroup, ...]
    footer: Any = None
    parsed: Any = None
    remote: bool = True

    @abstractmethod
    def read(self, group: RowGroup, columns: Sequence[str]) -> pa.Table:
        """Read the named top-level columns of one row group, in file order."""

    def batches(self, group: RowGroup, columns: Sequence[str], rows: int | None = None) -> Iterator[pa.Table]:
        """Read the same in consecutive pieces, decoded one by one where the format can.

        `rows` is how many a piece has at most; without it, the row group is one piece, unless that is very large.
        """
        return slices(self.read(group, columns), rows or group.num_rows)

    def statistics(self, group: RowGroup, columns: Collection[str] | None = None) -> Mapping[str, ColumnStatistics]:
        """Return the footer's statistics of the top-level columns of primitive type; empty where there are none.

        `columns` None means all columns. The group is one of `row_groups`.
        """
        del group, columns
        return {}


def open_tabular(
    source: Any, file_format: str, *, remote: bool = False, dictionary: Sequence[str] = (), parsed: Any = None
) -> TabularFile:
    """Open a seekable binary source as `file_format` (parquet, avro or orc).

    Parameters
    ----------
    remote: a read costs a round trip, so the pieces of a row group are fetched together, ahead of time (Parquet).
    dictionary: columns to return dictionary-encoded where the format can (Parquet).
    parsed: the `parsed` of the same file opened before, not to parse its footer again (Parquet).

    Raises FormatError when the bytes are not that format, UnsupportedError for a format without rows.
    """
    name = file_format_of(file_format)
    with _decoding(name):
        if name == "PARQUET":
            return _ParquetRows(source, remote, dictionary, parsed)
        if name == "ORC":
            return _OrcRows(source)
        if name == "AVRO":
            return _AvroRows(source)
    raise UnsupportedError("this format holds no rows", kind="file-format", found=name, expected="parquet, avro or orc")


def read_all(file: TabularFile, columns: Sequence[str] | None = None) -> pa.Table:
    """Read every row of a file; `columns` None means all columns."""
    names = file.schema.names if columns is None else list(columns)
    tables = [file.read(group, names) for group in file.row_groups]
    if tables:
        return pa.concat_tables(tables)
    return (file.schema if columns is None else pa.schema([file.schema.field(n) for n in names])).empty_table()


# pyarrow reports damage as any of these, by format and by where the decoder stumbles.
_DAMAGE = (pa.ArrowException, OSError, ValueError, LookupError, TypeError, EOFError, ArithmeticError, MemoryError)


@contextmanager
def _decoding(name: str) -> Iterator[None]:
    """Raise what a decoder reports as FormatError, or as StorageError where the storage failed."""
    try:
        yield
    except DeletekitError:
        raise
    except _DAMAGE as e:
        if is_storage_failure(e):
            raise storage_error(e) from e
        raise FormatError(f"damaged {name} file", kind=name.lower(), found=f"{type(e).__name__}: {e}") from e


def _groups(counts: Iterable[tuple[int, int]], name: str) -> tuple[RowGroup, ...]:
    out, position = [], 0
    for index, (rows, size) in enumerate(counts):
        if rows < 0:
            raise FormatError(f"damaged {name} file", name.lower(), "row group", f"{rows} rows", ">= 0")
        out.append(RowGroup(index=index, first_position=position, num_rows=rows, size=size))
        position += rows
    return tuple(out)


def _one_group(rows: int, name: str) -> tuple[RowGroup, ...]:
    """Return the one row group of a file that pyarrow reads whole; none for a file without rows."""
    return _groups([(rows, 0)] if rows else [], name)


def _metadata(raw: Mapping[bytes, bytes] | None) -> dict[str, str]:
    return {k.decode(): v.decode(errors="replace") for k, v in (raw or {}).items()}


def _named(schema: pa.Schema) -> pa.Schema:
    """Return the schema after decoding all names: one that is not UTF-8 would fail later, where it is first used."""
    pending = list(schema)
    while pending:
        field = pending.pop()
        str(field.name)
        pending += [field.type.field(i) for i in range(field.type.num_fields)]
    return schema


def _checked(table: pa.Table, group: RowGroup, columns: Sequence[str], name: str) -> pa.Table:
    _check_rows(table.num_rows, group, name)
    return _validated(table, columns)


def _validated(table: pa.Table, columns: Sequence[str]) -> pa.Table:
    """Return the columns after Arrow validated every value: its readers do not notice text that is not UTF-8."""
    table = table.select(list(columns))
    for column in table.columns:
        for chunk in column.chunks:
            ends_only = chunk.type in _BYTES_OF and _is_ascii(chunk)  # all of it takes an eighth as long as decoding
            (chunk.view(_BYTES_OF[chunk.type]) if ends_only else chunk).validate(full=True)
    return table


def _is_ascii(array: pa.Array) -> bool:
    """Tell whether no byte of a text column has its highest bit; then each value is UTF-8."""
    data = np.frombuffer(array.buffers()[2] or b"", np.uint8)
    whole = len(data) & -8
    high = int(np.bitwise_or.reduce(data[:whole].view(np.uint64))) & 0x8080808080808080
    return not high and data[whole:].max(initial=0) < 0x80


def _check_rows(found: int, group: RowGroup, name: str) -> None:
    if found != group.num_rows:
        message = "row group is shorter than its footer says"
        raise FormatError(message, kind=name.lower(), found=found, expected=group.num_rows)


class _ParquetRows(TabularFile):
    def __init__(self, source: Any, remote: bool, dictionary: Sequence[str], parsed: Any) -> None:
        # INT96, Spark's timestamps in Delta tables: as nanoseconds, years before 1677 and after 2262 would be others.
        # A page with a flipped bit may decode, to other values. Java's writer gives each page a checksum.
        options: dict[str, Any] = {
            "pre_buffer": remote,
            "coerce_int96_timestamp_unit": "us",
            "page_checksum_verification": True,
        }
        footer, groups = parsed or (None, None)
        self._file = pq.ParquetFile(source, metadata=footer, **options)
        encoded = [name for name in dictionary if name in self._file.schema_arrow.names]
        self._ahead = ReadAhead(source) if remote and type(source) is pa.NativeFile else None
        if self._ahead:
            source = self._ahead
            options["pre_buffer"] = False
        if encoded or self._ahead:
            footer = self._file.metadata
            self._file = pq.ParquetFile(source, metadata=footer, read_dictionary=encoded or None, **options)
        self.footer, self.remote = self._file.metadata, remote
        self.schema = _named(self._file.schema_arrow)
        self.metadata = _metadata(self.footer.metadata)
        listed = map(self.footer.row_group, range(self.footer.num_row_groups))
        self.row_groups = groups or _groups(((g.num_rows, g.total_byte_size) for g in listed), "PARQUET")
        self.parsed = self.footer, self.row_groups

    def _fetch(self, group: RowGroup, columns: Sequence[str]) -> None:
        if self._ahead:
            self._ahead.fetch(map(_place, self._chunks(group, columns)))

    def _chunks(self, group: RowGroup, columns: Sequence[str]) -> Iterator[Any]:
        names = {*columns}
        every = (self.footer.row_group(i).column(j) for i in group.indices for j in range(self.footer.num_columns))
        return (c for c in every if not names.isdisjoint(_parents(c.path_in_schema)))

    def read(self, group: RowGroup, columns: Sequence[str]) -> pa.Table:
        with _decoding("PARQUET"):
            self._fetch(group, columns)
            threads = group.num_rows > _ROWS_OF_ONE_THREAD
            table = self._file.read_row_groups(group.indices, columns=list(columns), use_threads=threads)
            return _checked(table, group, columns, "PARQUET")

    def batches(self, group: RowGroup, columns: Sequence[str], rows: int | None = None) -> Iterator[pa.Table]:
        rows = rows or self._rows_at_once(group, columns)
        if not columns or group.num_rows <= rows:
            yield from slices(self.read(group, columns), rows)
            return
        found = 0
        with _decoding("PARQUET"):
            self._fetch(group, columns)
            for batch in self._file.iter_batches(
                batch_size=rows, row_groups=group.indices, columns=list(columns), use_threads=False
            ):
                found += len(batch)
                yield _validated(pa.Table.from_batches([batch]), columns)
            _check_rows(found, group, "PARQUET")

    def _rows_at_once(self, group: RowGroup, columns: Sequence[str]) -> int:
        sizes = (max(c.total_uncompressed_size, 8 * c.num_values) for c in self._chunks(group, columns))
        return group.num_rows if group.num_rows <= BATCH_ROWS or sum(sizes) <= WHOLE_BYTES else BATCH_ROWS

    @cached_property
    def _places(self) -> dict[str, int]:
        """The number of each top-level column of primitive type in a row group."""
        top_level = {f.name for f in self.schema if not pa.types.is_nested(f.type)}
        paths = (self.footer.schema.column(i).path for i in range(self.footer.num_columns))
        return {path: i for i, path in enumerate(paths) if path in top_level}

    def statistics(self, group: RowGroup, columns: Collection[str] | None = None) -> Mapping[str, ColumnStatistics]:
        try:
            row_group = self.footer.row_group(group.index)
            names = self._places if columns is None else self._places.keys() & columns
            chunks = ((name, row_group.column(self._places[name])) for name in names)
            return {name: _statistics(c) for name, c in chunks if c.is_stats_set}
        except _DAMAGE as e:
            if is_storage_failure(e):
                raise
            return {}  # statistics that cannot be decoded say nothing


def _place(chunk: Any) -> tuple[int, int]:
    """Return where the bytes of a column chunk begin and end."""
    begin = chunk.dictionary_page_offset or chunk.data_page_offset
    begin = min(begin, chunk.data_page_offset)
    return begin, begin + chunk.total_compressed_size


def _parents(path: str) -> list[str]:
    """Return each name that the top-level column of a path may have: a name may have dots in it."""
    parts = path.split(".")
    return [".".join(parts[:number]) for number in range(1, len(parts) + 1)]


class _OrcRows(TabularFile):
    # pyarrow tells a file's rows, but not a stripe's without reading it.
    def __init__(self, source: Any) -> None:
        from pyarrow import orc  # noqa: PLC0415  # Parquet needs none of it

        check_orc(source)
        self._file = orc.ORCFile(source)
        self.schema = _named(self._file.schema)
        self.metadata = _metadata(self._file.metadata)
        self.row_groups = _one_group(self._file.nrows, "ORC")

    def read(self, group: RowGroup, columns: Sequence[str]) -> pa.Table:
        if not columns:
            return rows_only(group.num_rows)
        with _decoding("ORC"):
            self._check_timestamps(columns)
            try:
                return _checked(self._file.read(columns=list(columns)), group, columns, "ORC")
            except pa.ArrowException as e:
                if "out of range for nanosecond resolution" not in str(e):
                    raise
                # pyarrow decodes every ORC timestamp to nanoseconds, which end in 1677 and 2262.
                raise UnsupportedError("ORC timestamp beyond nanoseconds", kind="orc-timestamp", found=str(e)) from e

    def _check_timestamps(self, columns: Sequence[str]) -> None:
        if _WRAPS_ORC_TIMESTAMPS and any("timestamp" in str(self.schema.field(name).type) for name in columns):
            message, found = "this pyarrow may read another timestamp than ORC stores", f"pyarrow {pa.__version__}"
            raise UnsupportedError(message, "orc-timestamp", found=found, expected=f"pyarrow {_EXACT_ORC} or later")


class _AvroRows(TabularFile):
    def __init__(self, source: BinaryIO) -> None:
        self._table, self.metadata = read_avro_table(source.read())
        self.schema = self._table.schema
        self.row_groups = _one_group(self._table.num_rows, "AVRO")

    def read(self, group: RowGroup, columns: Sequence[str]) -> pa.Table:
        with _decoding("AVRO"):
            return self._table.select(list(columns)) if columns else rows_only(group.num_rows)


def slices(table: pa.Table, rows: int) -> Iterator[pa.Table]:
    """Yield the rows of a table in pieces of at most `rows` rows."""
    for at in range(0, len(table), max(rows, 1)):
        yield table.slice(at, rows) if table.num_columns else rows_only(min(rows, len(table) - at))


def _statistics(chunk: Any) -> ColumnStatistics:
    found = chunk.statistics
    bounded = found.has_min_max
    return ColumnStatistics(
        values=chunk.num_values,
        nulls=found.null_count if found.has_null_count else None,
        lower=found.min_raw if bounded else None,
        upper=found.max_raw if bounded else None,
    )


def rows_only(rows: int) -> pa.Table:
    """Return a table of `rows` rows and no column, for reads that only count; Arrow needs a batch to express it."""
    no_columns = pa.Array.from_buffers(pa.struct([]), rows, [None])
    return pa.Table.from_batches([pa.RecordBatch.from_struct_array(no_columns)])
