"""Read the key columns of data files, and keep copies on the local disk, so that rows can be looked up by position.

The copies may be thrown away at any time, because data files never change. Each row on disk has a checksum. A row that
does not match it is never returned. Small files stay in memory, up to a limit.

A process locks the folder that it uses, and the lock ends with the process, in whatever way it ends. Making a folder
also removes the unlocked ones, which killed processes left behind.
"""

import os
import shutil
import tempfile
import weakref
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
from pyiceberg.types import NestedField

from deletekit.deletes.keys import key_frame
from deletekit.deletes.read import ReadContext, ReadRequest, read_task
from deletekit.deletes.scan_task import ScanTask
from deletekit.errors import FormatError
from deletekit.table.types import arrow_type

try:
    import fcntl

    _HAS_LOCKS = True
except ImportError:  # Windows has none: folders of killed processes stay there
    _HAS_LOCKS = False

PREFIX = "deletekit-index-"
_SMALL_BYTES = 1 << 20
_MEMORY_BYTES = 1 << 26
_CHECK = "_check"
_SEED = 1

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileKeys:
    """Key columns of a data file, from its writer or read from the file.

    All rows of the file are there, in order, hidden ones too, so that the index of a key is its position.

    Attributes
    ----------
    hidden: True for each row that a delete hides; None if no row is hidden.
    row_ids: the `_row_id` of each row if the file stores them; None if they follow from `first_row_id`.
    """

    columns: tuple[Any, ...]
    hidden: npt.NDArray[np.bool_] | None = None
    row_ids: pa.Array | None = None

    def __len__(self) -> int:
        return len(self.columns[0])


def read_file_keys(context: ReadContext, task: ScanTask, fields: Sequence[NestedField]) -> FileKeys:
    """Read the keys of a data file, and what its deletes hide. Raise FormatError or NotFoundError."""
    first = task.data_file.first_row_id
    request = ReadRequest(tuple(fields), lineage=first is not None)
    tables, hidden = [], []
    for batch in read_task(context, task, request):
        tables.append(batch.table)
        hidden.append(batch.deleted)
    kinds = [arrow_type(f.field_type) for f in fields]
    columns = tuple(
        pa.chunked_array([c for t in tables for c in t.column(i).chunks], type=kind) for i, kind in enumerate(kinds)
    )
    row_ids = None
    if first is not None:
        ids = np.concatenate([np.empty(0, np.int64), *(t.column("_row_id").to_numpy() for t in tables)])
        row_ids = None if (ids == first + np.arange(len(ids))).all() else pa.array(ids)
    return FileKeys(
        columns=columns,
        hidden=np.concatenate(hidden) if task.deletes and hidden else None,
        row_ids=row_ids,
    )


class DamagedCopyError(FormatError):
    """A copy is damaged, or cannot be written. It can be made again from the data files."""


class KeyColumns:
    """Tables by file number, in a private temporary folder that is removed with the object."""

    def __init__(self) -> None:
        self._folder = ScratchFolder()
        self._small: dict[int, pa.Table] = {}
        self._large: dict[int, tuple[pa.Schema, int]] = {}
        self._bytes = 0

    def put(self, file_number: int, table: pa.Table) -> None:
        """Store all rows of a data file, in order. Raise DamagedCopyError if they cannot be written."""
        if table.nbytes + self._bytes <= _MEMORY_BYTES and table.nbytes <= _SMALL_BYTES:
            self._small[file_number] = table.combine_chunks()
            self._bytes += table.nbytes
            return
        checks = _checks(table, np.arange(len(table)))
        table = table.append_column(_CHECK, pa.array(checks))
        self._large[file_number] = table.schema, len(table)
        try:
            with pa.OSFile(self._path(file_number), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
                writer.write_table(table, max_chunksize=1 << 20)
        except OSError as e:
            raise self._damaged(file_number, str(e)) from e

    def take(self, file_number: int, positions: Numbers) -> pa.Table:
        """Return the rows at some positions, in their order.

        Raise DamagedCopyError if they are not those that were put.
        """
        if file_number in self._small:
            return self._small[file_number].take(pa.array(positions))
        order = np.argsort(positions, kind="stable")
        ordered = positions[order]
        try:
            table = self._read(file_number, ordered)
            table.validate(full=True)
        except (OSError, pa.ArrowException) as e:
            raise self._damaged(file_number, str(e)) from e
        checks = table.column(_CHECK).to_numpy()
        table = table.drop_columns(_CHECK)
        if (checks != _checks(table, ordered)).any():
            raise self._damaged(file_number, "a row without its checksum")
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        return table.take(pa.array(back))

    def drop(self, file_number: int) -> None:
        """Remove a data file, if it is stored."""
        table = self._small.pop(file_number, None)
        if table is not None:
            self._bytes -= table.nbytes
        if self._large.pop(file_number, None) is not None:
            Path(self._path(file_number)).unlink(missing_ok=True)

    def close(self) -> None:
        """Remove the folder."""
        self._small.clear()
        self._large.clear()
        self._folder.close()

    def _read(self, file_number: int, ordered: Numbers) -> pa.Table:
        """Read rows at ascending positions. Raise OSError or ArrowException."""
        schema, rows = self._large[file_number]
        parts, start = [], 0
        with pa.memory_map(self._path(file_number)) as source:
            reader = pa.ipc.open_file(source)
            if reader.schema != schema:
                raise pa.ArrowInvalid("another schema")
            for i in range(reader.num_record_batches):
                batch = reader.get_batch(i)
                batch.validate()
                inside = ordered[np.searchsorted(ordered, start) : np.searchsorted(ordered, start + len(batch))]
                if len(inside):
                    for column in batch.columns:
                        _check_offsets(column, inside - start)
                    parts.append(batch.take(pa.array(inside - start)))
                start += len(batch)
            if start != rows:
                raise pa.ArrowInvalid(f"{start} rows instead of {rows}")
            return pa.Table.from_batches(parts, schema=schema)

    def _damaged(self, file_number: int, found: str) -> DamagedCopyError:
        return DamagedCopyError(
            "a copy of keys among the temporary files is damaged",
            kind="index-file",
            file=self._path(file_number),
            found=found,
            expected="the rows that were put there",
        )

    def _path(self, file_number: int) -> str:
        return str(self._folder.path / f"{file_number}.arrow")


def _checks(table: pa.Table, positions: Numbers) -> npt.NDArray[np.uint64]:
    """Return a checksum for each row, of its values and its position."""
    frame = key_frame(table.columns).with_columns(pl.Series("position", positions))
    return frame.hash_rows(seed=_SEED).to_numpy()


def _check_offsets(column: pa.Array, rows: Numbers) -> None:
    """Refuse texts that begin or end outside of their buffer. Reading them would read foreign memory."""
    if pa.types.is_string(column.type) or pa.types.is_binary(column.type):
        _, offsets, data = column.buffers()
        places = np.frombuffer(offsets, np.int32)
        begin, end = places[column.offset + rows], places[column.offset + rows + 1]
        if ((begin < 0) | (end < begin) | (end > (0 if data is None else data.size))).any():
            raise pa.ArrowInvalid("offsets outside of the file")


# --- the folder -------------------------------------------------------------------------------------------------------


class ScratchFolder:
    """A new folder that only this user may enter. It is removed by `close`, with the object, or with the process."""

    def __init__(self) -> None:
        _remove_left_folders()
        path, lock = _make()
        self.path = path
        # Not a TemporaryDirectory: it would warn of a sink that was not closed, and that is no mistake.
        self._remove = weakref.finalize(self, _remove, path, lock, os.getpid())

    def close(self) -> None:
        """Remove the folder."""
        self._remove()


def _make() -> tuple[Path, int | None]:
    while True:
        path = Path(tempfile.mkdtemp(prefix=PREFIX))  # mode 0700
        lock = None
        with suppress(OSError):
            lock = _open(path)
            if lock is not None:
                fcntl.flock(lock, fcntl.LOCK_EX)
        if path.is_dir():  # another process may have found it before it was locked
            return path, lock
        if lock is not None:
            os.close(lock)


def _remove_left_folders() -> None:
    for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError):  # held by a process, of another user, or gone
            lock = _open(path)
            if lock is None:
                return
            try:
                if os.fstat(lock).st_uid == os.getuid():
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(path, ignore_errors=True)
            finally:
                os.close(lock)


def _remove(path: Path, lock: int | None, owner: int) -> None:
    if os.getpid() == owner:  # a process that was forked has the object too
        shutil.rmtree(path, ignore_errors=True)
        if lock is not None:
            os.close(lock)


def _open(path: Path) -> int | None:
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW) if _HAS_LOCKS else None
