"""Read with DuckDB and its Iceberg extension, from the packages of that name, else as installed in DuckDB."""

from importlib import import_module
from pathlib import Path
from typing import Any

from conformance.adapters.protocol import Read, Request, serve


def open_engine() -> tuple[str, Read]:
    """Return the version, and what reads a table."""
    connection = connect()
    asked = "SELECT extension_version FROM duckdb_extensions() WHERE extension_name = 'iceberg'"
    version = f"{import_module('duckdb').__version__} (iceberg {connection.execute(asked).fetchall()[0][0]})"

    def read(request: Request) -> Any:
        at = "" if request.is_main else f", snapshot_from_id = {request.snapshot_id}::UBIGINT"
        sql = f"SELECT {request.sql_columns()} FROM iceberg_scan(?{at})"  # noqa: S608  # quoted
        return connection.execute(sql, [request.metadata]).to_arrow_table()

    return version, read


def connect() -> Any:
    """Return a connection to a DuckDB that has its Iceberg extension."""
    connection = import_module("duckdb").connect(config={"allow_unsigned_extensions": "true"})
    for name in ("avro", "httpfs", "iceberg"):
        connection.execute(f"LOAD '{_extension(name)}'")
    return connection


def _extension(name: str) -> str:
    try:
        package = Path(str(import_module(f"duckdb_extension_{name}").__file__)).parent
    except ImportError:
        return name
    return str(next(package.glob("extensions/*/*.duckdb_extension"))).replace("'", "''")


if __name__ == "__main__":
    serve(open_engine)
