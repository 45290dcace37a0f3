"""Decompress with a limit, so that a few hostile bytes cannot fill the memory."""

import zlib

import cramjam
import pyarrow as pa

from deletekit.errors import FormatError

CODECS = ("none", "deflate", "gzip", "lz4", "lz4_block", "snappy", "zstd")
"""Raw deflate, gzip in one member or several, LZ4 and Zstandard frames, an LZ4 block, raw Snappy."""

_BYTES_READ_AT_A_TIME = 1 << 20
# Ids and paths that differ in each object keep real JSON below a tenth of this ratio.
_JSON_MAX_RATIO = 100
_JSON_FREE_BYTES = 1 << 24
_JSON_MAX_BYTES = 1 << 28
_LZ4_MAX_RATIO = 255
_ZLIB_CHECKSUM_BYTES = 4  # fastavro cuts its raw streams out of zlib's and leaves some of the checksum behind


def decompress(codec: str, data: bytes, *, limit: int, kind: str, field: str) -> bytes:
    """Decompress `data`, all of it; `codec` is one of `CODECS`.

    Raises FormatError with `kind` and `field` for damage, bytes behind the end, and more than `limit` bytes.
    """
    try:
        out = _decompress(codec, data, limit)
    except (OSError, ValueError, zlib.error, pa.ArrowException, cramjam.DecompressionError) as e:
        raise FormatError(f"cannot decompress {codec}", kind=kind, field=field, found=str(e)) from e
    if out is None or len(out) > limit:
        raise FormatError("decompressed bytes over the limit", kind, field, f"> {limit} bytes", f"<= {limit} bytes")
    return out


def json_limit(stored_bytes: int) -> int:
    """Limit the bytes of a compressed JSON document of this size; parsed, each byte can take twenty."""
    return min(_JSON_MAX_BYTES, _JSON_FREE_BYTES + _JSON_MAX_RATIO * stored_bytes)


def _decompress(codec: str, data: bytes, limit: int) -> bytes | None:
    """Return all bytes; where there are more than `limit`, only some more than that, or None."""
    if codec == "none":
        return data
    if codec == "deflate":
        return _inflate(data, limit)
    if codec == "snappy":
        if cramjam.snappy.decompress_raw_len(data) > limit:
            return None
        return bytes(cramjam.snappy.decompress_raw(data))
    if codec == "lz4_block":
        room = bytearray(min(limit + 1, _LZ4_MAX_RATIO * len(data)))
        return bytes(room[: cramjam.lz4.decompress_block_into(data, room, output_len=len(room))])
    return _read_frames(codec, data, limit)


def _inflate(data: bytes, limit: int) -> bytes:
    stream = zlib.decompressobj(-zlib.MAX_WBITS)
    out = stream.decompress(data, limit + 1)
    if len(out) <= limit and (not stream.eof or len(stream.unused_data) > _ZLIB_CHECKSUM_BYTES):
        raise ValueError("bytes behind the end" if stream.eof else "the end is missing")
    return out


def _read_frames(codec: str, data: bytes, limit: int) -> bytes:
    if not data:
        raise ValueError("no frame")
    parts: list[bytes] = []
    size = 0
    with pa.CompressedInputStream(pa.BufferReader(data), codec) as stream:
        while size <= limit and (part := stream.read(_BYTES_READ_AT_A_TIME)):
            parts.append(part)
            size += len(part)
    return b"".join(parts)
