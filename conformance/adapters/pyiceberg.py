"""Read with pyiceberg, or with a fork of it that is installed in its place."""

from importlib import import_module
from typing import Any

from conformance.adapters.protocol import Read, Request, serve


def open_engine() -> tuple[str, Read]:
    """Return the version, and what reads a table."""
    static_table = import_module("pyiceberg.table").StaticTable

    def read(request: Request) -> Any:
        table = static_table.from_metadata(request.metadata)
        snapshot_id = None if request.is_main else request.snapshot_id
        return table.scan(selected_fields=tuple(request.names), snapshot_id=snapshot_id).to_arrow()

    return import_module("pyiceberg").__version__, read


if __name__ == "__main__":
    serve(open_engine)
