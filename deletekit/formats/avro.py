"""Read and write Avro object container files, with their values as stored.

Logical types are stripped before decoding: a date stays an int and a decimal stays bytes. So a value of any range
survives, and partition tuples compare exactly. fastavro decodes, after the sizes that the file declares are checked.
Spec: https://avro.apache.org/docs/1.12.0/specification/#object-container-files
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import fastavro

from deletekit.errors import DeletekitError, FormatError, InvalidInputError
from deletekit.formats.avro_blocks import SYNC_BYTES, Block, check_codec, read_blocks
from deletekit.formats.avro_schema import has_plain_fixed, record_bytes, strip

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
    """

    schema: Any
    schema_text: bytes
    metadata: Mapping[str, str]
    parsed: Any
    has_plain_fixed: bool
    _data: bytes
    _start: int
    _sync: bytes
    _record_bytes: int
    _max_records: int | None

    def blocks(self) -> Iterator[Block]:
        """Yield the blocks, decompressed and checked. Raises FormatError or UnsupportedError."""
        codec = self.metadata.get("avro.codec", "null")
        return read_blocks(self._data, self._start, self._sync, codec, self._record_bytes, self._max_records)

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
        raise FormatError(
            "not an Avro file", kind="avro-magic", field="magic", found=bytes(data[:4]).hex(), expected=_MAGIC.hex()
        )
    stream = io.BytesIO(data)
    try:
        header: Any = fastavro.schemaless_reader(stream, _HEADER_SCHEMA, None)
        reading = _reading_schema(header["meta"]["avro.schema"], fixed_as_bytes)
        metadata = {k: v.decode("utf-8", errors="replace") for k, v in header["meta"].items()}
        check_codec(metadata.get("avro.codec", "null"))
    except DeletekitError:
        raise
    except Exception as e:  # a hostile header can fail anywhere in fastavro or json
        raise _damaged(e) from e
    return ContainerFile(
        schema=reading.schema,
        schema_text=header["meta"]["avro.schema"],
        metadata=metadata,
        parsed=reading.parsed,
        has_plain_fixed=reading.has_plain_fixed,
        _data=data,
        _start=stream.tell(),
        _sync=header["sync"],
        _record_bytes=reading.record_bytes,
        _max_records=len(data) if distinct else None,
    )


def write_container(
    schema: Mapping[str, Any], records: Iterable[Mapping[str, Any]], metadata: Mapping[str, str], codec: str = "deflate"
) -> bytes:
    """Encode records, their values as stored, to a container file.

    Raises InvalidInputError for a value that does not fit the schema.
    """
    check_codec(codec)
    parsed = fastavro.parse_schema(dict(schema))
    out = io.BytesIO()
    try:
        fastavro.writer(out, parsed, records, codec=codec, metadata=dict(metadata))
    except DeletekitError:
        raise
    except Exception as e:  # fastavro answers a wrong value with whatever its encoder trips over
        raise InvalidInputError(
            "value does not fit the Avro schema", kind="avro-value", found=f"{type(e).__name__}: {e}"
        ) from e
    return out.getvalue()


def field_ids_by_name(schema: Any) -> dict[str, int]:
    """Map the top-level field names of a record schema to Iceberg field ids; fields without an id are left out."""
    fields = schema.get("fields", []) if isinstance(schema, dict) else []
    return {f["name"]: f["field-id"] for f in fields if isinstance(f, dict) and isinstance(f.get("field-id"), int)}


def plain_container(schema: dict[str, Any], blocks: Sequence[Block]) -> tuple[bytes, int]:
    """Return an uncompressed container of records that are encoded already, and the offset where they begin."""
    sync = bytes(SYNC_BYTES)
    out = io.BytesIO()
    fastavro.writer(out, schema, [], sync_marker=sync)
    for number in (sum(b.count for b in blocks), sum(len(b.data) for b in blocks)):
        fastavro.schemaless_writer(out, "long", number)
    return b"".join((out.getvalue(), *(b.data for b in blocks), sync)), out.tell()


@dataclass(frozen=True, slots=True)
class _ReadingSchema:
    schema: Any
    parsed: Any
    has_plain_fixed: bool
    record_bytes: int


@lru_cache(maxsize=64)
def _reading_schema(text: bytes, fixed_as_bytes: bool) -> _ReadingSchema:
    """Parse a stored schema; cached, because all manifests of a table have the same one."""
    schema = json.loads(text)
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise FormatError(
            "Avro file does not hold records",
            kind="avro-schema",
            field="avro.schema",
            found=schema,
            expected="record",
        )
    parsed = fastavro.parse_schema(strip(schema, fixed_as_bytes=fixed_as_bytes))
    return _ReadingSchema(schema, parsed, has_plain_fixed(schema), record_bytes(parsed))


def _damaged(e: Exception) -> FormatError:
    return FormatError("damaged Avro file", kind="avro", found=f"{type(e).__name__}: {e}")
