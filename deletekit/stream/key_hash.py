"""Keys as 64-bit numbers.

Law: equal keys have equal numbers, by the equality of equality deletes (NULL = NULL). Numbers of different keys may be
equal too, unless the hasher is `exact`: who acts on a hit compares the keys first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
from pyiceberg.types import NestedField

from deletekit.deletes.keys import comparable
from deletekit.table.types import arrow_type

__all__ = ["Hashes", "KeyHasher", "KeyHashes", "same_keys"]

Hashes = npt.NDArray[np.uint64]
_SEED = 0


@dataclass(frozen=True, slots=True)
class KeyHashes:
    """One number for each key; `is_null` where an exact hasher has none, because the key is NULL."""

    values: Hashes
    is_null: npt.NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.values)


class KeyHasher:
    """Hashes keys of some columns; good for one process, because the function may change with polars.

    Attributes
    ----------
    exact: the key is one whole number, date or time, which is its own number.
    """

    def __init__(self, fields: Sequence[NestedField]) -> None:
        kinds = [arrow_type(f.field_type) for f in fields]
        self.exact = len(kinds) == 1 and (pa.types.is_integer(kinds[0]) or pa.types.is_temporal(kinds[0]))

    def __call__(self, columns: Sequence[Any]) -> KeyHashes:
        """The numbers of keys given as columns of the fields' types."""
        parts = [pl.Series(str(i), part) for i, part in enumerate(p for c in columns for p in comparable(c))]
        if not self.exact:
            return KeyHashes(pl.DataFrame(parts).hash_rows(seed=_SEED).to_numpy(), np.zeros(len(parts[0]), np.bool_))
        values = parts[0].cast(pl.Int64)
        return KeyHashes(values.fill_null(0).to_numpy().view(np.uint64), values.is_null().to_numpy())


def same_keys(left: Sequence[Any], right: Sequence[Any]) -> npt.NDArray[np.bool_]:
    """Row by row, whether two lists of keys agree, each given as columns of the same types."""
    rows = len(left[0])
    same = np.ones(rows, np.bool_)
    for a, b in zip(left, right, strict=True):
        for x, y in zip(comparable(a), comparable(b), strict=True):
            same &= pl.Series("a", x).eq_missing(pl.Series("b", y)).to_numpy()
    return same
