"""Keep rows of a key index in sorted runs: in memory, or in files whose blocks are read when they are first asked for.

A run never changes. New rows come as a new run, and runs of about the same length are merged. Each row is the hash of
its key, its place (number of the data file, position in it, and whether the key is NULL), and its row id if some data
file of the run stores row ids. A hash may have several rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyiceberg.types import NestedField

from deletekit.deletes.read import ReadContext, ReadRequest, read_task
from deletekit.deletes.scan_task import ScanTask
from deletekit.errors import UnsupportedError
from deletekit.formats.content_file import DataFile
from deletekit.stream.key_hashes import KeyHasher, KeyHashes, Numbers, Words, first_bits
from deletekit.table.file_io import FileIO
from deletekit.table.sinks.index_files import (
    IndexedFile,
    Rows,
    RunInfo,
    read_blocks,
    read_tail,
    write_run,
)
from deletekit.table.types import arrow_type

NO_ID = -1
MOST_FILES = 1 << 27
Columns = dict[str, npt.NDArray[Any]]
"""Rows of an index by the columns of `row_type`: `low`, `place`, `high` for wide hashes, and `id` if a row has one."""
_MOST_MERGED = 3 << 23
_POSITION_BITS = 36
_POSITION_MASK = np.uint64((1 << _POSITION_BITS) - 1)
_NULL = np.uint64(1 << 63)

_R = TypeVar("_R")


def pack(file_number: int, positions: Numbers, is_null: npt.NDArray[np.bool_]) -> Words:
    """Pack rows of one file as places. Raise UnsupportedError beyond 2^27 files or 2^36 rows of a file."""
    if file_number >= MOST_FILES or (len(positions) and int(positions.max()) >> _POSITION_BITS):
        expected = f"files below {MOST_FILES}, positions below 2^{_POSITION_BITS}"
        message = "too many files or rows for a key index"
        raise UnsupportedError(message, kind="key-index-size", found=file_number, expected=expected)
    places = positions.astype(np.uint64) | np.uint64(file_number << _POSITION_BITS)
    return np.where(is_null, places | _NULL, places) if is_null.any() else places


def unpack(places: Words) -> tuple[Numbers, Numbers]:
    """Return file numbers and positions."""
    return files_of(places), (places & _POSITION_MASK).astype(np.int64)


def files_of(places: Words) -> Numbers:
    """Return file numbers."""
    return ((places & ~_NULL) >> np.uint64(_POSITION_BITS)).astype(np.int64)


def is_null(places: Words) -> npt.NDArray[np.bool_]:
    """Return which keys are NULL."""
    null: npt.NDArray[np.bool_] = (places & _NULL) != 0
    return null


def by_file(files: Numbers) -> list[tuple[int, Numbers]]:
    """Return each file number with the indices at which it occurs."""
    order = np.argsort(files, kind="stable")
    starts = np.flatnonzero(np.diff(files[order], prepend=-1))
    return [(int(files[part[0]]), part) for part in np.split(order, starts[1:]) if len(part)]


@dataclass(frozen=True, slots=True)
class IndexHits:
    """Rows with one of the wanted hashes, live or not.

    Attributes
    ----------
    keys: the index of the wanted hash.
    files, positions: number of the data file, and position in it.
    row_ids: the `_row_id` that the file stores; -1 if it follows from the file's `first_row_id` and the position.
    """

    keys: Numbers
    files: Numbers
    positions: Numbers
    row_ids: Numbers

    def __len__(self) -> int:
        return len(self.keys)

    def take(self, rows: Any) -> IndexHits:
        """Return the hits at some indices, or where a mask is True."""
        return IndexHits(self.keys[rows], self.files[rows], self.positions[rows], self.row_ids[rows])


def joined_hits(parts: Iterable[IndexHits]) -> IndexHits:
    """Return the hits of several searches."""
    nothing = np.empty(0, np.int64)
    found = [IndexHits(nothing, nothing, nothing, nothing), *parts]
    return IndexHits(*(np.concatenate([getattr(f, name) for f in found]) for name in IndexHits.__slots__))


class Run:
    """A sorted run.

    Attributes
    ----------
    columns: the rows. Empty while blocks of a file are still `partial`.
    files: the data files whose rows it has.
    saved: what a root says of its file; None for a run in no file.
    """

    def __init__(self, columns: Columns, files: tuple[IndexedFile, ...]) -> None:
        self.columns, self.files = columns, files
        self.saved: RunInfo | None = None
        self.partial: Blocks | None = None

    def __len__(self) -> int:
        return len(self.columns["low"]) if self.partial is None else self.partial.info.rows

    @property
    def nbytes(self) -> int:
        """Return the bytes of memory that the loaded rows take."""
        if self.partial is not None:
            return self.partial.nbytes
        return sum(column.nbytes for column in self.columns.values())

    def find(self, hashes: KeyHashes) -> IndexHits:
        """Find the rows with some hashes, which are sorted. Raise DamagedIndexError."""
        if self.partial is not None and self.partial.must_load_all(hashes.low):
            self.load()
        columns = self.columns
        if self.partial is not None:
            place, stop = self.partial.first(hashes.low)
            columns = {name: self.partial.rows[name] for name in self.partial.rows.dtype.names or ()}
            keys, found = _equal(columns["low"], hashes.low, place, stop)
        else:
            keys, found = equal_hashes(columns["low"], hashes.low)
        same = is_null(columns["place"][found]) == hashes.is_null[keys]
        if hashes.high is not None:
            same &= columns["high"][found] == hashes.high[keys]
        keys, found = keys[same], found[same]
        ids = columns["id"][found] if "id" in columns else np.full(len(found), NO_ID)
        return IndexHits(keys, *unpack(columns["place"][found]), ids)

    def load(self) -> Run:
        """Load all blocks, and return the run. Raise DamagedIndexError."""
        if self.partial is not None:
            count, kind = self.partial.info.rows, self.partial.info.row_type
            self.columns = {name: np.empty(count, kind[name]) for name in kind.names or ()}
            for part, rows in self.partial.all_rows():
                for name, column in self.columns.items():
                    column[part] = rows[name]
            self.partial = None
        return self

    def save(self, io: FileIO, path: str) -> None:
        """Write the run to a new file."""
        self.saved = write_run(io, path, self.columns, self.files)


class Blocks:
    """The blocks of a run that are loaded: rows of several blocks in one array, in the order in which they were read.

    The whole run is not set aside for them, because memory is zeroed in larger pieces than blocks are.
    """

    def __init__(self, io: FileIO, path: str, info: RunInfo) -> None:
        self._io, self._path, self.info = io, path, info
        self.tail = read_tail(io, path, info)
        self._begins = np.full(1 << info.bits, -1, np.int64)
        self.rows = np.empty(0, info.row_type)
        self._used = 0

    @property
    def nbytes(self) -> int:
        """Return the bytes of loaded rows."""
        return self._used * self.info.row_type.itemsize

    def must_load_all(self, wanted: Words) -> bool:
        """Tell whether half of the rows are loaded, or would be after a search."""
        return 2 * (self._used + self._missing(wanted)[1]) > self.info.rows

    def first(self, wanted: Words) -> tuple[Numbers, Numbers]:
        """Load the blocks of some hashes. Return the first row not below each one, and the end of its block."""
        self._load(self._missing(wanted)[0])
        blocks = first_bits(wanted, self.info.bits)
        counts = np.diff(self.tail.starts)
        begin = self._begins[blocks]
        stop = end = begin + counts[blocks]
        low = self.rows["low"]
        while (open_ := begin < end).any():  # a binary search in each hash's block
            middle = (begin + end) >> 1
            below = np.zeros(len(wanted), np.bool_)
            below[open_] = low[middle[open_]] < wanted[open_]
            begin, end = np.where(below, middle + 1, begin), np.where(open_ & ~below, middle, end)
        return begin, stop

    def all_rows(self) -> Iterator[tuple[slice, Rows]]:
        """Read the whole run. Yield rows and which they are."""
        starts = self.tail.starts
        for first, last, rows in read_blocks(
            self._io, self._path, self.info, self.tail, np.arange(1 << self.info.bits)
        ):
            yield slice(int(starts[first]), int(starts[last])), rows

    def _missing(self, wanted: Words) -> tuple[Numbers, int]:
        """Return the blocks of some hashes that are not loaded, and their rows."""
        blocks = np.unique(first_bits(wanted, self.info.bits))
        blocks = blocks[self._begins[blocks] < 0]
        return blocks, int((self.tail.starts[blocks + 1] - self.tail.starts[blocks]).sum())

    def _load(self, blocks: Numbers) -> None:
        starts, parts, used = self.tail.starts, [self.rows[: self._used]], self._used
        for first, last, rows in read_blocks(self._io, self._path, self.info, self.tail, blocks):
            self._begins[first:last] = used + starts[first:last] - starts[first]
            parts.append(rows)
            used += len(rows)
        if used > len(self.rows):
            grown = np.empty(max(used, 2 * len(self.rows)), self.info.row_type)
            grown[: self._used] = parts[0]
            self.rows = grown
        if used > self._used:
            self.rows[self._used : used] = np.concatenate(parts[1:])
            self._used = used


def equal_hashes(low: Words, wanted: Words) -> tuple[Numbers, Numbers]:
    """Return the sorted hashes that are equal to each wanted one: the index of the wanted one, and theirs."""
    return _equal(low, wanted, np.searchsorted(low, wanted), np.full(len(wanted), len(low)))


def _equal(low: Words, wanted: Words, place: Numbers, stop: Numbers) -> tuple[Numbers, Numbers]:
    """Return the rows with each hash, from the first one up to others: the index of the hash, and the row."""
    asked = np.arange(len(wanted))
    keys, rows = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    while len(asked):  # as often as a hash has rows in this run
        inside = place < stop[asked]
        asked, place = asked[inside], place[inside]
        hit = low[place] == wanted[asked]
        asked, place = asked[hit], place[hit]
        keys.append(asked)
        rows.append(place)
        place = place + 1
    return np.concatenate(keys), np.concatenate(rows)


def open_run(io: FileIO, path: str, info: RunInfo) -> Run:
    """Open a run in a file. Only its tail is read. Raise DamagedIndexError."""
    blocks = Blocks(io, path, info)
    run = Run({}, blocks.tail.files)
    run.saved, run.partial = info, blocks
    return run


def new_run(parts: Sequence[Columns], files: Iterable[IndexedFile]) -> Run:
    """Sort rows into a run."""
    parts = _alike(parts)
    order = np.argsort(np.concatenate([part["low"] for part in parts]))
    columns = {name: np.concatenate([part[name] for part in parts])[order] for name in parts[0]}
    return Run(columns, tuple(files))


def with_run(runs: Sequence[Run], run: Run, is_live: npt.NDArray[np.bool_]) -> list[Run]:
    """Add a run to runs. Merge those of about the same length, and then leave out dead files.

    `is_live` tells by number which data files are live. Raises DamagedIndexError.
    """
    found = stacks([*runs, run], len, _MOST_MERGED)
    return [stack[0] if len(stack) == 1 else merged(stack, is_live) for stack in found]


def stacks(runs: Iterable[_R], rows: Callable[[_R], int], most: int) -> list[list[_R]]:
    """Put runs together that become one: those of about the same length, the longest first.

    Merging takes several times the memory of the rows, so it is of at most so many.
    """
    found: list[list[_R]] = []
    for run in sorted(runs, key=rows, reverse=True):
        found.append([run])
        while len(found) > 1:
            below, top = (sum(map(rows, stack)) for stack in found[-2:])
            if below > 2 * top or below + top > most:
                break
            found[-2:] = [[*found[-2], *found[-1]]]
    return found


def merged(runs: Sequence[Run], is_live: npt.NDArray[np.bool_]) -> Run:
    """Merge runs into one, without the rows of dead files. Raise DamagedIndexError."""
    left = sorted((_live(run, is_live) for run in runs), key=len)
    while len(left) > 1:
        left[:2] = [_merge(*sorted(left[:2], key=len, reverse=True))]
    return left[0]


def _live(run: Run, is_live: npt.NDArray[np.bool_]) -> Run:
    run.load()
    if all(is_live[f.number] for f in run.files):
        return run
    kept = is_live[files_of(run.columns["place"])]
    columns = {name: column[kept] for name, column in run.columns.items()}
    return Run(columns, tuple(f for f in run.files if is_live[f.number]))


def _merge(longer: Run, shorter: Run) -> Run:
    """Merge two runs without sorting them again."""
    long, short = _alike([longer.columns, shorter.columns])
    at = np.searchsorted(long["low"], short["low"], side="right") + np.arange(len(shorter))
    rest = np.ones(len(longer) + len(shorter), np.bool_)
    rest[at] = False
    columns: Columns = {}
    for name, column in long.items():
        columns[name] = np.empty(len(rest), column.dtype)
        columns[name][at], columns[name][rest] = short[name], column
    return Run(columns, (*longer.files, *shorter.files))


def _alike(parts: Sequence[Columns]) -> Sequence[Columns]:
    """Return rows that have row ids, all or none."""
    if not any("id" in part for part in parts):
        return parts
    return [part if "id" in part else {**part, "id": np.full(len(part["low"]), NO_ID)} for part in parts]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileKeys:
    """Key columns of a data file, from its writer or read from the file.

    All rows of the file are there, in order, hidden ones too, so that the index of a key is its position.

    Attributes
    ----------
    row_ids: the `_row_id` of each row, null where it follows from `first_row_id`; None if all do.
    """

    columns: tuple[Any, ...]
    row_ids: pa.Array | None = None

    def __len__(self) -> int:
        return len(self.columns[0])


def read_file_keys(context: ReadContext, task: ScanTask, fields: Sequence[NestedField]) -> FileKeys:
    """Read the keys of a data file, of hidden rows too. Raise FormatError or NotFoundError."""
    first = task.data_file.first_row_id
    request = ReadRequest(tuple(fields), lineage=first is not None)
    tables = [batch.table for batch in read_task(context, replace(task, deletes=()), request)]
    kinds = [arrow_type(f.field_type) for f in fields]
    columns = tuple(
        pa.chunked_array([c for t in tables for c in t.column(i).chunks], type=kind) for i, kind in enumerate(kinds)
    )
    row_ids = None
    if first is not None:
        ids = np.concatenate([np.empty(0, np.int64), *(t.column("_row_id").to_numpy() for t in tables)])
        inherited = ids == first + np.arange(len(ids))
        row_ids = None if inherited.all() else pa.array(ids, mask=inherited)
    return FileKeys(columns=columns, row_ids=row_ids)


def kept_keys(rows: pa.Table) -> FileKeys:
    """Return the keys of a data file from the columns that its writer kept: the key's, then the row ids, if any."""
    has_ids = rows.column_names[-1] == "_row_id"
    columns = rows.columns[:-1] if has_ids else rows.columns
    return FileKeys(columns=tuple(columns), row_ids=rows.column("_row_id") if has_ids else None)


def indexed_file(number: int, file: DataFile) -> IndexedFile:
    """Return a data file as an index has it."""
    return IndexedFile(number=number, path=file.file_path, rows=file.record_count, size=file.file_size_in_bytes)


def index_rows(hasher: KeyHasher, number: int, keys: FileKeys) -> Columns:
    """Return the rows of a data file for the index. Raise UnsupportedError for a file with too many rows."""
    hashes = hasher(keys.columns)
    rows = columns_of(hashes, pack(number, np.arange(len(keys)), hashes.is_null))
    if keys.row_ids is not None and keys.row_ids.null_count < len(keys):
        rows["id"] = keys.row_ids.fill_null(NO_ID).to_numpy()
    return rows


def columns_of(hashes: KeyHashes, places: Words) -> Columns:
    """Return rows without row ids from their hashes and places."""
    high = {} if hashes.high is None else {"high": hashes.high}
    return {"low": hashes.low, "place": places, **high}
