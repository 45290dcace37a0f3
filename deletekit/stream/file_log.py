"""Keep which files a sink has applied, whatever snapshots expire: their paths, sizes, times and contents.

Each batch of a file writes a log of it into `metadata/_deletekit/`, and its snapshot names all logs of the sink. The
sink's tag keeps the newest of these snapshots. A new log takes over the entries of older ones that are not longer than
itself, so that there are few logs, and an entry is written few times.

A log has a checksum (`table/file_logs.py`). One that is missing or damaged only makes the sink know less: the total in
the marker then tells that files are unknown (`change_files.py`).
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath

from deletekit.deletes.write_context import WriteContext
from deletekit.errors import FormatError, InvalidInputError, NotFoundError
from deletekit.table.file_io import FileIO
from deletekit.table.file_logs import LogRow, encode_log, read_log, rows_of_log
from deletekit.table.metadata import TableMetadata
from deletekit.table.sink_batches import Marker
from deletekit.table.sink_files import FILE_LOG, new_name, sink_path

_BLOCK = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedFile:
    """A file that is in the table.

    Attributes
    ----------
    size, modified_ns, sha256: of its content; None if only its path is known.
    """

    path: str
    batch_id: int
    size: int | None = None
    modified_ns: int | None = None
    sha256: str | None = None

    def is_unchanged(self) -> bool:
        """Return whether the file on disk has the content that was applied. Raise FileNotFoundError if it is gone.

        A file of the same size and time is not read.
        """
        now = Path(self.path).stat()
        if (now.st_size, now.st_mtime_ns) == (self.size, self.modified_ns):
            return True
        return now.st_size == self.size and _sha256(self.path) == self.sha256


@dataclass(frozen=True, slots=True)
class FileLog:
    """The files of a sink as far as they are known, in the order in which they were applied.

    A file that was applied again is there more than once.
    """

    rows: tuple[AppliedFile, ...] = ()

    @property
    def by_path(self) -> Mapping[str, AppliedFile]:
        return {row.path: row for row in self.rows}

    def moved_from(self, new: AppliedFile) -> str | None:
        """Return the path from which a file of the same content was applied, if it is the same file.

        It is the same if it has the same name, or if nothing is left at the old path.
        """
        for old in self.rows:
            is_equal = old.sha256 is not None and old.sha256 == new.sha256 and old.path != new.path
            if is_equal and (PurePath(old.path).name == PurePath(new.path).name or not Path(old.path).exists()):
                return old.path
        return None


def identify(path: str, batch_id: int) -> AppliedFile:
    """Return the identity of a file as it is now."""
    now = Path(path).stat()
    return AppliedFile(
        path=path, batch_id=batch_id, size=now.st_size, modified_ns=now.st_mtime_ns, sha256=_sha256(path)
    )


def check_unchanged(file: AppliedFile) -> None:
    """Raise InvalidInputError (`file-changed`) if a file that was applied has another content now."""
    if not file.is_unchanged():
        raise InvalidInputError(
            "a file that is in the table has another content now",
            kind="file-changed",
            file=file.path,
            found="other bytes",
            expected=f"{file.size} bytes with the SHA-256 {file.sha256}, or a new file with the new changes",
        )


def read_logs(io: FileIO, metadata: TableMetadata, newest: Marker | None) -> FileLog:
    """Return the files that a sink's newest marker names the logs of. Logs that cannot be read are left out."""
    if newest is None:
        return FileLog()
    return FileLog(tuple(f for n in newest.logs for f in _read_or_nothing(io, metadata, newest.sink_id, n)))


def write_log(write: WriteContext, sink_id: str, logs: Sequence[str], new: Iterable[AppliedFile]) -> tuple[str, ...]:
    """Write a log with new files, and return the names of all logs of the sink, the oldest first.

    Parameters
    ----------
    logs: the names so far.
    """
    kept, files = list(logs), list(new)
    while kept and _count(kept[-1]) <= len(files):
        older = _read_or_nothing(write.io, write.metadata, sink_id, kept[-1])
        if not older:
            break
        files = [*older, *files]
        kept.pop()
    rows: list[LogRow] = [(f.path, f.batch_id, f.size, f.modified_ns, f.sha256) for f in files]
    name = new_name(FILE_LOG, str(len(files)))
    write.write(sink_path(write.metadata, name), encode_log(write.metadata, sink_id, rows))
    return (*kept, name)


def _count(name: str) -> int:
    rows = rows_of_log(name)
    return 1 << 62 if rows is None else rows


def _read_or_nothing(io: FileIO, metadata: TableMetadata, sink_id: str, name: str) -> list[AppliedFile]:
    try:
        rows = read_log(io, metadata, sink_id, name)
    except (FormatError, NotFoundError):
        return []
    return [AppliedFile(path=p, batch_id=n, size=s, modified_ns=m, sha256=d) for p, n, s, m, d in rows]


def _sha256(path: str) -> str:
    sha = hashlib.sha256()
    with open(path, "rb", buffering=0) as file:  # noqa: PTH123  # unbuffered: blocks are large
        while block := file.read(_BLOCK):
            sha.update(block)
    return sha.hexdigest()
