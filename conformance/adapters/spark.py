"""Read with Spark and Iceberg's Java library: one session for all tables."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from conformance.adapters.protocol import BugError, Read, RefusedError, Request, serve
from deletekit.errors import EnvironmentMissingError
from deletekit.spark.sessions import session

_BUGS = {"AssertionError", "ClassCastException", "NullPointerException", "StackOverflowError"}


def open_engine() -> tuple[str, Read]:
    """Return the version, and what reads a table."""
    try:
        running = session(Path("spark").absolute(), settings={"spark.sql.shuffle.partitions": "1"})
    except EnvironmentMissingError as e:
        raise ImportError(str(e)) from e
    Py4JJavaError = import_module("py4j.protocol").Py4JJavaError  # noqa: N806  # a class
    java: Any = running.sparkContext._jvm  # noqa: SLF001  # pyspark has no public way to ask a Java class

    def read(request: Request) -> Any:
        options = {} if request.is_main else {"versionAsOf": request.ref}
        rows = running.read.format("iceberg").options(**options).load(request.metadata)
        try:
            return rows.select(*("`" + name.replace("`", "``") + "`" for name in request.names)).toArrow()
        except Py4JJavaError as e:
            raise _root_cause(e.java_exception) from e

    iceberg = java.org.apache.iceberg.IcebergBuild.version()
    return f"{import_module('pyspark').__version__} (Iceberg {iceberg})", read


def _root_cause(error: Any) -> Exception:
    """Return what Java says of a job that failed: that of the innermost cause."""
    while error.getCause() is not None:
        error = error.getCause()
    name = error.getClass().getSimpleName()
    return (BugError if name in _BUGS else RefusedError)(f"{name}: {error.getMessage()}")


if __name__ == "__main__":
    serve(open_engine)
