"""Read and write deletion vectors: a set of row positions, and the `deletion-vector-v1` blob that stores it.

    +----------------+-------------+--------------------------+----------------+
    | length  u32 BE | D1 D3 39 64 | vector                   | CRC-32  u32 BE |
    +----------------+-------------+--------------------------+----------------+
      of magic+vector   magic        count i64 LE, then per     of magic+vector
                                     key: i32 LE + Roaring

Spec: Puffin "deletion-vector-v1 blob type", https://iceberg.apache.org/puffin-spec/#deletion-vector-v1-blob-type
"""

from __future__ import annotations

import operator
import struct
import zlib
from collections.abc import Iterable, Iterator
from typing import Any, SupportsIndex

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from deletekit.errors import FormatError, InvalidInputError
from deletekit.formats.roaring import bitmap_of, bitmap_of_mask, containers, position_mask, split, unpacked

MAGIC = bytes((0xD1, 0xD3, 0x39, 0x64))
MAX_KEY = 0x7FFFFFFE
MAX_POSITION = (MAX_KEY << 32) | 0x80000000
"""Largest position Iceberg Java accepts (RoaringPositionBitmap.MAX_POSITION)."""

_LENGTH_BYTES = 4
_CRC_BYTES = 4
_FRAME_BYTES = _LENGTH_BYTES + _CRC_BYTES
_SMALLEST_BLOB = _FRAME_BYTES + len(MAGIC) + 8
_MAX_BLOB_BYTES = 2**31 - 1
# Java writes an empty bitmap for each key it skips, so one position near 2^62 would mean 2^30 of them.
_MAX_KEYS_WRITTEN = 1 << 22

Positions = Iterable[int] | npt.NDArray[np.integer]


class PositionBitmap:
    """A set of row positions of one data file: one 32-bit Roaring bitmap per high half of the position.

    Supports `len`, `in`, iteration in order, `|`, `-`, `==`. Positions are 0-based ordinals in the physical file.
    """

    __slots__ = ("_by_key",)

    def __init__(self, positions: Positions = ()) -> None:
        """Build from positions in any order, duplicates allowed.

        Raises InvalidInputError for a negative position, one above `MAX_POSITION`, and what is not an integer.
        """
        self._by_key: dict[int, BitMap] = {}
        numbers = _integers(positions)
        if numbers.size:
            self._add(numbers)

    @classmethod
    def from_bitmaps(cls, by_key: dict[int, BitMap]) -> PositionBitmap:
        """Wrap 32-bit bitmaps by high half; empty ones are dropped."""
        new = cls()
        new._by_key = {key: by_key[key] for key in sorted(by_key) if by_key[key]}
        return new

    @classmethod
    def from_mask(cls, mask: npt.NDArray[np.bool_], start: int = 0) -> PositionBitmap:
        """Return the positions `start + i` for which a mask is True."""
        if (start + len(mask)) >> 32:
            return cls(np.flatnonzero(mask) + start)
        return cls.from_bitmaps({0: bitmap_of_mask(mask, start)})

    @classmethod
    def union(cls, parts: Iterable[PositionBitmap]) -> PositionBitmap:
        """Return the positions that any of some sets has."""
        by_key: dict[int, list[BitMap]] = {}
        for part in parts:
            for key, bitmap in part.by_key.items():
                by_key.setdefault(key, []).append(bitmap)
        return cls.from_bitmaps({key: BitMap.union(*found) if found[1:] else found[0] for key, found in by_key.items()})

    @classmethod
    def from_range(cls, start: int, stop: int) -> PositionBitmap:
        """Return all positions from `start` up to, not including, `stop`."""
        _check_bounds(start, max(stop - 1, start))
        keys = range(start >> 32, ((stop - 1) >> 32) + 1 if stop > start else 0)
        return cls.from_bitmaps({k: BitMap(_within(k, start, stop)) for k in keys})

    def _add(self, numbers: npt.NDArray[np.integer]) -> None:
        low, high = int(numbers.min()), int(numbers.max())
        _check_bounds(low, high)
        numbers = numbers.astype(np.int64, copy=False)
        if low >> 32 == high >> 32:
            self._by_key[low >> 32] = bitmap_of(numbers if high < 1 << 32 else numbers & 0xFFFFFFFF)
            return
        keys = numbers >> 32
        for key in np.unique(keys):
            self._by_key[int(key)] = bitmap_of(numbers[keys == key] & 0xFFFFFFFF)

    @property
    def by_key(self) -> dict[int, BitMap]:
        """The 32-bit bitmaps by high half of the position, ascending; none is empty."""
        return dict(self._by_key)

    def __len__(self) -> int:
        return sum(len(b) for b in self._by_key.values())

    def __bool__(self) -> bool:
        return bool(self._by_key)

    @property
    def highest(self) -> int:
        """The largest position, -1 where there is none."""
        key, bitmap = next(reversed(self._by_key.items()), (0, None))
        return -1 if bitmap is None else (key << 32) | bitmap.max()

    def __contains__(self, position: object) -> bool:
        if not isinstance(position, SupportsIndex):
            return False
        number = operator.index(position)  # numpy's integers too
        bitmap = self._by_key.get(number >> 32)
        return bitmap is not None and (number & 0xFFFFFFFF) in bitmap

    def __iter__(self) -> Iterator[int]:
        for key, bitmap in self._by_key.items():
            base = key << 32
            for low in bitmap:
                yield base | low

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PositionBitmap) and self._by_key == other._by_key

    __hash__ = None  # type: ignore[assignment]  # equal by value, but holds bitmaps that can be changed

    def __or__(self, other: PositionBitmap) -> PositionBitmap:
        return PositionBitmap.union((self, other))

    def __sub__(self, other: PositionBitmap) -> PositionBitmap:
        empty = BitMap()
        return PositionBitmap.from_bitmaps({k: b - other._by_key.get(k, empty) for k, b in self._by_key.items()})

    def below(self, stop: int) -> PositionBitmap:
        """Return the positions before `stop`. Runs are never expanded."""
        return PositionBitmap.from_bitmaps({k: b & BitMap(_within(k, 0, stop)) for k, b in self._by_key.items()})

    def __repr__(self) -> str:
        head = ", ".join(str(p) for p, _ in zip(self, range(6), strict=False))
        return f"PositionBitmap({{{head}{', ...' if len(self) > 6 else ''}}}, cardinality={len(self)})"

    def to_numpy(self) -> npt.NDArray[np.int64]:
        """Return all positions, ascending, as int64."""
        parts = [
            np.frombuffer(b.to_array(), dtype=np.uint32).astype(np.int64) | (k << 32) for k, b in self._by_key.items()
        ]
        return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)

    def within(self, start: int, stop: int) -> npt.NDArray[np.int64]:
        """Return the positions in `start .. stop - 1` as `to_numpy` does."""
        parts = {key: _within(key, start, stop) for key in self._by_key}
        return PositionBitmap.from_bitmaps({k: self._by_key[k] & BitMap(p) for k, p in parts.items() if p}).to_numpy()

    def to_arrow(self, start: int, length: int) -> pa.BooleanArray:
        """Return `length` booleans: True where position `start + i` is in the set."""
        return position_mask(self._by_key, start, length)

    def mask(self, start: int, length: int) -> npt.NDArray[np.bool_]:
        """Return `to_arrow` as a numpy array."""
        return unpacked(self.to_arrow(start, length))

    def count_in(self, start: int, stop: int) -> int:
        """Count the positions of the set in `start .. stop - 1`."""
        parts = ((bitmap, _within(key, start, stop)) for key, bitmap in self._by_key.items())
        return sum(bitmap.range_cardinality(part.start, part.stop) for bitmap, part in parts if part)


def encode_blob(positions: PositionBitmap) -> bytes:
    """Return the complete blob, byte-identical to Iceberg Java's for a freshly built set.

    Raises InvalidInputError when the blob would exceed 2 GB, Java's limit.
    """
    body = MAGIC + encode_vector(positions)
    if len(body) + _FRAME_BYTES > _MAX_BLOB_BYTES:
        expected = f"<= {_MAX_BLOB_BYTES} bytes"
        raise InvalidInputError("deletion vector too large", "deletion-vector-size", found=len(body), expected=expected)
    return struct.pack(">I", len(body)) + body + struct.pack(">I", zlib.crc32(body))


def encode_vector(positions: PositionBitmap) -> bytes:
    """Return the vector alone: count of bitmaps, then key and portable Roaring bitmap for each.

    Java writes every key from 0 to the largest, an empty bitmap for those without positions, and run-optimises each
    (RoaringPositionBitmap.serialize); so do we, up to the point where that would be absurd.
    """
    by_key = positions.by_key
    keys: Iterable[int] = range(max(by_key, default=-1) + 1)
    if max(by_key, default=0) >= _MAX_KEYS_WRITTEN:
        keys = sorted(by_key)  # sparse keys are legal; no real data file reaches this
    parts = [struct.pack("<I", key) + _run_optimised(by_key.get(key, BitMap())) for key in keys]
    return struct.pack("<q", len(parts)) + b"".join(parts)


def _run_optimised(bitmap: BitMap) -> bytes:
    """Return the bytes of a bitmap: the same for the same positions, however the bitmap was built.

    Where runs and an array take the same bytes, CRoaring keeps what it has; Java's fresh bitmap has the array.
    """
    optimised = BitMap(bitmap)
    optimised.run_optimize()
    data: bytes = optimised.serialize()
    tied = BitMap()
    for container in containers(data):
        if container.kind == "run" and container.length == 2 * container.cardinality:
            tied.add_range(container.key << 16, (container.key + 1) << 16)
    if not tied:
        return data
    as_arrays = BitMap((optimised & tied).to_array())
    return bytes(((optimised - tied) | as_arrays).serialize())


def decode_blob(blob: bytes | memoryview, *, cardinality: int | None = None) -> PositionBitmap:
    """Return the positions of a complete blob, after checking every field.

    Parameters
    ----------
    blob: the `content_size_in_bytes` bytes at `content_offset` of the Puffin file.
    cardinality: the manifest's `record_count`; checked when given.

    Raises FormatError for a wrong length, magic, CRC, bitmap or cardinality.
    """
    view = memoryview(blob)
    if len(view) < _SMALLEST_BLOB:
        raise _bad("deletion vector too short", None, f"{len(view)} bytes", f">= {_SMALLEST_BLOB} bytes", kind="length")
    body = view[_LENGTH_BYTES:-_CRC_BYTES]
    length, magic = int.from_bytes(view[:_LENGTH_BYTES], "big"), bytes(body[: len(MAGIC)])
    if length != len(body):
        raise _bad("deletion vector length prefix is wrong", "length", length, len(body), kind="length")
    if magic != MAGIC:
        raise _bad("not a deletion vector", "magic", magic.hex(), MAGIC.hex(), kind="magic")
    stored, actual = int.from_bytes(view[-_CRC_BYTES:], "big"), zlib.crc32(body)
    if stored != actual:
        message = "deletion vector checksum does not match its bytes"
        raise _bad(message, "crc", f"{actual:#010x}", f"{stored:#010x}", kind="crc")
    positions = decode_vector(body[len(MAGIC) :])
    if cardinality is not None and len(positions) != cardinality:
        message = "deletion vector cardinality differs from the manifest's record_count"
        raise _bad(message, "record_count", len(positions), cardinality, kind="cardinality")
    return positions


def decode_vector(vector: bytes | memoryview) -> PositionBitmap:
    """Return the positions of a vector; keys may skip values but must ascend. Raises FormatError."""
    by_key: dict[int, BitMap] = {}
    for key, bitmap in vector_parts(vector):
        if key in by_key:
            by_key[key] |= bitmap
        else:
            by_key[key] = bitmap
    return PositionBitmap.from_bitmaps(by_key)


def vector_parts(vector: bytes | memoryview) -> Iterator[tuple[int, BitMap]]:
    """Yield the bitmaps of a vector with their keys, a large one as several of about 1 MB. Raises FormatError."""
    view = memoryview(vector)
    count = _unpack_from("<q", view, 0, "bitmap count")
    if not 0 <= count <= MAX_KEY + 1:
        raise _bad("bad bitmap count", "bitmap count", count, "0 .. 2^31-1", kind="keys")
    at, last_key = 8, -1
    for _ in range(count):
        key = _unpack_from("<i", view, at, "key")
        if not last_key < key <= MAX_KEY:
            raise _bad("bad bitmap key", "key", key, f"{last_key + 1} .. {MAX_KEY}", kind="keys")
        parts, at = split(view, at + 4)
        try:
            yield from ((key, BitMap.deserialize(part)) for part in parts)
        except ValueError as e:
            raise FormatError("bad Roaring bitmap", kind="roaring", field="bitmap", found=str(e)) from e
        last_key = key
    if at != len(view):
        raise _bad("bytes behind the last bitmap", "vector", f"{len(view)} bytes", f"{at} bytes", kind="length")


def _integers(positions: Positions) -> npt.NDArray[np.integer]:
    if isinstance(positions, np.ndarray):
        if positions.size == 0 or (positions.dtype.kind in "iu" and positions.ndim == 1):
            return positions
        raise _bad_input("positions are not integers", str(positions.dtype), "one row of integers")
    try:
        return np.fromiter(map(operator.index, positions), dtype=np.int64)  # without index, 1.5 would be 1
    except (TypeError, OverflowError) as e:
        raise _bad_input("positions are not integers", str(e)) from e


def _within(key: int, start: int, stop: int) -> range:
    """Return which low halves of a key are between two positions."""
    base = key << 32
    return range(max(start - base, 0), max(min(stop - base, 1 << 32), 0))


def _check_bounds(low: int, high: int) -> None:
    if low < 0 or high > MAX_POSITION:
        raise _bad_input("position out of range", low if low < 0 else high)


def _unpack_from(fmt: str, view: memoryview, at: int, field: str) -> int:
    try:
        value: int = struct.unpack_from(fmt, view, at)[0]
    except struct.error as e:
        found, expected = f"{max(len(view) - at, 0)} bytes", f"{struct.calcsize(fmt)} bytes"
        raise _bad("truncated deletion vector", field, found, expected, kind="length") from e
    return value


def _bad(message: str, field: str | None, found: Any, expected: Any, *, kind: str) -> FormatError:
    return FormatError(message, kind=f"deletion-vector-{kind}", field=field, found=found, expected=expected)


def _bad_input(message: str, found: Any, expected: str = f"0 .. {MAX_POSITION}") -> InvalidInputError:
    return InvalidInputError(message, kind="position", found=found, expected=expected)
