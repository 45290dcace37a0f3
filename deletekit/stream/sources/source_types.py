"""Types of a source's columns: those of Kafka Connect, with the names that Debezium gives to what they mean.

Debezium: "Data type mappings" of each connector. Kafka: `org.apache.kafka.connect.data.Schema`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pyiceberg import types as it

from deletekit.errors import InvalidInputError

TIME_UNITS = {
    "io.debezium.time.Time": "ms",
    "io.debezium.time.MicroTime": "us",
    "io.debezium.time.NanoTime": "ns",
    "org.apache.kafka.connect.data.Time": "ms",
}
TIMESTAMP_UNITS = {
    "io.debezium.time.Timestamp": "ms",
    "io.debezium.time.MicroTimestamp": "us",
    "io.debezium.time.NanoTimestamp": "ns",
    "org.apache.kafka.connect.data.Timestamp": "ms",
}
DATES = {"io.debezium.time.Date", "org.apache.kafka.connect.data.Date"}
TIME_TEXTS = {"io.debezium.time.ZonedTime", "io.debezium.time.IsoTime"}
TIMESTAMP_TEXTS = {"io.debezium.time.ZonedTimestamp", "io.debezium.time.IsoTimestamp"}
DATE_TEXTS = {"io.debezium.time.IsoDate"}
DURATIONS = {"io.debezium.time.MicroDuration", "io.debezium.time.NanoDuration"}
DECIMAL = "org.apache.kafka.connect.data.Decimal"
VARIABLE_DECIMAL = "io.debezium.data.VariableScaleDecimal"
UUID = "io.debezium.data.Uuid"

_PLAIN: dict[str, it.IcebergType] = {
    "boolean": it.BooleanType(),
    "int8": it.IntegerType(),
    "int16": it.IntegerType(),
    "int32": it.IntegerType(),
    "int64": it.LongType(),
    "float": it.FloatType(),
    "double": it.DoubleType(),
    "string": it.StringType(),
    "bytes": it.BinaryType(),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceType:
    """The type of a column or value in the source.

    Attributes
    ----------
    kind: `boolean`, `int8` to `int64`, `float`, `double`, `string`, `bytes`, `array`, `map` or `struct`.
    name: what it means, as `io.debezium.time.Date`; None: nothing beyond its kind.
    parameters: as `scale` of a decimal.
    fields: of a struct; `items`: of an array or of a map's values; `keys`: of a map's keys.
    """

    kind: str
    name: str | None = None
    parameters: Mapping[str, str] = field(default_factory=dict)
    fields: Mapping[str, SourceType] = field(default_factory=dict)
    items: SourceType | None = None
    keys: SourceType | None = None

    @property
    def shown(self) -> str:
        """Its name for errors."""
        return self.name or self.kind


def connect_type(schema: Any) -> SourceType:
    """Return the type that the schema part of Kafka's JSON converter says. Raises InvalidInputError if it is none."""
    try:
        return _connect_type(schema)
    except (KeyError, TypeError, AttributeError, RecursionError) as e:
        message, expected = "the schema part of a message is none of Kafka Connect", "an object with `type`"
        raise InvalidInputError(message, kind="message-schema", found=repr(schema)[:200], expected=expected) from e


def _connect_type(schema: Any) -> SourceType:
    kind, name = schema["type"], schema.get("name")
    if not isinstance(kind, str) or not isinstance(name, str | None):
        raise TypeError
    parameters = {str(k): str(v) for k, v in (schema.get("parameters") or {}).items()}
    fields = {f["field"]: _connect_type(f) for f in schema["fields"]} if kind == "struct" else {}
    items = _connect_type(schema["items" if kind == "array" else "values"]) if kind in ("array", "map") else None
    keys = _connect_type(schema["keys"]) if kind == "map" else None
    return SourceType(kind=kind, name=name, parameters=parameters, fields=fields, items=items, keys=keys)


def iceberg_type(source: SourceType) -> it.IcebergType | None:
    """Return the type that a column of the source has in a table, or None if it is not known which.

    Nested types have the ids 0, as they are of no table yet.
    """
    name = source.name or ""
    if name in DATES or name in DATE_TEXTS:
        return it.DateType()
    if name in TIME_UNITS or name in TIME_TEXTS:
        return it.TimeType()
    if name in TIMESTAMP_UNITS:
        return it.TimestampType()
    if name in TIMESTAMP_TEXTS:
        return it.TimestamptzType()
    if name == UUID:
        return it.UUIDType()
    if name == DECIMAL:
        precision = source.parameters.get("connect.decimal.precision", "")
        scale = source.parameters.get("scale", "")
        fits = precision.isdecimal() and scale.isdecimal() and int(scale) <= int(precision) <= 38
        return it.DecimalType(int(precision), int(scale)) if fits else None
    if name == VARIABLE_DECIMAL or name in DURATIONS:
        return None
    if source.kind == "array" and source.items is not None:
        inner = iceberg_type(source.items)
        return None if inner is None else it.ListType(element_id=0, element_type=inner, element_required=False)
    return _PLAIN.get(source.kind)
