"""PFOR for unsigned bytes, both ways: how a Mumbling bitmap stores its descriptors. A draft, see `DRAFT`.

    +---------+---------+-------+-------+----------------+-------------+------------------+
    | b2 high | b1 low  | e  u8 | m  u8 | values         | offsets     | exceptions       |
    | 4 bits  | 4 bits  |       |       | b1 bits each   | e bytes     | b2 bits each     |
    +---------+---------+-------+-------+----------------+-------------+------------------+
      one chunk of up to 256 values; how many there are is known from elsewhere

Each value is `m` plus its `b1` bits. The few that need more bits are exceptions: their upper `b2` bits are at the end.
The draft gives the sizes of a full chunk; a shorter one packs only the values it has, as the draft's examples do.
Spec: "Appendix A: PFOR encoding for unsigned bytes", apache/iceberg, format/mumbling-spec.md
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from deletekit.errors import FormatError

CHUNK = 256
"""How many values a chunk has, except for the last."""

_HEADER_BYTES = 3
_Bytes = npt.NDArray[np.uint8]


def encode_bytes(values: bytes) -> bytes:
    """Return the chunks of these bytes, each with the bit width that makes it smallest; of equal ones the lowest."""
    return b"".join(_encode_chunk(values[start : start + CHUNK]) for start in range(0, len(values), CHUNK))


def decode_bytes(data: bytes, count: int) -> tuple[bytes, int]:
    """Return `count` bytes and how much of `data` their chunks took.

    Raises FormatError where a chunk ends early, contradicts itself, or has a value above 255. The draft says nothing of
    the order of exceptions; here their offsets must ascend, so that none has two values.
    """
    values, at = [], 0
    for start in range(0, count, CHUNK):
        chunk, at = _decode_chunk(data, at, min(CHUNK, count - start))
        values.append(chunk)
    return b"".join(values), at


def pack(values: _Bytes, width: int) -> bytes:
    """Return the lowest `width` bits of each value, the first value in the highest bits, filled up with zeros."""
    return np.packbits(np.unpackbits(values[:, None], axis=1)[:, 8 - width :]).tobytes()


def unpack(data: bytes, width: int, count: int) -> _Bytes:
    """Return `count` values of `width` bits each; the opposite of `pack`."""
    bits = np.zeros((count, 8), np.uint8)
    bits[:, 8 - width :] = np.unpackbits(np.frombuffer(data, np.uint8))[: count * width].reshape(count, width)
    return np.packbits(bits, axis=1)[:, 0]


def bad(message: str, field: str, found: object, expected: object) -> FormatError:
    """Return the error for bytes that break the draft."""
    return FormatError(message, kind="mumbling", field=field, found=found, expected=expected)


def packed_bytes(count: int, width: int) -> int:
    """Return how many bytes `count` values of `width` bits take."""
    return (count * width + 7) // 8


def _encode_chunk(chunk: bytes) -> bytes:
    values = np.frombuffer(chunk, np.uint8)
    least = int(values.min())
    above = values - np.uint8(least)
    width, rest = min(_widths(above), key=lambda widths: _size(above, *widths))
    if width == 8:
        return bytes((8, 0, 0)) + chunk
    upper = above >> np.uint8(width)
    (offsets,) = np.nonzero(upper)
    header = bytes((width | rest << 4, len(offsets), least))
    return header + pack(above, width) + offsets.astype(np.uint8).tobytes() + pack(upper[offsets], rest)


def _widths(values: _Bytes) -> Iterator[tuple[int, int]]:
    widest = int(values.max()).bit_length()
    return ((width, widest - width) for width in range(widest + 1))


def _size(values: _Bytes, width: int, rest: int) -> int:
    exceptions = int(np.count_nonzero(values >> width)) if rest else 0
    return packed_bytes(len(values), width) + exceptions + packed_bytes(exceptions, rest)


def _decode_chunk(data: bytes, at: int, count: int) -> tuple[bytes, int]:
    widths, exceptions, least = _take(data, at, _HEADER_BYTES, "chunk header")
    width, rest = widths & 15, widths >> 4
    if width > 8:
        raise bad("a value has more bits than a byte", "b1", width, "0 .. 8")
    if rest > 8 - width or (exceptions > 0) > (rest > 0):
        raise bad("the bits of an exception do not fit", "b2", rest, f"{int(exceptions > 0)} .. {8 - width}")
    if exceptions > (count if width < 8 else 0):
        raise bad("too many exceptions", "e", exceptions, f"0 .. {count if width < 8 else 0}")
    at += _HEADER_BYTES
    values, at = _unpacked(data, at, count, width, "primary values")
    offsets = _take(data, at, exceptions, "exception offsets")
    if any(a >= b for a, b in pairwise(offsets)) or (offsets and offsets[-1] >= count):
        raise bad("exceptions are not in order", "exception offsets", offsets.hex(" "), f"ascending, 0 .. {count - 1}")
    upper, at = _unpacked(data, at + exceptions, exceptions, rest, "exception values")
    whole = values.astype(np.uint16)
    whole[np.frombuffer(offsets, np.uint8)] |= upper.astype(np.uint16) << width
    whole += least
    if whole.max() > 255:
        raise bad("a value is more than a byte", "m", least, f"0 .. {255 - int(whole.max()) + least}")
    return whole.astype(np.uint8).tobytes(), at


def _unpacked(data: bytes, at: int, count: int, width: int, field: str) -> tuple[_Bytes, int]:
    packed = _take(data, at, packed_bytes(count, width), field)
    unused = len(packed) * 8 - count * width
    if unused and packed[-1] & (1 << unused) - 1:
        raise bad("bits behind the last value are not zero", field, f"{packed[-1]:08b}", f"{unused} zeros at the end")
    return unpack(packed, width, count), at + len(packed)


def _take(data: bytes, at: int, size: int, field: str) -> bytes:
    if len(data) - at < size:
        raise bad("the bytes end too early", field, f"{len(data) - at} bytes", f"{size} bytes")
    return data[at : at + size]
