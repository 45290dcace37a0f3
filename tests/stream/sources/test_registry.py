"""Schemas of Avro messages: from a registry over HTTP, which may be away, refuse or say nonsense, and from a mapping.

The registry here is Python's HTTP server with the one request of Confluent's API that readers make.
"""

import base64
import json
import random
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

import deletekit as dk
from deletekit.stream import Message, decoder
from tests.stream.replay import check
from tests.stream.sources.writers import COLUMNS, SCHEMAS, Source, framed, random_row
from tests.tables import make, raises

LOGIN = "Basic " + base64.b64encode(b"reader:s3cret!").decode()


class Registry(BaseHTTPRequestHandler):
    asked: list[str]

    def do_GET(self) -> None:
        self.asked.append(self.path)
        number = self.path.rpartition("/")[2]
        answers = {str(n): (200, {"schema": json.dumps(s)}) for n, s in SCHEMAS.items()} | {
            "10": (200, {"schema": "syntax = ...", "schemaType": "PROTOBUF"}),
            "11": (200, {"schema": '"string"', "references": [{"name": "a", "subject": "a", "version": 1}]}),
            "12": (200, {"schema": "{"}),
            "13": (200, ["nonsense"]),
            "14": (500, {"error_code": 50001}),
            "15": (200, {"schema": '{"type": "record", "name": "R"}'}),
        }
        status, body = answers.get(number, (404, {"error_code": 40403, "message": "Schema not found"}))
        if self.headers["Authorization"] != LOGIN:
            status, body = 401, {"error_code": 40101}
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def registry() -> Iterator[str]:
    Registry.asked = []
    with ThreadingHTTPServer(("127.0.0.1", 0), Registry) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://reader:s3cret%21@127.0.0.1:{server.server_port}"
        server.shutdown()


def test_schemas_come_from_the_registry_once(catalog: dk.Catalog, registry: str) -> None:
    source = Source("avro")
    for key in range(20):
        source.put(random_row(random.Random(key), key))
    source.delete(3)
    table = make(catalog, schema=COLUMNS)
    messages = decoder("debezium-avro", registry=registry)
    with dk.stream.sink(table, "cdc", on="id") as sink:
        sink.write(messages.decode(source.messages[:15], table.schema), 0)
        sink.write(messages.decode(source.messages[15:], table.schema), 1)
    check(table, source.rows)
    assert Registry.asked == ["/schemas/ids/1", "/schemas/ids/2"]


@pytest.mark.parametrize(
    ("number", "error", "kind"),
    [
        (10, dk.InvalidInputError, "message-schema"),
        (11, dk.InvalidInputError, "message-schema"),
        (12, dk.StorageError, "schema-registry"),
        (13, dk.StorageError, "schema-registry"),
        (14, dk.StorageError, "schema-registry"),
        (15, dk.InvalidInputError, "message-schema"),
        (99, dk.NotFoundError, "schema-id"),
    ],
)
def test_an_answer_that_is_no_schema(catalog: dk.Catalog, registry: str, number: int, error: type, kind: str) -> None:
    table = make(catalog, schema=COLUMNS)
    data = b"\0" + number.to_bytes(4, "big") + b"x"
    with pytest.raises(error) as found:
        decoder("debezium-avro", registry=registry).decode([Message(None, data)], table.schema)
    assert found.value.kind == kind


def test_no_error_shows_the_password(catalog: dk.Catalog, registry: str) -> None:
    table = make(catalog, schema=COLUMNS)
    message = Message(None, framed(1, envelope()))
    gone = registry.rpartition(":")[0] + ":1"
    for address in (registry.replace("reader", "someone"), gone):
        with pytest.raises(dk.StorageError) as found:
            decoder("debezium-avro", registry=address).decode([message], table.schema, reject=lambda *_: None)
        assert "127.0.0.1" in str(found.value)
        assert not any(word in str(found.value) for word in ("s3cret", "someone", "reader"))
    for address in ("ftp://reader:s3cret@host", "reader:s3cret@host", "http://"):
        with pytest.raises(dk.InvalidInputError) as bad:
            decoder("debezium-avro", registry=address)
        assert "s3cret" not in str(bad.value)


def test_ids_of_eight_bytes(catalog: dk.Catalog) -> None:
    table = make(catalog, schema=COLUMNS)
    reader = decoder("debezium-avro", registry=SCHEMAS, id_bytes=8)
    assert reader.decode([Message(None, framed(1, envelope(), id_bytes=8))], table.schema).num_rows == 1
    with pytest.raises(dk.InvalidInputError):
        reader.decode([Message(None, framed(1, envelope()))], table.schema)
    for options in ({}, {"registry": SCHEMAS, "id_bytes": 5}, {"registry": 7}):
        with raises(dk.InvalidInputError, "format-option"):
            decoder("debezium-avro", **options)


def envelope() -> dict[str, object]:
    row = dict.fromkeys(COLUMNS.names) | {"id": 1, "quantity": 2}
    return {
        "before": None,
        "after": row,
        "source": {"connector": "postgresql", "ts_ms": 1, "snapshot": "false"},
        "op": "c",
    }
