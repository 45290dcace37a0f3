"""The catalogs of the Spark session that `deletekit.spark.session` started, for the data source's planning processes.

Law: those processes are children of the JVM and see nothing of the session's settings; they inherit its environment,
which cannot change after it started. So a variable names a file, and the file says what the session has now. Imports
neither pyspark nor pyiceberg.
"""

from __future__ import annotations

import atexit
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

__all__ = ["VARIABLE", "announce", "inherited", "session_catalogs"]

VARIABLE = "DELETEKIT_SESSION_CATALOGS"

_files: dict[int, Path] = {}


def session_catalogs() -> dict[str, dict[str, str]]:
    """Properties, as `load_catalog` takes them, of the catalogs of this process's session, by name; often none."""
    named = os.environ.get(VARIABLE)
    if not named or not Path(named).is_file():
        return {}
    found: dict[str, dict[str, str]] = json.loads(Path(named).read_text(encoding="utf-8"))
    return found


def announce(name: str, properties: Mapping[str, str], *, alone: bool) -> None:
    """Say that the session has this catalog; `alone`: and no other, for it has just started."""
    path = _file()
    known = {} if alone or not path.stat().st_size else json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**known, name: dict(properties)}), encoding="utf-8")


@contextmanager
def inherited() -> Iterator[None]:
    """Around the start of the JVM: it inherits the variable, which this process itself does not keep."""
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = str(_file())
    try:
        yield
    finally:
        if before is None:
            del os.environ[VARIABLE]
        else:
            os.environ[VARIABLE] = before


def _file() -> Path:
    """One file for this process, which only its user can read: it may hold keys."""
    path = _files.get(os.getpid())
    if path is None:
        handle, name = tempfile.mkstemp(prefix="deletekit-", suffix=".json")
        os.close(handle)
        path = _files[os.getpid()] = Path(name)
        atexit.register(path.unlink, missing_ok=True)
    return path
