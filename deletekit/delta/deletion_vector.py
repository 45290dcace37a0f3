"""Read Delta's deletion vectors: the descriptor in the log, and the frame that holds the positions.

A frame of a Delta file has exactly the bytes of Iceberg's `deletion-vector-v1` blob:

    size u32 BE | magic D1 D3 39 64 | portable 64-bit Roaring bitmap | CRC-32 u32 BE

An inline vector is the part between size and CRC, in Z85: four bytes as five printable characters. The older "native"
serialisation (magic D0 D3 39 64) is read as Delta's own readers do, and must be encoded again for Iceberg.
Spec: Delta protocol, "Deletion Vectors", "Deletion Vector Format"; Puffin spec, "deletion-vector-v1 blob type";
https://rfc.zeromq.org/spec/32/ (Z85).
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from uuid import UUID

from pyroaring import BitMap

from deletekit.delta.paths import storage_path
from deletekit.errors import DeletekitError, FormatError, UnsupportedError
from deletekit.formats.deletion_vector import MAGIC, PositionBitmap, decode_vector, encode_blob, vector_parts
from deletekit.formats.roaring import serialized_size
from deletekit.table.file_io import FileIO

FRAME_BYTES = 8
"""What a frame has beside its `sizeInBytes`: length and CRC."""
_MIN_BYTES, _MAX_BYTES = len(MAGIC), 2**31 - 1 - FRAME_BYTES
_UUID_CHARACTERS, _UUID_BYTES = 20, 16
NATIVE_MAGIC = bytes((0xD0, 0xD3, 0x39, 0x64))
_ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_VALUES = {character: value for value, character in enumerate(_ALPHABET)}


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionVectorDescriptor:
    """The `deletionVector` of an add or remove action.

    Attributes
    ----------
    storage_type: `u`, a file named by a uuid below the table's root; `p`, an absolute path; `i`, inline.
    path_or_inline_dv: the encoded uuid, the path, or the inline vector, as the log has it.
    offset: where the frame begins in the file; None counts as 0. Inline vectors have none.
    size_in_bytes: the length of magic and bitmap, without length and CRC.
    cardinality: how many rows are deleted.
    """

    storage_type: str
    path_or_inline_dv: str
    offset: int | None = None
    size_in_bytes: int
    cardinality: int

    @property
    def unique_id(self) -> str:
        """Return the id that tells the vectors of one data file apart (`uniqueId` of the protocol)."""
        at = "" if self.offset is None else f"@{self.offset}"
        return f"{self.storage_type}{self.path_or_inline_dv}{at}"

    def file_path(self, root: str) -> str | None:
        """Return the storage path of the vector's file, or None if it is inline. Raise FormatError."""
        if self.storage_type == "i":
            return None
        if self.storage_type == "p":
            return storage_path(self.path_or_inline_dv, root)
        prefix, encoded = self.path_or_inline_dv[:-_UUID_CHARACTERS], self.path_or_inline_dv[-_UUID_CHARACTERS:]
        name = f"deletion_vector_{UUID(bytes=_uuid_bytes(encoded))}.bin"
        return "/".join(filter(None, (root.rstrip("/"), prefix, name)))

    def inline_body(self) -> bytes:
        """Return magic and bitmap of an inline vector. Raise FormatError."""
        data = _decoded(self.path_or_inline_dv)
        if not self.size_in_bytes <= len(data) < self.size_in_bytes + 4:
            raise _bad("inline deletion vector has another size", "sizeInBytes", len(data), self.size_in_bytes)
        return data[: self.size_in_bytes]

    def to_json(self) -> dict[str, Any]:
        """Return the descriptor as the log stores it."""
        raw: dict[str, Any] = {"storageType": self.storage_type, "pathOrInlineDv": self.path_or_inline_dv}
        if self.offset is not None:
            raw["offset"] = self.offset
        return {**raw, "sizeInBytes": self.size_in_bytes, "cardinality": self.cardinality}

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> DeletionVectorDescriptor:
        """Parse and check a descriptor. Raise FormatError, or UnsupportedError for an unknown storage type."""
        storage = raw.get("storageType")
        if storage not in ("u", "p", "i"):
            message, kind = "deletion vector storage type is not supported", "delta-storage-type"
            raise UnsupportedError(message, kind=kind, field="storageType", found=storage, expected="u, p or i")
        path, offset = raw.get("pathOrInlineDv"), raw.get("offset")
        size: Any = raw.get("sizeInBytes")
        cardinality: Any = raw.get("cardinality")
        if not isinstance(path, str) or not path:
            raise _bad("bad deletion vector descriptor", "pathOrInlineDv", path, "text")
        if storage == "i":
            _decoded(path)
        if storage == "u" and (
            len(_uuid_bytes(path[-_UUID_CHARACTERS:])) != _UUID_BYTES or ".." in path[:-_UUID_CHARACTERS]
        ):
            raise _bad("bad deletion vector descriptor", "pathOrInlineDv", path, "a prefix and 20 characters of Z85")
        if offset is not None and (storage == "i" or not _is_between(offset, 0, 2**31 - 1)):
            raise _bad("bad deletion vector descriptor", "offset", offset, "0 .. 2^31-1, and none for an inline vector")
        if not _is_between(size, _MIN_BYTES, _MAX_BYTES):
            raise _bad("bad deletion vector descriptor", "sizeInBytes", size, f"{_MIN_BYTES} .. {_MAX_BYTES}")
        if not _is_between(cardinality, 0, 2**63 - 1):
            raise _bad("bad deletion vector descriptor", "cardinality", cardinality, ">= 0")
        return cls(
            storage_type=storage, path_or_inline_dv=path, offset=offset, size_in_bytes=size, cardinality=cardinality
        )


def vector_offset(io: FileIO, path: str, descriptor: DeletionVectorDescriptor) -> int:
    """Return where the frame begins in a file.

    A missing offset means 0, or 1 (after the version byte) to some writers.
    """
    if descriptor.offset is not None:
        return descriptor.offset
    begins_there = io.read(path, 0, 4) == descriptor.size_in_bytes.to_bytes(4, "big")
    return 0 if begins_there or io.read(path, 0, 1) != b"\x01" else 1


def read_frame(io: FileIO, root: str, descriptor: DeletionVectorDescriptor) -> tuple[str | None, int, bytes]:
    """Return a vector's file, the frame's offset in it, and the frame.

    For an inline vector, make the frame; it has no file.

    Raises NotFoundError for a file that is gone, FormatError for one that is too short or a damaged descriptor.
    """
    path = descriptor.file_path(root)
    if path is None:
        return None, 0, frame_of_body(descriptor.inline_body())
    offset, length, size = vector_offset(io, path, descriptor), descriptor.size_in_bytes + FRAME_BYTES, io.size(path)
    if offset + length > size:  # before a buffer as large as a damaged log says is asked for
        message, expected = "deletion vector reaches past the end of its file", f"{offset + length} bytes"
        raise _bad(message, "sizeInBytes", f"{size} bytes", expected, kind="truncated").in_file(path)
    return path, offset, io.read(path, offset, length)


def frame_of_body(body: bytes) -> bytes:
    """Put length and CRC around magic and bitmap."""
    return struct.pack(">I", len(body)) + body + struct.pack(">I", zlib.crc32(body))


def blob_of_frame(frame: bytes, descriptor: DeletionVectorDescriptor, num_records: int | None) -> bytes:
    """Return the Iceberg blob of a frame, after checking the frame as `positions_of_frame` does.

    The bytes are the same, and a large vector is never held decoded. Only a vector in the native serialisation is
    encoded again.
    """
    if frame[4:8] != MAGIC:
        return encode_blob(positions_of_frame(frame, descriptor, num_records))
    parts = vector_parts(_checked_body(frame, descriptor)[4:])
    _check_counts((PositionBitmap.from_bitmaps({key: bitmap}) for key, bitmap in parts), descriptor, num_records)
    return frame


def positions_of_frame(frame: bytes, descriptor: DeletionVectorDescriptor, num_records: int | None) -> PositionBitmap:
    """Return the positions of a frame, after checking it.

    Parameters
    ----------
    frame: `size_in_bytes + 8` bytes.
    num_records: rows of the data file, or None if they are not known. A position at or after that count is an error.

    Raises FormatError for a wrong length, CRC, magic, bitmap, cardinality or position.
    """
    positions = decode_body(_checked_body(frame, descriptor))
    _check_counts([positions], descriptor, num_records)
    return positions


def _check_counts(
    parts: Iterable[PositionBitmap], descriptor: DeletionVectorDescriptor, num_records: int | None
) -> None:
    count = inside = 0
    for part in parts:
        count += len(part)
        inside += len(part) if num_records is None else part.count_in(0, num_records)
    if count != descriptor.cardinality:
        raise _bad("deletion vector has another cardinality", "cardinality", count, descriptor.cardinality)
    if inside != count:
        raise _bad("deletion vector reaches behind the data file", "numRecords", "a position", f"< {num_records}")


def decode_body(body: bytes | memoryview) -> PositionBitmap:
    """Return the positions of magic and bitmap, in either serialisation. Raise FormatError."""
    view = memoryview(body)
    magic = bytes(view[:4])
    if magic == MAGIC:
        return decode_vector(view[4:])
    if magic == NATIVE_MAGIC:
        return _decode_native(view[4:], "<")
    if magic == NATIVE_MAGIC[::-1]:
        return _decode_native(view[4:], ">")  # the protocol's own example of an inline vector is in this order
    raise _bad("not a deletion vector", "magic", magic.hex(), f"{MAGIC.hex()} or {NATIVE_MAGIC.hex()}")


def decode_z85(text: str) -> bytes:
    """Return the bytes of a text in Z85, including zeros that pad it.

    One to three bytes at the end have two forms. Delta pads them with zeros, and the reader must know the length. The
    `z85` crate, which delta-kernel-rs uses, begins the last group with a `#` for each missing byte; no group of four
    bytes begins so. Python's `base64` module has other alphabets.

    Raise FormatError for a length that is not a multiple of 5, and for characters or groups that are not Z85.
    """
    if len(text) % 5:
        raise FormatError("not Z85", kind="z85", found=f"{len(text)} characters", expected="a multiple of 5")
    try:
        values = [_VALUES[character] for character in text]
    except KeyError as e:
        raise FormatError("not Z85", kind="z85", found=repr(e.args[0]), expected="a character of its alphabet") from e
    marks = len(text[-5:]) - len(text[-5:].lstrip("#"))
    missing = marks if marks < 4 else 0  # not if all would be missing
    values[len(values) - 5 : len(values) - 5 + missing] = [0] * missing
    numbers = [(((a * 85 + b) * 85 + c) * 85 + d) * 85 + e for a, b, c, d, e in zip(*[iter(values)] * 5, strict=True)]
    bits = [32] * (len(numbers) - 1) + [32 - 8 * missing]
    for i, number in enumerate(numbers):
        if number >> bits[i]:
            raise FormatError("not Z85", kind="z85", found=text[5 * i : 5 * i + 5], expected=f"at most {bits[i]} bits")
    data = struct.pack(f">{len(numbers)}I", *numbers)
    return data[:-4] + data[missing - 4 :] if missing else data


def encode_z85(data: bytes) -> str:
    """Return the text of bytes, padded with zeros to a multiple of 4, as Delta pads inline vectors."""
    out = []
    for (number,) in struct.iter_unpack(">I", data + bytes(-len(data) % 4)):
        out += [_ALPHABET[number // 85**power % 85] for power in (4, 3, 2, 1, 0)]
    return "".join(out)


def _checked_body(frame: bytes, descriptor: DeletionVectorDescriptor) -> memoryview:
    if len(frame) != descriptor.size_in_bytes + FRAME_BYTES:
        expected = descriptor.size_in_bytes + FRAME_BYTES
        raise _bad("deletion vector is cut off", "sizeInBytes", f"{len(frame)} bytes", f"{expected} bytes")
    (length,) = struct.unpack_from(">I", frame)
    if length != descriptor.size_in_bytes:
        raise _bad("deletion vector has another size", "sizeInBytes", length, descriptor.size_in_bytes)
    body = memoryview(frame)[4:-4]
    (stored,) = struct.unpack(">I", frame[-4:])
    if stored != zlib.crc32(body):
        found, message = f"{zlib.crc32(body):#010x}", "deletion vector checksum does not match its bytes"
        raise _bad(message, "crc", found, f"{stored:#010x}", kind="deletion-vector-crc")
    return body


def _decode_native(view: memoryview, order: str) -> PositionBitmap:
    """Decode Spark's older form: a count, then for each high half the length of a bitmap, and the bitmap."""
    by_key: dict[int, BitMap] = {}
    try:
        (count,) = struct.unpack_from(f"{order}I", view)
        at = 4
        for key in range(count):
            (size,) = struct.unpack_from(f"{order}I", view, at)
            if serialized_size(view[at + 4 : at + 4 + size]) != size:
                raise _bad("bitmap has another length", "length", size, "the bitmap's own")
            by_key[key] = BitMap.deserialize(bytes(view[at + 4 : at + 4 + size]))
            at += 4 + size
    except (struct.error, ValueError) as e:
        raise FormatError("bad deletion vector in native form", kind="deletion-vector-native", found=str(e)) from e
    if at != len(view):
        raise _bad("bytes behind the last bitmap", "sizeInBytes", len(view) + 4, at + 4)
    return PositionBitmap.from_bitmaps(by_key)


def _is_between(value: Any, low: int, high: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def _decoded(text: str) -> bytes:
    try:
        return decode_z85(text)
    except FormatError as e:
        raise _bad(f"bad deletion vector descriptor ({e.message})", "pathOrInlineDv", e.found, e.expected) from e


@lru_cache(maxsize=1 << 14)
def _uuid_bytes(encoded: str) -> bytes:
    """Decode the uuid of a vector's file. Many vectors share a file, and each name is needed more than once."""
    return _decoded(encoded)


def _bad(message: str, field: str, found: Any, expected: Any, *, kind: str = "delta-deletion-vector") -> DeletekitError:
    return FormatError(message, kind=kind, field=field, found=found, expected=expected)
