"""Drop the changes of a batch that are older than what the table holds, by the column of `sequence_by`.

A change is older if its value is below that of the stored row of its key, or below that of the newest delete of the key
that is remembered (`remembered_deletes.py`). Of equal values the later arrival wins. A stored NULL is older than all.

On Spark tasks do the same: an old row that is found is marked as late if it, or a remembered delete of its key, is
newer than the change. The deletes of a batch are staged, and one task merges them into the files that are remembered.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
from pyiceberg.types import NestedField

from deletekit.commit.change import Base
from deletekit.deletes.read import ReadContext, ReadRequest, rows_at
from deletekit.deletes.scan_task import ScanTask
from deletekit.engines.local import Engine
from deletekit.errors import InvalidInputError
from deletekit.formats.deletion_vector import PositionBitmap
from deletekit.rows.keys import flat
from deletekit.rows.write_context import WriteContext
from deletekit.stream.applied_batches import last_marker, newest_marker
from deletekit.stream.change_order import check_not_nan
from deletekit.stream.change_rows import Changes, LastChanges
from deletekit.stream.key_index import by_file
from deletekit.stream.remembered_deletes import (
    Memory,
    RememberedDeletes,
    memory_of,
    newer,
)
from deletekit.stream.saved_index import IndexHits
from deletekit.stream.sources.left_out import another_server, servers_in
from deletekit.stream.sources.messages import SEQUENCE
from deletekit.stream.split_parts import read_rows, rows_path, write_rows_file
from deletekit.stream.table_index import TableIndex
from deletekit.table.metadata import TableMetadata
from deletekit.table.sinks.batches import Marker, history
from deletekit.table.sinks.files import SEQUENCE_BY, SEQUENCE_DELETES, SEQUENCE_SERVERS
from deletekit.table.types import arrow_type

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarded:
    """A batch without the changes that are older than what is there.

    Attributes
    ----------
    late: keys whose change was dropped.
    memory: what is remembered after the batch; its files are written.
    """

    late: int
    memory: Memory


@dataclass(slots=True)
class SequenceGuard:
    """The guard of one sink by one column."""

    sink_id: str
    column: NestedField
    deletes: RememberedDeletes
    engine: Engine

    def renew(self, key: Sequence[NestedField], column: NestedField) -> None:
        """Take the columns as they are in the current schema: their types may have been promoted."""
        self.column = self.deletes.column = column
        self.deletes.key = key

    def newest_of(self, base: Base, changes: Changes, index: TableIndex) -> tuple[Changes, pl.Series, Guarded]:
        """Drop the changes that are older than what an attempt's base has, and write the deletes of the batch.

        Also return for each key of the batch the value that the table or a delete has, or null.
        """
        last, column = changes.last, self.column
        own = _own(changes)
        hashes = self.deletes.hashes(last.keys)
        memory, io = self.memory(base), base.table.io
        known = self.deletes.newest(io, base.metadata, memory, hashes)
        known = newer(known, self._stored(base, index, index.find(last.keys), len(last)))
        check_not_nan(known.drop_nulls().to_arrow(), column, "the table")
        is_late = (own < known).fill_null(value=False).to_numpy()
        # A tombstone deletes the row whatever its value is, and is remembered with it.
        put = np.where(is_late & last.tombstone, -1, last.put)
        own = own.zip_with(pl.Series(~last.tombstone), newer(own, known))
        kept = ~is_late | last.tombstone
        deleted = kept & (put < 0) & own.is_not_null().to_numpy()
        memory = self.deletes.written(base.write, io, memory, hashes[deleted], own.filter(pl.Series(deleted)))
        newest = replace(changes, last=newest_rows(replace(last, put=put), kept))
        return newest, known, Guarded(late=int(is_late.sum()), memory=memory)

    def entries(self, base: Base, found: Guarded | None, servers: Sequence[str] = ()) -> Mapping[str, str]:
        """Return the entries of a batch's summary, which name all deletes that are remembered.

        Parameters
        ----------
        servers: those whose log the column is a place of, as far as the batch says it.

        Raises InvalidInputError (`sequence-server`) if the batches before are of other servers.
        """
        known = self._servers(base, servers)
        memory = self.memory(base).with_batch() if found is None else found.memory
        entries = {SEQUENCE_BY: str(self.column.field_id), SEQUENCE_DELETES: memory.text}
        return entries | ({SEQUENCE_SERVERS: json.dumps(known)} if known else {})

    def _servers(self, base: Base, found: Sequence[str]) -> Sequence[str]:
        """Return the servers that are known after a batch."""
        marker = newest_marker(base.metadata, base.snapshot, self.sink_id)
        known = [] if marker is None else servers_in(marker.snapshot.summary.get(SEQUENCE_SERVERS, "[]"))
        if self.column.name != SEQUENCE or not found:
            return known
        if list(found[: len(known)]) != known:
            raise another_server(found, known)
        return found

    def memory(self, base: Base) -> Memory:
        """Return the memory that a base's head has.

        If the branch was rolled back to before the sink's first batch, there is none. The tag still names one then, and
        counts only if the history that would show a batch has expired.
        """
        marker = last_marker(base.metadata, base.snapshot, self.sink_id)
        parents = [s.parent_snapshot_id for s in history(base.metadata, base.snapshot)]
        if marker is None and any(p is not None and p not in base.metadata.snapshots for p in parents):
            marker = newest_marker(base.metadata, base.snapshot, self.sink_id)
        return Memory() if marker is None else memory_of(marker.snapshot.summary)

    def _stored(self, base: Base, index: TableIndex, hits: IndexHits, count: int) -> pl.Series:
        """Return the value of the stored row of each key, or null."""
        context, kind = ReadContext(base.table.io, base.metadata), arrow_type(self.column.field_type)
        found = pl.Series("value", pa.nulls(count, kind))
        column, positions = self.column, hits.positions

        def read(asked: tuple[ScanTask, np.ndarray]) -> tuple[np.ndarray, pl.Series]:
            task, rows = asked
            return rows, _values_at(context, column, task, positions[rows])

        for rows, values in self.engine.map(read, files_of(hits.files, lambda number: index.file(number).task)):
            # Others may have written a key twice, and of one key only one row can be set at once.
            keys, order = hits.keys[rows], values.rank("dense").fill_null(0).to_numpy()
            by_key = np.lexsort((order, keys))
            newest = by_key[np.append(keys[by_key][1:] != keys[by_key][:-1], True)]
            here = pl.Series("value", pa.nulls(count, kind)).scatter(keys[newest], values.gather(newest))
            found = newer(found, here)
        return found


def check_guard(metadata: TableMetadata, marker: Marker, column: NestedField | None) -> None:
    """Raise InvalidInputError if a sink's batches were guarded by another column, or this one is not guarded.

    A batch without the guard would not remember its deletes.
    """
    guarded = marker.snapshot.summary.get(SEQUENCE_BY)
    if guarded is None or (column is not None and guarded == str(column.field_id)):
        return
    known = metadata.schema.find_column_name(int(guarded)) if guarded.isdecimal() else None
    raise InvalidInputError(
        "the batches of this sink id are guarded by another column",
        kind="sequence-changed",
        field="sequence_by",
        found=column.name if column is not None else None,
        expected=f"{known or f'field {guarded}'}, or another sink id",
    )


def newest_rows(last: LastChanges, kept: np.ndarray) -> LastChanges:
    """Return the last changes of some keys."""
    mask = pa.array(kept)
    return LastChanges(
        keys=tuple(c.filter(mask) for c in last.keys),
        put=last.put[kept],
        was_deleted=last.was_deleted[kept],
        rows=last.rows[kept],
        tombstone=last.tombstone[kept],
    )


class SplitGuard:
    """The guard of one batch, for one base, in any process. Its methods for one part are called in tasks."""

    def __init__(self, guard: SequenceGuard, base: Base, staging: WriteContext) -> None:
        self._deletes: RememberedDeletes = replace(guard.deletes, _read={})
        self.column, self._memory, self._staging = guard.column, guard.memory(base), staging

    def older(self, context: ReadContext, changes: Changes) -> Mask:
        """Return which keys have a change that is older than their newest delete that is remembered."""
        if not self._memory.names:
            return np.zeros(len(changes.last), np.bool_)
        hashes = self._deletes.hashes(changes.last.keys)
        known = self._deletes.newest(context.io, context.metadata, self._memory, hashes)
        return np.asarray((_own(changes) < known).fill_null(value=False).to_numpy(), np.bool_)

    def newer(
        self, context: ReadContext, changes: Changes, keys: Any, found: Sequence[tuple[ScanTask, Any]], positions: Any
    ) -> Mask:
        """Return which rows of data files, which are read, are newer than the changes of their keys.

        Parameters
        ----------
        keys: the number of each row's key; positions: where it is in its file.
        found: the data files, each with the numbers of its rows.
        """
        late = np.zeros(len(keys), np.bool_)
        for task, rows in found:
            late[rows] = self.compared(changes, keys[rows], _values_at(context, self.column, task, positions[rows]))
        return late

    def compared(self, changes: Changes, keys: Any, values: Any) -> Mask:
        """Return it for rows with these values of the column. Raises InvalidInputError for NaN."""
        stored = pl.Series("value", values)
        check_not_nan(stored.drop_nulls().to_arrow(), self.column, "the table")
        own = _own(changes).gather(keys)
        return np.asarray((own < stored).fill_null(value=False).to_numpy(), np.bool_)

    def staged_deletes(self, changes: Changes, number: int) -> str | None:
        """Stage the deletes among some changes. Return the path of their file, or None."""
        deleted = changes.last.put < 0
        if not deleted.any():
            return None
        keys = self._deletes.hashes(changes.last.keys)[deleted]
        rows = pa.table({"key": _binary(keys), "value": _own(changes).filter(pl.Series(deleted)).to_arrow()})
        text = f"-deletes-{number}"
        write_rows_file(self._staging, rows, text)
        return rows_path(self._staging, text)

    def remembered(self, write: WriteContext, paths: Sequence[str], engine: Engine) -> Memory:
        """Write the staged deletes of a batch in one task. Return what is remembered after it."""
        deletes, memory, io = self._deletes, self._memory, self._staging.io
        if not paths:
            return memory.with_batch()

        def merge(paths: Sequence[str]) -> Memory:
            rows = pa.concat_tables([read_rows(io, path) for path in paths])
            keys = np.frombuffer(b"".join(rows.column("key").to_pylist()), "S16")
            return deletes.written(write, io, memory, keys, pl.Series("value", rows.column("value")))

        (after,) = engine.map(merge, [list(paths)])
        return after


def without_keys(changes: Changes, late: Mask) -> Changes:
    """Return changes without those of some keys."""
    return replace(changes, last=newest_rows(changes.last, ~late)) if late.any() else changes


def files_of(numbers: Any, task_of: Any) -> list[tuple[ScanTask, Any]]:
    """Return the data file of each number, with the numbers of its rows."""
    return [(task_of(number), rows) for number, rows in by_file(numbers)]


def _values_at(context: ReadContext, column: NestedField, task: ScanTask, positions: np.ndarray) -> pl.Series:
    """Return the values of a column in some rows of a data file."""
    wanted = np.unique(positions)
    table = rows_at(context, task, ReadRequest((column,)), PositionBitmap(wanted))
    return pl.Series("value", flat(table.column(0)).take(pa.array(np.searchsorted(wanted, positions))))


def _own(changes: Changes) -> pl.Series:
    return pl.Series("value", changes.sequence.take(pa.array(changes.last.rows)))


def _binary(keys: Any) -> pa.Array:
    return pa.Array.from_buffers(pa.binary(16), len(keys), [None, pa.py_buffer(keys.tobytes())])
