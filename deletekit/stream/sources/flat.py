"""Read flattened change events: the row alone, as Debezium's ExtractNewRecordState leaves it.

A tombstone, or a row with `__deleted` true or `__op` d, deletes the key. Every other row is an upsert. Further names
that begin with `__` say where the row is from; they are no columns, unless the table has them.
Debezium: "New Record State Extraction".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyiceberg.schema import Schema

from deletekit.stream.sources.debezium import OF_DEBEZIUM, Key, has_decimals, refused, sequence_of, tombstone
from deletekit.stream.sources.format_options import format_options
from deletekit.stream.sources.left_out import is_of_log, server_of
from deletekit.stream.sources.messages import Message, Reject
from deletekit.stream.sources.row_changes import TRUNCATE, Change, Kind, Row, Truncate, decode_messages
from deletekit.stream.sources.source_types import SourceType
from deletekit.stream.sources.strict_json import StrictJson

_KINDS: dict[str, Kind] = {"c": "INSERT", "r": "INSERT", "u": "UPDATE_AFTER"}
_DELETED = {"true": True, "false": False, True: True, False: False, None: False}


class FlatJson:
    """Decodes flattened events in JSON, with schema parts and without."""

    def __init__(self, **options: Any) -> None:
        self.options = format_options("debezium-flat", options, OF_DEBEZIUM)

    def decode(self, messages: Sequence[Message], schema: Schema, *, reject: Reject | None = None) -> pa.Table:
        """Return the change rows of messages, as `Decoder.decode`."""
        reader = StrictJson(exact=has_decimals(schema))
        columns = {f.name for f in schema.fields}

        def understand(message: Message) -> Iterator[Change | Truncate]:
            return self._changes(message, reader, columns)

        return decode_messages(understand, messages, schema, self.options, reject)

    def _changes(self, message: Message, reader: StrictJson, columns: set[str]) -> Iterator[Change | Truncate]:
        payload, kind = reader.payload(message.value) if message.value is not None else (None, None)
        if payload is None:
            own = Key(lambda: None if message.key is None else reader.payload(message.key))
            yield from tombstone(own, self.options)
            return
        if not isinstance(payload, dict):
            raise refused("a message is no row", "message-envelope", payload, "an object of columns")
        op, deleted = payload.get("__op"), payload.get("__deleted")
        if op not in (None, "d", "t", *_KINDS):
            raise refused("an event of an unknown kind", "message-envelope", op, "__op c, r, u, d or t")
        if not isinstance(deleted, str | bool | None) or deleted not in _DELETED:
            raise refused("`__deleted` is neither true nor false", "message-envelope", deleted, "true or false")
        if op == "t":
            yield TRUNCATE
            return
        name = self.options.sequence
        sequence = None if name is None else sequence_of(payload, name, "" if name in payload else "__source_")
        server = server_of(payload, "__source_") if name is not None and is_of_log(name) else None
        if op == "d" or _DELETED[deleted]:
            row, source = _deleted(payload, kind, message, reader)
            yield Change("DELETE", _columns(row, columns), source, sequence, server)
        else:
            yield Change(_KINDS.get(op or "", "UPDATE_AFTER"), _columns(payload, columns), kind, sequence, server)


def _columns(row: Row, columns: set[str]) -> Row:
    return {n: v for n, v in row.items() if not n.startswith("__") or n in columns}


def _deleted(
    payload: Row, kind: SourceType | None, message: Message, reader: StrictJson
) -> tuple[Row, SourceType | None]:
    """Return the columns of a deleted row whose values are certain: those of the key, if the message has one."""
    if message.key is None:
        return {n: v for n, v in payload.items() if v is not None}, kind
    row, source = _key(message, reader)
    return ({n: payload[n] for n in row}, kind) if row.keys() <= payload.keys() else (row, source)


def _key(message: Message, reader: StrictJson) -> tuple[Row, SourceType | None]:
    row, source = (None, None) if message.key is None else reader.payload(message.key)
    if not isinstance(row, dict) or not row:
        raise refused("a delete without a key", "message-key", row, "an object of columns as the message's key")
    return row, source
