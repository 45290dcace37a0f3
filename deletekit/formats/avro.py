"""Avro object container files, read and written with their stored values, not Python's idea of them.

Law: bytes <-> records. Logical types are stripped before decoding: a date stays an int and a decimal stays bytes, so a
value of any range survives and partition tuples compare exactly.
Spec: https://avro.apache.org/docs/1.12.0/specification/#object-container-files
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import fastavro

from deletekit.errors import FormatError

__all__ = ["ContainerFile", "field_ids_by_name", "read_container", "write_container"]

_MAGIC = b"Obj\x01"
_HEADER_SCHEMA = fastavro.parse_schema(
    {
        "type": "record",
        "name": "org.apache.avro.file.Header",
        "fields": [
            {"name": "magic", "type": {"type": "fixed", "name": "magic", "size": 4}},
            {"name": "meta", "type": {"type": "map", "values": "bytes"}},
            {"name": "sync", "type": {"type": "fixed", "name": "sync", "size": 16}},
        ],
    }
)


class ContainerFile:
    """An opened container: its writer schema, its metadata, and its records on iteration.

    `metadata` maps each key to its text. Iterating raises FormatError, and nothing else, when the bytes are damaged.
    """

    def __init__(self, schema: Any, metadata: Mapping[str, str], data: bytes) -> None:
        self.schema = schema
        self.metadata = metadata
        self._data = data

    def __iter__(self) -> Iterator[dict[str, Any]]:
        try:
            for record in fastavro.reader(io.BytesIO(self._data)):
                if not isinstance(record, dict):
                    raise FormatError("Avro records are not structs", kind="avro", found=type(record).__name__)
                yield record
        except FormatError:
            raise
        except Exception as e:  # fastavro answers damage with whatever its decoder trips over
            raise _damaged(e) from e


def read_container(data: bytes, *, fixed_as_bytes: bool = False) -> ContainerFile:
    """Open a container held in memory. Raises FormatError for a wrong magic, header or schema.

    `fixed_as_bytes` decodes plain `fixed` values as if a length stood before them: Iceberg Java writes partition values
    of type fixed that way (apache/iceberg#17501), whatever the schema in the same file says.
    """
    if data[:4] != _MAGIC:
        raise FormatError(
            "not an Avro file", kind="avro-magic", field="magic", found=bytes(data[:4]).hex(), expected=_MAGIC.hex()
        )
    stream = io.BytesIO(data)
    try:
        header: Any = fastavro.schemaless_reader(stream, _HEADER_SCHEMA, None)
        schema = json.loads(header["meta"]["avro.schema"])
        stripped = dict(
            header, meta=dict(header["meta"], **{"avro.schema": json.dumps(_strip(schema, fixed_as_bytes)).encode()})
        )
        out = io.BytesIO()
        fastavro.schemaless_writer(out, _HEADER_SCHEMA, stripped)
        metadata = {k: v.decode("utf-8") for k, v in header["meta"].items()}
    except Exception as e:  # a hostile header can fail anywhere in fastavro or json
        raise _damaged(e) from e
    return ContainerFile(schema, metadata, out.getvalue() + data[stream.tell() :])


def write_container(
    schema: Mapping[str, Any], records: Iterable[Mapping[str, Any]], metadata: Mapping[str, str], codec: str = "deflate"
) -> bytes:
    """A container file of `records`; values are given as stored (see the law above)."""
    out = io.BytesIO()
    fastavro.writer(out, fastavro.parse_schema(dict(schema)), records, codec=codec, metadata=dict(metadata))
    return out.getvalue()


def field_ids_by_name(schema: Any) -> dict[str, int]:
    """Top-level field name -> Iceberg field id of a record schema; fields without an id are left out."""
    fields = schema.get("fields", []) if isinstance(schema, dict) else []
    return {f["name"]: f["field-id"] for f in fields if isinstance(f, dict) and isinstance(f.get("field-id"), int)}


def _strip(schema: Any, fixed_as_bytes: bool) -> Any:
    if isinstance(schema, list):
        return [_strip(s, fixed_as_bytes) for s in schema]
    if isinstance(schema, dict):
        if fixed_as_bytes and schema.get("type") == "fixed" and "logicalType" not in schema:
            return "bytes"
        return {k: _strip(v, fixed_as_bytes) for k, v in schema.items() if k not in ("logicalType", "default")}
    return schema


def _damaged(e: Exception) -> FormatError:
    return FormatError("damaged Avro file", kind="avro", found=f"{type(e).__name__}: {e}")
