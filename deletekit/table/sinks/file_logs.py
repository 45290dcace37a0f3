"""Encode and read the logs of sinks: which files a sink has applied.

A log never changes, and its first line has the SHA-256 of the others. The next line names the table and the sink. Each
line after it is a file: path, batch, size, time of change in nanoseconds, SHA-256 of the content.
"""

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import astuple, dataclass
from typing import Any

from deletekit.errors import FormatError
from deletekit.table.file_io import FileIO
from deletekit.table.metadata import TableMetadata
from deletekit.table.sinks.files import sink_path

_FIRST = b"deletekit applied files 1 "
_NAME = re.compile(r"[0-9a-f]{32}-([0-9]{1,12})\.log")
_TYPES = (str, int, int, int, str)


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedFile:
    """A file that is in the table, in the order of a log's line."""

    path: str
    batch_id: int
    size: int
    modified_ns: int
    sha256: str


def encode_log(metadata: TableMetadata, sink_id: str, files: Iterable[AppliedFile]) -> bytes:
    """Return the bytes of a log."""
    head = {"table": metadata.table_uuid, "sink": sink_id}
    body = b"".join(json.dumps(line).encode() + b"\n" for line in (head, *map(astuple, files)))
    return _FIRST + hashlib.sha256(body).hexdigest().encode() + b"\n" + body


def rows_of_log(name: str) -> int | None:
    """Return how many files a log has, as its name says; None for a name that is not one of a log."""
    match = _NAME.fullmatch(name)
    return int(match[1]) if match else None


def read_log(io: FileIO, metadata: TableMetadata, sink_id: str, name: str) -> list[AppliedFile]:
    """Read one log. Raise NotFoundError, and FormatError for anything but a log of this sink and table."""
    path = sink_path(metadata, name)
    if rows_of_log(name) is None:
        raise _wrong("not the name of a log of files", path, name, "a name that a sink gave")
    first, _, body = io.read(path).partition(b"\n")
    if first != _FIRST + hashlib.sha256(body).hexdigest().encode():
        raise _wrong("a log of files is damaged", path, "other bytes", "its checksum")
    try:
        head, *rows = map(json.loads, body.splitlines())
        files = [AppliedFile(path=p, batch_id=n, size=s, modified_ns=m, sha256=d) for p, n, s, m, d in rows]
    except (ValueError, TypeError, RecursionError) as e:
        raise _wrong("a log of files is damaged", path, f"{type(e).__name__}: {e}", "lines of JSON") from e
    expected = {"table": metadata.table_uuid, "sink": sink_id}
    if head != expected:
        raise _wrong("a log of files is that of another sink or table", path, head, expected)
    if not all(isinstance(v, t) for row in rows for v, t in zip(row, _TYPES, strict=True)):
        raise _wrong("a log of files is damaged", path, "a value of another type", "files")
    return files


def _wrong(message: str, path: str, found: Any, expected: Any) -> FormatError:
    return FormatError(message, kind="file-log", file=path, found=found, expected=expected)
