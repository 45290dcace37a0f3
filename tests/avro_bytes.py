"""Avro container files put together by hand, so that each part can be wrong alone."""

import io
import json
from typing import Any

import fastavro

SYNC = b"sixteen sync byt"


def long(value: int) -> bytes:
    """Encode a long: zigzag, then seven bits a byte."""
    value = (value << 1) ^ (value >> 63)
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def header(schema: Any, codec: str = "null", metadata: dict[str, bytes] | None = None) -> bytes:
    pairs = {"avro.schema": json.dumps(schema).encode(), "avro.codec": codec.encode(), **(metadata or {})}
    stored = b"".join(long(len(k)) + k.encode() + long(len(v)) + v for k, v in pairs.items())
    return b"Obj\1" + long(len(pairs)) + stored + b"\0" + SYNC


def block(count: int, data: bytes) -> bytes:
    return long(count) + long(len(data)) + data + SYNC


def avro_file(schema: Any, *blocks: bytes, codec: str = "null", metadata: dict[str, bytes] | None = None) -> bytes:
    return header(schema, codec, metadata) + b"".join(blocks)


def without_metadata(data: bytes) -> bytes:
    """The same records in a container that has lost what its header said beside their schema."""
    stored = fastavro.reader(io.BytesIO(data))
    out = io.BytesIO()
    fastavro.writer(out, stored.writer_schema, list(stored))
    return out.getvalue()
