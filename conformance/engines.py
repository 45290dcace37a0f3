"""Answer the runner's requests with an engine that Python has: `python conformance/engines.py NAME`.

A line of JSON on standard input for each request, a line of JSON on standard output back; README.md says what is in
them. Needs pyarrow and the engine. Each function opens its engine, and returns its version and what reads a table.
"""

# ruff: noqa: S608  # names and paths are quoted

from __future__ import annotations

import datetime as dt
import json
import math
import os
import sys
import tempfile
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow as pa

# What an engine's code raises when it is wrong about itself. By any other error the engine says that it refuses.
_BUGS = (ArithmeticError, AssertionError, AttributeError, LookupError, MemoryError, RecursionError, TypeError)
_BUG_NAMES = {"InternalException"}  # DuckDB's
_JAVA_BUGS = {"AssertionError", "ClassCastException", "NullPointerException", "StackOverflowError"}
# Engines give the same values in several of Arrow's types; rows are compared, not types.
_ARROW = {
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "string": pa.string(),
    "binary": pa.binary(),
    "time": pa.time64("us"),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", "UTC"),
    "timestamp_ns": pa.timestamp("ns"),
    "timestamptz_ns": pa.timestamp("ns", "UTC"),
}
_ALIVE: list[Any] = []
"""Servers, which stop when no name holds them."""


class RefusedError(Exception):
    """The engine has no way to read what is asked; or these are its words, without the library that gave them."""


class BugError(Exception):
    """The engine failed by its own bug, which only its words show."""


@dataclass(frozen=True)
class Request:
    """What an engine is asked to read: see README.md."""

    metadata: str
    ref: str
    snapshot_id: int
    columns: list[dict[str, str]]

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return [column["name"] for column in self.columns]

    @property
    def is_main(self) -> bool:
        """Whether the table is asked for, and not another ref of it."""
        return self.ref == "main"

    @property
    def folder(self) -> str:
        """The table's folder."""
        return self.metadata.rsplit("/metadata/", 1)[0]

    def sql_columns(self, quote: str = '"') -> str:
        """Return the columns as SQL names them."""
        return ", ".join(quote + name.replace(quote, quote * 2) + quote for name in self.names)


Read = Callable[[Request], "pa.Table | tuple[pa.Table, str]"]

# --- the engines ------------------------------------------------------------------------------------------------------


def deletekit() -> tuple[str, Read]:
    """Deletekit itself."""
    dk = import_module("deletekit")

    def read(request: Request) -> Any:
        table = dk.from_metadata(request.metadata)
        return dk.scan(table, columns=request.names, ref=request.ref).to_arrow()

    return dk.__version__, read


def pyiceberg() -> tuple[str, Read]:
    """Pyiceberg, or a fork of it that is installed in its place."""
    static_table = import_module("pyiceberg.table").StaticTable

    def read(request: Request) -> Any:
        snapshot_id = None if request.is_main else request.snapshot_id
        table = static_table.from_metadata(request.metadata)
        return table.scan(selected_fields=tuple(request.names), snapshot_id=snapshot_id).to_arrow()

    return import_module("pyiceberg").__version__, read


def polars() -> tuple[str, Read]:
    """Polars: its own reader, and what polars does where its own reader cannot."""
    pl = import_module("polars")

    def scan(request: Request, reader: str | None) -> Any:
        snapshot_id = None if request.is_main else request.snapshot_id
        rows = pl.scan_iceberg(request.metadata, snapshot_id=snapshot_id, reader_override=reader)
        return rows.select(request.names).collect().to_arrow()

    def read(request: Request) -> Any:
        try:
            return scan(request, "native")
        except pl.exceptions.ComputeError as e:
            _, falls_back, why = str(e).partition("reader_override='native' failed: ")
            if not falls_back:
                raise
            return scan(request, None), f"read through pyiceberg: {why}"

    return pl.__version__, read


def daft() -> tuple[str, Read]:
    """Daft."""
    module = import_module("daft")

    def read(request: Request) -> Any:
        snapshot_id = None if request.is_main else request.snapshot_id
        return module.read_iceberg(request.metadata, snapshot_id=snapshot_id).select(*request.names).to_arrow()

    return module.__version__, read


def duckdb() -> tuple[str, Read]:
    """DuckDB and its Iceberg extension."""
    connection = duckdb_connection()
    asked = "SELECT extension_version FROM duckdb_extensions() WHERE extension_name = 'iceberg'"
    iceberg = connection.execute(asked).fetchall()[0][0]

    def read(request: Request) -> Any:
        at = "" if request.is_main else f", snapshot_from_id = {request.snapshot_id}::UBIGINT"
        sql = f"SELECT {request.sql_columns()} FROM iceberg_scan(?{at})"
        return connection.execute(sql, [request.metadata]).to_arrow_table()

    return f"{import_module('duckdb').__version__} (iceberg {iceberg})", read


def duckdb_connection() -> Any:
    """Return a connection to a DuckDB with its Iceberg extension: from packages of that name, else as DuckDB has it."""
    connection = import_module("duckdb").connect(config={"allow_unsigned_extensions": "true"})
    for name in ("avro", "httpfs", "iceberg"):
        file = name
        try:
            package = Path(str(import_module(f"duckdb_extension_{name}").__file__)).parent
            file = str(next(package.glob("extensions/*/*.duckdb_extension"))).replace("'", "''")
        except ImportError:
            pass
        connection.execute(f"LOAD '{file}'")
    return connection


def chdb() -> tuple[str, Read]:
    """ClickHouse, in the process."""
    module = import_module("chdb")
    os.chdir("/")  # ClickHouse reads files below the current directory alone

    def text(value: str) -> str:
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"

    def read(request: Request) -> Any:
        file = text(request.metadata.removeprefix(request.folder + "/"))
        source = f"icebergLocal({text(request.folder)}, SETTINGS iceberg_metadata_file_path = {file})"
        at = "" if request.is_main else f" SETTINGS iceberg_snapshot_id = {request.snapshot_id}"
        return module.query(f"SELECT {request.sql_columns()} FROM {source}{at}", "ArrowTable")

    return f"{version('chdb')} (ClickHouse {module.engine_version})", read


def datafusion() -> tuple[str, Read]:
    """iceberg-rust, through the table provider for DataFusion in pyiceberg-core."""
    module = import_module("datafusion")
    provider = import_module("pyiceberg_core.datafusion").IcebergDataFusionTable

    def read(request: Request) -> Any:
        if not request.is_main:
            raise RefusedError("the table provider reads the current snapshot only")
        metadata = Path(request.metadata).as_uri()
        context = module.SessionContext()
        table = provider(identifier=["suite", "case"], metadata_location=metadata, file_io_properties={})
        context.register_table("t", table)
        return context.sql(f"SELECT {request.sql_columns()} FROM t").to_arrow_table()

    return f"{module.__version__} (iceberg-rust {version('pyiceberg-core')})", read


def pysail() -> tuple[str, Read]:
    """Sail, by Arrow Flight SQL, which needs no client of Spark Connect."""
    query = sail_query()
    internal_error = import_module("pyarrow.flight").FlightInternalError  # Flight's name for every error of the server

    def read(request: Request) -> Any:
        folder = request.folder.replace("`", "``")
        at = "" if request.is_main else f" VERSION AS OF {request.snapshot_id}"
        try:
            return query(f"SELECT {request.sql_columns('`')} FROM iceberg.`{folder}`{at}")
        except internal_error as e:
            words = str(e).partition("with message: ")[2]
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


def spark() -> tuple[str, Read]:
    """Spark and Iceberg's Java library, one session for all tables. deletekit starts it: it knows which jars fit."""
    sessions = import_module("deletekit.spark")
    try:
        running = sessions.session(
            tempfile.mkdtemp(prefix="suite-spark-"), settings={"spark.sql.shuffle.partitions": "1"}
        )
    except import_module("deletekit").EnvironmentMissingError as e:
        raise ImportError(str(e)) from e
    Py4JJavaError = import_module("py4j.protocol").Py4JJavaError  # noqa: N806  # a class
    iceberg = running.sparkContext._jvm.org.apache.iceberg.IcebergBuild.version()  # noqa: SLF001  # no public way

    def read(request: Request) -> Any:
        options = {} if request.is_main else {"versionAsOf": request.ref}
        rows = running.read.format("iceberg").options(**options).load(request.metadata)
        try:
            return rows.select(*("`" + name.replace("`", "``") + "`" for name in request.names)).toArrow()
        except Py4JJavaError as e:
            error = e.java_exception
            while error.getCause() is not None:
                error = error.getCause()
            name = error.getClass().getSimpleName()
            raise (BugError if name in _JAVA_BUGS else RefusedError)(f"{name}: {error.getMessage()}") from e

    return f"{import_module('pyspark').__version__} (Iceberg {iceberg})", read


ENGINES = {f.__name__: f for f in (deletekit, spark, pyiceberg, polars, duckdb, chdb, pysail, datafusion, daft)}

# --- answers ----------------------------------------------------------------------------------------------------------


def serve(open_engine: Callable[[], tuple[str, Read]]) -> None:
    """Answer each line of standard input until it ends.

    After an error that is the engine's own bug the program ends: the next request gets a fresh one.
    """
    # Engines print logs and progress on standard output: from here on that goes where errors go.
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as answers:
        os.dup2(2, 1)
        name, read = "", None
        for line in sys.stdin:
            try:
                if read is None:
                    name, read = open_engine()
                said = _answer(read, Request(**json.loads(line)))
            except ImportError as e:
                said = {"unavailable": f"not installed: {e}"}
            except BaseException as e:  # noqa: BLE001  # a panic of Rust is not an Exception
                said = {_kind(e): _words(e)}
            answers.write(json.dumps({"version": name, **said}) + "\n")
            answers.flush()
            if "crashes" in said:
                return


def _answer(read: Read, request: Request) -> dict[str, Any]:
    found = read(request)
    table, note = found if isinstance(found, tuple) else (found, None)
    types = {column["name"]: _ARROW.get(column["type"]) for column in request.columns}
    columns = [_as_type(table.column(name), wanted) for name, wanted in types.items()]
    return {"rows": rows_of(pa.table(columns, names=list(types))), "words": note}


def _as_type(column: pa.ChunkedArray, wanted: pa.DataType | None) -> pa.ChunkedArray:
    """Return a column in the unit and the encoding of its Iceberg type, if it has the same values there."""
    try:
        return column if wanted is None else column.cast(wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return column


def _kind(error: BaseException) -> str:
    is_bug = isinstance(error, (*_BUGS, BugError)) or not isinstance(error, Exception)
    return "crashes" if is_bug or type(error).__name__ in _BUG_NAMES else "refuses"


def _words(error: BaseException) -> str:
    line = str(error).strip().partition("\n")[0]  # what follows are plans, stacks and carets
    return line if isinstance(error, RefusedError | BugError) else f"{type(error).__name__}: {line}"


def rows_of(table: pa.Table) -> list[list[Any]]:
    """Return the rows of a table as the suite writes them, sorted.

    Spec: "JSON single-value serialization", but for these: a struct is an object by name, a map a list of pairs, and
    NaN and the infinities are texts.
    """
    columns = [_values(column) for column in table.columns]
    return sorted(map(list, zip(*columns, strict=True)), key=_order)


def _order(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


def _values(column: pa.ChunkedArray | pa.Array) -> list[Any]:
    """Return the values of a column as JSON has them."""
    kind, types = column.type, pa.types
    if isinstance(column, pa.ChunkedArray):
        return [value for chunk in column.chunks for value in _values(chunk)]
    if isinstance(kind, pa.BaseExtensionType):
        is_uuid = isinstance(kind, pa.UuidType)
        return [str(uuid.UUID(v)) if is_uuid and v else v for v in _values(column.cast(kind.storage_type))]
    if types.is_dictionary(kind):
        return _values(column.dictionary_decode())
    if types.is_timestamp(kind):
        unit = kind.unit if kind.unit in ("us", "ns") else "us"
        texts = column.cast(pa.timestamp(unit)).cast(pa.string()).to_pylist()  # in UTC
        zone = "" if kind.tz is None else "+00:00"
        return [value and value.replace(" ", "T") + zone for value in texts]
    found: list[Any]
    if types.is_struct(kind):
        parts = [_values(column.field(i)) for i in range(kind.num_fields)]
        found = [dict(zip(kind.names, row, strict=True)) for row in zip(*parts, strict=True)]
    elif types.is_map(kind):
        pairs = _values(column.cast(pa.list_(pa.struct({"key": kind.key_type, "value": kind.item_type}))))
        found = [value and sorted(([p["key"], p["value"]] for p in value), key=_order) for value in pairs]
    elif types.is_nested(kind):
        values = iter(_values(column.flatten()))
        found = [[next(values) for _ in range(n or 0)] for n in column.value_lengths().to_pylist()]
    else:
        found = [None if value is None else _single(value) for value in column.to_pylist()]
    return [value if valid else None for value, valid in zip(found, column.is_valid().to_pylist(), strict=True)]


def _single(value: Any) -> Any:
    if isinstance(value, float):
        return (
            value if math.isfinite(value) else "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        )
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, bytes):
        return value.hex().upper()
    if isinstance(value, dt.time):
        return value.isoformat("microseconds")
    return value.isoformat() if isinstance(value, dt.date) else value


if __name__ == "__main__":
    serve(ENGINES[sys.argv[1]])
