"""What each byte of a file of deletion vectors is: a Puffin file, or a Delta Lake `.bin` file.

The ranges are in order and cover each byte of the file exactly once. Nothing is opened and no positions are decoded.
The work is bounded by the size of the file, whatever its numbers say.

Delta's file is a version byte and frames of size (i32 BE), vector and CRC-32 (u32 BE); the vector is Iceberg's, or in
Delta's older "native" form, which has another magic (in either byte order) and a length before each bitmap.
Spec: https://iceberg.apache.org/puffin-spec/ and Delta PROTOCOL.md, "Deletion Vector Format".
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from deletekit.delta.deletion_vector import NATIVE_MAGIC
from deletekit.errors import FormatError, UnsupportedError
from deletekit.formats.deletion_vector import MAGIC as VECTOR_MAGIC
from deletekit.formats.deletion_vector import MAX_KEY
from deletekit.formats.puffin import DELETION_VECTOR_V1, FOOTER_TAIL_BYTES, BlobMetadata, footer_size, read_puffin
from deletekit.formats.puffin import MAGIC as PUFFIN_MAGIC
from deletekit.formats.roaring import RUN_COOKIE, Container, containers

MOST_RANGES = 1 << 18
"""A vector with so many containers is of a file of 17 billion rows; no writer makes one."""
_LARGEST_FOOTER = 1 << 24
_DELTA_VERSION = 1


@dataclass(frozen=True, slots=True)
class ByteRange:
    """Consecutive bytes with one meaning.

    Attributes
    ----------
    part: which part of the file they belong to: `file`, `footer`, or the number of a blob as `blob 0`.
    field: what they are, in the specifications' words: `magic`, `length`, `array container`, ...
    value: their meaning, for people; empty if that is the positions themselves.
    first_position, cardinality: of a container: the lowest position it could hold, and how many it holds.
    """

    start: int
    length: int
    part: str
    field: str
    value: str = ""
    first_position: int | None = None
    cardinality: int | None = None

    @property
    def stop(self) -> int:
        """The offset after the last byte."""
        return self.start + self.length

    @property
    def is_wrong(self) -> bool:
        """Whether a stored length or checksum is not that of the bytes."""
        return self.field in ("crc", "length") and ", but " in self.value


def layout(data: bytes) -> tuple[ByteRange, ...]:
    """Lay out a Puffin or Delta `.bin` file. Raises FormatError for any other file."""
    return delta_layout(data) if data[:1] == bytes((_DELTA_VERSION,)) else puffin_layout(data)


def puffin_layout(data: bytes) -> tuple[ByteRange, ...]:
    """Lay out a Puffin file. A blob that is not a deletion vector is one range.

    Raises FormatError as `read_puffin` does, for a footer of more than 16 MB, blobs that overlap, and a vector whose
    parts do not fit its blob; UnsupportedError for more than `MOST_RANGES`.
    """
    metadata = read_puffin(data, largest_footer=_LARGEST_FOOTER)
    view = memoryview(data)
    footer = len(data) - footer_size(data, len(data))
    out = [_magic(0, "file", PUFFIN_MAGIC)]
    blobs = sorted(enumerate(metadata.blobs), key=lambda b: (b[1].offset, b[1].length))
    for number, blob in blobs:
        part, at = f"blob {number}", out[-1].stop
        if blob.length and blob.offset < at:
            raise _overlap(part, blob.offset, at)
        out += _gap(at, blob.offset)
        _take(out, _blob(view, blob, part))
    out += _gap(out[-1].stop, footer)
    size, flags = struct.unpack_from("<iI", data, len(data) - FOOTER_TAIL_BYTES)
    payload = footer + len(PUFFIN_MAGIC)
    out += [
        _magic(footer, "footer", PUFFIN_MAGIC),
        ByteRange(payload, size, "footer", "payload", f"{len(metadata.blobs)} blobs"),
        ByteRange(payload + size, 4, "footer", "payload size", str(size)),
        ByteRange(payload + size + 4, 4, "footer", "flags", f"{flags:#010x}"),
        _magic(payload + size + 8, "footer", PUFFIN_MAGIC),
    ]
    return _covering(out, len(data))


def delta_layout(data: bytes) -> tuple[ByteRange, ...]:
    """Lay out a Delta `.bin` file.

    Raises FormatError for another version, and for frames that do not fit; UnsupportedError as `puffin_layout`.
    """
    if data[:1] != bytes((_DELTA_VERSION,)):
        raise FormatError(
            "not a Delta deletion vector file",
            kind="delta-version",
            field="version",
            found=data[:1].hex(),
            expected="01",
        )
    view = memoryview(data)
    out = [ByteRange(0, 1, "file", "version", str(_DELTA_VERSION))]
    number = 0
    while out[-1].stop < len(data):
        at = out[-1].stop
        if at + 4 > len(data) or at + 8 + (size := int.from_bytes(data[at : at + 4])) > len(data):
            raise FormatError(
                "frame reaches past the end of the file",
                kind="delta-frame",
                field=f"blob {number}, byte {at:,}: length",
                found=bytes(data[at : at + 4]).hex(),
                expected=f"at most {max(len(data) - at - 8, 0)} bytes",
            )
        _take(out, _framed(view, at, size + 8, f"blob {number}"))
        number += 1
    return _covering(out, len(data))


def blob_layout(blob: bytes) -> tuple[ByteRange, ...]:
    """Lay out one `deletion-vector-v1` blob, with offsets from its beginning. Raises as `puffin_layout`."""
    out: list[ByteRange] = []
    _take(out, _framed(memoryview(blob), 0, len(blob), "blob 0"))
    return _covering(out, len(blob))


def _take(out: list[ByteRange], more: Iterator[ByteRange]) -> None:
    """Append ranges as they are found, so that the error for too many names where they are."""
    for found in more:
        out.append(found)
        if len(out) > MOST_RANGES:
            raise UnsupportedError(
                "too many parts to lay out",
                kind="size",
                field=f"{found.part}, byte {found.start:,}: {found.field}",
                found=f"more than {MOST_RANGES:,}",
            )


def _blob(view: memoryview, blob: BlobMetadata, part: str) -> Iterator[ByteRange]:
    if blob.type == DELETION_VECTOR_V1 and blob.compression_codec is None:
        yield from _framed(view, blob.offset, blob.length, part)
    elif blob.length:
        codec = f", {blob.compression_codec}" if blob.compression_codec else ""
        yield ByteRange(blob.offset, blob.length, part, "data", f"{blob.type}{codec}")


def _framed(view: memoryview, start: int, length: int, part: str) -> Iterator[ByteRange]:
    """Lay out length, magic, vector and CRC-32."""
    if length < 16:
        raise FormatError(
            "deletion vector too short",
            kind="deletion-vector-length",
            field=f"{part}, byte {start:,}: length",
            found=length,
            expected=">= 16 bytes",
        )
    stop = start + length
    said = int.from_bytes(view[start : start + 4])
    verdict = "" if said == length - 8 else f", but there are {length - 8}"
    yield ByteRange(start, 4, part, "length", f"{said}{verdict}")
    magic = bytes(view[start + 4 : start + 8])
    yield ByteRange(start + 4, 4, part, "magic", magic.hex(" "))
    if magic == VECTOR_MAGIC:
        yield from _vector(view[: stop - 4], start + 8, part)
    elif magic in (NATIVE_MAGIC, NATIVE_MAGIC[::-1]):
        yield from _native(view[: stop - 4], start + 8, part, "<" if magic == NATIVE_MAGIC else ">")
    else:
        raise FormatError(
            "not a deletion vector",
            kind="deletion-vector-magic",
            field=f"{part}, byte {start + 4:,}: magic",
            found=magic.hex(),
            expected=VECTOR_MAGIC.hex(),
        )
    stored, computed = int.from_bytes(view[stop - 4 : stop]), zlib.crc32(view[start + 4 : stop - 4])
    verdict = "" if stored == computed else f", but the bytes give {computed:#010x}"
    yield ByteRange(stop - 4, 4, part, "crc", f"{stored:#010x}{verdict}")


def _vector(view: memoryview, start: int, part: str) -> Iterator[ByteRange]:
    """Lay out the count of bitmaps, then key and bitmap of each."""
    count = _number("<q", view, start, part, "bitmap count")
    yield ByteRange(start, 8, part, "bitmap count", str(count))
    at = start + 8
    for _ in range(count):
        key = _number("<i", view, at, part, "key")
        if not 0 <= key <= MAX_KEY:
            where = f"{part}, byte {at:,}: key"
            raise FormatError("bad bitmap key", kind="deletion-vector-keys", field=where, found=key)
        yield ByteRange(at, 4, part, "key", str(key))
        yield from (found := _bitmap(view, at + 4, key, part))
        at = found[-1].stop
    yield from _rest(at, len(view), part)


def _native(view: memoryview, start: int, part: str, order: str) -> Iterator[ByteRange]:
    """Lay out Delta's older form: count (i32), then length and bitmap of each; the key is the bitmap's ordinal."""
    count = _number(f"{order}i", view, start, part, "bitmap count")
    yield ByteRange(start, 4, part, "bitmap count", str(count))
    at = start + 4
    for key in range(count):
        size = _number(f"{order}i", view, at, part, "bitmap length")
        yield ByteRange(at, 4, part, "bitmap length", str(size))
        yield from (found := _bitmap(view, at + 4, key, part))
        at = found[-1].stop
    yield from _rest(at, len(view), part)


def _bitmap(view: memoryview, start: int, key: int, part: str) -> tuple[ByteRange, ...]:
    """Lay out cookie, container count or run flags, descriptors, offsets and containers."""
    try:
        held = containers(view, start)
    except FormatError as e:
        where = f"{part}, bitmap at byte {start:,}: {e.field}"
        raise FormatError(e.message, kind=e.kind, field=where, found=e.found, expected=e.expected) from e
    cookie = _number("<I", view, start, part, "cookie")
    has_runs = cookie & 0xFFFF == RUN_COOKIE
    flags = (len(held) + 7) // 8 if has_runs else 4
    fields = [("cookie", 4, f"{cookie & 0xFFFF}" + (f", {len(held)} containers" if has_runs else ""))]
    if has_runs:
        fields.append(("run flags", flags, f"{sum(c.kind == 'run' for c in held)} runs"))
    else:
        fields.append(("container count", flags, str(len(held))))
    fields.append(("keys and cardinalities", 4 * len(held), _descriptors(held)))
    out: list[ByteRange] = []
    at = start
    for field, length, value in fields:
        if length:
            out.append(ByteRange(at, length, part, field, value))
        at += length
    first = held[0].offset if held else at
    if first > at:
        out.append(ByteRange(at, first - at, part, "offsets", f"{len(held)} containers"))
    for c in held:
        first = key << 32 | c.key << 16
        out.append(ByteRange(c.offset, c.length, part, f"{c.kind} container", str(c.cardinality), first, c.cardinality))
    return tuple(out)


def _descriptors(held: Sequence[Container]) -> str:
    some = ", ".join(f"{c.key}: {c.cardinality}" for c in held[:4])
    return some + (f", ... ({len(held)} containers)" if len(held) > 4 else "")


def _number(form: str, view: memoryview, at: int, part: str, field: str) -> int:
    try:
        value: int = struct.unpack_from(form, view, at)[0]
    except struct.error as e:
        raise FormatError(
            "truncated deletion vector",
            kind="deletion-vector-length",
            field=f"{part}, byte {at:,}: {field}",
            found=f"{max(len(view) - at, 0)} bytes",
            expected=f"{struct.calcsize(form)} bytes",
        ) from e
    return value


def _magic(start: int, part: str, magic: bytes) -> ByteRange:
    return ByteRange(start, 4, part, "magic", magic.decode())


def _gap(start: int, stop: int) -> list[ByteRange]:
    return list(_rest(start, stop, "file"))


def _rest(start: int, stop: int, part: str) -> Iterator[ByteRange]:
    if start < stop:
        yield ByteRange(start, stop - start, part, "unused")


def _covering(ranges: Sequence[ByteRange], size: int) -> tuple[ByteRange, ...]:
    """Return the ranges. Raises FormatError if two overlap, as blobs of a hostile footer may."""
    ranges = [r for r in ranges if r.length]
    at = 0
    for found in ranges:
        if found.start != at:
            raise _overlap(f"{found.part}: {found.field}", found.start, at)
        at = found.stop
    if at != size:
        raise FormatError("parts do not fill the file", kind="byte-layout", found=at, expected=size)
    return tuple(ranges)


def _overlap(field: str, found: int, expected: int) -> FormatError:
    return FormatError("parts of the file overlap", kind="byte-layout", field=field, found=found, expected=expected)
