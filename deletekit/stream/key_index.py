"""Find rows by the hash of their key: (file number, position), packed.

A row takes 16 bytes. Rows are never changed in place: new ones come as a sorted run, runs of about the same length are
merged, and rows that are gone are dropped by `keep`. A hash may have several rows, of the same key or of others.

Equal keys have equal hashes, by the equality of equality deletes (NULL = NULL). Different keys may have equal hashes,
unless the hasher is `exact`, so compare the keys before acting on a hit.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
from pyiceberg.types import NestedField

from deletekit.deletes.keys import key_frame
from deletekit.errors import UnsupportedError
from deletekit.table.types import arrow_type

Hashes = npt.NDArray[np.uint64]
Locations = npt.NDArray[np.uint64]
_SEED = 0
_POSITION_BITS = 40
_POSITION_MASK = np.uint64((1 << _POSITION_BITS) - 1)


def pack(file_number: int, positions: npt.NDArray[np.int64]) -> Locations:
    """Pack rows of one file as locations. Raise UnsupportedError beyond 2^24 files or 2^40 rows of a file."""
    if file_number >> (64 - _POSITION_BITS) or (len(positions) and int(positions.max()) >> _POSITION_BITS):
        expected = f"files below 2^{64 - _POSITION_BITS}, positions below 2^{_POSITION_BITS}"
        message = "too many files or rows for a key index"
        raise UnsupportedError(message, kind="key-index-size", found=file_number, expected=expected)
    return positions.astype(np.uint64) | np.uint64(file_number << _POSITION_BITS)


def unpack(locations: Locations) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return file numbers and positions."""
    files = (locations >> np.uint64(_POSITION_BITS)).astype(np.int64)
    return files, (locations & _POSITION_MASK).astype(np.int64)


def by_file(files: npt.NDArray[np.int64]) -> list[tuple[int, npt.NDArray[np.int64]]]:
    """Return each file number with the indices at which it occurs."""
    order = np.argsort(files, kind="stable")
    starts = np.flatnonzero(np.diff(files[order], prepend=-1))
    return [(int(files[part[0]]), part) for part in np.split(order, starts[1:]) if len(part)]


@dataclass(frozen=True, slots=True)
class _Run:
    hashes: Hashes
    locations: Locations

    def __len__(self) -> int:
        return len(self.hashes)


class KeyIndex:
    """Sorted runs, the longest first."""

    def __init__(self) -> None:
        self._runs: list[_Run] = []

    def __len__(self) -> int:
        return sum(len(run) for run in self._runs)

    @property
    def nbytes(self) -> int:
        """Return the bytes of memory that the runs take."""
        return sum(run.hashes.nbytes + run.locations.nbytes for run in self._runs)

    def add(self, hashes: Hashes, locations: Locations) -> None:
        """Add rows, in any order."""
        if not len(hashes):
            return
        order = np.argsort(hashes, kind="stable")
        self._runs.append(_Run(hashes[order], locations[order]))
        while len(self._runs) > 1 and len(self._runs[-2]) <= 2 * len(self._runs[-1]):
            last = self._runs.pop()
            self._runs[-1] = _merged(self._runs[-1], last)

    def find(self, hashes: Hashes) -> tuple[npt.NDArray[np.int64], Locations]:
        """Find every row with one of these hashes. Return the index of the hash, and the location."""
        order = np.argsort(hashes, kind="stable")
        wanted = hashes[order]
        rows, found = [np.empty(0, np.int64)], [np.empty(0, np.uint64)]
        for run in self._runs:
            asked, place = np.arange(len(wanted)), np.searchsorted(run.hashes, wanted)
            while len(asked):  # as often as a hash has rows in this run
                inside = place < len(run)
                asked, place = asked[inside], place[inside]
                hit = run.hashes[place] == wanted[asked]
                asked, place = asked[hit], place[hit]
                rows.append(order[asked])
                found.append(run.locations[place])
                place = place + 1
        return np.concatenate(rows), np.concatenate(found)

    def keep(self, is_live: Callable[[Locations], npt.NDArray[np.bool_]]) -> None:
        """Drop the rows that are not live."""
        runs = []
        for run in self._runs:
            live = is_live(run.locations)
            runs.append(run if live.all() else _Run(run.hashes[live], run.locations[live]))
        self._runs = sorted((run for run in runs if len(run)), key=len, reverse=True)


def _merged(longer: _Run, shorter: _Run) -> _Run:
    """Merge two runs without sorting them again."""
    places = np.searchsorted(longer.hashes, shorter.hashes, side="right") + np.arange(len(shorter))
    rest = np.ones(len(longer) + len(shorter), np.bool_)
    rest[places] = False
    hashes, locations = np.empty(len(rest), np.uint64), np.empty(len(rest), np.uint64)
    hashes[places], hashes[rest] = shorter.hashes, longer.hashes
    locations[places], locations[rest] = shorter.locations, longer.locations
    return _Run(hashes, locations)


@dataclass(frozen=True, slots=True)
class KeyHashes:
    """One hash for each key. `is_null` marks NULL keys, which have no hash in an exact hasher."""

    values: Hashes
    is_null: npt.NDArray[np.bool_]


class KeyHasher:
    """Hash keys of some columns. Hashes are valid in one process only, because they may change with polars.

    Attributes
    ----------
    exact: whether the key is one integer, date or time, which is its own hash.
    """

    def __init__(self, fields: Sequence[NestedField]) -> None:
        kinds = [arrow_type(f.field_type) for f in fields]
        self.exact = len(kinds) == 1 and (pa.types.is_integer(kinds[0]) or pa.types.is_temporal(kinds[0]))

    def __call__(self, columns: Sequence[Any]) -> KeyHashes:
        """Hash keys, given as columns of the fields' types."""
        frame = key_frame(columns)
        if not self.exact:
            return KeyHashes(frame.hash_rows(seed=_SEED).to_numpy(), np.zeros(len(frame), np.bool_))
        values = frame.to_series().cast(pl.Int64)
        return KeyHashes(values.fill_null(0).to_numpy().view(np.uint64), values.is_null().to_numpy())
