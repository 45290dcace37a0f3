"""Read the rows that a caller passes, whatever holds them: a piece at a time, and again only if they are the same then.

A table, a DataFrame, a file, a dataset and a polars LazyFrame can be read again; a stream and a generator cannot. A
change that must be planned again needs that. An empty stream would be committed silently then, so it is refused.
"""

import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from glob import glob, has_magic
from io import IOBase
from itertools import chain, islice
from os import PathLike, fspath
from pathlib import Path
from shutil import copyfileobj
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl
import pyarrow as pa
from pyarrow import dataset
from pyiceberg.schema import Schema

from deletekit.errors import InvalidInputError, UnsupportedError
from deletekit.rows.available_memory import available_memory
from deletekit.rows.input_rows import as_table, tabular, with_index
from deletekit.rows.row_files import open_rows
from deletekit.table.file_io import FileIO

_DICTS_PER_TABLE = 10_000
"""So many dicts of a generator become one table."""

_TIMES_HELD = 6
"""So many times the bytes of its rows a verb that holds them takes, with the hashes and files that it makes."""

_NO_ROWS = (str, bytes, IOBase)
"""What can be iterated and is not rows."""

_HELD = (pa.Table, pa.RecordBatch, Mapping, list)


class RowSource:
    """Rows as a caller passes them to a verb.

    Parameters
    ----------
    rows: a pyarrow Table or RecordBatch, a list of dicts, anything with `__arrow_c_stream__` or `__arrow_c_array__`, a
        pyarrow Dataset or Scanner, a polars LazyFrame; or a list, generator or other iterable of any of these or of
        dicts; or the path of a local file, a pattern as `rows/*.parquet`, or an address, in a format of `open_rows`,
        or a list of these.
    schema: whose types the columns of a file get.
    argument: its name, for errors.
    io: storage that opens an address, such as the table's; None refuses one.
    """

    def __init__(self, rows: Any, schema: Schema, argument: str = "rows", io: FileIO | None = None) -> None:
        self._rows, self._argument = with_index(rows), argument
        paths = rows if isinstance(rows, list) else [rows]
        self._paths = [fspath(p) for p in paths] if all(isinstance(p, str | PathLike) for p in paths) else []
        self._schema, self._io = schema, io
        self._is_read = False
        self._held: list[Any] | None = None

    @property
    def repeats(self) -> bool:
        """Whether a second read certainly gives the rows again."""
        return _repeats(self._rows)

    def pieces(self) -> Iterator[Any]:
        """Yield the rows in pieces that `align` takes. The first one is empty if the columns are known before the rows.

        Raises InvalidInputError for rows that are not tabular, or that were read before and cannot be read again.
        """
        if self._is_read and not self.repeats:
            message = f"{self._argument} can be read only once, and the table changed before they were committed"
            expected = "new ones, or a table, DataFrame, LazyFrame or dataset, which can be read again"
            raise InvalidInputError(message, "rows-read-once", self._argument, type(self._rows).__name__, expected)
        self._is_read = True
        rows = self._rows
        if self._paths:
            for file in (file for path in self._paths for file in _files(path, self._argument, self._io)):
                with _local(file, self._io) as path:
                    yield from _stream(open_rows(path, self._schema))
        elif isinstance(rows, pl.LazyFrame):
            yield from _lazy_frame(rows)
        elif isinstance(rows, dataset.Dataset):
            # By default a scan reads far ahead: 16 batches of each of four files.
            yield from _stream(rows.scanner(batch_readahead=2, fragment_readahead=1).to_reader())
        elif isinstance(rows, dataset.Scanner):
            yield from _stream(rows.to_reader())
        elif isinstance(rows, _HELD) and not (isinstance(rows, list) and rows and _speaks_arrow(rows[0])):
            yield rows
        elif hasattr(rows, "__arrow_c_stream__"):
            with tabular(self._argument):
                reader = pa.RecordBatchReader.from_stream(rows)
            yield from _stream(reader)
        elif isinstance(rows, Iterable) and not isinstance(rows, _NO_ROWS) and not _is_frame(rows):
            yield from _iterated(iter(rows))
        else:
            yield rows

    def held(self) -> list[Any]:
        """Return all pieces. They are read only once, also those that are streams themselves.

        Raises UnsupportedError as soon as they take more memory than a verb can do with: see `_TIMES_HELD`.
        """
        if self._held is None:
            most, held, size = (available_memory() or sys.maxsize) // _TIMES_HELD, list[Any](), 0
            for piece in self.pieces():
                held.append(self._kept(piece))
                size += 0 if isinstance(self._rows, _HELD) else _size(held[-1])
                if size > most:
                    message = (
                        f"{self._argument} are more than memory holds; pass them in parts, or as a Spark DataFrame"
                    )
                    found = f"more than {size:,} bytes"
                    expected = f"at most {most:,}, as the verb takes {_TIMES_HELD} times as much and that is free"
                    raise UnsupportedError(message, "rows-larger-than-memory", self._argument, found, expected)
            self._held = held
        return self._held

    def _kept(self, piece: Any) -> Any:
        if isinstance(piece, _HELD) or _is_frame(piece) or not _speaks_arrow(piece):
            return piece
        with tabular(self._argument):
            return pa.table(piece)

    def whole(self, schema: Schema) -> Any:
        """Return all rows at once: a list of dicts, or an Arrow table of their own types.

        Parameters
        ----------
        schema: as in `as_table`.

        Raises InvalidInputError for pieces that are not tabular or have different columns.
        """
        if all(isinstance(piece, list) for piece in self.held()):
            return list(chain.from_iterable(self.held()))
        return self._joined([as_table(piece, schema, self._argument) for piece in self.held()])

    def _joined(self, tables: list[pa.Table]) -> pa.Table:
        names = tables[0].column_names
        for table in tables:
            if sorted(table.column_names) != sorted(names):
                raise InvalidInputError(
                    f"{self._argument} name different columns", "rows", self._argument, table.column_names, names
                )
        with tabular(self._argument):
            return pa.concat_tables([t.select(names) for t in tables], promote_options="default")


def _size(piece: Any) -> int:
    """Return about how many bytes of memory a piece takes; of dicts, as many as the first one each."""
    if isinstance(piece, list):
        return len(piece) * sum(map(sys.getsizeof, (piece[0], *piece[0].values()))) if piece else 0
    return int(piece.estimated_size() if isinstance(piece, pl.DataFrame) else getattr(piece, "nbytes", 0))


def _repeats(rows: Any) -> bool:
    """Tell whether a second read certainly gives the rows again. What only claims to stream may be empty then."""
    if isinstance(rows, list):
        return not any(_speaks_arrow(item) and not _repeats(item) for item in rows)
    # No relation of DuckDB: it may be one of a stream.
    return isinstance(rows, (*_HELD, str, PathLike, pl.DataFrame, pl.LazyFrame, dataset.Dataset)) or _is_frame(rows)


def _files(path: str, argument: str, io: FileIO | None) -> list[str]:
    is_pattern, is_remote = has_magic(path) and not Path(path).exists(), "://" in path
    found = sorted(glob(path, recursive=True)) if is_pattern else [path]  # noqa: PTH207  # it may be absolute
    if not found or (is_remote and (is_pattern or io is None)):
        expected = "a path; for several remote files a pyarrow.dataset.dataset(addresses)"
        raise InvalidInputError("no local file has this path", "rows", argument, path, expected)
    return found


@contextmanager
def _local(file: str, io: FileIO | None) -> Iterator[str]:
    """Give a local path of a file. A copy of what lies elsewhere is one as long as it is read."""
    if io is None or "://" not in file:
        yield file
        return
    with TemporaryDirectory() as folder, io.open(file) as source:
        copy = Path(folder, file.rpartition("/")[2])
        with copy.open("wb") as target:
            copyfileobj(source, target)
        yield str(copy)


def _is_frame(rows: Any) -> bool:
    return hasattr(rows, "__dataframe__")  # also pandas before it spoke Arrow


def _speaks_arrow(rows: Any) -> bool:
    return hasattr(rows, "__arrow_c_stream__") or hasattr(rows, "__arrow_c_array__")


def _stream(reader: pa.RecordBatchReader) -> Iterator[pa.Table | pa.RecordBatch]:
    yield reader.schema.empty_table()
    yield from reader


def _lazy_frame(frame: pl.LazyFrame) -> Iterator[pl.DataFrame]:
    yield frame.collect_schema().to_frame()
    if hasattr(frame, "collect_batches"):
        yield from frame.collect_batches(maintain_order=True)
    else:  # an old polars
        yield frame.collect(engine="streaming")


def _iterated(rows: Iterator[Any]) -> Iterator[Any]:
    """Yield the items; dicts, which are rows, in lists."""
    for first in rows:
        if isinstance(first, Mapping):
            yield [first, *islice(rows, _DICTS_PER_TABLE - 1)]
        else:
            yield first
