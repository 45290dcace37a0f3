"""Read Avro data and delete files as Arrow tables, with the field ids of the Avro schema.

Spec: "Avro", https://iceberg.apache.org/spec/#avro
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Any

import pyarrow as pa

from deletekit.errors import FormatError, UnsupportedError
from deletekit.formats.avro import read_container
from deletekit.formats.decimals import decimal_of_bytes
from deletekit.formats.metrics import FIELD_ID_KEY

_PLAIN = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "bytes": pa.binary(),
    "null": pa.null(),
}
_LOGICAL = {
    "date": pa.date32(),
    "time-micros": pa.time64("us"),
    "time-millis": pa.time32("ms"),
    "timestamp-micros": pa.timestamp("us"),
    "timestamp-nanos": pa.timestamp("ns"),
    "timestamp-millis": pa.timestamp("ms"),
    "local-timestamp-micros": pa.timestamp("us"),
    "local-timestamp-nanos": pa.timestamp("ns"),
    "local-timestamp-millis": pa.timestamp("ms"),
}
_ROWS_AT_ONCE = 8192
_DAMAGE = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError, pa.ArrowException)

Convert = Callable[[Any], Any]
"""Makes of a stored value one that Arrow takes."""
Names = dict[str, Any]
"""The types that a schema has defined so far."""


def read_avro_table(data: bytes) -> tuple[pa.Table, dict[str, str]]:
    """Return all rows of an Avro file, and its metadata.

    Raises FormatError for damage, UnsupportedError for a union of several types.
    """
    container = read_container(data)
    try:
        struct, convert = _record(container.schema, {})
        schema = pa.schema([struct.field(i) for i in range(struct.num_fields)])
        rows = map(convert, container)
        # Row by row in Python is many times the size of Arrow: only a few thousand rows at once.
        batches = [_batch(some, schema) for some in iter(lambda: list(islice(rows, _ROWS_AT_ONCE)), [])]
        return pa.Table.from_batches(batches, schema), dict(container.metadata)
    except (FormatError, UnsupportedError):
        raise
    except _DAMAGE as e:
        raise FormatError("damaged Avro file", kind="avro", found=f"{type(e).__name__}: {e}") from e


def _batch(rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> pa.RecordBatch:
    columns = [pa.array([row[field.name] for row in rows], type=field.type) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _field(name: str, schema: Any, field_id: Any, names: Names) -> tuple[pa.Field, Convert]:
    nullable = schema == "null"
    if isinstance(schema, list):
        options = [s for s in schema if s != "null"]
        if len(options) != 1:
            raise UnsupportedError("Avro unions other than optional values", kind="avro-union", found=schema)
        schema, nullable = options[0], True
    kind, convert = _type(schema, names)
    metadata = {FIELD_ID_KEY: str(field_id)} if isinstance(field_id, int) else None
    return pa.field(name, kind, nullable, metadata), _optional(convert) if nullable else convert


def _type(schema: Any, names: Names) -> tuple[pa.DataType, Convert]:
    if isinstance(schema, str):
        return (_PLAIN[schema], _same) if schema in _PLAIN else _type(names[schema], names)
    if "name" in schema:
        names[schema["name"]] = schema
    avro, logical = schema["type"], schema.get("logicalType")
    if avro == "record":
        return _record(schema, names)
    if avro in ("array", "map"):
        return _array(schema, names) if avro == "array" else _map(schema, names)
    if logical == "decimal":
        scale = schema.get("scale", 0)
        return pa.decimal128(schema["precision"], scale), lambda raw: decimal_of_bytes(raw, scale)
    if avro == "fixed":
        return pa.uuid() if logical == "uuid" else pa.binary(schema["size"]), _same
    if avro == "enum":
        return pa.string(), _same
    kind = _LOGICAL[logical] if logical in _LOGICAL else _PLAIN[avro]
    if pa.types.is_timestamp(kind) and logical.startswith("timestamp") and schema.get("adjust-to-utc"):
        kind = pa.timestamp(kind.unit, "UTC")
    return kind, _same


def _record(schema: Mapping[str, Any], names: Names) -> tuple[pa.StructType, Convert]:
    fields, converts = [], []
    for f in schema["fields"]:
        # Java's makeCompatibleName mangles names Avro forbids and keeps the real one beside.
        field, convert = _field(f.get("iceberg-field-name", f["name"]), f["type"], f.get("field-id"), names)
        fields.append(field)
        converts.append((f["name"], field.name, convert))
    found = [f.name for f in fields]
    if len(set(found)) < len(found):
        raise FormatError("two Avro fields have one name", "avro-schema", "avro.schema", found)
    return pa.struct(fields), lambda r: {new: convert(r[old]) for old, new, convert in converts}


def _array(schema: Mapping[str, Any], names: Names) -> tuple[pa.DataType, Convert]:
    element, convert = _field("element", schema["items"], schema.get("element-id"), names)
    if schema.get("logicalType") == "map":
        key, value = element.type.field("key").with_nullable(False), element.type.field("value")
        return pa.map_(key, value), lambda pairs: [(e["key"], e["value"]) for e in map(convert, pairs)]
    return pa.list_(element), _same if convert is _same else lambda items: list(map(convert, items))


def _map(schema: Mapping[str, Any], names: Names) -> tuple[pa.DataType, Convert]:
    key, _ = _field("key", "string", schema.get("key-id"), names)
    value, convert = _field("value", schema["values"], schema.get("value-id"), names)
    return pa.map_(key, value), lambda found: {k: convert(v) for k, v in found.items()}


def _optional(convert: Convert) -> Convert:
    return convert if convert is _same else lambda value: None if value is None else convert(value)


def _same(value: Any) -> Any:
    return value
