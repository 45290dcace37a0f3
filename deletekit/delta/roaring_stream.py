"""Read the positions of a 64-bit Roaring bitmap front to back, one container of 65,536 positions at a time.

A container is checked when it is read. A caller that must not act on damage acts after the last array.
Spec: https://github.com/RoaringBitmap/RoaringFormatSpec, "64-bit implementations" (the portable one).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from deletekit.errors import FormatError
from deletekit.formats.roaring import (
    ARRAY_MAX_CARDINALITY,
    BITMAP_CONTAINER_BYTES,
    NO_OFFSET_THRESHOLD,
    NO_RUN_COOKIE,
    RUN_COOKIE,
)

Read = Callable[[int], bytes]
"""Gives exactly as many next bytes as asked for, or raises FormatError."""
Lows = npt.NDArray[np.int64]

_MAX_KEY = 0x7FFFFFFF


def stream_positions(read: Read) -> Iterator[Lows]:
    """Yield positions by container, ascending, none empty. Raises FormatError where the bytes are no such bitmap."""
    (count,) = struct.unpack("<Q", read(8))
    last = -1
    for _ in range(count):
        (key,) = struct.unpack("<I", read(4))
        if not last < key <= _MAX_KEY:
            raise _bad("key", key, f"{last + 1} .. {_MAX_KEY}")
        last = key
        for lows in _bitmap(read):
            yield lows + (key << 32)


def _bitmap(read: Read) -> Iterator[Lows]:
    (cookie,) = struct.unpack("<I", read(4))
    flags = None
    if cookie == NO_RUN_COOKIE:
        (count,) = struct.unpack("<I", read(4))
    elif cookie & 0xFFFF == RUN_COOKIE:
        count = (cookie >> 16) + 1
        flags = np.unpackbits(np.frombuffer(read((count + 7) // 8), np.uint8), bitorder="little")
    else:
        raise _bad("cookie", hex(cookie), f"{NO_RUN_COOKIE} or low half {RUN_COOKIE}")
    if count > 1 << 16:
        raise _bad("container count", count, "<= 65536")
    descriptors = np.frombuffer(read(4 * count), "<u2").reshape(-1, 2).astype(np.int64)
    if (np.diff(descriptors[:, 0]) <= 0).any():
        raise _bad("container key", "keys out of order", "ascending keys")
    if flags is None or count >= NO_OFFSET_THRESHOLD:
        read(4 * count)
    for i, (key, less_one) in enumerate(descriptors.tolist()):
        lows = _container(read, less_one + 1, is_run=flags is not None and bool(flags[i]))
        if len(lows) != less_one + 1:
            raise _bad("container cardinality", len(lows), less_one + 1)
        yield lows + (key << 16)


def _container(read: Read, cardinality: int, *, is_run: bool) -> Lows:
    if is_run:
        (runs,) = struct.unpack("<H", read(2))
        pairs = np.frombuffer(read(4 * runs), "<u2").reshape(-1, 2).astype(np.int64)
        starts, lengths = pairs[:, 0], pairs[:, 1] + 1
        stops = starts + lengths
        if (stops[:-1] > starts[1:]).any() or (stops > 1 << 16).any() or (np.diff(starts) <= 0).any():
            raise _bad("runs", "runs out of order", "ascending runs below 65536")
        within = np.arange(int(lengths.sum())) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        return np.repeat(starts, lengths) + within
    if cardinality <= ARRAY_MAX_CARDINALITY:
        lows = np.frombuffer(read(2 * cardinality), "<u2").astype(np.int64)
        if (np.diff(lows) <= 0).any():
            raise _bad("array container", "values out of order", "ascending values")
        return lows
    bits = np.unpackbits(np.frombuffer(read(BITMAP_CONTAINER_BYTES), np.uint8), bitorder="little")
    return np.flatnonzero(bits).astype(np.int64)


def _bad(field: str, found: object, expected: object) -> FormatError:
    return FormatError("bad Roaring bitmap", kind="roaring", field=field, found=found, expected=expected)
