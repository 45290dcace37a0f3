"""Equality deletes: sets of keys, matched against rows by value; and the files that carry them.

Law: a row is deleted when all its key columns equal those of one delete row. NULL equals NULL and nothing else, NaN
equals NaN, -0.0 differs from 0.0, and both sides are first read as the column's newest type.
Spec: "Equality Delete Files"; values compare as in Java's Comparators (Float.compare, Double.compare).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from deletekit.errors import UnsupportedError

__all__ = ["KeySet", "comparable"]

_MAX_CODE = 1 << 62


class KeySet:
    """Distinct keys of one or more columns, with membership by the law above.

    Parameters
    ----------
    columns: the key columns, equally long, each of the type both sides are compared in.
    """

    def __init__(self, columns: Sequence[Any]) -> None:
        self._value_sets: list[pa.Array] = []
        codes: list[npt.NDArray[np.int64]] = []
        for column in (c for part in columns for c in comparable(part)):
            values = pc.unique(_flat(column))
            self._value_sets.append(values)
            codes.append(_codes(column, values))
        self._steps: list[npt.NDArray[np.int64]] = []
        self._members = self._combine(codes, learn=True)

    def __len__(self) -> int:
        return len(self._members)

    def contains(self, columns: Sequence[Any]) -> npt.NDArray[np.bool_]:
        """One boolean per row: is this row's key in the set?"""
        parts = [c for column in columns for c in comparable(column)]
        codes = [_codes(c, values) for c, values in zip(parts, self._value_sets, strict=True)]
        return np.isin(self._combine(codes, learn=False), self._members)

    def _combine(self, codes: list[npt.NDArray[np.int64]], *, learn: bool) -> npt.NDArray[np.int64]:
        """One integer per row from one code per column; -1 where a column's value is in no key.

        Codes multiply up; before they could overflow they are renumbered among the keys, which both sides share.
        """
        combined, size, step = codes[0], len(self._value_sets[0]), 0
        for code, values in zip(codes[1:], self._value_sets[1:], strict=True):
            if size * max(len(values), 1) >= _MAX_CODE:
                if learn:
                    self._steps.append(np.unique(combined[combined >= 0]))
                combined, size = _renumber(combined, self._steps[step]), len(self._steps[step])
                step += 1
            missing = (combined < 0) | (code < 0)
            combined = np.where(missing, -1, combined * max(len(values), 1) + code)
            size *= max(len(values), 1)
        return np.unique(combined) if learn else combined


def comparable(column: Any) -> list[Any]:
    """A column as one or more columns whose Arrow equality is Iceberg's equality.

    Floats become their bits with one NaN, extension types their storage, structs their leaves plus whether they are
    null. Raises UnsupportedError for lists and maps, which the spec forbids as keys.
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


def _codes(column: Any, values: pa.Array) -> npt.NDArray[np.int64]:
    """Index of each value among `values`, NULL included; -1 where it is not there."""
    found = pc.index_in(_flat(column), value_set=values, skip_nulls=False)
    codes: npt.NDArray[np.int64] = pc.fill_null(found, -1).to_numpy(zero_copy_only=False).astype(np.int64)
    return codes


def _renumber(combined: npt.NDArray[np.int64], known: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    at = np.searchsorted(known, combined)
    at = np.minimum(at, max(len(known) - 1, 0))
    hit = known[at] == combined if len(known) else np.zeros(len(combined), dtype=bool)
    return np.where(hit, at, -1)
