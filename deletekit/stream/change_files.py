"""Find files of changes, put them in order, decide which batch each is, and read them; make up changes for
demonstrations.

The same paths give the same batches in the same order, because a stream that starts again needs that. A value in a file
gets the type of the table's column, whatever it looks like.

A file is known by its path and applied once: the sink's logs have the files that are in the table, whatever expires. A
log that is missing or damaged is an error, never an empty log.
"""

import hashlib
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from glob import escape, glob
from pathlib import Path, PurePath

import numpy as np
import pyarrow as pa
from pyiceberg.schema import Schema

from deletekit.errors import FormatError, InvalidInputError, NotFoundError
from deletekit.rows.row_files import open_rows, reader_of
from deletekit.rows.write_context import WriteContext
from deletekit.table.file_io import FileIO
from deletekit.table.metadata import TableMetadata
from deletekit.table.sinks.batches import Marker
from deletekit.table.sinks.file_logs import AppliedFile, encode_log, read_log, rows_of_log
from deletekit.table.sinks.files import FILE_LOG, new_name, sink_path

_BLOCK = 1 << 20
RATE_SCHEMA = pa.schema(
    [pa.field("value", pa.int64(), nullable=False), pa.field("timestamp", pa.timestamp("us", "UTC"))]
)
"""Of the table that `rate_batches` are for; the names are those of Spark's rate source."""
_KEYS = 10_000
_FIRST_TIME = datetime(2026, 1, 1, tzinfo=UTC)


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
            is_equal = old.sha256 == new.sha256 and old.path != new.path
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
    """Raise InvalidInputError (`file-changed`) if a file that was applied has another content now.

    A file of the same size and time is not read. Raise FileNotFoundError if it is gone.
    """
    now = Path(file.path).stat()
    if (now.st_size, now.st_mtime_ns) == (file.size, file.modified_ns):
        return
    if now.st_size != file.size or _sha256(file.path) != file.sha256:
        raise InvalidInputError(
            "a file that is in the table has another content now",
            kind="file-changed",
            file=file.path,
            found="other bytes",
            expected=f"{file.size} bytes with the SHA-256 {file.sha256}, or a new file with the new changes",
        )


def read_logs(io: FileIO, metadata: TableMetadata, newest: Marker | None) -> FileLog:
    """Return the files that a sink's newest marker names the logs of. Raise FormatError for a log that is lost."""
    if newest is None:
        return FileLog()
    try:
        return FileLog(tuple(f for n in newest.logs for f in read_log(io, metadata, newest.sink_id, n)))
    except (FormatError, NotFoundError) as e:
        message = "it is not known which files were applied; allow_rewind=True applies those that are given"
        raise FormatError(f"{message}: {e.message}", "file-log", file=e.file, found=e.found) from e


def write_log(write: WriteContext, sink_id: str, logs: Sequence[str], new: AppliedFile) -> tuple[str, ...]:
    """Write a log with a new file, and return the names of all logs of the sink, the oldest first.

    Parameters
    ----------
    logs: the names so far.
    """
    kept, files = list(logs), [new]
    while kept and (rows_of_log(kept[-1]) or 0) <= len(files):
        files = [*read_log(write.io, write.metadata, sink_id, kept.pop()), *files]
    name = new_name(FILE_LOG, str(len(files)))
    write.write(sink_path(write.metadata, name), encode_log(write.metadata, sink_id, files))
    return (*kept, name)


def _sha256(path: str) -> str:
    sha = hashlib.sha256()
    with open(path, "rb", buffering=0) as file:  # noqa: PTH123  # unbuffered: blocks are large
        while block := file.read(_BLOCK):
            sha.update(block)
    return sha.hexdigest()


def change_files(
    paths: Sequence[str | Path], *, as_given: bool = False, check: Callable[[str], object] = reader_of
) -> list[str]:
    """Return the files that paths stand for, absolute, in the order in which they must be applied.

    Files come in the order of the paths. A folder stands for the files in it and below, a pattern (`*`, `?`, `[...]`)
    for those that match, in natural order: `2.parquet` before `10.parquet`. Names that begin with `.` or `_` are left
    out.

    Parameters
    ----------
    as_given: also accept the order that a shell makes of a pattern, with `10.parquet` before `2.parquet`.
    check: refuses a file of an unknown format.

    Raises NotFoundError for a missing path; InvalidInputError for a file named twice, for an unknown file format, and
    for files in a shell's order.
    """
    files: list[str] = []
    for path in map(os.path.abspath, map(str, paths)):
        files += _files_of(path)
    named_files = [path for path in paths if Path(path).is_file()]
    if not as_given and len(named_files) == len(files):
        _check_shell_order(files)
    for number, file in enumerate(files):
        if file in files[:number]:
            raise InvalidInputError("a file comes twice in one stream", kind="file-twice", file=file)
        check(file)
    return files


def read_changes_file(file: str, schema: Schema, change_type: str | None) -> pa.Table:
    """Read the change rows of a file, as `open_rows` does. Raises InvalidInputError as it does."""
    more = None if change_type is None else {change_type: pa.string()}
    rows = open_rows(file, schema, more)
    try:
        return rows.read_all()
    except (pa.ArrowException, OSError) as e:
        raise InvalidInputError("rows cannot be read", kind="rows", file=file, found=str(e)) from e


def rate_batches(rows: int, batches: int) -> Iterator[pa.Table]:
    """Make batches of random changes, one second apart. The same arguments give the same batches."""
    for number in range(batches):
        random = np.random.default_rng(number)
        at = _FIRST_TIME + timedelta(seconds=number)
        yield pa.table(
            {
                "value": random.integers(0, _KEYS, rows),
                "timestamp": pa.array([at] * rows, pa.timestamp("us", "UTC")),
                "_change_type": random.choice(["INSERT", "UPDATE_AFTER", "DELETE"], rows, p=[0.5, 0.3, 0.2]),
            }
        )


# --- which files ------------------------------------------------------------------------------------------------------


def _files_of(path: str) -> list[str]:
    if Path(path).is_file():
        return [path]
    # pathlib's glob takes no absolute patterns and has no escapes.
    found = glob(f"{escape(path)}/**" if Path(path).is_dir() else path, recursive=True)  # noqa: PTH207
    files = [f for f in found if Path(f).is_file() and not _is_hidden(os.path.relpath(f, path))]
    if not files:
        raise NotFoundError("no files of changes here", kind="file-not-found", file=path)
    return sorted(files, key=natural_key)


def _is_hidden(relative: str) -> bool:
    return any(part.startswith(("_", ".")) and part != ".." for part in Path(relative).parts)


def _check_shell_order(files: Sequence[str]) -> None:
    natural = sorted(files, key=natural_key)
    if list(files) != natural and list(files) == sorted(files):
        place = next(i for i, (a, b) in enumerate(zip(files, natural, strict=True)) if a != b)
        found = f"{Path(files[place]).name} before {Path(natural[place]).name}"
        expected = "the folder, or the pattern in quotes, for natural order; or --as-given for this one"
        raise InvalidInputError(
            "the files are in the order in which a shell expands a pattern, which may not be the order of the changes",
            kind="file-order",
            found=found,
            expected=expected,
        )


# --- their order ------------------------------------------------------------------------------------------------------

NaturalKey = tuple[tuple[tuple[int, int, str], ...], ...]


def natural_key(path: str) -> NaturalKey:
    """Return the sort key of a path: numbers in names count as numbers, folder by folder."""
    return tuple(tuple(map(_piece, re.findall(r"[0-9]+|[^0-9]+", part))) for part in PurePath(path).parts)


def _piece(text: str) -> tuple[int, int, str]:
    return (0, int(text), text) if text[0] in "0123456789" else (1, 0, text)


# --- which batch a file is --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class FileBatch:
    """A file as a batch. `applied` is what it was when it was applied; None if it is new."""

    file: str
    batch_id: int
    applied: AppliedFile | None = None


def plan_files(files: Sequence[str], newest: Marker | None, log: FileLog, *, allow_rewind: bool) -> list[FileBatch]:
    """Return the batch of each file.

    Parameters
    ----------
    newest: the stream's newest batch.
    log: the files that are in the table.
    allow_rewind: apply all files after the newest batch.

    Raises InvalidInputError of kind `file-order` for a new file that comes before a file that is in the table, and
    `file-unknown` if batches were written that come from no file.
    """
    number = -1 if newest is None else newest.batch_id
    if newest is None or allow_rewind:
        return [FileBatch(file=f, batch_id=number + i) for i, f in enumerate(files, 1)]
    if not newest.logs:
        message = "the batches in the table do not name the files that they come from"
        raise InvalidInputError(message, "file-unknown", "files", f"{number + 1} batches", "another sink id for files")
    known, planned = log.by_path, list[FileBatch]()
    last = max((i for i, file in enumerate(files) if file in known), default=-1)
    for i, file in enumerate(files):
        if file in known:
            planned.append(FileBatch(file=file, batch_id=known[file].batch_id, applied=known[file]))
            continue
        if i < last:
            message = "a new file comes before a file that is in the table, and can no longer be applied before it"
            found, expected = f"a file before {files[last]}", "new files after those that are in the table"
            raise InvalidInputError(message, "file-order", file=file, found=found, expected=expected)
        number += 1
        planned.append(FileBatch(file=file, batch_id=number))
    return planned
