"""Read and write Avro object container files, with their values as stored.

Logical types are stripped before decoding: a date stays an int and a decimal stays bytes. So a value of any range
survives, and partition tuples compare exactly. fastavro decodes, after the sizes that the file declares are checked:
a block says how many records and bytes it has, and both numbers are believed only as far as its bytes go.
Spec: https://avro.apache.org/docs/1.12.0/specification/#object-container-files
"""

import io
import json
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import fastavro

from deletekit.errors import DeletekitError, FormatError, InvalidInputError, UnsupportedError
from deletekit.formats.avro_schema import has_plain_fixed, record_bytes, strip
from deletekit.formats.compression import decompress

SYNC_BYTES = 16
_MAGIC = b"Obj\x01"
_HEADER_SCHEMA = fastavro.parse_schema(
    {
        "type": "record",
        "name": "org.apache.avro.file.Header",
        "fields": [
            {"name": "magic", "type": {"type": "fixed", "name": "magic", "size": 4}},
            {"name": "meta", "type": {"type": "map", "values": "bytes"}},
            {"name": "sync", "type": {"type": "fixed", "name": "sync", "size": SYNC_BYTES}},
        ],
    }
)
_CODECS = {"null": "none", "deflate": "deflate", "zstandard": "zstd", "snappy": "snappy"}
_SNAPPY_CRC_BYTES = 4

# A block is a few kilobytes, and what deflate can do at its best bounds what a whole file may grow to.
_MAX_BLOCK_BYTES = 1 << 27
_MAX_RATIO = 1100
_MAX_FREE_BYTES = 1 << 24


@dataclass(frozen=True, slots=True)
class Block:
    """The records of a block, decompressed but not decoded."""

    count: int
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ContainerFile:
    """An opened container: its schema, its metadata, and its records on iteration.

    Iterating raises FormatError when the bytes are damaged, UnsupportedError for records that take no bytes, and
    nothing else.

    Attributes
    ----------
    schema, schema_text: the writer's schema, parsed as JSON and as stored.
    metadata: the text of each metadata key.
    parsed: the schema that decodes the records: without logical types, its names resolved.
    has_plain_fixed: whether the schema defines a `fixed` without a logical type.
    record_bytes: the fewest bytes that a record takes.
    """

    schema: Any
    schema_text: bytes
    metadata: Mapping[str, str]
    parsed: Any
    has_plain_fixed: bool
    record_bytes: int
    _data: bytes
    _start: int
    _sync: bytes
    _max_records: int | None

    def blocks(self) -> Iterator[Block]:
        """Yield the blocks, decompressed and checked. Raises FormatError or UnsupportedError."""
        codec, size_of_file = self.metadata.get("avro.codec", "null"), len(self._data)
        room, records = _MAX_FREE_BYTES + _MAX_RATIO * size_of_file, 0
        stream = io.BytesIO(self._data)
        stream.seek(self._start)
        while stream.tell() < size_of_file:
            count, size = _read_long(stream, "block count"), _read_long(stream, "block size")
            rest = size_of_file - stream.tell() - SYNC_BYTES
            if count < 0 or not 0 <= size <= rest:
                message = "Avro block does not fit the file"
                raise _bad(message, "block size", f"{count} records in {size} bytes", f"0 .. {rest} bytes")
            stored, sync = stream.read(size), stream.read(SYNC_BYTES)
            if sync != self._sync:
                raise _bad("Avro block does not end with the sync marker", "sync", sync.hex(), self._sync.hex())
            block = Block(count, _decompress(codec, stored, min(_MAX_BLOCK_BYTES, room)))
            self._check_count(block, records := records + count)
            room -= len(block.data)
            yield block

    def _check_count(self, block: Block, records: int) -> None:
        """Raise unless the records of a block can be in its bytes, and `records` of all blocks so far in the file."""
        fewest, size = self.record_bytes, len(block.data)
        if block.count and not fewest:
            raise UnsupportedError(
                "Avro records without bytes", kind="avro-empty", field="block count", found=block.count
            )
        if block.count * fewest > size:
            message = "Avro block claims more records than it has bytes for"
            raise _bad(message, "block count", f"{block.count} records in {size} bytes", f">= {fewest} bytes each")
        if self._max_records is not None and records > self._max_records:
            message, found = "more Avro records than a file of this size can mean", f"{records} records"
            raise _bad(message, "block count", f"{found} in {len(self._data)} bytes", f"<= {self._max_records} records")

    def __iter__(self) -> Iterator[dict[str, Any]]:
        try:
            for block in self.blocks():
                stream = io.BytesIO(block.data)
                for _ in range(block.count):
                    yield fastavro.schemaless_reader(stream, self.parsed, None)  # type: ignore[misc]
                if block.count and stream.read(1):
                    raise FormatError("bytes behind the last record of an Avro block", kind="avro", field="block")
        except DeletekitError:
            raise
        except Exception as e:  # fastavro answers damage with whatever its decoder trips over
            raise _damaged(e) from e


def read_container(data: bytes, *, fixed_as_bytes: bool = False, distinct: bool = False) -> ContainerFile:
    """Open a container held in memory.

    Parameters
    ----------
    fixed_as_bytes: decode plain `fixed` values as if their length stood before them. Iceberg Java writes partition
        values of type fixed that way (apache/iceberg#17501), whatever the schema in the same file says.
    distinct: refuse more records than the file has bytes. Records with a path of their own do not compress that well.

    Raises FormatError for a wrong magic, header or schema, UnsupportedError for a codec that Iceberg does not use.
    """
    if data[:4] != _MAGIC:
        raise _bad("not an Avro file", "magic", bytes(data[:4]).hex(), _MAGIC.hex(), kind="avro-magic")
    stream = io.BytesIO(data)
    try:
        header: Any = fastavro.schemaless_reader(stream, _HEADER_SCHEMA, None)
        text = header["meta"]["avro.schema"]
        schema, parsed, plain_fixed, fewest = _understood(text, fixed_as_bytes)
        metadata = {k: v.decode("utf-8", errors="replace") for k, v in header["meta"].items()}
        _check_codec(metadata.get("avro.codec", "null"))
    except DeletekitError:
        raise
    except Exception as e:  # a hostile header can fail anywhere in fastavro or json
        raise _damaged(e) from e
    return ContainerFile(
        schema=schema,
        schema_text=text,
        metadata=metadata,
        parsed=parsed,
        has_plain_fixed=plain_fixed,
        record_bytes=fewest,
        _data=data,
        _start=stream.tell(),
        _sync=header["sync"],
        _max_records=len(data) if distinct else None,
    )


def write_container(
    schema: Mapping[str, Any], records: Iterable[Mapping[str, Any]], metadata: Mapping[str, str], codec: str = "deflate"
) -> bytes:
    """Encode records, their values as stored, to a container file.

    Raises InvalidInputError for a value that does not fit the schema.
    """
    _check_codec(codec)
    parsed = fastavro.parse_schema(dict(schema))
    out = io.BytesIO()
    try:
        fastavro.writer(out, parsed, records, codec=codec, metadata=dict(metadata))
    except DeletekitError:
        raise
    except Exception as e:  # fastavro answers a wrong value with whatever its encoder trips over
        found = f"{type(e).__name__}: {e}"
        raise InvalidInputError("value does not fit the Avro schema", kind="avro-value", found=found) from e
    return out.getvalue()


def field_ids_by_name(schema: Any) -> dict[str, int]:
    """Map the top-level field names of a record schema to Iceberg field ids; fields without an id are left out."""
    fields = schema.get("fields", []) if isinstance(schema, dict) else []
    return {f["name"]: f["field-id"] for f in fields if isinstance(f, dict) and isinstance(f.get("field-id"), int)}


@lru_cache(maxsize=64)  # all manifests of a table have the same schema
def _understood(text: bytes, fixed_as_bytes: bool) -> tuple[Any, Any, bool, int]:
    """Return `schema`, `parsed` and `has_plain_fixed` of a stored schema, and the fewest bytes of a record."""
    schema = json.loads(text)
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise _bad("Avro file does not hold records", "avro.schema", schema, "record", kind="avro-schema")
    parsed = fastavro.parse_schema(strip(schema, fixed_as_bytes=fixed_as_bytes))
    return schema, parsed, has_plain_fixed(schema), record_bytes(parsed)


def _check_codec(name: str) -> None:
    """Raise UnsupportedError for an Avro codec that Iceberg does not use, FormatError for an unknown name."""
    if name in ("bzip2", "xz"):
        raise UnsupportedError("Avro codec is not supported", kind="avro-codec", field="avro.codec", found=name)
    if name not in _CODECS:
        raise _bad("unknown Avro codec", "avro.codec", name, ", ".join(_CODECS), kind="avro-codec")


def _read_long(stream: io.BytesIO, field: str) -> int:
    at = stream.tell()
    try:
        number: Any = fastavro.schemaless_reader(stream, "long", None)
    except Exception as e:  # at the end of the bytes, fastavro answers in several ways
        raise _bad("damaged Avro file", field, stream.getvalue()[at : at + 10].hex(), "a long") from e
    return int(number)


def _decompress(codec: str, stored: bytes, limit: int) -> bytes:
    if codec != "snappy":
        return decompress(_CODECS[codec], stored, limit=limit, kind="avro-codec", field="block")
    stored, crc = stored[:-_SNAPPY_CRC_BYTES], stored[-_SNAPPY_CRC_BYTES:]
    raw = decompress("snappy", stored, limit=limit, kind="avro-codec", field="block")
    if struct.pack(">I", zlib.crc32(raw)) != crc:
        message = "Avro block's checksum does not match its bytes"
        raise _bad(message, "block", f"{zlib.crc32(raw):#010x}", f"0x{crc.hex()}", kind="avro-codec")
    return raw


def _damaged(e: Exception) -> FormatError:
    return FormatError("damaged Avro file", kind="avro", found=f"{type(e).__name__}: {e}")


def _bad(message: str, field: str, found: Any, expected: Any, *, kind: str = "avro") -> FormatError:
    return FormatError(message, kind=kind, field=field, found=found, expected=expected)
