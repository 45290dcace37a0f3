"""Read with polars: its own reader, and what polars does where its own reader cannot."""

from importlib import import_module
from typing import Any

from conformance.adapters.protocol import Read, Request, serve

_FALLS_BACK = "reader_override='native' failed: "


def open_engine() -> tuple[str, Read]:
    """Return the version, and what reads a table."""
    polars = import_module("polars")

    def scan(request: Request, reader: str | None) -> Any:
        snapshot_id = None if request.is_main else request.snapshot_id
        rows = polars.scan_iceberg(request.metadata, snapshot_id=snapshot_id, reader_override=reader)
        return rows.select(request.names).collect().to_arrow()

    def read(request: Request) -> Any:
        try:
            return scan(request, "native")
        except polars.exceptions.ComputeError as e:
            _, falls_back, why = str(e).partition(_FALLS_BACK)
            if not falls_back:
                raise
            return scan(request, None), f"read through pyiceberg: {why}"

    return polars.__version__, read


if __name__ == "__main__":
    serve(open_engine)
