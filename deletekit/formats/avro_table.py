"""Read Avro data and delete files as Arrow tables, with the field ids of the Avro schema.

Spec: "Avro", https://iceberg.apache.org/spec/#avro
"""

from __future__ import annotations

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
_ROWS_AT_ONCE = 8192

Convert = Callable[[Any], Any]


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
    except (
        LookupError,
        TypeError,
        ValueError,
        AttributeError,
        ArithmeticError,
        RecursionError,
        pa.ArrowException,
    ) as e:
        raise FormatError("damaged Avro file", kind="avro", found=f"{type(e).__name__}: {e}") from e


def _batch(rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> pa.RecordBatch:
    columns = [pa.array([row[field.name] for row in rows], type=field.type) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _type(schema: Any, names: dict[str, Any]) -> tuple[pa.DataType, Convert | None, bool]:
    """Return (Arrow type, conversion or None, nullable)."""
    if isinstance(schema, list):
        options = [s for s in schema if s != "null"]
        if len(options) != 1:
            raise UnsupportedError("Avro unions other than optional values", kind="avro-union", found=schema)
        kind, convert, _ = _type(options[0], names)
        return kind, None if convert is None else _optional(convert), True
    if isinstance(schema, str):
        if schema in _PLAIN:
            return _PLAIN[schema], None, schema == "null"
        return _type(names[schema], names)
    if "name" in schema:
        names[schema["name"]] = schema
    kind, convert = _complex(schema, names)
    return kind, convert, False


def _complex(schema: Mapping[str, Any], names: dict[str, Any]) -> tuple[pa.DataType, Convert | None]:
    avro = schema["type"]
    if avro == "record":
        return _record(schema, names)
    if avro == "array":
        return _array(schema, names)
    if avro == "map":
        kind, convert, nullable = _type(schema["values"], names)
        key = _with_id(pa.field("key", pa.string(), False), schema.get("key-id"))
        value = _with_id(pa.field("value", kind, nullable), schema.get("value-id"))
        each = convert or _same
        return pa.map_(key, value), lambda m: [(k, each(v)) for k, v in m.items()]
    if avro == "enum":
        return pa.string(), None
    if avro == "fixed":
        return _fixed(schema)
    return _logical(avro, schema)


def _record(schema: Mapping[str, Any], names: dict[str, Any]) -> tuple[pa.StructType, Convert]:
    if "name" in schema:
        names[schema["name"]] = schema
    fields, converts = [], []
    for f in schema["fields"]:
        kind, convert, nullable = _type(f["type"], names)
        # Java's makeCompatibleName mangles names Avro forbids and keeps the real one beside.
        fields.append(_with_id(pa.field(f.get("iceberg-field-name", f["name"]), kind, nullable), f.get("field-id")))
        converts.append((f["name"], fields[-1].name, convert or _same))
    if len({f.name for f in fields}) < len(fields):
        raise FormatError(
            "two Avro fields have one name", kind="avro-schema", field="avro.schema", found=[f.name for f in fields]
        )
    return pa.struct(fields), lambda r: {new: convert(r[old]) for old, new, convert in converts}


def _array(schema: Mapping[str, Any], names: dict[str, Any]) -> tuple[pa.DataType, Convert | None]:
    if schema.get("logicalType") == "map":
        item, _, _ = _type(schema["items"], names)
        key, value = item.field("key"), item.field("value")
        each = _record(schema["items"], names)[1]
        return pa.map_(key.with_nullable(False), value), lambda a: [(e["key"], e["value"]) for e in map(each, a)]
    kind, convert, nullable = _type(schema["items"], names)
    element = _with_id(pa.field("element", kind, nullable), schema.get("element-id"))
    return pa.list_(element), None if convert is None else lambda a: [convert(e) for e in a]


def _fixed(schema: Mapping[str, Any]) -> tuple[pa.DataType, Convert | None]:
    if schema.get("logicalType") == "decimal":
        return _decimal(schema)
    if schema.get("logicalType") == "uuid":
        return pa.uuid(), None
    return pa.binary(schema["size"]), None


def _decimal(schema: Mapping[str, Any]) -> tuple[pa.DataType, Convert]:
    scale = schema.get("scale", 0)
    return pa.decimal128(schema["precision"], scale), lambda raw: decimal_of_bytes(raw, scale)


def _logical(avro: Any, schema: Mapping[str, Any]) -> tuple[pa.DataType, Convert | None]:
    logical = schema.get("logicalType")
    zone = "UTC" if schema.get("adjust-to-utc") else None
    if logical == "decimal":
        return _decimal(schema)
    known = {
        "date": pa.date32(),
        "time-micros": pa.time64("us"),
        "time-millis": pa.time32("ms"),
        "timestamp-micros": pa.timestamp("us", zone),
        "timestamp-nanos": pa.timestamp("ns", zone),
        "timestamp-millis": pa.timestamp("ms", zone),
        "local-timestamp-micros": pa.timestamp("us"),
        "local-timestamp-nanos": pa.timestamp("ns"),
        "local-timestamp-millis": pa.timestamp("ms"),
    }
    if logical in known:
        return known[logical], None
    return _PLAIN[avro], None


def _with_id(field: pa.Field, field_id: Any) -> pa.Field:
    return field.with_metadata({FIELD_ID_KEY: str(field_id)}) if isinstance(field_id, int) else field


def _optional(convert: Convert) -> Convert:
    return lambda value: None if value is None else convert(value)


def _same(value: Any) -> Any:
    return value
