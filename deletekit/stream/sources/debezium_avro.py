"""Read Debezium's change events in Avro, in the wire format of schema registries: 0, the schema's id, the value.

Logical types are left to the names that Kafka Connect's converter adds (`connect.name`), so that a value means the same
as in JSON. Confluent: "Wire format".
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import Any

import pyarrow as pa
from fastavro import parse_schema, schemaless_reader
from fastavro.schema import SchemaParseException
from pyiceberg.schema import Schema

from deletekit.errors import InvalidInputError
from deletekit.stream.sources.avro_types import avro_type, without_logical_types
from deletekit.stream.sources.debezium import OPTIONS, Envelopes, refused
from deletekit.stream.sources.format_options import format_options
from deletekit.stream.sources.messages import Message, Reject
from deletekit.stream.sources.registry import Registry
from deletekit.stream.sources.row_changes import decode_messages
from deletekit.stream.sources.source_types import SourceType

_DAMAGED = (
    ValueError, EOFError, LookupError, TypeError, AttributeError, ArithmeticError, MemoryError, RecursionError,
    struct.error,
)  # fmt: skip


class DebeziumAvro:
    """Decodes Debezium's Avro.

    Parameters
    ----------
    registry: the address of the schema registry, or the schemas themselves by their ids.
    id_bytes: how long an id is: 4 bytes, or 8 as Apicurio's own.
    """

    def __init__(self, *, registry: str | Mapping[int, Any] | None = None, id_bytes: int = 4, **options: Any) -> None:
        self.options = format_options("debezium-avro", options, OPTIONS, infinities=True)
        if registry is None or not isinstance(registry, str | Mapping):
            message, expected = "debezium-avro needs the schemas", "the registry's address, or schemas by id"
            raise InvalidInputError(message, kind="format-option", field="registry", expected=expected)
        if id_bytes not in (4, 8):
            message = "an id has another length"
            raise InvalidInputError(message, kind="format-option", field="id_bytes", found=id_bytes, expected="4 or 8")
        self._registry = Registry(registry) if isinstance(registry, str) else registry
        self._id_bytes = id_bytes
        self._envelopes = Envelopes(self.options)
        self._schemas: dict[int, tuple[Any, SourceType]] = {}

    def decode(self, messages: Sequence[Message], schema: Schema, *, reject: Reject | None = None) -> pa.Table:
        """Return the change rows of messages, as `Decoder.decode`."""
        return decode_messages(
            lambda message: self._envelopes.of_message(message, self._value), messages, schema, self.options, reject
        )

    def _value(self, data: bytes) -> tuple[Any, SourceType]:
        start = 1 + self._id_bytes
        if len(data) < start or data[0] != 0:
            message, expected = "a message names no schema of a registry", f"a zero byte, and {self._id_bytes} of an id"
            raise refused(message, "message-avro", data[:8], expected)
        schema, kind = self._schema(int.from_bytes(data[1:start], "big"))
        stream = BytesIO(data[start:])
        try:
            value = schemaless_reader(stream, schema, None)
        except _DAMAGED as e:
            raise refused("a message is not of its Avro schema", "message-avro", str(e), None) from e
        if stream.read(1):
            raise refused("a message has more bytes than its Avro schema", "message-avro", data[:8], None)
        return value, kind

    def _schema(self, number: int) -> tuple[Any, SourceType]:
        known = self._schemas.get(number)
        if known is not None:
            return known
        if isinstance(self._registry, Registry):
            raw = self._registry.schema(number)
        elif number in self._registry:
            raw = self._registry[number]
        else:
            raise refused("a message has a schema of an unknown id", "message-schema", number, "an id of the mapping")
        try:
            raw = json.loads(raw) if isinstance(raw, str) and raw.lstrip()[:1] in '{["' else raw
            made = parse_schema(without_logical_types(raw)), avro_type(raw)
        except (SchemaParseException, *_DAMAGED) as e:
            raise refused("a schema of the registry is not Avro", "message-schema", str(e), None) from e
        self._schemas[number] = made
        return made
