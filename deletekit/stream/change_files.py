"""Find files of changes, put them in order, decide which batch each is, and read them; make up changes for
demonstrations.

The same paths give the same batches in the same order, because a stream that starts again needs that. A value in a file
gets the type of the table's column, whatever it looks like.

A file is known by its path and applied once: the sink's logs tell which files are in the table . Without
them (damaged logs) the history tells a part. A file is new only if that is certain: either all files of
the stream are accounted for, or its name comes after all known names. A file before a known one counts as old if the
table no longer tells. Any other file is refused by name.
"""

import hashlib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
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
from deletekit.table.sinks.file_logs import LogRow, encode_log, read_log, rows_of_log
from deletekit.table.sinks.files import FILE_LOG, new_name, sink_path

_BLOCK = 1 << 20
RATE_SCHEMA = pa.schema(
    [pa.field("value", pa.int64(), nullable=False), pa.field("timestamp", pa.timestamp("us", "UTC"))]
)
"""Of the table that `rate_batches` are for; the names are those of Spark's rate source."""
_KEYS = 10_000
_FIRST_TIME = datetime(2026, 1, 1, tzinfo=UTC)


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


def highest_name(*paths: str | None) -> str | None:
    """Return the path that comes last in natural order."""
    return max((p for p in paths if p is not None), key=natural_key, default=None)


def name_total(paths: Iterable[str], start: int = 0) -> int:
    """Return a number for a set of paths: the sum of their hashes, to which more paths can be added."""
    hashes = (hashlib.sha256(p.encode("utf-8", "surrogateescape")).digest()[:16] for p in paths)
    return (start + sum(int.from_bytes(h, "big") for h in hashes)) % 2**128


def _piece(text: str) -> tuple[int, int, str]:
    return (0, int(text), text) if text[0] in "0123456789" else (1, 0, text)


# --- which batch a file is --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class FileBatch:
    """A file as a batch.

    Attributes
    ----------
    is_old: whether it is in the table although its snapshot has expired.
    applied: what the file was when it was applied, if a log has it.
    before: the files before it.
    moved: digests of batches from files of the same name in other folders, and their paths.
    """

    file: str
    batch_id: int
    is_old: bool = False
    applied: AppliedFile | None = None
    before: tuple[str, ...] = ()
    moved: Mapping[str, str] = field(default_factory=dict)


def plan_files(
    files: Sequence[str], newest: Marker | None, known: Sequence[Marker], log: FileLog, *, allow_rewind: bool
) -> list[FileBatch]:
    """Return the batch of each file.

    Parameters
    ----------
    newest: the stream's newest batch.
    known: all of its batches whose snapshots the table still has, newest first.
    log: the files that its logs have.
    allow_rewind: apply all files after the newest batch.

    Raises InvalidInputError of kind `file-order` for a new file that comes before a file that is in the table, and
    `file-unknown` for a file that may or may not have been applied.
    """
    if newest is None:
        return _numbered(files, 0)
    if allow_rewind:
        return _numbered(files, newest.batch_id + 1)
    if newest.files_total is None:
        return _by_place(files, newest)
    return _KnownFiles(newest, known, log).plan(files)


def _numbered(files: Sequence[str], first: int) -> list[FileBatch]:
    return [FileBatch(file=f, batch_id=first + i, before=tuple(files[:i])) for i, f in enumerate(files)]


def _by_place(files: Sequence[str], newest: Marker) -> list[FileBatch]:
    """Give numbers to the files of a stream whose batches name no files, because `Sink.write` wrote them."""
    if len(files) <= newest.batch_id:
        message = "the batches in the table do not name the files that they come from"
        found, count = f"{len(files)} files", newest.batch_id + 1
        expected = f"once all files of the stream in their order, the {count} applied ones first"
        raise InvalidInputError(message, kind="file-unknown", field="files", found=found, expected=expected)
    return _numbered(files, 0)


class _KnownFiles:
    """The files of a stream. The table names some of them, and has the total of all."""

    def __init__(self, newest: Marker, known: Sequence[Marker], log: FileLog) -> None:
        self._newest, self._log = newest, log.by_path
        self._markers = {m.snapshot.snapshot_id: m for m in (*known, newest) if m.file is not None}.values()
        ordered = sorted(self._markers, key=lambda m: m.snapshot.sequence_number)
        batches = dict.fromkeys([(f.path, f.batch_id) for f in log.rows] + [(str(m.file), m.batch_id) for m in ordered])
        self._number = dict(tuple(batches))
        self._taken = set(self._number.values())
        # What is left are the files that neither the logs nor the history tell; 0: there are none.
        self._expired = ((newest.files_total or 0) - name_total(path for path, _ in batches)) % 2**128

    def plan(self, files: Sequence[str]) -> list[FileBatch]:
        old = self._accounted(files)
        places = [i for i, f in enumerate(files) if f in self._number]
        last = max(places, default=-1)
        following, new, planned = min(self._taken, default=0), self._newest.batch_id, []
        for i in reversed(range(last + 1)):
            number = self._number.get(files[i])
            if number is None:
                number = self._before(files[i], following, is_old=None if old is None else i in old)
                planned.append(FileBatch(file=files[i], batch_id=number, is_old=True))
            else:
                planned.append(FileBatch(file=files[i], batch_id=number, applied=self._applied(files[i])))
            following = number
        planned.reverse()
        for i in range(last + 1, len(files)):
            if old is not None and i in old:
                planned.append(FileBatch(file=files[i], batch_id=max(following - 1, 0), is_old=True))
                continue
            if old is None:
                self._check_new(files[i], files[:i])
            new += 1
            planned.append(FileBatch(file=files[i], batch_id=new, moved=self._moved(files[i])))
        return planned

    def _applied(self, file: str) -> AppliedFile | None:
        """Return the log's entry of a file, if it tells the content."""
        entry = self._log.get(file)
        return entry if entry is not None and entry.sha256 is not None else None

    def _accounted(self, files: Sequence[str]) -> set[int] | None:
        """Return the positions of the files whose snapshots have expired, or None if they are not certain."""
        old: set[int] = set()
        total = 0
        for i, file in enumerate(files):
            if total == self._expired:
                return old
            if file not in self._number:
                old.add(i)
                total = name_total([file], total)
        return old if total == self._expired else None

    def _before(self, file: str, following: int, *, is_old: bool | None) -> int:
        """Return the number of a file before a known one. `is_old` is None if that is not certain."""
        number = following - 1
        if is_old is False or (is_old is None and (number < 0 or number in self._taken)):
            message = "a new file comes before a file that is in the table, and can no longer be applied before it"
            found, last = f"a file before batch {following}", self._newest.file
            expected = f"new files after {last}, which is the newest in the table"
            raise InvalidInputError(message, kind="file-order", file=file, found=found, expected=expected)
        return max(number, 0)

    def _check_new(self, file: str, before: Sequence[str]) -> None:
        newest = self._newest
        highest = newest.highest or ""
        stayed = newest.file in before or PurePath(highest).parent == PurePath(file).parent
        if not stayed or natural_key(file) <= natural_key(highest):
            raise InvalidInputError(
                "it is not known whether this file was applied, because the snapshots that would show it have expired; "
                "allow_rewind=True applies it",
                kind="file-unknown",
                file=file,
                found=f"{newest.file} is the newest in the table, {highest} the last by name",
                expected="all files of the stream in their order, or the newest and then files of later names",
            )

    def _moved(self, file: str) -> Mapping[str, str]:
        name = PurePath(file).name
        return {m.digest: str(m.file) for m in self._markers if PurePath(str(m.file)).name == name}
