"""The blocks of an Avro object container file: split, checked and decompressed before a decoder sees them.

Law: bytes -> bytes. A block says how many records and bytes it has; both are believed only as far as its bytes go.
Spec: https://avro.apache.org/docs/1.12.0/specification/#object-container-files
"""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

from deletekit.errors import FormatError, UnsupportedError
from deletekit.formats.compression import decompress

__all__ = ["SYNC_BYTES", "Block", "BlockStream", "check_codec", "plain_head", "read_blocks"]

SYNC_BYTES = 16
_CODECS = {"null": "none", "deflate": "deflate", "zstandard": "zstd", "snappy": "snappy"}
_OTHER_CODECS = ("bzip2", "xz")
_SNAPPY_CRC_BYTES = 4
_LONG_MAX_BYTES = 10

# A block is a few kilobytes, and what deflate can do at its best bounds what a whole file may grow to.
_MAX_BLOCK_BYTES = 1 << 27
_MAX_RATIO = 1100
_MAX_FREE_BYTES = 1 << 24


@dataclass(frozen=True, slots=True)
class Block:
    """A block's records, decompressed."""

    count: int
    data: bytes


def check_codec(name: str) -> None:
    """Raise UnsupportedError for a codec of the Avro specification that Iceberg has not, FormatError for no codec."""
    if name in _CODECS:
        return
    if name in _OTHER_CODECS:
        raise UnsupportedError("Avro codec is not supported", kind="avro-codec", field="avro.codec", found=name)
    raise FormatError(
        "unknown Avro codec", kind="avro-codec", field="avro.codec", found=name, expected=", ".join(_CODECS)
    )


def read_blocks(
    data: bytes, start: int, sync: bytes, codec: str, record_bytes: int, max_records: int | None = None
) -> Iterator[Block]:
    """The blocks from `start` to the end of a file; a record takes at least `record_bytes`. Raises FormatError."""
    at, grown, records = start, 0, 0
    limit = _MAX_FREE_BYTES + _MAX_RATIO * len(data)
    while at < len(data):
        count, at = _read_long(data, at, "block count")
        size, at = _read_long(data, at, "block size")
        if count < 0 or not 0 <= size <= len(data) - at - SYNC_BYTES:
            raise FormatError(
                "Avro block does not fit the file",
                kind="avro",
                field="block size",
                found=f"{count} records in {size} bytes",
                expected=f"0 .. {len(data) - at - SYNC_BYTES} bytes",
            )
        if data[at + size : at + size + SYNC_BYTES] != sync:
            raise FormatError(
                "Avro block does not end with the sync marker",
                kind="avro",
                field="sync",
                found=data[at + size : at + size + SYNC_BYTES].hex(),
                expected=sync.hex(),
            )
        raw = _decompress(codec, data[at : at + size], min(_MAX_BLOCK_BYTES, limit - grown))
        _check_count(count, len(raw), record_bytes)
        records += count
        if max_records is not None and records > max_records:
            raise FormatError(
                "more Avro records than a file of this size can mean",
                kind="avro",
                field="block count",
                found=f"{records} records in {len(data)} bytes",
                expected=f"<= {max_records} records",
            )
        yield Block(count, raw)
        at += size + SYNC_BYTES
        grown += len(raw)


def _decompress(codec: str, data: bytes, limit: int) -> bytes:
    if codec == "snappy":
        stored, data = data[-_SNAPPY_CRC_BYTES:], data[:-_SNAPPY_CRC_BYTES]
        raw = decompress("snappy", data, limit=limit, kind="avro-codec", field="block")
        if struct.pack(">I", zlib.crc32(raw)) != stored:
            raise FormatError(
                "Avro block's checksum does not match its bytes",
                kind="avro-codec",
                field="block",
                found=f"{zlib.crc32(raw):#010x}",
                expected=f"0x{stored.hex()}",
            )
        return raw
    return decompress(_CODECS[codec], data, limit=limit, kind="avro-codec", field="block")


def _check_count(count: int, size: int, record_bytes: int) -> None:
    if count and not record_bytes:
        raise UnsupportedError("Avro records without bytes", kind="avro-empty", field="block count", found=count)
    if count * record_bytes > size:
        raise FormatError(
            "Avro block claims more records than it has bytes for",
            kind="avro",
            field="block count",
            found=f"{count} records in {size} bytes",
            expected=f">= {record_bytes} bytes each",
        )


def _read_long(data: bytes, start: int, field: str) -> tuple[int, int]:
    """(value, offset behind it) of a zigzag number."""
    value = 0
    for i, byte in enumerate(data[start : start + _LONG_MAX_BYTES]):
        value |= (byte & 0x7F) << (7 * i)
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), start + i + 1
    raise FormatError(
        "damaged Avro file",
        kind="avro",
        field=field,
        found=data[start : start + _LONG_MAX_BYTES].hex(),
        expected="a long",
    )


class BlockStream:
    """An uncompressed container, made while it is read: all of a file object that fastavro's reader needs."""

    def __init__(self, header: bytes, sync: bytes, blocks: Iterator[Block]) -> None:
        self._chunks = self._pieces(header, sync, blocks)
        self._chunk = io.BytesIO()
        self._position = 0

    @staticmethod
    def _pieces(header: bytes, sync: bytes, blocks: Iterator[Block]) -> Iterator[bytes]:
        yield header
        for block in blocks:
            if block.count:
                yield plain_head(b"", block.count, len(block.data))
                yield block.data
                yield sync

    def read(self, size: int) -> bytes:
        """`size` bytes, or fewer at the end."""
        out = self._chunk.read(size)
        while len(out) < size:
            chunk = next(self._chunks, None)
            if chunk is None:
                break
            self._chunk = io.BytesIO(chunk)
            out += self._chunk.read(size - len(out))
        self._position += len(out)
        return out

    def tell(self) -> int:
        """Bytes read so far."""
        return self._position


def plain_head(header: bytes, count: int, size: int) -> bytes:
    """What stands before an uncompressed block of `count` records in `size` bytes, behind `header`."""
    return header + _long(count) + _long(size)


def _long(value: int) -> bytes:
    value <<= 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
