"""Read Debezium's change events: envelopes with `before`, `after` and `op`, in JSON or, decoded elsewhere, in Avro.

| message                                             | what it says                                            |
|-----------------------------------------------------|---------------------------------------------------------|
| `op` c (create), r (read by a snapshot), u (update) | the row `after`; of an update also the row before       |
| `op` d (delete)                                     | the key in `before`, or in the message's key            |
| `op` t (truncate)                                   | all rows of the table are gone                          |
| a tombstone                                         | the key is gone: in a compacted topic only it is left   |
| `op` m (a message of PostgreSQL's log),             | nothing                                                 |
| transactions, heartbeats, schema changes            |                                                         |

PostgreSQL with REPLICA IDENTITY DEFAULT logs only the key of a deleted row. Debezium puts null, or 0 and empty texts,
into the other columns of `before`: they are not values, and cannot be told from values.
Debezium: "Data change events" of the connectors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyiceberg import types as it
from pyiceberg.schema import Schema

from deletekit.errors import InvalidInputError
from deletekit.stream.sources.format_options import COMMON, FormatOptions, OptionError, format_options
from deletekit.stream.sources.left_out import is_of_log, server_of
from deletekit.stream.sources.messages import Message, Reject
from deletekit.stream.sources.row_changes import TRUNCATE, Change, Kind, Row, Truncate, decode_messages
from deletekit.stream.sources.source_types import SourceType
from deletekit.stream.sources.strict_json import StrictJson

OF_DEBEZIUM = (*COMMON, "truncate", "unavailable", "binary", "decimal_texts", "tombstones", "servers")
OPTIONS = (*OF_DEBEZIUM, "replica_identity")
_COMPLETE_BEFORE = {"mysql", "mariadb", "sqlserver", "oracle", "db2", "vitess", "informix", "deletekit"}
"""Connectors that send all columns of a deleted row."""
_NO_EVENT = "a message is not a change event of Debezium"
_OPS = ("c", "r", "u", "d", "t", "m")
_NO_ROWS = ({"status", "id"}, {"ddl"}, {"historyRecord"}, {"tableChanges"})
"""Names in messages about transactions, and about the source's schema."""

Payload = tuple[Any, SourceType | None]
_KINDS: dict[str, Kind] = {"c": "INSERT", "r": "INSERT", "u": "UPDATE_AFTER"}
_DELETED = {"true": True, "false": False, True: True, False: False, None: False}


class DebeziumJson:
    """Decodes Debezium's JSON, with schema parts and without."""

    def __init__(self, **options: Any) -> None:
        self.options = format_options("debezium-json", options, OPTIONS)
        self._envelopes = Envelopes(self.options)

    def decode(self, messages: Sequence[Message], schema: Schema, *, reject: Reject | None = None) -> pa.Table:
        """Return the change rows of messages, as `Decoder.decode`."""
        read = StrictJson(exact=has_decimals(schema)).payload
        return decode_messages(
            lambda message: self._envelopes.of_message(message, read), messages, schema, self.options, reject
        )


class Key:
    """The message's key, read only where it is needed."""

    def __init__(self, read: Any) -> None:
        self._read = read

    def row(self) -> Payload | None:
        """Return the columns of the key and their types, or None if the message has no key."""
        found = self._read()
        if found is None or found[0] is None:
            return None
        if not isinstance(found[0], dict):
            raise refused("the key of a message is not an object", "message-key", found[0], "an object of columns")
        return found  # type: ignore[no-any-return]


def tombstone(key: Key, options: FormatOptions) -> Iterator[Change]:
    """Yield what a tombstone says: its key is gone. Raises InvalidInputError if that key is not known."""
    found = key.row() if options.tombstones == "delete" else None
    if options.tombstones == "delete" and (found is None or not found[0]):
        message, expected = "a tombstone without a key", "the columns of the key, or option tombstones='ignore'"
        raise refused(message, "message-key", found and found[0], expected)
    if found is not None:
        yield Change("TOMBSTONE", *found)


def certain(before: Row, kind: SourceType | None, key: Key) -> tuple[Row, SourceType | None]:
    """Return the columns of a row before a change that are not placeholders: those of the key, if there is one."""
    own = key.row()
    if own is None:
        return {n: v for n, v in before.items() if v is not None}, kind
    return ({n: before[n] for n in own[0]}, kind) if own[0].keys() <= before.keys() else own


def check_key(row: Row) -> None:
    """Raise InvalidInputError if nothing is known of a row that is deleted."""
    if not row:
        raise refused("a delete without a key", "message-key", "no row, and no key", "one of them")


class Envelopes:
    """Says the changes of envelopes."""

    def __init__(self, options: FormatOptions) -> None:
        self._options = options

    def of_message(self, message: Message, read: Callable[[bytes], Payload]) -> Iterator[Change | Truncate]:
        """Return the changes of a message. `read` takes a key or a value apart."""
        key = Key(lambda: read(message.key) if message.key is not None else None)
        if message.value is None:
            return tombstone(key, self._options)
        payload, kind = read(message.value)
        return self.changes(payload, kind, key)

    def changes(self, payload: Any, kind: SourceType | None, key: Key) -> Iterator[Change | Truncate]:
        """Yield the changes of one envelope. Raises InvalidInputError for a payload that is none."""
        if not isinstance(payload, dict):
            raise refused(_NO_EVENT, "message-envelope", payload, "an object with `op`")
        op = payload.get("op")
        if op in ("c", "r", "u"):
            yield from self._put(payload, op, kind, key)
        elif op == "d":
            yield self._delete(payload, kind, key)
        elif op == "t":
            yield TRUNCATE
        elif op != "m" and not _has_no_rows(payload):
            raise refused(_NO_EVENT, "message-envelope", op or sorted(payload), f"`op` {', '.join(_OPS)}")

    def _put(self, payload: Mapping[str, Any], op: str, kind: SourceType | None, key: Key) -> Iterator[Change]:
        after, before = _row(payload, "after"), _row(payload, "before")
        if after is None:
            raise refused("an event without its row", "message-envelope", f"op {op}, after null", "the row in `after`")
        sequence, server, known, own = self._sequence(payload), self._server(payload), None, None
        if op == "u" and before is not None:
            known, source = self._known(payload, before, kind, key)
            yield Change("UPDATE_BEFORE", known, source, sequence, server)
        elif op == "u":
            own = key.row()
        name: Kind = "UPDATE_AFTER" if op == "u" else "INSERT"
        unmoved = None if own is None else tuple(own[0])
        yield Change(name, after, _part(kind, "after"), sequence, server, known, unmoved)

    def _delete(self, payload: Mapping[str, Any], kind: SourceType | None, key: Key) -> Change:
        row, source = self._known(payload, _row(payload, "before") or {}, kind, key)
        check_key(row)
        return Change("DELETE", row, source, self._sequence(payload), self._server(payload))

    def _known(
        self, payload: Mapping[str, Any], before: Row, kind: SourceType | None, key: Key
    ) -> tuple[Row, SourceType | None]:
        """Return the columns of a row before a change whose values are certain, and their types."""
        source = payload.get("source")
        connector = source.get("connector") if isinstance(source, dict) else None
        if before and (connector in _COMPLETE_BEFORE or self._options.replica_identity == "full"):
            return before, _part(kind, "before")
        return certain(before, _part(kind, "before"), key)

    def _sequence(self, payload: Mapping[str, Any]) -> int | str | None:
        name = self._options.sequence
        return None if name is None else sequence_of(payload.get("source"), name)

    def _server(self, payload: Mapping[str, Any]) -> str | None:
        name = self._options.sequence
        return server_of(payload.get("source")) if name is not None and is_of_log(name) else None


def sequence_of(source: Any, name: str, prefix: str = "") -> int | str:
    """Return the value of `_sequence`: a field of an event's source, or its place in MySQL's log as sortable text."""
    try:
        if name == "binlog":
            return _log_place(*(source[prefix + part] for part in ("file", "pos", "row")))
        value = source[prefix + name]
    except (KeyError, TypeError) as e:
        error = refused("an event has no such place in its source", "message-sequence", name, "a field of its source")
        raise OptionError.of(error, {"sequence": ()}) from e
    if type(value) not in (int, str):
        raise refused("a place in the source is not a number or text", "message-sequence", value, None)
    return value  # type: ignore[no-any-return]


def has_decimals(schema: Schema) -> bool:
    """Tell whether numbers must be read exactly, because some column is a decimal."""
    return any(isinstance(schema.find_type(i), it.DecimalType) for i in schema.field_ids)


def refused(message: str, kind: str, found: Any, expected: str | None) -> InvalidInputError:
    """Return the error for a message that is not what its format says."""
    shown = found if isinstance(found, str) else repr(found)[:200]
    return InvalidInputError(message, kind=kind, found=shown, expected=expected)


def _log_place(file: Any, pos: Any, row: Any) -> str:
    """Return a place in MySQL's log as text that sorts as the log does: `mysql-bin.000009` comes before `.000010`."""
    number = str(file).rpartition(".")[2]
    if not number.isdecimal() or type(pos) is not int or type(row) is not int or pos < 0 or row < 0:
        raise refused("an event has no place in MySQL's log", "message-sequence", (file, pos, row), None)
    return f"{int(number):012d}:{pos:020d}:{row:010d}"


def _row(payload: Mapping[str, Any], name: str) -> Row | None:
    row = payload.get(name)
    if row is not None and not isinstance(row, dict):
        raise refused(f"`{name}` is not a row", "message-envelope", row, "an object of columns")
    return row


def _part(kind: SourceType | None, name: str) -> SourceType | None:
    return None if kind is None else kind.fields.get(name)


def _has_no_rows(payload: Mapping[str, Any]) -> bool:
    if "op" in payload or "after" in payload or "before" in payload:
        return False
    return payload.keys() == {"ts_ms"} or any(names <= payload.keys() for names in _NO_ROWS)


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
        key = Key(lambda: None if message.key is None else reader.payload(message.key))
        if payload is None:
            yield from tombstone(key, self.options)
            return
        if not isinstance(payload, dict):
            raise refused("a message is not a row", "message-envelope", payload, "an object of columns")
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
            row, source = certain(payload, kind, key)
            check_key(row)
            yield Change("DELETE", _columns(row, columns), source, sequence, server)
        else:
            yield Change(_KINDS.get(op or "", "UPDATE_AFTER"), _columns(payload, columns), kind, sequence, server)


def _columns(row: Row, columns: set[str]) -> Row:
    return {n: v for n, v in row.items() if not n.startswith("__") or n in columns}
