"""Read Maxwell's messages of MySQL: `data` is the row, and `old` has former values of columns that changed.

Rows of a bootstrap count as inserts. Messages about the schema, and about the bootstrap itself, change no row.
Maxwell: "Data Format".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyiceberg.schema import Schema

from deletekit.stream.sources.debezium import has_decimals, log_place, refused, sequence_of
from deletekit.stream.sources.format_options import COMMON, format_options
from deletekit.stream.sources.messages import Message, Reject
from deletekit.stream.sources.row_changes import Change, decode_messages
from deletekit.stream.sources.strict_json import StrictJson

OPTIONS = COMMON
_IGNORED = ("bootstrap-start", "bootstrap-complete", "database-create", "database-alter", "database-drop",
            "table-create", "table-alter", "table-drop")  # fmt: skip


class MaxwellJson:
    """Decodes Maxwell's JSON."""

    def __init__(self, **options: Any) -> None:
        self.options = format_options("maxwell", options, OPTIONS, binary="base64", decimal_texts=True)

    def decode(self, messages: Sequence[Message], schema: Schema, *, reject: Reject | None = None) -> pa.Table:
        """Return the change rows of messages, as `Decoder.decode`."""
        reader = StrictJson(exact=has_decimals(schema))

        def understand(message: Message) -> Iterator[Change]:
            return iter(()) if message.value is None else self._changes(reader.value(message.value))

        return decode_messages(understand, messages, schema, self.options, reject)

    def _changes(self, event: Any) -> Iterator[Change]:
        if not isinstance(event, dict) or "type" not in event:
            raise refused("a message is not Maxwell's", "message-envelope", event, "an object with `type`")
        kind = event["type"]
        if kind in _IGNORED:
            return
        if kind not in ("insert", "bootstrap-insert", "update", "delete"):
            raise refused("an event of an unknown kind", "message-envelope", kind, "insert, update, delete")
        row, old = _row(event, "data"), _row(event, "old") if kind == "update" else {}
        sequence = self._sequence(event)
        if kind == "update":
            yield Change("UPDATE_BEFORE", {**row, **old}, None, sequence)
            yield Change("UPDATE_AFTER", row, None, sequence)
        else:
            yield Change("DELETE" if kind == "delete" else "INSERT", row, None, sequence)

    def _sequence(self, event: Mapping[str, Any]) -> int | str | None:
        name = self.options.sequence
        if name is None:
            return None
        value = sequence_of(event, "position" if name == "binlog" else name)
        if name not in ("binlog", "position"):
            return value
        file, _, place = str(value).rpartition(":")
        offset = event.get("xoffset", 0)  # rows of a transaction share its position
        return log_place(file, int(place) if place.isdecimal() else None, offset)


def _row(event: Mapping[str, Any], name: str) -> dict[str, Any]:
    row = event.get(name)
    if not isinstance(row, dict):
        raise refused(f"`{name}` is no row", "message-envelope", row, "an object of columns")
    return row
