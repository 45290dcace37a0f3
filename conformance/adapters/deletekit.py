"""Read with deletekit itself."""

from typing import Any

import deletekit as dk
from conformance.adapters.protocol import Read, Request, serve
from deletekit.version import __version__


def open_engine() -> tuple[str, Read]:
    """Return the version, and what reads a table."""

    def read(request: Request) -> Any:
        table = dk.from_metadata(request.metadata)
        return dk.scan(table, columns=request.names, ref=request.ref).to_arrow()

    return __version__, read


if __name__ == "__main__":
    serve(open_engine)
