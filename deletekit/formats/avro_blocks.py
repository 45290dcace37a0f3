"""Split an Avro object container file into blocks, check them and decompress them, before a decoder sees them.

A block says how many records and bytes it has. Both numbers are believed only as far as its bytes go.
Spec: https://avro.apache.org/docs/1.12.0/specification/#object-container-files
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

from deletekit.errors import FormatError, UnsupportedError
from deletekit.formats.compression import decompress

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
    """The records of a block, decompressed but not decoded."""

    count: int
    data: bytes


def check_codec(name: str) -> None:
    """Raise UnsupportedError for an Avro codec that Iceberg does not use, FormatError for an unknown name."""
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
    """Yield the blocks from `start` to the end of a file.

    Parameters
    ----------
    record_bytes: the fewest bytes that a record takes.
    max_records: how many records the whole file may have; None for no limit.

    Raises FormatError for damage and for numbers that the bytes contradict, UnsupportedError for records of no bytes.
    """
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
    """Return a zigzag number and the offset behind it."""
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
