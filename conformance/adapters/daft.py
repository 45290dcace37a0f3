"""Read with Daft."""

from importlib import import_module
from typing import Any

from conformance.adapters.protocol import Read, Request, serve


def open_engine() -> tuple[str, Read]:
    """Return the version, and what reads a table."""
    daft = import_module("daft")

    def read(request: Request) -> Any:
        snapshot_id = None if request.is_main else request.snapshot_id
        return daft.read_iceberg(request.metadata, snapshot_id=snapshot_id).select(*request.names).to_arrow()

    return daft.__version__, read


if __name__ == "__main__":
    serve(open_engine)
