"""Ask a Parquet column chunk's Bloom filter whether a value may be in the chunk.

Spec: Parquet "Bloom Filter" (split blocks, XXH64); https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md
"""

import struct
from contextlib import suppress
from io import BytesIO
from typing import Any

import fastavro

from deletekit.errors import UnsupportedError

_MASK = (1 << 64) - 1
_P1, _P2, _P3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
_P4, _P5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
_SALT = (0x47B6137B, 0x44974D91, 0x8824AD5B, 0xA2B7289D, 0x705495C7, 0x2DF1424B, 0x9EFC4947, 0x5C6BFB31)
_BLOCK_BYTES = 32
# Thrift's bytes behind the number of bytes: the one algorithm, hash and compression that the spec has.
_ONLY_KIND = b"\x1c\x1c\x00\x00" * 3 + b"\x00"


def may_hold(stored: bytes, value: bytes) -> bool:
    """Tell whether a Bloom filter, its header included, may have a value: False is certain, True may be wrong.

    `value` is in Parquet's plain encoding, text without its length.
    Raises UnsupportedError for another algorithm, hash or compression, or a filter that is cut off.
    """
    source = BytesIO(stored[1:])
    with suppress(EOFError):
        size: Any = fastavro.schemaless_reader(source, "long", None)  # Avro and Thrift write numbers alike
        header, bits = source.read(len(_ONLY_KIND)), source.read(max(size, 0))
        if header == _ONLY_KIND and bits and len(bits) == size and size % _BLOCK_BYTES == 0:
            return _in_blocks(bits, xxh64(value))
    raise UnsupportedError("unknown kind of Bloom filter", kind="bloom-filter", found=stored[:20].hex())


def _in_blocks(bits: bytes, hashed: int) -> bool:
    block = (hashed >> 32) * (len(bits) // _BLOCK_BYTES) >> 32
    words = struct.unpack_from("<8I", bits, block * _BLOCK_BYTES)
    return all(word >> ((hashed * salt & 0xFFFFFFFF) >> 27) & 1 for word, salt in zip(words, _SALT, strict=True))


def xxh64(data: bytes) -> int:
    """Return the XXH64 of bytes, with seed 0."""
    at = 0
    if len(data) >= 32:
        lanes = [_P1 + _P2 & _MASK, _P2, 0, -_P1 & _MASK]
        for at in range(0, len(data) - 31, 32):
            lanes = [_round(a, n) for a, n in zip(lanes, struct.unpack_from("<4Q", data, at), strict=True)]
        at = len(data) & -32
        out = sum(_turned(a, n) for a, n in zip(lanes, (1, 7, 12, 18), strict=True)) & _MASK
        for lane in lanes:
            out = (out ^ _round(0, lane)) * _P1 + _P4 & _MASK
    else:
        out = _P5
    out = out + len(data) & _MASK
    while at + 8 <= len(data):
        out = _turned(out ^ _round(0, *struct.unpack_from("<Q", data, at)), 27) * _P1 + _P4 & _MASK
        at += 8
    if at + 4 <= len(data):
        (number,) = struct.unpack_from("<I", data, at)
        out = _turned(out ^ number * _P1 & _MASK, 23) * _P2 + _P3 & _MASK
        at += 4
    for byte in data[at:]:
        out = _turned(out ^ byte * _P5 & _MASK, 11) * _P1 & _MASK
    out = (out ^ out >> 33) * _P2 & _MASK
    out = (out ^ out >> 29) * _P3 & _MASK
    return out ^ out >> 32


def _round(lane: int, number: int) -> int:
    return _turned(lane + number * _P2 & _MASK, 31) * _P1 & _MASK


def _turned(number: int, bits: int) -> int:
    number &= _MASK
    return (number << bits | number >> 64 - bits) & _MASK
