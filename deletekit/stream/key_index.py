"""Keep rows of a key index in sorted runs: in memory, or in files whose blocks are read when they are first asked for.

A run never changes. New rows come as a new run, and runs of about the same length are merged. Each row is the hash of
its key, its place (number of the data file, position in it, and whether the key is NULL), and its row id if some data
file of the run stores row ids. A hash may have several rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from deletekit.errors import UnsupportedError
from deletekit.stream.key_hashes import KeyHashes, Numbers, Words
from deletekit.table.file_io import FileIO
from deletekit.table.index_files import (
    IndexedFile,
    Rows,
    RunInfo,
    RunTail,
    read_blocks,
    read_tail,
    row_type,
    write_run,
)

NO_ID = -1
MOST_FILES = 1 << 27
_POSITION_BITS = 36
_POSITION_MASK = np.uint64((1 << _POSITION_BITS) - 1)
_NULL = np.uint64(1 << 63)


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


def by_file(files: Numbers) -> list[tuple[int, Numbers]]:
    """Return each file number with the indices at which it occurs."""
    order = np.argsort(files, kind="stable")
    starts = np.flatnonzero(np.diff(files[order], prepend=-1))
    return [(int(files[part[0]]), part) for part in np.split(order, starts[1:]) if len(part)]


@dataclass(frozen=True, slots=True)
class IndexRows:
    """Rows of an index, in any order: their hashes and places; row ids, -1 for none, or None if no row has one."""

    hashes: KeyHashes
    places: Words
    ids: Numbers | None = None

    def __len__(self) -> int:
        return len(self.places)


@dataclass(slots=True, eq=False)
class Run:
    """A sorted run.

    Attributes
    ----------
    low, high, places, ids: the rows; `high` and `ids` may be None. Only the loaded blocks of a file are right.
    files: the data files whose rows it has.
    saved: where it is, and its tail; None for a run in memory.
    loaded: which blocks are in memory; None once all are.
    """

    low: Words
    high: Words | None
    places: Words
    ids: Numbers | None
    files: tuple[IndexedFile, ...]
    saved: SavedRun | None = None
    loaded: npt.NDArray[np.bool_] | None = None

    def __len__(self) -> int:
        return len(self.low)

    @property
    def nbytes(self) -> int:
        """Return the bytes of memory that the loaded rows take."""
        width = row_type(wide=self.high is not None, ids=self.ids is not None).itemsize
        if self.loaded is None or self.saved is None:
            return len(self) * width
        return int(np.diff(self.saved.tail.starts)[self.loaded].sum()) * width

    def find(self, hashes: KeyHashes) -> tuple[Numbers, Numbers]:
        """Find the rows with some hashes, which are sorted. Return the indices of the hash and of the row.

        Raises DamagedIndexError.
        """
        wanted = hashes.low
        place, stop = self._first(wanted)
        asked = np.arange(len(wanted))
        keys, rows = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        while len(asked):  # as often as a hash has rows in this run
            inside = place < stop[asked]
            asked, place = asked[inside], place[inside]
            hit = self.low[place] == wanted[asked]
            asked, place = asked[hit], place[hit]
            keys.append(asked)
            rows.append(place)
            place = place + 1
        return self._same(hashes, np.concatenate(keys), np.concatenate(rows))

    def _same(self, hashes: KeyHashes, keys: Numbers, rows: Numbers) -> tuple[Numbers, Numbers]:
        """Keep the hits whose other bits agree too."""
        same = ((self.places[rows] & _NULL) != 0) == hashes.is_null[keys]
        if self.high is not None and hashes.high is not None:
            same &= self.high[rows] == hashes.high[keys]
        return keys[same], rows[same]

    def load(self) -> Run:
        """Load all blocks, and return the run. Raise DamagedIndexError."""
        if self.saved is not None and self.loaded is not None:
            self.saved.load(self, np.flatnonzero(~self.loaded))
            self.loaded = None
        return self

    def _first(self, wanted: Words) -> tuple[Numbers, Numbers]:
        """Return the first row that is not below each hash, and the row where the search for it must stop."""
        if self.saved is None or self.loaded is None:
            return np.searchsorted(self.low, wanted), np.full(len(wanted), len(self))
        bits, starts = self.saved.info.bits, self.saved.tail.starts
        blocks = (wanted >> np.uint64(64 - bits)).astype(np.int64) if bits else np.zeros(len(wanted), np.int64)
        needed = np.unique(blocks)
        self.saved.load(self, needed[~self.loaded[needed]])
        begin, end = starts[blocks], starts[blocks + 1]
        stop = end  # the next block may not be loaded
        while (open_ := begin < end).any():  # a binary search in each hash's block
            middle = (begin + end) >> 1
            below = np.zeros(len(wanted), np.bool_)
            below[open_] = self.low[middle[open_]] < wanted[open_]
            begin, end = np.where(below, middle + 1, begin), np.where(open_ & ~below, middle, end)
        return begin, stop

    def rows(self, begin: int, end: int) -> Rows:
        """Return rows as a file has them."""
        out = np.empty(end - begin, row_type(wide=self.high is not None, ids=self.ids is not None))
        out["low"], out["place"] = self.low[begin:end], self.places[begin:end]
        if self.high is not None:
            out["high"] = self.high[begin:end]
        if self.ids is not None:
            out["id"] = self.ids[begin:end]
        return out

    def save(self, io: FileIO, path: str) -> None:
        """Write the run, unless it is in a file already."""
        if self.saved is None:
            wide, ids = self.high is not None, self.ids is not None
            info, tail = write_run(io, path, self.low, self.rows, self.files, wide=wide, ids=ids)
            self.saved = SavedRun(io, path, info, tail)


@dataclass(frozen=True, slots=True)
class SavedRun:
    """The file of a run."""

    io: FileIO = field(repr=False)
    path: str
    info: RunInfo
    tail: RunTail

    def load(self, run: Run, blocks: Numbers) -> None:
        """Read blocks into a run. Raise DamagedIndexError."""
        assert run.loaded is not None
        for first, last, rows in read_blocks(self.io, self.path, self.info, self.tail, blocks):
            part = slice(int(self.tail.starts[first]), int(self.tail.starts[last]))
            run.low[part], run.places[part] = rows["low"], rows["place"]
            if run.high is not None:
                run.high[part] = rows["high"]
            if run.ids is not None:
                run.ids[part] = rows["id"]
            run.loaded[first:last] = True


def open_run(io: FileIO, path: str, info: RunInfo) -> Run:
    """Open a run in a file, of which only the tail is read. Raise DamagedIndexError."""
    tail = read_tail(io, path, info)
    high, ids = np.empty(info.rows, np.uint64), np.empty(info.rows, np.int64)  # memory is taken when rows are loaded
    low, places = np.empty(info.rows, np.uint64), np.empty(info.rows, np.uint64)
    saved, loaded = SavedRun(io, path, info, tail), np.zeros(1 << info.bits, np.bool_)
    return Run(low, high if info.wide else None, places, ids if info.ids else None, tail.files, saved, loaded)


def new_run(parts: Sequence[IndexRows], files: Iterable[IndexedFile], *, wide: bool) -> Run:
    """Sort rows into a run."""
    low = _joined([p.hashes.low for p in parts], np.uint64)
    places = _joined([p.places for p in parts], np.uint64)
    high = _joined([p.hashes.high for p in parts if p.hashes.high is not None], np.uint64) if wide else None
    ids = None
    if any(p.ids is not None for p in parts):
        ids = _joined([np.full(len(p), NO_ID) if p.ids is None else p.ids for p in parts], np.int64)
    order = np.argsort(low)
    return Run(
        low[order],
        None if high is None else high[order],
        places[order],
        None if ids is None else ids[order],
        tuple(files),
    )


def with_run(runs: Sequence[Run], run: Run, is_live: npt.NDArray[np.bool_]) -> list[Run]:
    """Add a run to runs, the longest first. Merge those of about the same length, and then leave out dead files.

    `is_live` tells by number which data files are live. Raises DamagedIndexError.
    """
    out = [*runs, run]
    while len(out) > 1 and len(out[-2]) <= 2 * len(out[-1]):
        last = out.pop()
        out[-1] = _merge(*sorted((_live(out[-1], is_live), _live(last, is_live)), key=len, reverse=True))
    return out


def compacted(runs: Sequence[Run], is_live: npt.NDArray[np.bool_]) -> list[Run]:
    """Merge all runs into one, without the rows of dead files. Raise DamagedIndexError."""
    left = [_live(run, is_live) for run in reversed(runs)]
    while len(left) > 1:
        short, long = left[:2] if len(left[0]) <= len(left[1]) else left[1::-1]
        left[:2] = [_merge(long, short)]
    return left


def _live(run: Run, is_live: npt.NDArray[np.bool_]) -> Run:
    if all(is_live[f.number] for f in run.files):
        return run.load()
    run.load()
    kept = is_live[files_of(run.places)]
    high, ids = run.high, run.ids
    return Run(
        run.low[kept],
        None if high is None else high[kept],
        run.places[kept],
        None if ids is None else ids[kept],
        tuple(f for f in run.files if is_live[f.number]),
    )


def _merge(longer: Run, shorter: Run) -> Run:
    """Merge two runs without sorting them again."""
    at = np.searchsorted(longer.low, shorter.low, side="right") + np.arange(len(shorter))
    rest = np.ones(len(longer) + len(shorter), np.bool_)
    rest[at] = False

    def mixed(long: Any, short: Any) -> Any:
        out = np.empty(len(rest), long.dtype)
        out[at], out[rest] = short, long
        return out

    def ids(run: Run) -> Numbers:
        return np.full(len(run), NO_ID) if run.ids is None else run.ids

    wide = longer.high is not None and shorter.high is not None
    return Run(
        mixed(longer.low, shorter.low),
        mixed(longer.high, shorter.high) if wide else None,
        mixed(longer.places, shorter.places),
        None if longer.ids is None and shorter.ids is None else mixed(ids(longer), ids(shorter)),
        (*longer.files, *shorter.files),
    )


def _joined(parts: Sequence[Any], kind: type[np.generic]) -> Any:
    return np.concatenate([np.empty(0, kind), *parts])
