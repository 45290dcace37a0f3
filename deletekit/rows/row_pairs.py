"""Compare the rows that left a table with the rows that came: which were only written again, and which are updates.

Rows are compared as keys are (`deletes.keys`), in all their columns. Equal rows are paired one by one, so a row that is
there twice counts twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from deletekit.deferred import pc
from deletekit.errors import InvalidInputError
from deletekit.rows.keys import KeyNumbers, row_columns
from deletekit.table.python_values import key_texts

Numbers = npt.NDArray[np.int64]
_NOTHING = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class RowPairs:
    """Which rows that left belong to which that came, by their places in the two tables.

    Attributes
    ----------
    before, after: the two images of each update.
    left, came: all others.
    """

    before: Numbers
    after: Numbers
    left: Numbers
    came: Numbers


def moved_rows(left: pa.Table, came: pa.Table, compared: Sequence[str], row_id: str | None) -> tuple[Numbers, Numbers]:
    """Return the places of rows that are not equal to one on the other side.

    Parameters
    ----------
    left, came: the rows, of one schema.
    compared: the columns to compare.
    row_id: the column of row ids, None if there are none. Of equal rows, those with one row id are paired first.
    """
    if not len(left) or not len(came):
        return np.arange(len(left)), np.arange(len(came))
    numbers = KeyNumbers(row_columns(_both(left, came, name) for name in compared)).of_rows
    ours, theirs = np.arange(len(left)), np.arange(len(came))
    of_left, of_came = numbers[: len(left)], numbers[len(left) :]
    if row_id is not None:
        ids = _both(left, came, row_id)
        with_id = np.where(ids.is_valid().to_numpy(), KeyNumbers([pa.array(numbers), ids]).of_rows, -1)
        ours, theirs = _unpaired(with_id[: len(left)], with_id[len(left) :])
    rest = _unpaired(of_left[ours], of_came[theirs])
    return ours[rest[0]], theirs[rest[1]]


def paired_rows(left: pa.Table, came: pa.Table, row_id: str | None, key: Sequence[str]) -> RowPairs:
    """Pair the two images of each update: by row id, and what that leaves by key.

    Parameters
    ----------
    row_id: the column of row ids, None for no pairing by it.
    key: the key columns, none for no pairing by key.

    Raises InvalidInputError, naming the key, if two rows of one side have one key.
    """
    before, after = _NOTHING, _NOTHING
    ours, theirs = np.arange(len(left)), np.arange(len(came))
    if row_id is not None and len(left) and len(came):
        before, after = _paired(*(t.column(row_id).combine_chunks() for t in (left, came)))
        ours, theirs = np.setdiff1d(ours, before), np.setdiff1d(theirs, after)
    if key:
        rest = left.take(pa.array(ours)), came.take(pa.array(theirs))
        numbers = unique_keys(*rest, key)
        more = _paired(pa.array(numbers[: len(ours)]), pa.array(numbers[len(ours) :]))
        before, after = np.concatenate([before, ours[more[0]]]), np.concatenate([after, theirs[more[1]]])
        ours, theirs = np.delete(ours, more[0]), np.delete(theirs, more[1])
    return RowPairs(before, after, ours, theirs)


def unique_keys(left: pa.Table, came: pa.Table, key: Sequence[str]) -> Numbers:
    """Return the number of each row's key, of both tables one after the other.

    Raises InvalidInputError, naming the key, if two rows of one table have one key.
    """
    numbers = KeyNumbers([_both(left, came, name) for name in key]).of_rows
    for rows, own in ((left, numbers[: len(left)]), (came, numbers[len(left) :])):
        values, first, counts = np.unique(own, return_index=True, return_counts=True)
        if len(values) < len(own):
            row = int(first[np.argmax(counts > 1)])
            message = f"the key is not unique: {int(counts.max())} changed rows have it"
            found = key_texts([rows.column(name) for name in key], row)
            expected = "one row for each key; name another key, or none (on=[])"
            raise InvalidInputError(message, "key-not-unique", ", ".join(key), found, expected)
    return numbers


def _both(left: pa.Table, came: pa.Table, name: str) -> pa.ChunkedArray:
    columns = left.column(name), came.column(name)
    return pa.chunked_array([chunk for column in columns for chunk in column.chunks], columns[0].type)


def _paired(left: Any, came: Any) -> tuple[Numbers, Numbers]:
    """Return the places of equal values. No value is there twice; NULL equals nothing."""
    found = pc.index_in(left, value_set=came.drop_null())
    places = np.flatnonzero(came.is_valid().to_numpy(zero_copy_only=False))
    hit = found.is_valid().to_numpy(zero_copy_only=False) & left.is_valid().to_numpy(zero_copy_only=False)
    before = np.flatnonzero(hit)
    after = places[found.fill_null(0).to_numpy(zero_copy_only=False)[hit]]
    # Damaged metadata may give one row id to two rows: the first keeps the pair, the others are not updates.
    after, first = np.unique(after, return_index=True)
    return before[first], after


def _unpaired(left: Numbers, came: Numbers) -> tuple[Numbers, Numbers]:
    """Return the places of numbers that are more often on one side than on the other; -1 equals nothing."""
    sides = []
    for numbers in (left, came):
        frame = pl.DataFrame({"number": numbers}).with_row_index("place").filter(pl.col("number") >= 0)
        sides.append(frame.with_columns(nth=pl.int_range(pl.len()).over("number")))
    pairs = sides[0].join(sides[1], on=["number", "nth"], how="inner")
    keep = np.ones(len(left), np.bool_), np.ones(len(came), np.bool_)
    keep[0][pairs["place"].to_numpy()] = False
    keep[1][pairs["place_right"].to_numpy()] = False
    return np.flatnonzero(keep[0]), np.flatnonzero(keep[1])
