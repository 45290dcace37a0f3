"""From the hash of a key to where its rows are: (file number, position), packed.

Law: 16 bytes a row and nothing else. A row is never changed in place: new ones come as a sorted run, runs are merged
when they are of about the same length, and rows that are gone are left out at the next merge that is told of them.
A hash may have several rows, of the same key or of another.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from deletekit.errors import UnsupportedError
from deletekit.stream.key_hash import Hashes

__all__ = ["KeyIndex", "Locations", "pack", "unpack"]

Locations = npt.NDArray[np.uint64]
_POSITION_BITS = 40
_POSITION_MASK = np.uint64((1 << _POSITION_BITS) - 1)


def pack(file_number: int, positions: npt.NDArray[np.int64]) -> Locations:
    """Rows of one file as locations. Raises UnsupportedError beyond 2^24 files or 2^40 rows of a file."""
    if file_number >> (64 - _POSITION_BITS) or (len(positions) and int(positions.max()) >> _POSITION_BITS):
        raise UnsupportedError(
            "too many files or rows for a key index",
            kind="key-index-size",
            found=file_number,
            expected=f"files below 2^{64 - _POSITION_BITS}, positions below 2^{_POSITION_BITS}",
        )
    return positions.astype(np.uint64) | np.uint64(file_number << _POSITION_BITS)


def unpack(locations: Locations) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """File numbers and positions."""
    files = (locations >> np.uint64(_POSITION_BITS)).astype(np.int64)
    return files, (locations & _POSITION_MASK).astype(np.int64)


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
        """Bytes of memory that the runs take."""
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
        """Every row whose hash is asked for: the number of the question, and the location."""
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
        """Leave out what is gone."""
        runs = []
        for run in self._runs:
            live = is_live(run.locations)
            runs.append(run if live.all() else _Run(run.hashes[live], run.locations[live]))
        self._runs = sorted((run for run in runs if len(run)), key=len, reverse=True)


def _merged(longer: _Run, shorter: _Run) -> _Run:
    """Two runs as one, without sorting them again."""
    places = np.searchsorted(longer.hashes, shorter.hashes, side="right") + np.arange(len(shorter))
    rest = np.ones(len(longer) + len(shorter), np.bool_)
    rest[places] = False
    hashes, locations = np.empty(len(rest), np.uint64), np.empty(len(rest), np.uint64)
    hashes[places], hashes[rest] = shorter.hashes, longer.hashes
    locations[places], locations[rest] = shorter.locations, longer.locations
    return _Run(hashes, locations)
