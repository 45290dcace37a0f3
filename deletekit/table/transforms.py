"""Partition transforms of Arrow arrays, as numpy and Arrow compute them.

Spec: "Partition Transforms", "Appendix B: 32-bit Hash Requirements".
"""

from typing import Any

import mmh3
import numpy as np
import pyarrow as pa
from pyiceberg.transforms import BucketTransform, IdentityTransform, Transform, TruncateTransform

from deletekit.deferred import pc
from deletekit.table.types import storage_of
from deletekit.text import PER_SECOND

_CALENDAR = {"month": "M8[M]", "year": "M8[Y]"}


def partition_values(transform: Transform[Any, Any], column: pa.Array) -> pa.Array:
    """Return the partition value of each row of a source column, by any transform but `void`. A null stays null."""
    column = storage_of(column)
    if isinstance(transform, IdentityTransform):
        return column
    if isinstance(transform, TruncateTransform):
        return _truncated(column, transform.width)
    if isinstance(transform, BucketTransform):
        found = (_hashes(column) & 0x7FFFFFFF) % transform.num_buckets
    else:
        found = _times(str(transform), column)
    return pa.array(found.astype(np.int32), mask=_nulls(column))


def _nulls(column: pa.Array) -> Any:
    return column.is_null().to_numpy(zero_copy_only=False)


def _numbers(column: pa.Array) -> Any:
    """Return the stored numbers as 64 bits, 0 for a null."""
    width = pa.int32() if column.type.bit_width == 32 else pa.int64()
    return column.view(width).fill_null(0).to_numpy().astype(np.int64)


def _times(name: str, column: pa.Array) -> Any:
    """Return years, months, days or hours since 1970, of dates or points in time; each rounds down."""
    numbers = _numbers(column)
    if pa.types.is_timestamp(column.type):
        numbers = numbers // ((3_600 if name == "hour" else 86_400) * PER_SECOND[column.type.unit])
    return numbers.view("M8[D]").astype(_CALENDAR[name]).view(np.int64) if name in _CALENDAR else numbers


def _truncated(column: pa.Array, width: int) -> pa.Array:
    kind, types = column.type, pa.types
    if types.is_decimal(kind):  # by its buffer: what is rounded down may have a digit too many
        data = b"".join((v - v % width).to_bytes(16, "little", signed=True) for v in _unscaled(column))
        valid = pa.array(~_nulls(column)).buffers()[1]
        return pa.Array.from_buffers(kind, len(column), [valid, pa.py_buffer(data)])
    if types.is_integer(kind):
        numbers = _numbers(column)
        return pa.array((numbers - numbers % width).astype(f"i{kind.bit_width // 8}"), mask=_nulls(column))
    return (pc.utf8_slice_codeunits if types.is_string(kind) else pc.binary_slice)(column, 0, width)


def _unscaled(column: pa.Array) -> list[int]:
    return [int.from_bytes(v or b"", "little", signed=True) for v in column.view(pa.binary(16)).to_pylist()]


def _hashes(column: pa.Array) -> Any:
    """Return Murmur3 of each value, x86 with 32 bits and the seed 0; any number for a null."""
    if pa.types.is_primitive(column.type):
        return _murmur3(_numbers(column) // (1000 if str(column.type).startswith("timestamp[ns") else 1))
    if pa.types.is_decimal(column.type):
        values = (v.to_bytes((v ^ v >> 127).bit_length() // 8 + 1, "big", signed=True) for v in _unscaled(column))
    else:
        values = (v or b"" for v in column.to_pylist())
    return np.fromiter(map(mmh3.hash, values), np.int32, len(column))


def _murmur3(numbers: Any) -> Any:
    """Return the hash of each number as 8 bytes, the lowest first. All are taken at once: mmh3 takes one."""
    found = np.zeros(len(numbers), np.uint32)
    for half in numbers.astype("<i8").view("<u4").reshape(-1, 2).T:
        found ^= _turned(half * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
        found = _turned(found, 13) * np.uint32(5) + np.uint32(0xE6546B64)
    found ^= np.uint32(8)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
        found = (found ^ found >> np.uint32(shift)) * np.uint32(factor)
    return found.view(np.int32)


def _turned(bits: Any, by: int) -> Any:
    return bits << np.uint32(by) | bits >> np.uint32(32 - by)
