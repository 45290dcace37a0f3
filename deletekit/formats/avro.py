"""Avro object container files, read and written with their stored values, not Python's idea of them.

Law: bytes <-> records. Logical types are stripped before decoding: a date stays an int and a decimal stays bytes, so a
value of any range survives and partition tuples compare exactly. fastavro decodes, and gets nothing to decode that its
bytes do not pay for.
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
from deletekit.formats.avro_blocks import SYNC_BYTES, Block, BlockStream, check_codec, plain_head, read_blocks
from deletekit.formats.avro_schema import has_plain_fixed, record_bytes, strip

__all__ = ["ContainerFile", "field_ids_by_name", "plain_container", "read_container", "write_container"]

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
    """An opened container: its writer schema, its metadata, and its records on iteration.

    `schema_text` is the schema as stored; `metadata` maps each key to its text; `parsed` is the schema as the records
    are decoded, without logical types, its names resolved; `has_plain_fixed`, whether a `fixed` without a logical type
    is defined anywhere in it. Iterating raises FormatError when the bytes are damaged, UnsupportedError for records
    that take no bytes, and nothing else.
    """

    schema: Any
    schema_text: bytes
    metadata: Mapping[str, str]
    parsed: Any
    has_plain_fixed: bool
    _data: bytes
    _start: int
    _sync: bytes
    _plain_header: bytes
    _record_bytes: int
    _max_records: int | None

    def blocks(self) -> Iterator[Block]:
        """The blocks, decompressed and checked. Raises FormatError or UnsupportedError."""
        codec = self.metadata.get("avro.codec", "null")
        return read_blocks(self._data, self._start, self._sync, codec, self._record_bytes, self._max_records)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        stream: Any = BlockStream(self._plain_header, self._sync, self.blocks())
        try:
            block: Any
            for block in fastavro.block_reader(stream):
                yield from block
                if block.bytes_.read(1):
                    raise FormatError("bytes behind the last record of an Avro block", kind="avro", field="block")
        except DeletekitError:
            raise
        except Exception as e:  # fastavro answers damage with whatever its decoder trips over
            raise _damaged(e) from e


def read_container(data: bytes, *, fixed_as_bytes: bool = False, distinct: bool = False) -> ContainerFile:
    """Open a container held in memory.

    `distinct` records, each with a path of its own, do not compress to less than a byte: a file of more is refused.
    `fixed_as_bytes` decodes plain `fixed` values as if a length stood before them: Iceberg Java writes partition values
    of type fixed that way (apache/iceberg#17501), whatever the schema in the same file says.

    Raises FormatError for a wrong magic, header or schema, UnsupportedError for a codec that Iceberg does not have.
    """
    if data[:4] != _MAGIC:
        raise FormatError(
            "not an Avro file", kind="avro-magic", field="magic", found=bytes(data[:4]).hex(), expected=_MAGIC.hex()
        )
    stream = io.BytesIO(data)
    try:
        header: Any = fastavro.schemaless_reader(stream, _HEADER_SCHEMA, None)
        shape = _shape(header["meta"]["avro.schema"], fixed_as_bytes)
        metadata = {k: v.decode("utf-8", errors="replace") for k, v in header["meta"].items()}
        check_codec(metadata.get("avro.codec", "null"))
        plain_header = _header(shape.plain_text, header["sync"])
    except DeletekitError:
        raise
    except Exception as e:  # a hostile header can fail anywhere in fastavro or json
        raise _damaged(e) from e
    return ContainerFile(
        schema=shape.schema,
        schema_text=header["meta"]["avro.schema"],
        metadata=metadata,
        parsed=shape.parsed,
        has_plain_fixed=shape.has_plain_fixed,
        _data=data,
        _start=stream.tell(),
        _sync=header["sync"],
        _plain_header=plain_header,
        _record_bytes=shape.record_bytes,
        _max_records=len(data) if distinct else None,
    )


def write_container(
    schema: Mapping[str, Any], records: Iterable[Mapping[str, Any]], metadata: Mapping[str, str], codec: str = "deflate"
) -> bytes:
    """A container file of `records`; values are given as stored (see the law above).

    Raises InvalidInputError for a value that the schema does not have.
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
    """Top-level field name -> Iceberg field id of a record schema; fields without an id are left out."""
    fields = schema.get("fields", []) if isinstance(schema, dict) else []
    return {f["name"]: f["field-id"] for f in fields if isinstance(f, dict) and isinstance(f.get("field-id"), int)}


def plain_container(schema: Any, blocks: Sequence[Block]) -> tuple[bytes, int]:
    """An uncompressed container of records that are encoded already, in one block; and where its records begin."""
    sync = bytes(SYNC_BYTES)
    header = _header(json.dumps(schema).encode(), sync)
    head = plain_head(header, sum(b.count for b in blocks), sum(len(b.data) for b in blocks))
    return b"".join((head, *(b.data for b in blocks), sync)), len(head)


def _header(schema_text: bytes, sync: bytes) -> bytes:
    out = io.BytesIO()
    meta = {"avro.schema": schema_text, "avro.codec": b"null"}
    fastavro.schemaless_writer(out, _HEADER_SCHEMA, {"magic": _MAGIC, "meta": meta, "sync": sync})
    return out.getvalue()


@dataclass(frozen=True, slots=True)
class _Shape:
    schema: Any
    plain_text: bytes
    parsed: Any
    has_plain_fixed: bool
    record_bytes: int


@lru_cache(maxsize=64)
def _shape(text: bytes, fixed_as_bytes: bool) -> _Shape:
    """What the schema says; a table's manifests have the same one many times over, so it is worked out once."""
    schema = json.loads(text)
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise FormatError(
            "Avro file does not hold records",
            kind="avro-schema",
            field="avro.schema",
            found=schema,
            expected="record",
        )
    stripped = strip(schema, fixed_as_bytes=fixed_as_bytes)
    parsed = fastavro.parse_schema(stripped)
    return _Shape(schema, json.dumps(stripped).encode(), parsed, has_plain_fixed(schema), record_bytes(parsed))


def _damaged(e: Exception) -> FormatError:
    return FormatError("damaged Avro file", kind="avro", found=f"{type(e).__name__}: {e}")
