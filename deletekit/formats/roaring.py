"""Find the containers of a portable 32-bit Roaring bitmap, and where it ends; pyroaring decodes the positions.

A deletion vector concatenates bitmaps without their lengths, so the end of each must be found.
Spec: https://github.com/RoaringBitmap/RoaringFormatSpec
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Literal

from deletekit.errors import FormatError

NO_RUN_COOKIE = 12346
RUN_COOKIE = 12347
NO_OFFSET_THRESHOLD = 4
ARRAY_MAX_CARDINALITY = 4096
BITMAP_CONTAINER_BYTES = 8192

ContainerKind = Literal["array", "bitmap", "run"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
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


def _walk(buf: memoryview, start: int) -> tuple[list[Container], int]:
    count, run_flags, at = _header(buf, start)
    descriptors = _unpack(buf, f"<{2 * count}H", at, "key-cardinality header")
    at += 4 * count
    if run_flags is None or count >= NO_OFFSET_THRESHOLD:
        at += 4 * count  # the offset header repeats what the containers' own sizes say
    found: list[Container] = []
    for i in range(count):
        key, cardinality = descriptors[2 * i], descriptors[2 * i + 1] + 1
        is_run = run_flags is not None and bool(run_flags[i >> 3] & (1 << (i & 7)))
        kind, length = _container_shape(buf, at, cardinality, is_run)
        found.append(Container(key=key, kind=kind, cardinality=cardinality, offset=at, length=length))
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
            raise FormatError(
                "too many Roaring containers", kind="roaring", field="container count", found=count, expected="<= 65536"
            )
        return count, None, at + 8
    if cookie & 0xFFFF == RUN_COOKIE:
        count = (cookie >> 16) + 1
        flags_end = at + 4 + (count + 7) // 8
        if flags_end > len(buf):
            raise _truncated("run flags", len(buf) - at, flags_end - at)
        return count, buf[at + 4 : flags_end], flags_end
    raise FormatError(
        "not a portable Roaring bitmap",
        kind="roaring",
        field="cookie",
        found=hex(cookie),
        expected=f"{NO_RUN_COOKIE} or low half {RUN_COOKIE}",
    )


def _container_shape(buf: memoryview, at: int, cardinality: int, is_run: bool) -> tuple[ContainerKind, int]:
    if is_run:
        (runs,) = _unpack(buf, "<H", at, "run count")
        return "run", 2 + 4 * runs
    if cardinality <= ARRAY_MAX_CARDINALITY:
        return "array", 2 * cardinality
    return "bitmap", BITMAP_CONTAINER_BYTES


def _unpack(buf: memoryview, fmt: str, at: int, field: str) -> tuple[int, ...]:
    try:
        return struct.unpack_from(fmt, buf, at)
    except struct.error as e:
        raise _truncated(field, max(len(buf) - at, 0), struct.calcsize(fmt)) from e


def _truncated(field: str, found: int, expected: int) -> FormatError:
    return FormatError(
        "truncated Roaring bitmap", kind="roaring", field=field, found=f"{found} bytes", expected=f"{expected} bytes"
    )
