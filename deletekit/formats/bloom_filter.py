"""Ask a Bloom filter of a Parquet column chunk for a value. Spec: Parquet "Bloom Filter" (split blocks, XXH64)."""

import struct
from contextlib import suppress
from io import BytesIO
from typing import TYPE_CHECKING, Any

import fastavro

from deletekit.deferred import Deferred
from deletekit.errors import UnsupportedError

if TYPE_CHECKING:
    import xxhash
else:
    xxhash = Deferred("xxhash")  # of the extra `certificate`

_SALT = (0x47B6137B, 0x44974D91, 0x8824AD5B, 0xA2B7289D, 0x705495C7, 0x2DF1424B, 0x9EFC4947, 0x5C6BFB31)
_BLOCK_BYTES = 32
# Thrift's bytes behind the number of bytes: the one algorithm, hash and compression that the spec has.
_ONLY_KIND = b"\x1c\x1c\x00\x00" * 3 + b"\x00"


def may_hold(stored: bytes, value: bytes) -> bool:
    """Tell whether a Bloom filter, its header included, may have a value: False is certain, True may be wrong.

    `value` is in Parquet's plain encoding, text without its length.
    Raises UnsupportedError for another algorithm, hash or compression, or a filter that is cut off.
    """
    source, hashed = BytesIO(stored[1:]), xxhash.xxh64_intdigest(value)
    with suppress(EOFError):
        size: Any = fastavro.schemaless_reader(source, "long", None)  # Avro and Thrift write numbers alike
        header, bits = source.read(len(_ONLY_KIND)), source.read(max(size, 0))
        if header == _ONLY_KIND and bits and len(bits) == size and size % _BLOCK_BYTES == 0:
            words = struct.unpack_from("<8I", bits, ((hashed >> 32) * (size // _BLOCK_BYTES) >> 32) * _BLOCK_BYTES)
            return all(w >> ((hashed * salt & 0xFFFFFFFF) >> 27) & 1 for w, salt in zip(words, _SALT, strict=True))
    raise UnsupportedError("unknown kind of Bloom filter", kind="bloom-filter", found=stored[:20].hex())
