"""Read Canal's flat messages of MySQL: `data` has one or more rows whose values are texts, `old` the former values.

Messages about the schema (`isDdl`) change no row, but TRUNCATE. Bytes are written as ISO-8859-1 text.
Canal: `FlatMessage`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyiceberg.schema import Schema

from deletekit.stream.sources.debezium import has_decimals, refused, sequence_of
from deletekit.stream.sources.format_options import COMMON, format_options
from deletekit.stream.sources.messages import Message, Reject
from deletekit.stream.sources.row_changes import TRUNCATE, Change, Truncate, decode_messages
from deletekit.stream.sources.strict_json import StrictJson

OPTIONS = (*COMMON, "truncate")
_NO_ROWS = ("CREATE", "ALTER", "ERASE", "RENAME", "CINDEX", "DINDEX", "QUERY")
"""Kinds of messages about the schema; ERASE is DROP TABLE, QUERY any other statement."""


class CanalJson:
    """Decodes Canal's flat messages."""

    def __init__(self, **options: Any) -> None:
        self.options = format_options("canal", options, OPTIONS, texts=True, binary="latin-1")

    def decode(self, messages: Sequence[Message], schema: Schema, *, reject: Reject | None = None) -> pa.Table:
        """Return the change rows of messages, as `Decoder.decode`."""
        reader = StrictJson(exact=has_decimals(schema))

        def understand(message: Message) -> Iterator[Change | Truncate]:
            return iter(()) if message.value is None else self._changes(reader.value(message.value))

        return decode_messages(understand, messages, schema, self.options, reject)

    def _changes(self, event: Any) -> Iterator[Change | Truncate]:
        if not isinstance(event, dict) or "type" not in event:
            raise refused("a message is not Canal's", "message-envelope", event, "an object with `type`")
        kind = event["type"]
        if kind == "TRUNCATE":
            yield TRUNCATE
            return
        if kind in _NO_ROWS:
            return
        if kind not in ("INSERT", "UPDATE", "DELETE"):
            raise refused("an event of an unknown kind", "message-envelope", kind, "INSERT, UPDATE, DELETE")
        rows = _rows(event, "data")
        name = self.options.sequence
        sequence = None if name is None else sequence_of(event, name)
        if kind != "UPDATE":
            yield from (Change("INSERT" if kind == "INSERT" else "DELETE", row, None, sequence) for row in rows)
            return
        former = _rows(event, "old")
        if len(former) != len(rows):
            raise refused("`old` has not the rows of `data`", "message-envelope", len(former), f"{len(rows)} rows")
        # All old rows first: rows of one statement may take over each other's keys.
        for row, old in zip(rows, former, strict=True):
            yield Change("UPDATE_BEFORE", {**row, **old}, None, sequence)
        for row in rows:
            yield Change("UPDATE_AFTER", row, None, sequence)


def _rows(event: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    rows = event.get(name)
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise refused(f"`{name}` is no list of rows", "message-envelope", rows, "objects of columns")
    return rows
