"""Equality deletes: sets of keys, matched against rows by value; and the files that carry them.

Law: a row is deleted when all its key columns equal those of one delete row. NULL equals NULL and nothing else, NaN
equals NaN, -0.0 differs from 0.0, and both sides are first read as the column's newest type.
Spec: "Equality Delete Files"; values compare as in Java's Comparators (Float.compare, Double.compare).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from deletekit.errors import UnsupportedError

__all__ = ["KeySet", "comparable"]


class KeySet:
    """Distinct keys of one or more columns, with membership by the law above.

    Parameters
    ----------
    columns: the key columns, equally long, each of the type both sides are compared in.
    """

    def __init__(self, columns: Sequence[Any]) -> None:
        self._keys = pl.DataFrame(_series([c for part in columns for c in comparable(part)])).unique()
        self._probe = self._integer_probe()
        self._hashes = self._keys.hash_rows(seed=_SEED).unique().implode()

    def __len__(self) -> int:
        return len(self._keys)

    def contains(self, columns: Sequence[Any]) -> pa.BooleanArray:
        """One boolean per row: is this row's key in the set?"""
        rows = [c for column in columns for c in comparable(column)]
        if self._probe is None:
            frame = pl.DataFrame(_series(rows))
            return pa.array(self._confirmed(frame.hash_rows(seed=_SEED).is_in(self._hashes), frame.filter))
        (probed,) = _series([rows[self._probe.index]])
        hit = self._probe.hits(probed)
        if len(rows) == 1:
            return hit.to_arrow()
        mask = hit.to_arrow()
        return pa.array(self._confirmed(hit, lambda _: pl.DataFrame(_series([c.filter(mask) for c in rows]))))

    def may_hold(self, lower: int, upper: int) -> bool:
        """Whether a key of a single integer column is NULL or lies between two bounds; True for any other kind."""
        if self._probe is None or len(self._keys.columns) > 1 or self._probe.null_matches:
            return True
        return bool(len(self._probe.between(lower, upper)))

    def _integer_probe(self) -> _Probe | None:
        """An integer column that tells most keys apart: the others are then compared for the few rows that are left."""
        for name, kind in self._keys.schema.items():
            if kind.is_integer() and 2 * self._keys[name].n_unique() >= len(self._keys):
                return _Probe(int(name), self._keys[name])
        return None

    def _confirmed(self, maybe: pl.Series, rows: Callable[[pl.Series], pl.DataFrame]) -> npt.NDArray[np.bool_]:
        """The rows of `maybe` whose whole key is in the set: a hash, or one column, may agree by chance."""
        mask: npt.NDArray[np.bool_] = maybe.to_numpy().copy()
        if mask.any():
            frame = rows(maybe).with_row_index(_ROW)
            found = frame.join(self._keys, on=self._keys.columns, how="semi", nulls_equal=True)[_ROW]
            right = np.zeros(len(frame), dtype=np.bool_)
            right[found.to_numpy()] = True
            mask[mask] = right
        return mask


class _Probe:
    """The distinct values of one integer key column."""

    def __init__(self, index: int, column: pl.Series) -> None:
        self.index = index
        self.null_matches = bool(column.null_count())
        self._values = column.drop_nulls().unique().sort()

    def between(self, lower: int, upper: int) -> pl.Series:
        start = self._values.search_sorted(lower, side="left")
        return self._values.slice(start, self._values.search_sorted(upper, side="right") - start)

    def hits(self, values: pl.Series) -> pl.Series:
        """Where the value, NULL included, is that of some key."""
        lower, upper = values.min(), values.max()
        # polars hashes the set at each call: only what these rows can hold
        keys = self._values if lower is None else self.between(lower, upper)  # type: ignore[arg-type]
        return values.is_in(keys.implode()).fill_null(self.null_matches)


_ROW = "row"
_SEED = 0


def _series(columns: Sequence[Any]) -> list[pl.Series]:
    return [pl.Series(str(i), column) for i, column in enumerate(columns)]


def comparable(column: Any) -> list[Any]:
    """A column as one or more columns whose Arrow equality is Iceberg's equality.

    Floats become their bits with one NaN, times their numbers, decimals their bytes, extension types their storage,
    structs their leaves plus whether they are null.
    Raises UnsupportedError for lists and maps, which the spec forbids as keys.
    """
    kind = column.type
    if isinstance(kind, pa.BaseExtensionType):
        chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
        return [pa.chunked_array([c.storage for c in chunks], type=kind.storage_type)]
    if pa.types.is_floating(kind):
        return [_float_bits(column)]
    if pa.types.is_struct(kind):
        leaves = [c for i in range(kind.num_fields) for c in comparable(pc.struct_field(column, i))]
        return [pc.is_null(column), *leaves]
    if pa.types.is_nested(kind):
        raise UnsupportedError("lists and maps cannot be equality keys", kind="equality-key", found=str(kind))
    if pa.types.is_null(kind):
        return [column.cast(pa.int8())]
    if pa.types.is_temporal(kind):
        return [_flat(column).view(pa.int32() if kind.bit_width == 32 else pa.int64())]
    if pa.types.is_decimal(kind):
        return [_flat(column).view(pa.binary(kind.byte_width))]
    return [column]


def _float_bits(column: Any) -> pa.Array:
    flat = _flat(column)
    canonical = pc.if_else(pc.is_nan(flat), pa.scalar(float("nan"), flat.type), flat)
    bits = pa.int32() if pa.types.is_float32(flat.type) else pa.int64()
    return canonical.view(bits)


def _flat(column: Any) -> pa.Array:
    if isinstance(column, pa.ChunkedArray):
        return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    return column
