"""Ask a Bloom filter of a Parquet column chunk for a value.

Spec: Parquet "Bloom Filter" (split blocks, XXH64); https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md
"""

import struct
from contextlib import suppress
from io import BytesIO
from typing import Any

import fastavro

from deletekit.errors import UnsupportedError

_MASK = (1 << 64) - 1
_P1, _P2, _P3, _P4, _P5 = (
    *(0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5),
)
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
            hashed = xxh64(value)
            words = struct.unpack_from("<8I", bits, ((hashed >> 32) * (size // _BLOCK_BYTES) >> 32) * _BLOCK_BYTES)
            return all(w >> ((hashed * salt & 0xFFFFFFFF) >> 27) & 1 for w, salt in zip(words, _SALT, strict=True))
    raise UnsupportedError("unknown kind of Bloom filter", kind="bloom-filter", found=stored[:20].hex())


def xxh64(data: bytes) -> int:
    """Return the XXH64 of bytes, with seed 0."""
    out, whole = _P5, len(data) & -32
    if whole:
        lanes = [_P1 + _P2, _P2, 0, -_P1]
        for numbers in struct.iter_unpack("<4Q", data[:whole]):
            lanes = [_round(lane, number) for lane, number in zip(lanes, numbers, strict=True)]
        out = sum(map(_turned, lanes, (1, 7, 12, 18)))
        for lane in lanes:
            out = (out ^ _round(0, lane)) * _P1 + _P4 & _MASK
    out = out + len(data) & _MASK
    rest, eights = data[whole:], len(data) - whole & -8
    for (number,) in struct.iter_unpack("<Q", rest[:eights]):
        out = _turned(out ^ _round(0, number), 27) * _P1 + _P4
    for (number,) in struct.iter_unpack("<I", rest[eights : len(rest) & -4]):
        out = _turned(out ^ number * _P1, 23) * _P2 + _P3
    for byte in rest[len(rest) & -4 :]:
        out = _turned(out ^ byte * _P5, 11) * _P1
    for shift, factor in ((33, _P2), (29, _P3), (32, 1)):
        out &= _MASK
        out = (out ^ out >> shift) * factor
    return out


def _round(lane: int, number: int) -> int:
    return _turned(lane + number * _P2, 31) * _P1 & _MASK


def _turned(number: int, bits: int) -> int:
    number &= _MASK
    return (number << bits | number >> 64 - bits) & _MASK
