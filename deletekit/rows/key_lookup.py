"""Find the rows that have one of many keys, both as polars frames in which equal rows are equal keys (see `keys`).

The columns of a frame are named by their number.
"""

from __future__ import annotations

import threading
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from deletekit.deferred import pl

Numbers = npt.NDArray[np.int64]
_ROWS_LOOKED_UP_AT_A_TIME = 1 << 16
"""What is made for so many rows stays in a processor's cache."""
SEED = 0
_ROW = "row"
_NUMBER = "number"
_SLOTS_PER_KEY = 16
_MAX_SLOT_BITS = 25
_MAX_SPREAD_PER_ROW = 8
_SLOTS_PER_NUMBER_SHIFT = 2
_ROWS_SAMPLED_FOR_ORDER = 1 << 10
_ROWS_PER_SEARCHED_KEY = 64
"""The search for one key among ascending numbers takes as long as the look-up of so many rows."""
_MAKING = threading.Lock()


class KeyValues:
    """The values of a key column, for comparisons with bounds."""

    def __init__(self, column: pl.Series) -> None:
        self._column = column
        self.has_null = column.null_count() > 0

    @cached_property
    def integers(self) -> Numbers | None:
        """The distinct numbers, ascending; None for what is not an integer."""
        return _int64(self._column.drop_nulls().unique().sort()) if self._column.dtype.is_integer() else None

    @cached_property
    def _ends(self) -> tuple[Any, Any]:
        return self._column.min(), self._column.max()

    def may_hold(self, lower: Any, upper: Any) -> bool:
        """Return whether a value is NULL, or may lie between two bounds."""
        if self.has_null or not len(self._column):
            return self.has_null
        least, greatest = self._ends
        if least > upper or greatest < lower:
            return False
        return self.integers is None or bool(len(_between(self.integers, lower, upper)))


class _Slots:
    """Tables by bits of the hashes of distinct keys."""

    def __init__(self, hashes: npt.NDArray[np.uint64]) -> None:
        bits = min(_MAX_SLOT_BITS, max(1, (_SLOTS_PER_KEY * len(hashes)).bit_length()))
        self.shift, self.low_bits = np.uint64(64 - bits), np.uint64((1 << bits) - 1)
        slots = (hashes >> self.shift).view(np.int64)  # numpy copies what else it is given as indices
        self.high, self.low = np.zeros((2, 1 << bits), dtype=np.bool_)
        self.high[slots] = True
        self.low[hashes & self.low_bits] = True
        wide, numbers = slots >> _SLOTS_PER_NUMBER_SHIFT, np.arange(len(hashes), dtype=np.uint32)
        # One key of each few slots.
        self.numbers = np.zeros((1 << bits >> _SLOTS_PER_NUMBER_SHIFT) + 1, dtype=np.uint32)
        self.numbers[wide] = numbers
        self.others = np.flatnonzero(self.numbers[wide] != numbers)
        self.slots_of_others = wide[self.others]


class KeyLookup:
    """Finds the few rows that can have one of the distinct `keys`.

    Bits of a row's hash are an index into a table of the keys' hashes. So the keys are hashed once, and not for each
    batch of rows. Integers that lie near each other are such an index without a hash.
    """

    def __init__(self, keys: pl.DataFrame) -> None:
        self._keys = keys
        self.selective = _selective_column(keys)
        self.values = [KeyValues(column) for column in keys]
        if len(self.values) > 1 or self.values[0].integers is None:
            _ = self._slots  # needed in any case

    @cached_property
    def _slots(self) -> _Slots:
        with _MAKING:  # cached_property has no lock since Python 3.12, and each table may be large
            if "_slots" not in vars(self):
                vars(self)["_slots"] = _Slots(self._hashes(self._keys))
            made: _Slots = vars(self)["_slots"]
            return made

    def hits(self, rows: pl.DataFrame) -> npt.NDArray[np.bool_] | None:
        """Return a mask of rows whose selective integer is that of a key; None: it is none, or they are far apart."""
        selective = None if self.selective is None else self.values[self.selective]
        if selective is None or selective.integers is None:
            return None
        values = rows[str(self.selective)]
        found = None if values.null_count() else _in_ascending(selective.integers, _int64(values))
        if found is not None:
            return found
        lower, upper = values.min(), values.max()
        if not isinstance(lower, int) or not isinstance(upper, int):
            return None
        if upper - lower > _MAX_SPREAD_PER_ROW * len(values):
            return None
        table = np.zeros(upper - lower + 1, dtype=np.bool_)
        table[_between(selective.integers, lower, upper) - lower] = True
        hits = table.take(_int64(values, lower) - lower)
        if values.null_count():
            hits[values.is_null().to_numpy()] = selective.has_null
        return hits

    def maybe(self, rows: pl.DataFrame, hits: npt.NDArray[np.bool_] | None = None) -> Numbers:
        """Return the rows that can have a key: `hits`, or where upper and lower bits of the hash are those of some."""
        hits = self.hits(rows) if hits is None else hits
        if hits is not None:
            return np.flatnonzero(hits)
        hashes, found, table = self._hashes(rows), [np.zeros(0, np.int64)], self._slots
        for at in range(0, len(hashes), _ROWS_LOOKED_UP_AT_A_TIME):
            block = hashes[at : at + _ROWS_LOOKED_UP_AT_A_TIME]
            maybe = np.flatnonzero(table.high.take((block >> table.shift).view(np.int64)))
            found.append(maybe[table.low.take((block[maybe] & table.low_bits).view(np.int64))] + at)
        return np.concatenate(found)

    def find(self, rows: pl.DataFrame) -> tuple[Numbers, Numbers]:
        """Return the rows that have a key, and the numbers of their keys: hashes may agree by chance."""
        integers = self.values[0].integers if rows.width == 1 and len(rows) <= _ROWS_LOOKED_UP_AT_A_TIME else None
        if integers is not None and len(integers) and not rows["0"].null_count():
            values = _int64(rows["0"])  # polars takes longer to begin than this to search
            at = np.minimum(integers.searchsorted(values), len(integers) - 1)
            found = np.flatnonzero(integers[at] == values)
            return found, self._by_integer[at[found]]
        table = self._slots
        slots = (self._hashes(rows) >> table.shift).view(np.int64) >> _SLOTS_PER_NUMBER_SHIFT
        numbers = table.numbers.take(slots).astype(np.int64)
        same = same_rows(rows, self._keys[numbers])
        found, rest = np.flatnonzero(same), np.flatnonzero(~same)
        near = np.zeros(len(table.numbers), dtype=np.bool_)
        near[slots[rest]] = True
        others = table.others[near.take(table.slots_of_others)]
        keys = self._keys[others].with_columns(pl.Series(_NUMBER, others))  # a join hashes all keys that it is given
        more = rows[rest].with_columns(pl.Series(_ROW, rest)).join(keys, on=rows.columns, nulls_equal=True)
        return np.concatenate([found, more[_ROW]]), np.concatenate([numbers[found], more[_NUMBER]])

    @cached_property
    def _by_integer(self) -> Numbers:
        """The numbers of the keys in the order of `KeyValues.integers`."""
        order = self._keys["0"].arg_sort(nulls_last=True).to_numpy()
        return order[: len(order) - self._keys["0"].null_count()].astype(np.int64)

    def _hashes(self, rows: pl.DataFrame) -> npt.NDArray[np.uint64]:
        """Return a hash of each row, of its selective column alone if there is one."""
        return (rows.hash_rows(SEED) if self.selective is None else rows[str(self.selective)].hash(SEED)).to_numpy()


def _selective_column(keys: pl.DataFrame) -> int | None:
    """Return the number of a column with many distinct values, best an integer; None if each has too few values."""
    columns = sorted(keys, key=lambda c: not c.dtype.is_integer())
    return next((int(c.name) for c in columns if len(columns) == 1 or 2 * c.hash(SEED).n_unique() >= len(c)), None)


def _int64(values: pl.Series, null: int = 0) -> Numbers:
    return (values.fill_null(null) if values.null_count() else values).cast(pl.Int64).to_numpy()


def _between(ascending: Numbers, lower: int, upper: int) -> Numbers:
    return ascending[ascending.searchsorted(lower) : ascending.searchsorted(upper, side="right")]


def _in_ascending(keys: Numbers, numbers: Numbers) -> npt.NDArray[np.bool_] | None:
    """Return a mask of the numbers that are one of few keys; None for many keys, or numbers in no order."""
    if not len(numbers) or not _ascend(numbers[:_ROWS_SAMPLED_FOR_ORDER]):
        return None
    wanted = _between(keys, numbers[0], numbers[-1])
    if _ROWS_PER_SEARCHED_KEY * len(wanted) > len(numbers) or not _ascend(numbers):
        return None
    places = numbers.searchsorted(wanted)
    hits = np.zeros(len(numbers), dtype=np.bool_)
    hits[places] = numbers[places] == wanted
    return hits


def _ascend(numbers: Numbers) -> bool:
    return bool((numbers[1:] > numbers[:-1]).all())


def same_rows(left: pl.DataFrame, right: pl.DataFrame) -> npt.NDArray[np.bool_]:
    """Return row by row whether two frames agree in all columns; NULL is NULL."""
    same = np.logical_and.reduce([a.eq_missing(b).to_numpy() for a, b in zip(left, right, strict=True)])
    return np.asarray(same, np.bool_)
