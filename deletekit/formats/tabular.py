"""Rows of a Parquet, Avro or ORC file as Arrow, with field ids and absolute row positions.

Law: reads a file object it is given; opens no path. A position is the 0-based ordinal in the physical file, whatever
was skipped on the way to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, Protocol

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc

from deletekit.errors import DeletekitError, FormatError, UnsupportedError
from deletekit.formats.avro_table import read_avro_table
from deletekit.formats.content_file import file_format_of
from deletekit.formats.orc_layout import check_orc

__all__ = ["RowGroup", "TabularFile", "open_tabular"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowGroup:
    """A piece of a file that can be read on its own: a Parquet row group, an ORC stripe, or a whole Avro file."""

    index: int
    first_position: int
    num_rows: int


class TabularFile(Protocol):
    """A readable data or delete file."""

    schema: pa.Schema
    metadata: dict[str, str]
    row_groups: tuple[RowGroup, ...]

    def read(self, group: RowGroup, columns: Sequence[str]) -> pa.Table:
        """The named top-level columns of one row group, in file order."""


def open_tabular(source: Any, file_format: str) -> TabularFile:
    """Open a seekable binary source as `file_format` (parquet, avro or orc).

    Raises FormatError when the bytes are not that format, UnsupportedError for a format without rows.
    """
    name = file_format_of(file_format)
    try:
        if name == "PARQUET":
            return _ParquetRows(source)
        if name == "ORC":
            return _OrcRows(source)
        if name == "AVRO":
            return _AvroRows(source)
    except DeletekitError:
        raise
    except _DAMAGE as e:
        raise _damaged(name, e) from e
    raise UnsupportedError("this format holds no rows", kind="file-format", found=name, expected="parquet, avro or orc")


def read_all(file: TabularFile, columns: Sequence[str] | None = None) -> pa.Table:
    """Every row of a file; `columns` None means all."""
    names = file.schema.names if columns is None else list(columns)
    tables = [file.read(group, names) for group in file.row_groups]
    if tables:
        return pa.concat_tables(tables)
    return (file.schema if columns is None else pa.schema([file.schema.field(n) for n in names])).empty_table()


# pyarrow reports damage as any of these, by format and by where the decoder stumbles.
_DAMAGE = (
    pa.ArrowException,
    OSError,
    ValueError,
    KeyError,
    IndexError,
    TypeError,
    EOFError,
    OverflowError,
    MemoryError,
)


def _damaged(name: str, e: BaseException) -> FormatError:
    return FormatError(f"damaged {name} file", kind=f"{name.lower()}", found=f"{type(e).__name__}: {e}")


def _groups(counts: Iterator[int], name: str) -> tuple[RowGroup, ...]:
    out, position = [], 0
    for index, rows in enumerate(counts):
        if rows < 0:
            raise FormatError(
                f"damaged {name} file", kind=name.lower(), field="row group", found=f"{rows} rows", expected=">= 0"
            )
        out.append(RowGroup(index=index, first_position=position, num_rows=rows))
        position += rows
    return tuple(out)


def _metadata(raw: Mapping[bytes, bytes] | None) -> dict[str, str]:
    return {k.decode(): v.decode(errors="replace") for k, v in (raw or {}).items()}


def _named(schema: pa.Schema) -> pa.Schema:
    """The schema, its names decoded once: a name that is no UTF-8 would fail wherever it is first looked at."""
    pending = list(schema)
    while pending:
        field = pending.pop()
        str(field.name)
        pending += [field.type.field(i) for i in range(field.type.num_fields)]
    return schema


def _checked(table: pa.Table, group: RowGroup, columns: Sequence[str], name: str) -> pa.Table:
    """The columns asked for, after Arrow has looked at every value: its readers do not see text that is no UTF-8."""
    if table.num_rows != group.num_rows:
        raise FormatError(
            "row group is shorter than its footer says",
            kind=name.lower(),
            found=table.num_rows,
            expected=group.num_rows,
        )
    table.validate(full=True)
    return table.select(list(columns))


class _ParquetRows:
    def __init__(self, source: Any) -> None:
        self._file = pq.ParquetFile(source, pre_buffer=True)
        footer = self._file.metadata
        self.schema = _named(self._file.schema_arrow)
        self.metadata = _metadata(footer.metadata)
        self.row_groups = _groups((footer.row_group(i).num_rows for i in range(footer.num_row_groups)), "PARQUET")

    def read(self, group: RowGroup, columns: Sequence[str]) -> pa.Table:
        try:
            table = self._file.read_row_group(group.index, columns=list(columns), use_threads=False)
            return _checked(table, group, columns, "PARQUET")
        except DeletekitError:
            raise
        except _DAMAGE as e:
            raise _damaged("PARQUET", e) from e


class _OrcRows:
    # pyarrow tells a file's rows but not a stripe's without reading it, so a file is one group.
    def __init__(self, source: Any) -> None:
        check_orc(source)
        self._file = orc.ORCFile(source)
        self.schema = _named(self._file.schema)
        self.metadata = _metadata(self._file.metadata)
        self.row_groups = _groups(iter([self._file.nrows] if self._file.nrows else []), "ORC")

    def read(self, group: RowGroup, columns: Sequence[str]) -> pa.Table:
        if not columns:
            return _rows_only(group.num_rows)
        try:
            return _checked(self._file.read(columns=list(columns)), group, columns, "ORC")
        except DeletekitError:
            raise
        except _DAMAGE as e:
            if "out of range for nanosecond resolution" in str(e):
                # pyarrow decodes every ORC timestamp to nanoseconds, which end in 1677 and 2262.
                raise UnsupportedError("ORC timestamp beyond nanoseconds", kind="orc-timestamp", found=str(e)) from e
            raise _damaged("ORC", e) from e


class _AvroRows:
    def __init__(self, source: BinaryIO) -> None:
        self._table, self.metadata = read_avro_table(source.read())
        self.schema = self._table.schema
        self.row_groups = _groups(iter([self._table.num_rows] if self._table.num_rows else []), "AVRO")

    def read(self, group: RowGroup, columns: Sequence[str]) -> pa.Table:
        try:
            return self._table.select(list(columns)) if columns else _rows_only(group.num_rows)
        except KeyError as e:
            raise _damaged("AVRO", e) from e


def _rows_only(rows: int) -> pa.Table:
    """A table of `rows` rows and no column: what count-only reads need, and Arrow cannot express without a batch."""
    no_columns = pa.Array.from_buffers(pa.struct([]), rows, [None])
    return pa.Table.from_batches([pa.RecordBatch.from_struct_array(no_columns)])
