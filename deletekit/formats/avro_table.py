"""Avro data and delete files as Arrow tables.

Law: bytes -> Arrow, with the field ids of the Avro schema carried over. Values stay as stored until they get a type.
Spec: "Avro", https://iceberg.apache.org/spec/#avro
"""

from __future__ import annotations

import decimal
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from deletekit.errors import FormatError, UnsupportedError
from deletekit.formats.avro import read_container
from deletekit.formats.metrics import FIELD_ID_KEY

__all__ = ["read_avro_table"]

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
_DECIMAL_CONTEXT = decimal.Context(prec=76)

Convert = Callable[[Any], Any]


def read_avro_table(data: bytes) -> tuple[pa.Table, dict[str, str]]:
    """All rows of an Avro file and its metadata. Raises FormatError for damage, UnsupportedError for odd schemas."""
    container = read_container(data)
    schema = container.schema
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise FormatError("Avro file does not hold records", kind="avro", field="avro.schema", found=schema)
    names: dict[str, Any] = {}
    try:
        struct, convert = _record(schema, names)
        fields = [struct.field(i) for i in range(struct.num_fields)]
        rows = [convert(record) for record in container]
        columns = [pa.array([row[f.name] for row in rows], type=f.type) for f in fields]
        return pa.Table.from_arrays(columns, schema=pa.schema(fields)), dict(container.metadata)
    except (FormatError, UnsupportedError):
        raise
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError, pa.ArrowException) as e:
        raise FormatError("damaged Avro file", kind="avro", found=f"{type(e).__name__}: {e}") from e


def _type(schema: Any, names: dict[str, Any]) -> tuple[pa.DataType, Convert | None, bool]:
    """(Arrow type, conversion or None, nullable)."""
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

    def convert(raw: bytes) -> decimal.Decimal:
        return decimal.Decimal(int.from_bytes(raw, "big", signed=True)).scaleb(-scale, _DECIMAL_CONTEXT)

    return pa.decimal128(schema["precision"], scale), convert


def _logical(avro: Any, schema: Mapping[str, Any]) -> tuple[pa.DataType, Convert | None]:
    zone = "UTC" if schema.get("adjust-to-utc") else None
    logical = schema.get("logicalType")
    if logical == "decimal":
        return _decimal(schema)
    known = {
        "date": pa.date32(),
        "time-micros": pa.time64("us"),
        "timestamp-micros": pa.timestamp("us", zone),
        "timestamp-nanos": pa.timestamp("ns", zone),
        "timestamp-millis": pa.timestamp("ms", zone),
    }
    if logical in known:
        return known[logical], None
    if isinstance(avro, dict):
        return _complex(avro, {})
    return _PLAIN[avro], None


def _with_id(field: pa.Field, field_id: Any) -> pa.Field:
    return field.with_metadata({FIELD_ID_KEY: str(field_id)}) if isinstance(field_id, int) else field


def _optional(convert: Convert) -> Convert:
    return lambda value: None if value is None else convert(value)


def _same(value: Any) -> Any:
    return value
