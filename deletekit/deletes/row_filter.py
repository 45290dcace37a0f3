"""Dropping rows from Arrow columns by a mask.

Law: pure Arrow. Fixed-width columns go through polars' filter, which is about four times as fast as Arrow's (and shares
the buffers); all others through Arrow's, which need not convert them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl
import pyarrow as pa

__all__ = ["keep_rows"]

_INTEGERS = {8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}


def keep_rows(columns: Sequence[Any], keep: pa.BooleanArray) -> list[Any]:
    """The rows of each column for which `keep`, without nulls, is True."""
    mask = pl.Series(keep)
    return [_filtered(column, keep, mask) for column in columns]


def _filtered(column: Any, keep: pa.BooleanArray, mask: pl.Series) -> Any:
    kind = column.type
    if not _is_fixed(kind) or (isinstance(column, pa.ChunkedArray) and column.num_chunks != 1):
        return column.filter(keep)
    flat = column.chunk(0) if isinstance(column, pa.ChunkedArray) else column
    return pl.Series(flat.view(_INTEGERS[kind.bit_width])).filter(mask).to_arrow().view(kind)


def _is_fixed(kind: pa.DataType) -> bool:
    return pa.types.is_primitive(kind) and not pa.types.is_boolean(kind) and kind.bit_width in _INTEGERS
