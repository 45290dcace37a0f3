"""Read Debezium's change events in Avro, in the wire format of schema registries: 0, the schema's id, the value.

Logical types are left to the names that Kafka Connect's converter adds (`connect.name`), so that a value means the same
as in JSON. Confluent: "Wire format".
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Mapping, Sequence
from http.client import HTTPException
from io import BytesIO
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import unquote, urlsplit, urlunsplit
from urllib.request import Request, urlopen

import pyarrow as pa
from fastavro import parse_schema, schemaless_reader
from fastavro.schema import SchemaParseException
from pyiceberg.schema import Schema

from deletekit.errors import InvalidInputError, NotFoundError, StorageError
from deletekit.stream.sources.debezium import OPTIONS, Envelopes, refused
from deletekit.stream.sources.format_options import format_options
from deletekit.stream.sources.messages import Message, Reject
from deletekit.stream.sources.row_changes import decode_messages
from deletekit.stream.sources.source_types import DECIMAL, SourceType

_SECONDS = 30
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


class Registry:
    """A schema registry.

    Parameters
    ----------
    url: its address. User and password in it are sent as basic authentication, and are in no error.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            expected = "http://host:port or https://user:password@host"
            raise InvalidInputError(
                "this is not an address of a schema registry", kind="format-option", field="registry", expected=expected
            )
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        if parts.port is not None:
            host += f":{parts.port}"
        self._url = urlunsplit((parts.scheme, host, parts.path.rstrip("/"), "", ""))
        self._headers = {"Accept": "application/vnd.schemaregistry.v1+json, application/json"}
        if parts.username is not None:
            login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            self._headers["Authorization"] = f"Basic {base64.b64encode(login.encode()).decode()}"

    def schema(self, number: int) -> Any:
        """Return the Avro schema of an id.

        Raises NotFoundError for an unknown id, InvalidInputError for a schema that is not Avro, StorageError if the
        registry refuses or does not answer. A message is not to blame for the first and the last, and is not rejected.
        """
        address = f"{self._url}/schemas/ids/{number}"
        try:
            with urlopen(Request(address, headers=self._headers), timeout=_SECONDS) as answer:  # noqa: S310  # http(s)
                document = json.load(answer)
            text = document["schema"]
            kind, references = document.get("schemaType", "AVRO"), document.get("references")
            schema = json.loads(text) if kind == "AVRO" else None
        except HTTPError as e:
            e.close()
            if e.code == 404:
                message = "the schema registry does not know a schema"
                raise NotFoundError(message, kind="schema-id", file=address, found=number) from None
            message = "the schema registry refuses"
            raise StorageError(message, kind="schema-registry", file=address, found=f"HTTP {e.code}") from None
        except (URLError, OSError, HTTPException) as e:
            message = "the schema registry does not answer"
            raise StorageError(message, kind="schema-registry", file=address, found=type(e).__name__) from e
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as e:
            message = "the answer of the schema registry is not a schema"
            raise StorageError(message, kind="schema-registry", file=address, found=type(e).__name__) from e
        if kind != "AVRO" or references:
            found = kind if kind != "AVRO" else "a schema with references"
            message = "a schema of the registry is not read"
            raise InvalidInputError(message, kind="message-schema", file=address, found=found, expected="Avro alone")
        return schema


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
