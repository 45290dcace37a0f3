"""Guard the changes of a batch by `sequence_by` in tasks: compare them with remembered deletes and with stored rows.

Parts are compared with the remembered deletes before their old rows are looked up; a part that has older changes is
written again without them. Each old row that is found tells whether it is newer than the change. Then no row of its key
is written or hidden. The deletes of a batch are staged, and one task merges them into the files that are remembered.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
from pyiceberg.types import NestedField

from deletekit.commit.change import Base
from deletekit.deletes.keys import flat
from deletekit.deletes.read import ReadContext, ReadRequest, rows_at
from deletekit.deletes.scan_task import ScanTask
from deletekit.deletes.write_context import WriteContext
from deletekit.engines.local import Engine
from deletekit.formats.deletion_vector import PositionBitmap
from deletekit.stream.change_rows import Changes
from deletekit.stream.key_index import by_file
from deletekit.stream.remembered_deletes import Memory, RememberedDeletes
from deletekit.stream.sequence_column import check_not_nan
from deletekit.stream.sequence_guard import SequenceGuard, newest_rows
from deletekit.stream.split_parts import Part, read_rows, rows_path, write_rows_file

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class StoredRows:
    """Tells which stored rows are newer than the changes of their keys, in any process."""

    column: NestedField

    def newer(
        self, context: ReadContext, changes: Changes, keys: Any, found: Sequence[tuple[ScanTask, Any]], positions: Any
    ) -> Mask:
        """Return it for rows of data files, which are read.

        Parameters
        ----------
        keys: the number of each row's key; positions: where it is in its file.
        found: the data files, each with the numbers of its rows.
        """
        late = np.zeros(len(keys), np.bool_)
        for task, rows in found:
            wanted = np.unique(positions[rows])
            table = rows_at(context, task, ReadRequest((self.column,)), PositionBitmap(wanted))
            values = flat(table.column(0)).take(pa.array(np.searchsorted(wanted, positions[rows])))
            late[rows] = self.compared(changes, keys[rows], values)
        return late

    def compared(self, changes: Changes, keys: Any, values: Any) -> Mask:
        """Return it for rows with these values of the column. Raises InvalidInputError for NaN."""
        stored = pl.Series("value", values)
        check_not_nan(stored.drop_nulls().to_arrow(), self.column, "the table")
        own = _own(changes).gather(keys)
        return np.asarray((own < stored).fill_null(value=False).to_numpy(), np.bool_)


class SplitGuard:
    """The guard of one batch, for one base."""

    def __init__(self, guard: SequenceGuard, base: Base, staging: WriteContext, engine: Engine) -> None:
        self._deletes: RememberedDeletes = replace(guard.deletes, _read={})
        self._memory, self._base, self._staging, self._engine = guard.memory(base), base, staging, engine
        self.stored = StoredRows(guard.column)

    def newer_parts(self, parts: Sequence[Part], parsed: Any) -> list[Part]:
        """Return the parts without changes that are older than a remembered delete, and numbered again."""
        if not self._memory.names:
            return list(parts)
        deletes, memory, staging, metadata = self._deletes, self._memory, self._staging, self._base.metadata

        def kept(part: Part) -> Part | None:
            rows = read_rows(staging.io, part.path)
            changes = parsed(rows)
            known = deletes.newest(staging.io, metadata, memory, deletes.hashes(changes.last.keys))
            newer = ~(_own(changes) < known).fill_null(value=False).to_numpy()
            if newer.all():
                return part
            if not newer.any():
                return None
            text = f"-newer-{part.first_key}"
            write_rows_file(staging, rows.filter(pa.array(newer[changes.codes])), text)
            return replace(part, path=rows_path(staging, text), keys=int(newer.sum()))

        left = [part for part in self._engine.map(kept, parts) if part is not None]
        starts = np.cumsum([0, *(part.keys for part in left)]).tolist()
        return [part.at(start) for part, start in zip(left, starts[:-1], strict=True)]

    def staged_deletes(self, changes: Changes, number: int) -> str | None:
        """Stage the deletes among some changes, in a task. Return the path of their file, or None."""
        deleted = changes.last.put < 0
        if not deleted.any():
            return None
        keys = self._deletes.hashes(changes.last.keys)[deleted]
        rows = pa.table({"key": _binary(keys), "value": _own(changes).filter(pl.Series(deleted)).to_arrow()})
        text = f"-deletes-{number}"
        write_rows_file(self._staging, rows, text)
        return rows_path(self._staging, text)

    def remembered(self, paths: Sequence[str]) -> Memory:
        """Write the staged deletes of a batch in one task. Return what is remembered after it."""
        deletes, memory, write, io = self._deletes, self._memory, self._base.write, self._staging.io
        if not paths:
            return Memory(batches=memory.batches + 1, names=memory.names)

        def merge(paths: Sequence[str]) -> Memory:
            rows = pa.concat_tables([read_rows(io, path) for path in paths])
            keys = np.frombuffer(b"".join(rows.column("key").to_pylist()), "S16")
            return deletes.written(write, io, memory, keys, pl.Series("value", rows.column("value")))

        (after,) = self._engine.map(merge, [list(paths)])
        return after

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what only the driver has."""
        return {"_deletes": self._deletes, "_staging": self._staging, "stored": self.stored}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)


def without_keys(changes: Changes, late: Mask) -> Changes:
    """Return changes without those of some keys."""
    return replace(changes, last=newest_rows(changes.last, ~late)) if late.any() else changes


def files_of(numbers: Any, task_of: Any) -> list[tuple[ScanTask, Any]]:
    """Return the data file of each number, with the numbers of its rows."""
    return [(task_of(number), rows) for number, rows in by_file(numbers)]


def _own(changes: Changes) -> pl.Series:
    return pl.Series("value", changes.sequence.take(pa.array(changes.last.rows)))


def _binary(keys: Any) -> pa.Array:
    return pa.Array.from_buffers(pa.binary(16), len(keys), [None, pa.py_buffer(keys.tobytes())])
