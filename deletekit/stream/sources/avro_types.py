"""Understand Avro schemas as Kafka Connect's converter writes them: `connect.name` says what a value means."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deletekit.stream.sources.source_types import DECIMAL, SourceType

_KINDS = {"int": "int32", "long": "int64", "fixed": "bytes", "enum": "string"}
_LOGICAL = {
    "decimal": DECIMAL,
    "date": "org.apache.kafka.connect.data.Date",
    "time-millis": "io.debezium.time.Time",
    "time-micros": "io.debezium.time.MicroTime",
    "timestamp-millis": "org.apache.kafka.connect.data.Timestamp",
    "timestamp-micros": "io.debezium.time.MicroTimestamp",
    "local-timestamp-millis": "io.debezium.time.Timestamp",
    "local-timestamp-micros": "io.debezium.time.MicroTimestamp",
}


def avro_type(schema: Any) -> SourceType:
    """Return the type of an Avro schema. Raises KeyError, TypeError or AttributeError for a schema that is none."""
    return _type(schema, {})


def without_logical_types(schema: Any) -> Any:
    """Return a schema whose values are read as they are stored."""
    if isinstance(schema, list):
        return [without_logical_types(s) for s in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        name: without_logical_types(part) if name in ("type", "items", "values", "fields") else part
        for name, part in schema.items()
        if name not in ("logicalType", "default")
    }


def _type(schema: Any, named: dict[str, SourceType], space: str = "") -> SourceType:
    if isinstance(schema, str):
        known = named.get(schema) or named.get(f"{space}.{schema}")
        return known or SourceType(kind=_KINDS.get(schema, schema))
    if isinstance(schema, list):
        others = [s for s in schema if s != "null"]
        return _type(others[0], named, space) if len(others) == 1 else SourceType(kind="union")
    kind = schema["type"]
    if not isinstance(kind, str):
        return _type(kind, named, space)
    name = schema.get("connect.name") or _LOGICAL.get(schema.get("logicalType", ""))
    if kind not in ("record", "enum", "fixed", "array", "map"):
        plain = _type(kind, named, space)
        return plain if name is None else SourceType(kind=plain.kind, name=name, parameters=_parameters(schema))
    full, space = _full_name(schema, space)
    if kind == "record":
        fields: dict[str, SourceType] = {}
        made = SourceType(kind="struct", name=name, fields=fields)
        named[full] = made
        fields.update({f["name"]: _type(f["type"], named, space) for f in schema["fields"]})
        return made
    if kind in ("array", "map"):
        items = _type(schema["items" if kind == "array" else "values"], named, space)
        return SourceType(kind=kind, name=name, items=items)
    named[full] = SourceType(kind=_KINDS[kind], name=name, parameters=_parameters(schema))
    return named[full]


def _full_name(schema: Mapping[str, Any], space: str) -> tuple[str, str]:
    name = str(schema.get("name", ""))
    if "." in name:
        return name, name.rpartition(".")[0]
    space = schema.get("namespace", space)
    return (f"{space}.{name}" if space else name), space


def _parameters(schema: Mapping[str, Any]) -> dict[str, str]:
    found = {str(k): str(v) for k, v in (schema.get("connect.parameters") or {}).items()}
    if "scale" in schema or schema.get("logicalType") == "decimal":
        found.setdefault("scale", str(schema.get("scale", 0)))
    if "precision" in schema:
        found.setdefault("connect.decimal.precision", str(schema["precision"]))
    return found
