"""Turn positions into the bits of an Arrow boolean array, container by container.

No position becomes a Python number: a bitmap container has Arrow's own layout, and is copied.
Spec: https://github.com/RoaringBitmap/RoaringFormatSpec; https://arrow.apache.org/docs/format/Columnar.html
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from deletekit.formats.roaring import Container, containers

_CONTAINER_ROWS = 1 << 16
_CONTAINER_BYTES = _CONTAINER_ROWS // 8


def position_mask(by_key: Mapping[int, BitMap], start: int, length: int) -> pa.BooleanArray:
    """Return `length` booleans, True where position `start + i` is in the set.

    Parameters
    ----------
    by_key: 32-bit bitmaps by high half of the position.
    """
    first = start - start % _CONTAINER_ROWS
    count = -(-(start + length - first) // _CONTAINER_ROWS)
    bits = np.zeros(count * _CONTAINER_BYTES, dtype=np.uint8)
    for key, bitmap in by_key.items():
        base = key << 32
        low, high = max(start - base, 0), min(start + length - base, 1 << 32)
        if low < high and bitmap.range_cardinality(low, high):
            _fill(bits, bitmap & BitMap(range(low, high)), base - first)
    return pa.Array.from_buffers(pa.bool_(), length, [None, pa.py_buffer(bits)], offset=start - first)


def _fill(bits: npt.NDArray[np.uint8], bitmap: BitMap, base: int) -> None:
    """Set the bits of one 32-bit bitmap, whose position 0 is bit `base`, a multiple of a container."""
    data = bitmap.serialize()
    for container in containers(data):
        at = (base + (container.key << 16)) // 8
        bits[at : at + _CONTAINER_BYTES] = _container_bits(data, container)


def _container_bits(data: bytes, container: Container) -> npt.NDArray[np.uint8]:
    if container.kind == "bitmap":
        return np.frombuffer(data, np.uint8, _CONTAINER_BYTES, container.offset)
    if container.kind == "array":
        rows = np.zeros(_CONTAINER_ROWS, dtype=np.bool_)
        rows[np.frombuffer(data, "<u2", container.cardinality, container.offset)] = True
        return np.packbits(rows, bitorder="little")
    runs = np.frombuffer(data, "<u2", (container.length - 2) // 2, container.offset + 2).astype(np.int64)
    edges = np.zeros(_CONTAINER_ROWS + 1, dtype=np.int8)
    edges[runs[0::2]] += 1  # runs are disjoint: no index comes twice in either statement
    edges[runs[0::2] + runs[1::2] + 1] -= 1
    return np.packbits(np.cumsum(edges[:-1], dtype=np.int8).view(np.bool_), bitorder="little")
