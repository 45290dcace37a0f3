"""Read with iceberg-rust, through the table provider for DataFusion in pyiceberg-core."""

from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

from conformance.adapters.protocol import Read, RefusedError, Request, serve


def open_engine() -> tuple[str, Read]:
    """Return the version, and what reads a table."""
    datafusion = import_module("datafusion")
    provider = import_module("pyiceberg_core.datafusion").IcebergDataFusionTable

    def read(request: Request) -> Any:
        if not request.is_main:
            raise RefusedError("the table provider reads the current snapshot only")
        metadata = Path(request.metadata).as_uri()
        table = provider(identifier=["suite", "case"], metadata_location=metadata, file_io_properties={})
        context = datafusion.SessionContext()
        context.register_table("t", table)
        return context.sql(f"SELECT {request.sql_columns()} FROM t").to_arrow_table()  # noqa: S608  # quoted

    return f"{datafusion.__version__} (iceberg-rust {version('pyiceberg-core')})", read


if __name__ == "__main__":
    serve(open_engine)
