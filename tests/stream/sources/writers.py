"""Writers of change messages by the documents of Debezium, which share nothing with the readers.

A source is a dict of rows by key, in a database of one kind. Its changes become messages as the connector sends them.
"""

import base64
import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from io import BytesIO
from typing import Any
from uuid import UUID

import fastavro
import pyarrow as pa

from deletekit.stream import Message

Row = dict[str, Any]

COLUMNS = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("name", pa.string()),
        pa.field("price", pa.decimal128(12, 2)),
        pa.field("at", pa.timestamp("us")),
        pa.field("seen", pa.timestamp("us", "UTC")),
        pa.field("day", pa.date32()),
        pa.field("flag", pa.bool_()),
        pa.field("weight", pa.float64()),
        pa.field("data", pa.binary()),
        pa.field("code", pa.uuid()),
        pa.field("quantity", pa.int32(), nullable=False),
    ]
)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC).replace(tzinfo=None)
PLACEHOLDERS = {"id": 0, "quantity": 0}
"""What Debezium puts into required columns of `before` that PostgreSQL did not log."""


def random_row(random_: random.Random, key: int) -> Row:
    """Make a row of any values; every column but the key and `quantity` may be null."""
    row: Row = {
        "name": random_.choice(["", "a", 'üñ\u2028"\\\t', "null", "x" * 50]),
        "price": Decimal(random_.randrange(-(10**12) + 1, 10**12)).scaleb(-2),
        "at": EPOCH + timedelta(microseconds=random_.randrange(0, 4 * 10**15)),
        "seen": (EPOCH + timedelta(microseconds=random_.randrange(0, 4 * 10**15))).replace(tzinfo=UTC),
        "day": date(1970, 1, 1) + timedelta(days=random_.randrange(-20000, 40000)),
        "flag": random_.random() < 0.5,
        "weight": random_.choice([0.1, -1e300, 5e-324, 3.0, random_.random()]),
        "data": random_.randbytes(random_.randrange(5)),
        "code": UUID(int=random_.getrandbits(128)),
    }
    nulls = {name: None for name in row if random_.random() < 0.15}
    return {"id": key, **row, **nulls, "quantity": random_.randrange(-(2**31), 2**31)}


# --- Debezium ---------------------------------------------------------------------------------------------------------


def _micros(value: datetime) -> int:
    return (value.replace(tzinfo=None) - EPOCH) // timedelta(microseconds=1)


def _unscaled(value: Decimal) -> bytes:
    number = int(value.scaleb(2))
    return number.to_bytes((number.bit_length() + 8) // 8, "big", signed=True)


CONNECT: dict[str, dict[str, Any]] = {
    "id": {"type": "int64", "optional": False},
    "name": {"type": "string", "optional": True},
    "price": {
        "type": "bytes",
        "optional": True,
        "name": "org.apache.kafka.connect.data.Decimal",
        "version": 1,
        "parameters": {"scale": "2", "connect.decimal.precision": "12"},
    },
    "at": {"type": "int64", "optional": True, "name": "io.debezium.time.MicroTimestamp", "version": 1},
    "seen": {"type": "string", "optional": True, "name": "io.debezium.time.ZonedTimestamp", "version": 1},
    "day": {"type": "int32", "optional": True, "name": "io.debezium.time.Date", "version": 1},
    "flag": {"type": "boolean", "optional": True},
    "weight": {"type": "double", "optional": True},
    "data": {"type": "bytes", "optional": True},
    "code": {"type": "string", "optional": True, "name": "io.debezium.data.Uuid", "version": 1},
    "quantity": {"type": "int32", "optional": False},
}
DEBEZIUM: dict[str, Callable[[Any], Any]] = {
    "price": lambda v: base64.b64encode(_unscaled(v)).decode(),
    "at": _micros,
    "seen": lambda v: v.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
    "day": lambda v: (v - date(1970, 1, 1)).days,
    "data": lambda v: base64.b64encode(v).decode(),
    "code": str,
}
WITHOUT_SCHEMA = {**DEBEZIUM, "price": lambda v: format(v, "f")}
"""With decimal.handling.mode=string: without a schema nobody knows the scale of bytes."""


def encoded(row: Mapping[str, Any], forms: Mapping[str, Callable[[Any], Any]]) -> Row:
    """Return a row as a format writes its values."""
    return {n: v if v is None or n not in forms else forms[n](v) for n, v in row.items()}


def text(document: Any) -> bytes:
    """Return a document as JSON."""
    return json.dumps(document, ensure_ascii=False).encode()


def connect_schema(columns: Mapping[str, Mapping[str, Any]] = CONNECT) -> dict[str, Any]:
    """Return the schema part of an envelope."""
    fields = [{**kind, "field": name} for name, kind in columns.items()]
    row = {"type": "struct", "fields": fields, "optional": True, "name": "srv.public.items.Value"}
    source = {"type": "struct", "fields": [], "name": "io.debezium.connector.postgresql.Source", "field": "source"}
    parts = [{**row, "field": "before"}, {**row, "field": "after"}, source]
    parts += [{"type": "string", "field": "op"}, {"type": "int64", "optional": True, "field": "ts_ms"}]
    return {"type": "struct", "fields": parts, "optional": False, "name": "srv.public.items.Envelope"}


KEY_SCHEMA = {
    "type": "struct",
    "fields": [{"type": "int64", "optional": False, "field": "id"}],
    "optional": False,
    "name": "srv.public.items.Key",
}


def origin(connector: str, number: int) -> Row:
    """Return the `source` block of a connector."""
    shared = {"version": "2.7.3.Final", "connector": connector, "name": "srv", "ts_ms": 1_700_000_000_000 + number}
    snapshot = {"snapshot": "false", "db": "inventory", "sequence": None, "table": "items"}
    own: dict[str, Row] = {
        "postgresql": {"schema": "public", "txId": 571, "lsn": 24_023_128 + number, "xmin": None},
        "mysql": {"server_id": 223344, "gtid": None, "file": "mysql-bin.000003", "pos": 154 + number, "row": 0},
        "sqlserver": {
            "schema": "dbo",
            "change_lsn": f"00000027:{number:08x}:0002",
            "commit_lsn": f"00000027:{number:08x}:0005",
            "event_serial_no": 1,
        },
    }
    return {**shared, **snapshot, **own[connector]}


@dataclass
class Source:
    """A source table and the messages of its changes.

    Attributes
    ----------
    form: `json`, `json-schema`, `avro`, `flat` or `flat-schema`.
    full: whether PostgreSQL logs whole rows.
    """

    form: str
    connector: str = "postgresql"
    full: bool = False
    rows: dict[int, Row] = field(default_factory=dict)
    messages: list[Message] = field(default_factory=list)

    def put(self, row: Row, op: str | None = None) -> None:
        """Insert or update a row by its key."""
        old = self.rows.get(row["id"])
        self.rows[row["id"]] = row
        self._event(op or ("c" if old is None else "u"), row["id"], old, row)

    def delete(self, key: int) -> None:
        """Delete a row; Debezium's tombstone follows."""
        old = self.rows.pop(key)
        self._event("d", key, old, None)
        self._send(key, None)

    def move(self, key: int, row: Row) -> None:
        """Update a row and its key: Debezium sends a delete and a create."""
        self.delete(key)
        self.put(row)

    def truncate(self) -> None:
        self.rows.clear()
        self._event("t", None, None, None)

    def noise(self) -> None:
        """Send messages that change no row."""
        noise: dict[str, list[Any]] = {
            "json": [
                {"ts_ms": 1_700_000_000_000},
                {"status": "BEGIN", "id": "571:53195829", "event_count": None, "data_collections": None, "ts_ms": 1},
                {"status": "END", "id": "571:53195829", "event_count": 1, "data_collections": [], "ts_ms": 1},
                {"op": "m", "ts_ms": 1, "source": {}, "message": {"prefix": "p", "content": "aGk="}},
                {"source": {}, "ts_ms": 1, "databaseName": "inventory", "ddl": "ALTER TABLE items", "tableChanges": []},
            ],
        }
        for document in noise.get(self.form, []):
            self._send(None, text(document))

    # --- messages -----------------------------------------------------------------------------------------------------

    def _event(self, op: str, key: int | None, old: Row | None, row: Row | None) -> None:
        self._send(key, getattr(self, "_" + self.form.partition("-")[0])(op, old, row))

    def _send(self, key: int | None, value: bytes | None) -> None:
        own: bytes | None = None
        if key is not None and self.form == "avro":
            own = framed(2, {"id": key})
        elif key is not None and self.form.endswith("-schema"):
            own = text({"schema": KEY_SCHEMA, "payload": {"id": key}})
        elif key is not None:
            own = text({"id": key})
        self.messages.append(Message(own, value, "srv.public.items", 0, len(self.messages)))

    def _before(self, op: str, old: Row | None) -> Row | None:
        if old is None:
            return None
        if self.connector != "postgresql" or self.full:
            return old
        if op == "u":
            return None
        return {n: old[n] if n == "id" else PLACEHOLDERS.get(n) for n in old}

    def _envelope(self, op: str, old: Row | None, row: Row | None, forms: Any) -> Row:
        before = self._before(op, old)
        return {
            "before": before and encoded(before, forms),
            "after": row and encoded(row, forms),
            "source": origin(self.connector, len(self.messages)),
            "op": op,
            "ts_ms": 1_700_000_000_142,
            "transaction": None,
        }

    def _json(self, op: str, old: Row | None, row: Row | None) -> bytes:
        payload = self._envelope(op, old, row, DEBEZIUM if self.form == "json-schema" else WITHOUT_SCHEMA)
        return text({"schema": connect_schema(), "payload": payload} if self.form == "json-schema" else payload)

    def _flat(self, op: str, old: Row | None, row: Row | None) -> bytes:
        if op == "t":
            return text({"__op": "t", "__table": "items"})
        values = encoded(row or self._before(op, old) or {}, DEBEZIUM if "-" in self.form else WITHOUT_SCHEMA)
        values |= {"__deleted": "true" if op == "d" else "false", "__op": op, "__source_ts_ms": 1_700_000_000_000}
        fields = [{**kind, "field": name} for name, kind in CONNECT.items()]
        schema = {"type": "struct", "fields": fields, "optional": False}
        return text({"schema": schema, "payload": values} if self.form == "flat-schema" else values)

    def _avro(self, op: str, old: Row | None, row: Row | None) -> bytes:
        forms = {**DEBEZIUM, "price": _unscaled, "data": bytes}
        return framed(1, self._envelope(op, old, row, forms))


# --- Avro -------------------------------------------------------------------------------------------------------------


def _avro_field(name: str, kind: Mapping[str, Any]) -> Row:
    plain = {"int64": "long", "int32": "int"}.get(kind["type"], kind["type"])
    made: Any = plain
    if "name" in kind:
        made = {"type": plain, "connect.version": 1, "connect.name": kind["name"]}
        if "parameters" in kind:
            made |= {"scale": 2, "precision": 12, "connect.parameters": kind["parameters"], "logicalType": "decimal"}
    return {"name": name, "type": ["null", made], "default": None} if kind["optional"] else {"name": name, "type": made}


VALUE = {
    "type": "record",
    "name": "Value",
    "fields": [_avro_field(n, k) for n, k in CONNECT.items()],
    "connect.name": "srv.public.items.Value",
}
SOURCE = {
    "type": "record",
    "name": "Source",
    "namespace": "io.debezium.connector.postgresql",
    "fields": [
        {"name": "connector", "type": "string"},
        {"name": "ts_ms", "type": "long"},
        {"name": "snapshot", "type": [{"type": "string", "connect.default": "false"}, "null"], "default": "false"},
        {"name": "lsn", "type": ["null", "long"], "default": None},
    ],
    "connect.name": "io.debezium.connector.postgresql.Source",
}
SCHEMAS: dict[int, Any] = {
    1: {
        "type": "record",
        "name": "Envelope",
        "namespace": "srv.public.items",
        "fields": [
            {"name": "before", "type": ["null", VALUE], "default": None},
            {"name": "after", "type": ["null", "Value"], "default": None},
            {"name": "source", "type": SOURCE},
            {"name": "op", "type": "string"},
            {"name": "ts_ms", "type": ["null", "long"], "default": None},
        ],
        "connect.name": "srv.public.items.Envelope",
    },
    2: {
        "type": "record",
        "name": "Key",
        "namespace": "srv.public.items",
        "fields": [{"name": "id", "type": "long"}],
        "connect.name": "srv.public.items.Key",
    },
}


def framed(number: int, value: Any, id_bytes: int = 4) -> bytes:
    """Return a value in the wire format of schema registries, written without logical types."""
    plain = json.loads(json.dumps(SCHEMAS[number]).replace('"logicalType"', '"ignored"'))
    stream = BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(plain), value)
    return b"\0" + number.to_bytes(id_bytes, "big") + stream.getvalue()
