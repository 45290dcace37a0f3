"""Find the containers of a portable 32-bit Roaring bitmap, and where it ends; pyroaring decodes the positions.

A deletion vector concatenates bitmaps without their lengths, so the end of each must be found. A mask of rows copies
containers whole: no position becomes a Python number, and a bitmap container has the layout of an Arrow boolean array.
Spec: https://github.com/RoaringBitmap/RoaringFormatSpec; https://arrow.apache.org/docs/format/Columnar.html
"""

import struct
from array import array
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from deletekit.errors import FormatError

NO_RUN_COOKIE = 12346
RUN_COOKIE = 12347
NO_OFFSET_THRESHOLD = 4
ARRAY_MAX_CARDINALITY = 4096
BITMAP_CONTAINER_BYTES = 8192
_CONTAINERS_A_PIECE = 128
_CONTAINER_ROWS = 8 * BITMAP_CONTAINER_BYTES

ContainerKind = Literal["array", "bitmap", "run"]


class Container(NamedTuple):  # a dataclass takes three times as long to make, and a scan makes millions
    """One container: positions `key << 16 .. key << 16 | 0xFFFF`, stored at `offset` in `length` bytes."""

    key: int
    kind: ContainerKind
    cardinality: int
    offset: int
    length: int


def serialized_size(buf: bytes | memoryview, offset: int = 0) -> int:
    """Return how many bytes the bitmap at `offset` takes.

    Raises FormatError when the header or a container reaches past the end of `buf`, or the cookie is unknown.
    """
    return _walk(memoryview(buf), offset)[1] - offset


def containers(buf: bytes | memoryview, offset: int = 0) -> list[Container]:
    """Return the containers of the bitmap at `offset`, in key order. Raises FormatError as `serialized_size` does."""
    return _walk(memoryview(buf), offset)[0]


def split(buf: bytes | memoryview, offset: int = 0) -> tuple[Iterator[bytes], int]:
    """Return the bitmap at `offset` as serialized bitmaps of at most 128 containers, in order, and where it ends.

    pyroaring decodes bytes that hold a bitmap and no more. So a large one is not copied whole. Raises FormatError as
    `serialized_size` does, and for containers of a large bitmap that are not in order.
    """
    view = memoryview(buf)
    found, end = _walk(view, offset)
    if len(found) <= _CONTAINERS_A_PIECE:
        return iter([bytes(view[offset:end])]), end
    wrong = next((b.key for a, b in pairwise(found) if a.key >= b.key), None)
    if wrong is not None:
        raise _bad("Roaring containers are not in order", "key", wrong, "ascending keys")
    return (
        _serialized(view, found[i : i + _CONTAINERS_A_PIECE]) for i in range(0, len(found), _CONTAINERS_A_PIECE)
    ), end


def bitmap_of(numbers: npt.NDArray[np.integer]) -> BitMap:
    """Return a set of 32-bit numbers, in any order, duplicates allowed.

    Many ascending numbers become a mask first, which is twice as fast as adding them.
    """
    if len(numbers) > ARRAY_MAX_CARDINALITY and (numbers[1:] > numbers[:-1]).all():
        start, stop = int(numbers[0]), int(numbers[-1]) + 1
        if len(numbers) > ((stop - 1 >> 16) - (start >> 16) + 1) * ARRAY_MAX_CARDINALITY:
            mask = np.zeros(stop - start, np.bool_)
            mask[numbers - start] = True
            return bitmap_of_mask(mask, start)
    # From an array.array pyroaring adds many at once, from any other sequence one by one.
    return BitMap(array("I", numbers.astype(np.uint32).tobytes()))


def bitmap_of_mask(mask: npt.NDArray[np.bool_], start: int) -> BitMap:
    """Return the set of the 32-bit numbers `start + i` for which a mask is True. It is laid out as containers."""
    before = start % _CONTAINER_ROWS
    padded = np.zeros((-(-(before + len(mask)) // _CONTAINER_ROWS), _CONTAINER_ROWS), np.bool_)
    padded.reshape(-1)[before : before + len(mask)] = mask
    found: list[Container] = []
    data = bytearray()
    for key, rows in enumerate(padded, start >> 16):
        count = int(np.count_nonzero(rows))
        if count:
            kind = _kind_of(count)
            part = (np.flatnonzero(rows).astype("<u2") if kind == "array" else _packed(rows)).tobytes()
            found.append(Container(key=key, kind=kind, cardinality=count, offset=len(data), length=len(part)))
            data += part
    made = BitMap.deserialize(_serialized(memoryview(data), found)) if found else BitMap()
    made.run_optimize()
    return made


def unpacked(mask: pa.BooleanArray) -> npt.NDArray[np.bool_]:
    """Return booleans as numpy's; without nulls this is ten times as fast as `to_numpy`."""
    bits = mask.buffers()[1]
    if mask.null_count or bits is None:
        return np.asarray(mask.to_numpy(zero_copy_only=False))
    at, shift = divmod(mask.offset, 8)
    data = np.frombuffer(bits, np.uint8)[at:]
    return np.unpackbits(data, count=shift + len(mask), bitorder="little")[shift:].view(np.bool_)


def position_mask(by_key: Mapping[int, BitMap], start: int, length: int) -> pa.BooleanArray:
    """Return `length` booleans, True where position `start + i` is in the set.

    Parameters
    ----------
    by_key: 32-bit bitmaps by high half of the position.
    """
    first = start - start % _CONTAINER_ROWS
    count = -(-(start + length - first) // _CONTAINER_ROWS)
    bits = np.zeros(count * BITMAP_CONTAINER_BYTES, dtype=np.uint8)
    for key, bitmap in by_key.items():
        base = key << 32
        low, high = max(start - base, 0), min(start + length - base, 1 << 32)
        if low < high and bitmap.range_cardinality(low, high):
            data = (bitmap & BitMap(range(low, high))).serialize()
            for container in containers(data):
                at = (base - first + (container.key << 16)) // 8
                bits[at : at + BITMAP_CONTAINER_BYTES] = _container_bits(data, container)
    return pa.Array.from_buffers(pa.bool_(), length, [None, pa.py_buffer(bits)], offset=start - first)


def _container_bits(data: bytes, container: Container) -> npt.NDArray[np.uint8]:
    if container.kind == "bitmap":
        return np.frombuffer(data, np.uint8, BITMAP_CONTAINER_BYTES, container.offset)
    if container.kind == "array":
        return _bits(np.frombuffer(data, "<u2", container.cardinality, container.offset))
    runs = np.frombuffer(data, "<u2", (container.length - 2) // 2, container.offset + 2).astype(np.int64)
    edges = np.zeros(_CONTAINER_ROWS + 1, dtype=np.bool_)
    edges[runs[0::2]] = True  # runs are disjoint: no index comes twice in either statement
    edges[runs[0::2] + runs[1::2] + 1] ^= True
    words = _packed(edges[:-1]).view("<u8")
    for shift in (1, 2, 4, 8, 16, 32):  # a bit becomes the sum of all edges before it, 64 of them at a time
        words ^= words << np.uint64(shift)
    is_open = np.cumsum(words >> np.uint64(63), dtype=np.uint64) & np.uint64(1)
    words[1:] ^= -is_open[:-1]
    return words.view(np.uint8)


def _bits(rows: npt.NDArray[np.integer]) -> npt.NDArray[np.uint8]:
    """Return the bits of a container that has these rows."""
    out = np.zeros(_CONTAINER_ROWS, dtype=np.bool_)
    out[rows] = True
    return _packed(out)


def _packed(mask: npt.NDArray[np.bool_]) -> npt.NDArray[np.uint8]:
    return np.packbits(mask, bitorder="little")


def _kind_of(cardinality: int) -> ContainerKind:
    """Return the kind of a container without runs."""
    return "array" if cardinality <= ARRAY_MAX_CARDINALITY else "bitmap"


def _serialized(buf: memoryview, group: Sequence[Container]) -> bytes:
    """Return adjacent containers as a bitmap of their own. The cookie of runs is also right without any."""
    count, lengths = len(group), np.array([0, *(c.length for c in group[:-1])])
    flags = np.packbits([c.kind == "run" for c in group], bitorder="little").tobytes()
    descriptors = np.array([(c.key, c.cardinality - 1) for c in group], "<u2").tobytes()
    head = struct.pack("<I", RUN_COOKIE | count - 1 << 16) + flags + descriptors
    offsets = (np.cumsum(lengths) + len(head) + 4 * count).astype("<u4").tobytes()
    data = buf[group[0].offset : group[-1].offset + group[-1].length]
    return b"".join((head, offsets if count >= NO_OFFSET_THRESHOLD else b"", data))


def _walk(buf: memoryview, start: int) -> tuple[list[Container], int]:
    count, run_flags, at = _header(buf, start)
    descriptors = _unpack(buf, f"<{2 * count}H", at, "key-cardinality header")
    at += 4 * count
    if run_flags is None or count >= NO_OFFSET_THRESHOLD:
        at += 4 * count  # the offset header repeats what the containers' own sizes say
    found: list[Container] = []
    for i in range(count):
        cardinality = descriptors[2 * i + 1] + 1
        kind = _kind_of(cardinality)
        length = 2 * cardinality if kind == "array" else BITMAP_CONTAINER_BYTES
        if run_flags is not None and run_flags[i >> 3] & (1 << (i & 7)):
            kind, length = "run", 2 + 4 * _unpack(buf, "<H", at, "run count")[0]
        found.append(Container(descriptors[2 * i], kind, cardinality, at, length))
        at += length
    if at > len(buf):
        raise _truncated("containers", len(buf) - start, at - start)
    return found, at


def _header(buf: memoryview, at: int) -> tuple[int, memoryview | None, int]:
    """Return (number of containers, run flags or None, offset behind them)."""
    (cookie,) = _unpack(buf, "<I", at, "cookie")
    if cookie == NO_RUN_COOKIE:
        (count,) = _unpack(buf, "<I", at + 4, "container count")
        if count > 1 << 16:
            raise _bad("too many Roaring containers", "container count", count, "<= 65536")
        return count, None, at + 8
    if cookie & 0xFFFF == RUN_COOKIE:
        count = (cookie >> 16) + 1
        flags_end = at + 4 + (count + 7) // 8
        if flags_end > len(buf):
            raise _truncated("run flags", len(buf) - at, flags_end - at)
        return count, buf[at + 4 : flags_end], flags_end
    raise _bad("not a portable Roaring bitmap", "cookie", hex(cookie), f"{NO_RUN_COOKIE} or low half {RUN_COOKIE}")


def _unpack(buf: memoryview, fmt: str, at: int, field: str) -> tuple[int, ...]:
    try:
        return struct.unpack_from(fmt, buf, at)
    except struct.error as e:
        raise _truncated(field, max(len(buf) - at, 0), struct.calcsize(fmt)) from e


def _truncated(field: str, found: int, expected: int) -> FormatError:
    return _bad("truncated Roaring bitmap", field, f"{found} bytes", f"{expected} bytes")


def _bad(message: str, field: str, found: Any, expected: Any) -> FormatError:
    return FormatError(message, kind="roaring", field=field, found=found, expected=expected)
