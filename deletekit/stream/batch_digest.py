"""Compute a digest of everything that a batch writes, to recognise the batch when it comes again.

It is the sum of a hash for each key, of all changes of the key in their order. So parts of a batch, each with all
changes of its keys, are digested apart, and their digests are added. Two batches have the same digest exactly if they
write the same. Later changes of the schema do not change it: a wider type, or a new column without a value.
"""

from collections.abc import Iterator, Sequence
from hashlib import blake2b
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from deletekit.rows.keys import flat, key_bytes, row_columns
from deletekit.stream.change_rows import Changes

_VERSION = "1-"
_TRUNCATED = 1
"""What a batch that deletes all rows before its own adds."""
_MODULUS = 1 << 128
_BLOCK = 1 << 16
"""Rows whose bytes are made at a time."""

Numbers = npt.NDArray[np.int64]


def batch_digest(changes: Changes) -> str:
    """Return the digest of keys, changes, and all values that are written."""
    return digest_of([key_sum(changes), _TRUNCATED if changes.truncate else 0])


def digest_of(sums: Sequence[int]) -> str:
    """Return the digest of a batch from the sums of its parts."""
    return f"{_VERSION}{sum(sums) % _MODULUS:032x}"


def key_sum(changes: Changes) -> int:
    """Return the sum of the hashes of all keys, below 2^128."""
    by_key = changes.order[np.argsort(changes.codes[changes.order], kind="stable")]
    starts = np.flatnonzero(np.diff(changes.codes[by_key], prepend=-1))
    total = 0
    for some in _blocks(starts, len(by_key)):
        first, last = int(some[0]), int(some[-1])
        data, offsets = _bytes_of(_row_bytes(changes, by_key[first:last]))
        ends = offsets[some - first].tolist()
        for start, end in pairwise(ends):
            total += int.from_bytes(blake2b(data[start:end], digest_size=16).digest(), "little")
    return total % _MODULUS


def _blocks(starts: Numbers, rows: int) -> Iterator[Numbers]:
    """Yield where keys start, for some keys at a time, and where the last of them ends."""
    borders = np.append(starts, rows)
    first = 0
    while first < len(starts):
        last = max(first + 1, int(np.searchsorted(borders, borders[first] + _BLOCK, side="right")) - 1)
        yield borders[first : last + 1]
        first = last


def _row_bytes(changes: Changes, at: Numbers) -> pa.Array:
    """Return for each row its type, its key, and the field id and value of each column that it writes."""
    rows, numbers = pa.array(at), changes.put_of[at]
    parts = [pa.array(changes.types[at]).view(pa.binary(1)), key_bytes([key.take(rows) for key in changes.keys])]
    puts = pa.array(numbers, mask=numbers < 0)
    for field in sorted(changes.batch_columns, key=lambda f: f.field_id):
        column = flat(changes.puts.column(field.name).take(puts))
        name = pa.scalar(field.field_id.to_bytes(4, "little"), pa.large_binary())
        value = _join(name, key_bytes(row_columns([column.cast(_widest(column.type))])))
        # A column added later is null in older batches. If the column has a default, a null is a value of its own.
        null = b"" if field.write_default is None else name.as_py()
        parts.append(pc.if_else(column.is_valid(), value, pa.scalar(null, pa.large_binary())))
    if changes.unsent is not None:  # a value that was not sent is another change than null
        names = [b"\0".join(n.encode() for n in changes.unsent.names.get(row, ())) for row in at.tolist()]
        parts.append(pa.array(names))
    return _join(*parts)


def _widest(kind: pa.DataType) -> pa.DataType:
    """Return a type with double for float, so that numbers have the same bytes in both. Other promoted types have.

    Fields of structs are nullable: Arrow casts no struct that is null where its fields may not be.
    """
    if pa.types.is_float32(kind):
        return pa.float64()
    if pa.types.is_struct(kind):
        return pa.struct([f.with_type(_widest(f.type)).with_nullable(True) for f in kind])
    if pa.types.is_map(kind):
        return pa.map_(
            kind.key_field.with_type(_widest(kind.key_type)), kind.item_field.with_type(_widest(kind.item_type))
        )
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_widest(kind.value_type)))
    return kind


def _join(*parts: Any) -> pa.Array:
    large = (p.cast(pa.large_binary()) for p in parts)
    return pc.binary_join_element_wise(*large, pa.scalar(b"", pa.large_binary()))


def _bytes_of(array: pa.Array) -> tuple[memoryview, Numbers]:
    """Return the bytes of all values, and where each begins and ends."""
    _, offsets, data = array.buffers()
    ends = np.frombuffer(offsets, np.int64)[array.offset : array.offset + len(array) + 1]
    return memoryview(data if data is not None else b""), ends
