"""Read with Spark and Iceberg's Java library: one session for all tables."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from deletekit.conformance.adapters.protocol import Read, Request, serve
from deletekit.errors import EnvironmentMissingError
from deletekit.spark.sessions import session


def open_engine() -> tuple[str, Read]:
    """Return the version, and what reads a table."""
    try:
        running = session(Path("spark").absolute(), settings={"spark.sql.shuffle.partitions": "1"})
    except EnvironmentMissingError as e:
        raise ImportError(str(e)) from e
    java: Any = running.sparkContext._jvm  # noqa: SLF001  # pyspark has no public way to ask a Java class

    def read(request: Request) -> Any:
        options = {} if request.is_main else {"versionAsOf": request.ref}
        rows = running.read.format("iceberg").options(**options).load(request.metadata)
        return rows.select(*("`" + name.replace("`", "``") + "`" for name in request.names)).toArrow()

    iceberg = java.org.apache.iceberg.IcebergBuild.version()
    return f"{import_module('pyspark').__version__} (Iceberg {iceberg})", read


if __name__ == "__main__":
    serve(open_engine)
