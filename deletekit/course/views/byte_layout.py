"""What each byte of a file of deletion vectors is: a Puffin file, or a Delta Lake `.bin` file.

The ranges are in order and cover each byte of the file exactly once. Nothing is opened and no positions are decoded.
The work is bounded by the size of the file, whatever its numbers say.

Delta's file is a version byte and frames of size (i32 BE), vector and CRC-32 (u32 BE); the vector is Iceberg's, or in
Delta's older "native" form, which has another magic (in either byte order) and a length before each bitmap.
Spec: https://iceberg.apache.org/puffin-spec/ and Delta PROTOCOL.md, "Deletion Vector Format".
"""

import struct
import zlib
from dataclasses import dataclass
from typing import Any

from deletekit.delta.deletion_vector import NATIVE_MAGIC
from deletekit.errors import FormatError, UnsupportedError
from deletekit.formats.deletion_vector import MAGIC as VECTOR_MAGIC
from deletekit.formats.deletion_vector import MAX_KEY
from deletekit.formats.puffin import DELETION_VECTOR_V1, FOOTER_TAIL_BYTES, footer_size, read_puffin
from deletekit.formats.puffin import MAGIC as PUFFIN_MAGIC
from deletekit.formats.roaring import RUN_COOKIE, containers

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
    value: the number or the text that they store, in no language.
    computed: of a length or a checksum that is wrong, what it should be.
    counted: how many blobs, containers or run containers they are about.
    first_position, cardinality: of a container: the lowest position it could hold, and how many it holds.
    """

    start: int
    length: int
    part: str
    field: str
    value: str = ""
    computed: str = ""
    counted: int | None = None
    first_position: int | None = None
    cardinality: int | None = None

    @property
    def stop(self) -> int:
        """The offset after the last byte."""
        return self.start + self.length

    @property
    def is_wrong(self) -> bool:
        """Whether a stored length or checksum is not that of the bytes."""
        return bool(self.computed)


def layout(data: bytes) -> tuple[ByteRange, ...]:
    """Lay out a Puffin or Delta `.bin` file, or the blob of one vector. Raises FormatError for anything else."""
    if data[4:8] == VECTOR_MAGIC:
        return blob_layout(data)
    return delta_layout(data) if data[:1] == bytes((_DELTA_VERSION,)) else puffin_layout(data)


def puffin_layout(data: bytes) -> tuple[ByteRange, ...]:
    """Lay out a Puffin file. A blob that is not a deletion vector is one range.

    Raises FormatError as `read_puffin` does, for a footer of more than 16 MB, blobs that overlap, and a vector whose
    parts do not fit its blob; UnsupportedError for more than `MOST_RANGES`.
    """
    metadata = read_puffin(data, largest_footer=_LARGEST_FOOTER)
    out = _Layout(data)
    out.take(4, "magic", PUFFIN_MAGIC.decode())
    for number, blob in sorted(enumerate(metadata.blobs), key=lambda b: (b[1].offset, b[1].length)):
        if blob.length or blob.offset > out.at:
            out.unused_to(blob.offset, f"blob {number}")
        out.part = f"blob {number}"
        if blob.type == DELETION_VECTOR_V1 and blob.compression_codec is None:
            out.framed(blob.offset, blob.length)
        else:
            codec = f", {blob.compression_codec}" if blob.compression_codec else ""
            out.take(blob.length, "data", f"{blob.type}{codec}")
        out.part = "file"
    out.unused_to(len(data) - footer_size(data, len(data)), "footer: magic")
    out.part = "footer"
    size, flags = struct.unpack_from("<iI", data, len(data) - FOOTER_TAIL_BYTES)
    out.take(4, "magic", PUFFIN_MAGIC.decode())
    out.take(size, "payload", counted=len(metadata.blobs))
    out.take(4, "payload size", str(size))
    out.take(4, "flags", f"{flags:#010x}")
    out.take(4, "magic", PUFFIN_MAGIC.decode())
    return out.whole()


def delta_layout(data: bytes) -> tuple[ByteRange, ...]:
    """Lay out a Delta `.bin` file.

    Raises FormatError for another version, and for frames that do not fit; UnsupportedError as `puffin_layout`.
    """
    out = _Layout(data)
    if data[:1] != bytes((_DELTA_VERSION,)):
        raise FormatError("not a Delta deletion vector file", "delta-version", "version", data[:1].hex(), "01")
    out.take(1, "version", str(_DELTA_VERSION))
    number = 0
    while out.at < len(data):
        out.part = f"blob {number}"
        length = data[out.at : out.at + 4]
        left = len(data) - out.at - 8
        if len(length) < 4 or int.from_bytes(length) > left:
            expected = f"at most {max(left, 0)} bytes"
            raise out.wrong("frame reaches past the end of the file", "delta-frame", "length", length.hex(), expected)
        out.framed(out.at, int.from_bytes(length) + 8)
        number += 1
    return out.whole()


def blob_layout(blob: bytes) -> tuple[ByteRange, ...]:
    """Lay out one `deletion-vector-v1` blob, with offsets from its beginning. Raises as `puffin_layout`."""
    out = _Layout(blob)
    out.part = "blob 0"
    out.framed(0, len(blob))
    return out.whole()


class _Layout:
    """The ranges so far. Each method takes the next bytes, so there is no gap; `part` is what they belong to."""

    def __init__(self, data: bytes) -> None:
        self._view = memoryview(data)
        self._ranges: list[ByteRange] = []
        self.at = 0
        self.part = "file"

    def whole(self) -> tuple[ByteRange, ...]:
        """Return the ranges of the whole file."""
        if self.at != len(self._view):
            raise FormatError("parts do not fill the file", kind="byte-layout", found=self.at, expected=len(self._view))
        return tuple(self._ranges)

    def take(self, length: int, field: str, value: str = "", **more: Any) -> None:
        """Take bytes with one meaning; `more` are the other attributes of their range."""
        if length:
            self._ranges.append(ByteRange(self.at, length, self.part, field, value, **more))
        if len(self._ranges) > MOST_RANGES:
            where = f"{self.part}, byte {self.at:,}: {field}"
            raise UnsupportedError("too many parts to lay out", "size", where, f"more than {MOST_RANGES:,}")
        self.at += length

    def unused_to(self, offset: int, following: str) -> None:
        """Take what nothing refers to before `following`. Raises FormatError if that begins in what was taken."""
        if offset < self.at:
            raise _overlap(following, offset, self.at)
        self.take(offset - self.at, "unused")

    def framed(self, start: int, length: int) -> None:
        """Take length, magic, vector and CRC-32. Delta's older vector has another magic, in either byte order."""
        if length < 16:
            raise self.wrong(
                "deletion vector too short", "deletion-vector-length", "length", length, ">= 16 bytes", start
            )
        crc = start + length - 4
        said = int.from_bytes(self._view[start : start + 4])
        self.take(4, "length", str(said), computed="" if said == length - 8 else str(length - 8))
        magic = bytes(self._view[self.at : self.at + 4])
        if magic not in (VECTOR_MAGIC, NATIVE_MAGIC, NATIVE_MAGIC[::-1]):
            raise self.wrong("not a deletion vector", "deletion-vector-magic", "magic", magic.hex(), VECTOR_MAGIC.hex())
        self.take(4, "magic", magic.hex(" "))
        if magic == VECTOR_MAGIC:
            self._vector(crc)
        else:
            self._native(crc, "<" if magic == NATIVE_MAGIC else ">")
        self.unused_to(crc, f"{self.part}: crc")
        stored, computed = int.from_bytes(self._view[crc : crc + 4]), zlib.crc32(self._view[start + 4 : crc])
        self.take(4, "crc", f"{stored:#010x}", computed="" if stored == computed else f"{computed:#010x}")

    def _vector(self, stop: int) -> None:
        """Take the count of bitmaps, then key and bitmap of each."""
        for _ in range(self._number("<q", "bitmap count", stop)):
            start = self.at
            key = self._number("<i", "key", stop)
            if not 0 <= key <= MAX_KEY:
                raise self.wrong("bad bitmap key", "deletion-vector-keys", "key", key, None, start)
            self._bitmap(key, stop)

    def _native(self, stop: int, order: str) -> None:
        """Take Delta's older form: count (i32), then length and bitmap of each; the key is the bitmap's ordinal."""
        for key in range(self._number(f"{order}i", "bitmap count", stop)):
            self._number(f"{order}i", "bitmap length", stop)
            self._bitmap(key, stop)

    def _number(self, form: str, field: str, stop: int) -> int:
        size, left = struct.calcsize(form), max(stop - self.at, 0)
        if left < size:
            kind = "deletion-vector-length"
            raise self.wrong("truncated deletion vector", kind, field, f"{left} bytes", f"{size} bytes")
        value: int = struct.unpack_from(form, self._view, self.at)[0]
        self.take(size, field, str(value))
        return value

    def _bitmap(self, key: int, stop: int) -> None:
        """Take cookie, container count or run flags, descriptors, offsets and containers."""
        try:
            held = containers(self._view[:stop], self.at)
        except FormatError as e:
            where = f"{self.part}, bitmap at byte {self.at:,}: {e.field}"
            raise FormatError(e.message, kind=e.kind, field=where, found=e.found, expected=e.expected) from e
        cookie = struct.unpack_from("<I", self._view, self.at)[0]
        if cookie & 0xFFFF == RUN_COOKIE:
            self.take(4, "cookie", str(RUN_COOKIE), counted=len(held))
            self.take((len(held) + 7) // 8, "run flags", counted=sum(c.kind == "run" for c in held))
        else:
            self.take(4, "cookie", f"{cookie & 0xFFFF}")
            self.take(4, "container count", str(len(held)))
        some = ", ".join([f"{c.key}: {c.cardinality} \u2212 1" for c in held[:4]] + ["…"] * (len(held) > 4))
        self.take(4 * len(held), "keys and cardinalities", some, counted=len(held) if len(held) > 4 else None)
        if held:
            self.take(max(held[0].offset - self.at, 0), "offsets", counted=len(held))
        for c in held:
            if c.offset != self.at:
                raise _overlap(f"{self.part}: {c.kind} container", c.offset, self.at)
            first = key << 32 | c.key << 16
            self.take(c.length, f"{c.kind} container", first_position=first, cardinality=c.cardinality)

    def wrong(
        self, message: str, kind: str, field: str, found: Any, expected: Any = None, at: int | None = None
    ) -> FormatError:
        """Return the error for a field that begins where the next bytes do, or at `at`."""
        where = f"{self.part}, byte {self.at if at is None else at:,}: {field}"
        return FormatError(message, kind=kind, field=where, found=found, expected=expected)


def _overlap(field: str, found: int, expected: int) -> FormatError:
    return FormatError("parts of the file overlap", kind="byte-layout", field=field, found=found, expected=expected)
