"""Tell the data source's planning processes which catalogs the session of `deletekit.spark.session` has.

Those processes are children of the JVM. They do not see the session's settings. They inherit the JVM's environment,
which cannot change after its start. So a variable names a file, and the file lists the session's catalogs of now. This
module imports neither pyspark nor pyiceberg.
"""

import atexit
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

VARIABLE = "DELETEKIT_SESSION_CATALOGS"

_files: dict[int, Path] = {}


def session_catalogs() -> dict[str, dict[str, str]]:
    """Return the properties, as `load_catalog` takes them, of the catalogs of this process's session, by name."""
    named = Path(os.environ.get(VARIABLE, ""))
    found: dict[str, dict[str, str]] = json.loads(named.read_text(encoding="utf-8")) if named.is_file() else {}
    return found


def add_session_catalog(name: str, properties: Mapping[str, str], *, new_session: bool = False) -> None:
    """Add a catalog of the session; a new session has no others."""
    path = _file()
    known = {} if new_session or not path.stat().st_size else json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**known, name: dict(properties)}), encoding="utf-8")


@contextmanager
def inherited() -> Iterator[None]:
    """Set the variable while the JVM starts: the JVM inherits it, and this process does not keep it."""
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
    """Return the file of this process. Only its user can read it, as it may hold keys."""
    path = _files.get(os.getpid())
    if path is None:
        handle, name = tempfile.mkstemp(prefix="deletekit-", suffix=".json")
        os.close(handle)
        path = _files[os.getpid()] = Path(name)
        atexit.register(path.unlink, missing_ok=True)
    return path
