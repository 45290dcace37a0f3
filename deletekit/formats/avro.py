"""Read and write Avro object container files, with their values as stored.

Logical types are stripped before decoding: a date stays an int and a decimal stays bytes. So a value of any range
survives, and partition tuples compare exactly. fastavro decodes, after the sizes that the file declares are checked:
a block says how many records and bytes it has, and both numbers are believed only as far as its bytes go.

The schema is checked before a decoder follows it. One that refers to itself makes a decoder recurse until the process
ends. One whose records take no bytes makes it run for as long as a count says.
Spec: https://avro.apache.org/docs/1.12.0/specification/#object-container-files
"""

import io
import json
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

import fastavro

from deletekit.errors import DeletekitError, FormatError, InvalidInputError, UnsupportedError
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

_MAX_LEVELS = 256
_EMPTY_VALUES_MAX = 100
_PRIMITIVE_BYTES = {"null": 0, "boolean": 1, "int": 1, "long": 1, "float": 4, "double": 8, "bytes": 1, "string": 1}


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
            raise UnsupportedError("Avro records without bytes", "avro-empty", "block count", block.count)
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


# --- schemas ----------------------------------------------------------------------------------------------------------


def strip(schema: Any, *, fixed_as_bytes: bool = False) -> Any:
    """Return the schema without logical types and defaults; `fixed_as_bytes` makes plain `fixed` types `bytes`."""
    fixed = {f["name"] for f in _definitions(schema) if _is_plain_fixed(f) and "name" in f} if fixed_as_bytes else set()
    return _strip(schema, fixed, fixed_as_bytes)


def _strip(schema: Any, fixed: set[str], fixed_as_bytes: bool) -> Any:
    if isinstance(schema, str):
        return "bytes" if schema in fixed else schema
    if isinstance(schema, list):
        return [_strip(s, fixed, fixed_as_bytes) for s in schema]
    if not isinstance(schema, dict):
        return schema
    if fixed_as_bytes and _is_plain_fixed(schema):
        return "bytes"
    out = {k: v for k, v in schema.items() if k not in ("logicalType", "default")}
    for key in ("type", "items", "values", "fields"):
        if key in out:
            out[key] = _strip(out[key], fixed, fixed_as_bytes)
    return out


def _is_plain_fixed(schema: Any) -> bool:
    return isinstance(schema, dict) and schema.get("type") == "fixed" and "logicalType" not in schema


def _definitions(schema: Any) -> Iterator[dict[str, Any]]:
    """Yield every object of the schema that is a type or a field."""
    if isinstance(schema, list):
        for s in schema:
            yield from _definitions(s)
    elif isinstance(schema, dict):
        yield schema
        for key in ("type", "items", "values", "fields"):
            yield from _definitions(schema.get(key))


def has_plain_fixed(schema: Any) -> bool:
    """Tell whether a `fixed` without a logical type is defined anywhere in the schema."""
    return any(_is_plain_fixed(s) for s in _definitions(schema))


# --- size -------------------------------------------------------------------------------------------------------------


class _Size(NamedTuple):
    """The fewest bytes of a value, and how many of its parts, itself included, may take no bytes."""

    fewest: int
    empty: int


@dataclass(slots=True)
class _Measure:
    """The sizes of the named types so far; None for one whose definition has not ended."""

    named: dict[str, _Size | None] = field(default_factory=dict)

    def of(self, schema: Any, depth: int = 0) -> _Size:
        if depth > _MAX_LEVELS:
            raise _bad_schema("Avro schema is nested too deeply", None, f"<= {_MAX_LEVELS} levels")
        if isinstance(schema, list):
            branches = [self.of(s, depth + 1) for s in schema]
            if not branches:
                raise _bad_schema("Avro union without a type", schema, "one or more types")
            return _Size(1 + min(b.fewest for b in branches), max(b.empty for b in branches))
        if isinstance(schema, str):
            return self._of_name(schema)
        if not isinstance(schema, dict) or "type" not in schema:
            raise _bad_schema("Avro type is not understood", schema, "a type")
        return self._of_definition(schema, schema["type"], depth + 1)

    def _of_name(self, name: str) -> _Size:
        if name in _PRIMITIVE_BYTES:
            return _sized(_PRIMITIVE_BYTES[name])
        if name not in self.named:
            raise _bad_schema("unknown Avro type", name, "a type defined before")
        size = self.named[name]
        if size is None:
            raise _bad_schema("Avro schema refers to itself", name, "a type that ends")
        return size

    def _of_definition(self, schema: Mapping[str, Any], kind: Any, depth: int) -> _Size:
        if kind in ("record", "error"):
            return self._of_record(schema, depth)
        if kind == "array" and self.of(schema["items"], depth).fewest == 0:
            raise UnsupportedError("Avro arrays of values without bytes", kind="avro-empty", found="array")
        if kind == "map":
            self.of(schema["values"], depth)
        if kind in ("array", "map"):
            return _sized(1)
        if kind not in ("enum", "fixed"):
            return self.of(kind, depth)
        size = schema["size"] if kind == "fixed" else 1
        if not isinstance(size, int) or size < 0:
            raise _bad_schema("bad size of an Avro fixed", size, ">= 0")
        self.named[schema["name"]] = _sized(size)
        return _sized(size)

    def _of_record(self, schema: Mapping[str, Any], depth: int) -> _Size:
        self.named[schema["name"]] = None
        sizes = [self.of(f["type"], depth) for f in schema["fields"]]
        fewest, empty = sum(s.fewest for s in sizes), sum(s.empty for s in sizes)
        if empty > _EMPTY_VALUES_MAX:
            raise UnsupportedError("Avro records of many values without bytes", kind="avro-empty", found=empty)
        size = self.named[schema["name"]] = _Size(fewest, empty + (0 if fewest else 1))
        return size


def _sized(size: int) -> _Size:
    return _Size(size, 0 if size else 1)


def record_bytes(schema: Any) -> int:
    """Return the fewest bytes that one value of a schema takes, its names resolved by `fastavro.parse_schema`.

    Raises FormatError for a schema that has no end, UnsupportedError where a count alone would make any number of
    values.
    """
    return _Measure().of(schema).fewest


def _bad_schema(message: str, found: Any, expected: str) -> FormatError:
    return FormatError(message, kind="avro-schema", field="avro.schema", found=found, expected=expected)


# --- types ------------------------------------------------------------------------------------------------------------


def check_types(schema: Any, canonical: Mapping[str, Any], names: Mapping[str, str], kind: str) -> None:
    """Raise FormatError with `kind` where a field of a record has another type than the field of `canonical`.

    Parameters
    ----------
    schema, canonical: record schemas.
    names: a field's stored name -> its canonical name, where they differ.

    int and long stand for each other, null may be added; fields that `canonical` does not have are not looked at.
    """
    named = {str(s["name"]): s for s in _definitions(schema) if s.get("type") in ("record", "fixed", "enum")}
    expected = {f["name"]: _shape(f["type"], {}) for f in canonical["fields"]}
    for stored in schema["fields"]:
        name, found = names.get(stored["name"], stored["name"]), stored["type"]
        if name in expected and _shape(found, named) != expected[name]:
            raise FormatError("field has another type", kind=kind, field=name, found=found, expected=expected[name])


def _shape(schema: Any, named: Mapping[str, Any]) -> str:
    """Name a type in short: `int`, `bytes`, `record`, `[int]`, `{int: bytes}` (a map as an array of records)."""
    if isinstance(schema, list):
        options = [s for s in schema if s != "null"]
        return _shape(options[0], named) if len(options) == 1 else "union"
    if isinstance(schema, str):
        if schema in _PRIMITIVE_BYTES:
            return "int" if schema == "long" else schema
        return _shape(named[schema], {}) if schema in named else schema
    kind = schema.get("type")
    if kind == "array":
        return _array_shape(schema.get("items"), named)
    return kind if isinstance(kind, str) and kind in ("record", "map", "fixed", "enum") else _shape(kind, named)


def _array_shape(items: Any, named: Mapping[str, Any]) -> str:
    item = named.get(items, items) if isinstance(items, str) else items
    if isinstance(item, dict) and item.get("type") == "record":
        fields = {f["name"]: _shape(f["type"], {}) for f in item["fields"]}
        if set(fields) == {"key", "value"}:
            return f"{{{fields['key']}: {fields['value']}}}"
    return f"[{_shape(item, {})}]"
