"""Read with Sail, by Arrow Flight SQL, which needs no client of Spark Connect."""

import os
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import version
from typing import Any

from conformance.adapters.protocol import Read, RefusedError, Request, serve

_ALIVE: list[Any] = []
"""Servers, which stop when no name holds them."""


def open_engine() -> tuple[str, Read]:
    """Return the version, and what reads a table."""
    query = sail_query()
    internal_error = import_module("pyarrow.flight").FlightInternalError  # Flight's name for every error of the server

    def read(request: Request) -> Any:
        folder = request.folder.replace("`", "``")
        at = "" if request.is_main else f" VERSION AS OF {request.snapshot_id}"
        try:
            return query(f"SELECT {request.sql_columns('`')} FROM iceberg.`{folder}`{at}")  # noqa: S608  # quoted
        except internal_error as e:
            _, _, words = str(e).partition("with message: ")
            raise RefusedError(words.partition(". gRPC client debug context")[0]) from e

    return version("pysail"), read


def sail_query() -> Callable[[str], Any]:
    """Start Sail in this process, and return what runs a query to Arrow."""
    os.environ.setdefault("RUST_LOG", "error")
    flight = import_module("pyarrow.flight")
    server = import_module("pysail.flight").FlightSqlServer()
    server.start()
    _ALIVE.append(server)
    host, port = server.listening_address
    client = flight.FlightClient(f"grpc://{host}:{port}")

    def query(sql: str) -> Any:
        # A google.protobuf.Any around a CommandStatementQuery: each field is its number, its length, its bytes.
        kind = b"type.googleapis.com/arrow.flight.protocol.sql.CommandStatementQuery"
        command = _protobuf(1, kind) + _protobuf(2, _protobuf(1, sql.encode()))
        info = client.get_flight_info(flight.FlightDescriptor.for_command(command))
        return client.do_get(info.endpoints[0].ticket).read_all()

    return query


def _protobuf(number: int, value: bytes) -> bytes:
    length, rest = b"", len(value)
    while rest > 127:
        length, rest = length + bytes([rest & 127 | 128]), rest >> 7
    return bytes([number << 3 | 2]) + length + bytes([rest]) + value


if __name__ == "__main__":
    serve(open_engine)
