"""Read with ClickHouse, in the process, by chdb."""

import os
from importlib import import_module
from importlib.metadata import version
from typing import Any

from conformance.adapters.protocol import Read, Request, serve


def open_engine() -> tuple[str, Read]:
    """Return the version, and what reads a table."""
    chdb = import_module("chdb")
    os.chdir("/")  # ClickHouse reads files below the current directory alone

    def read(request: Request) -> Any:
        file = _text(request.metadata.removeprefix(request.folder + "/"))
        source = f"icebergLocal({_text(request.folder)}, SETTINGS iceberg_metadata_file_path = {file})"
        at = "" if request.is_main else f" SETTINGS iceberg_snapshot_id = {request.snapshot_id}"
        return chdb.query(f"SELECT {request.sql_columns()} FROM {source}{at}", "ArrowTable")  # noqa: S608  # quoted

    return f"{version('chdb')} (ClickHouse {chdb.engine_version})", read


def _text(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


if __name__ == "__main__":
    serve(open_engine)
