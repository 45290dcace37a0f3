"""Hash keys for the key index, the same way on every machine and in every process.

One key column of integers, dates or times: the hash is splitmix64 of its number. That is a bijection, so different keys
have different hashes. Any other key: BLAKE2b of its bytes, 128 bits. No two keys with equal ones are known. So equal
hashes are equal keys, and no key is compared again.

Equal keys have equal hashes by the equality of equality deletes (NULL = NULL, NaN = NaN, -0.0 differs from 0.0).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.types import NestedField

from deletekit.rows.keys import flat, key_bytes
from deletekit.table.types import arrow_type

Words = npt.NDArray[np.uint64]
Numbers = npt.NDArray[np.int64]
_CHUNK = 1 << 14
_WIDE_CHUNK = 1 << 16


@dataclass(frozen=True, slots=True)
class KeyHashes:
    """One hash for each key, an array an attribute.

    Attributes
    ----------
    low: the first 64 bits, from which the bucket follows.
    high: the other 64 bits; None for keys whose 64 bits are exact.
    is_null: which keys are NULL, in an exact hash of one column; their `low` is the hash of 0.
    """

    low: Words
    high: Words | None
    is_null: npt.NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.low)

    def take(self, rows: Any) -> KeyHashes:
        """Return the hashes at some indices, or where a mask is True."""
        return KeyHashes(self.low[rows], None if self.high is None else self.high[rows], self.is_null[rows])


class KeyHasher:
    """Hash keys of some columns. It can be pickled.

    Attributes
    ----------
    exact: whether the key is one integer, date or time, whose hash has 64 bits.
    """

    def __init__(self, fields: Sequence[NestedField]) -> None:
        kinds = [arrow_type(f.field_type) for f in fields]
        self.exact = len(kinds) == 1 and (pa.types.is_integer(kinds[0]) or pa.types.is_temporal(kinds[0]))

    def __call__(self, columns: Sequence[Any]) -> KeyHashes:
        """Hash keys, given as columns of the fields' types."""
        return _exact(columns[0]) if self.exact else _wide(columns)


def first_bits(low: Words, bits: int) -> Numbers:
    """Return the number that the first bits of each hash make."""
    return (low >> np.uint64(64 - bits)).astype(np.int64) if bits else np.zeros(len(low), np.int64)


def splitmix64(values: Words) -> Words:
    """Return the finalizer of splitmix64 (Steele, Lea, Flood 2014), which maps 64 bits to 64 bits one to one."""
    out = np.empty(len(values), np.uint64)
    for start in range(0, len(values), _CHUNK):  # a chunk and its copies fit into a processor's cache
        z = values[start : start + _CHUNK] + np.uint64(0x9E3779B97F4A7C15)
        z ^= z >> np.uint64(30)
        z *= np.uint64(0xBF58476D1CE4E5B9)
        z ^= z >> np.uint64(27)
        z *= np.uint64(0x94D049BB133111EB)
        np.bitwise_xor(z, z >> np.uint64(31), out=out[start : start + _CHUNK])
    return out


def _exact(column: Any) -> KeyHashes:
    array = flat(column)
    if pa.types.is_temporal(array.type):
        array = array.view(pa.int32() if array.type.bit_width == 32 else pa.int64())
    is_null = np.asarray(pc.is_null(array))
    numbers = pc.fill_null(array.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
    return KeyHashes(splitmix64(numbers.view(np.uint64)), None, is_null)


def _wide(columns: Sequence[Any]) -> KeyHashes:
    digests = []
    for start in range(0, len(columns[0]), _WIDE_CHUNK):  # Arrow's bytes of one array end at 2 GiB
        keys = key_bytes([column.slice(start, _WIDE_CHUNK) for column in columns])
        digests.append(b"".join([blake2b(key, digest_size=16).digest() for key in keys.to_pylist()]))
    words = np.frombuffer(b"".join(digests), "<u8").reshape(-1, 2)
    return KeyHashes(words[:, 0].copy(), words[:, 1].copy(), np.zeros(len(words), np.bool_))
