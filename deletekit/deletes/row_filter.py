"""Keep the rows of Arrow columns that a mask selects.

Fixed-width columns go through polars' filter, which is about four times as fast as Arrow's and shares the buffers that
it reads. All others go through Arrow's, which need not convert them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl
import pyarrow as pa

_INTEGERS = {8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}
_CACHED_ROWS = 131_072  # so few that a block stays in the processor's cache


def keep_rows(columns: Sequence[Any], keep: pa.BooleanArray) -> list[Any]:
    """Return the rows of each column for which `keep` is True. `keep` has no nulls."""
    masks = [pl.Series(keep.slice(at, _CACHED_ROWS)) for at in range(0, len(keep), _CACHED_ROWS)]
    return [_filtered(c, masks) if _is_fixed(c) else c.filter(keep) for c in columns]


def _filtered(column: Any, masks: Sequence[pl.Series]) -> pa.Array:
    flat = column.chunk(0) if isinstance(column, pa.ChunkedArray) else column
    numbers = flat.view(_INTEGERS[flat.type.bit_width])
    parts = [
        pl.Series(numbers.slice(i * _CACHED_ROWS, len(mask))).filter(mask).to_arrow() for i, mask in enumerate(masks)
    ]
    # Copied into Arrow's memory, which is reused from one batch to the next; polars' is not.
    return pa.concat_arrays(parts).view(flat.type)


def _is_fixed(column: Any) -> bool:
    kind = column.type
    if isinstance(column, pa.ChunkedArray) and column.num_chunks != 1:
        return False
    return pa.types.is_primitive(kind) and not pa.types.is_boolean(kind) and kind.bit_width in _INTEGERS
