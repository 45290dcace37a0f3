"""Drop the changes of a batch that are older than what the table holds, by the column of `sequence_by`.

A change is older if its value is below that of the stored row of its key, or below that of the newest delete of the key
that is remembered (`remembered_deletes.py`). Of equal values the later arrival wins. A stored NULL is older than all.

Tasks look at parts of a batch, each with all changes of its keys. One task merges the deletes of all parts into the
files that are remembered.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
import pyarrow as pa
from pyiceberg.types import NestedField

from deletekit.commit.change import Base
from deletekit.engines.local import Engine
from deletekit.errors import InvalidInputError
from deletekit.rows.keys import flat
from deletekit.stream.applied_batches import last_marker, newest_marker
from deletekit.stream.change_order import check_not_nan
from deletekit.stream.change_rows import Changes, LastChanges
from deletekit.stream.key_index import IndexHits
from deletekit.stream.remembered_deletes import Keys, Memory, RememberedDeletes, memory_of, newer
from deletekit.stream.saved_index import Index
from deletekit.stream.sources.left_out import another_server, servers_in
from deletekit.stream.sources.messages import SEQUENCE
from deletekit.table.metadata import TableMetadata
from deletekit.table.sinks.batches import Marker, history
from deletekit.table.sinks.files import SEQUENCE_BY, SEQUENCE_DELETES, SEQUENCE_SERVERS
from deletekit.table.types import arrow_type

Deleted = tuple[Keys, pl.Series]
"""The hashes of deleted keys, and the values of their deletes."""


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
    """The guard of one sink by one column. It can be pickled."""

    sink_id: str
    column: NestedField
    deletes: RememberedDeletes

    def renew(self, key: Sequence[NestedField], column: NestedField) -> None:
        """Take the columns as they are in the current schema: their types may have been promoted."""
        self.column = self.deletes.column = column
        self.deletes.key = key

    def newest_of(
        self, memory: Memory, changes: Changes, index: Index, hits: IndexHits, engine: Engine
    ) -> tuple[Changes, IndexHits, pl.Series, int, Deleted]:
        """Drop the changes that are older than what an attempt's base has.

        Parameters
        ----------
        changes: all changes of their keys, whose old rows are `hits`.

        Returns the changes and old rows that are left, for each key the value that the table or a delete has or null,
        how many keys are late, and the deletes.
        """
        last, column = changes.last, self.column
        own = pl.Series("value", changes.sequence.take(pa.array(last.rows)))
        hashes = self.deletes.hashes(last.keys)
        known = self.deletes.newest(index.context.io, index.context.metadata, memory, hashes)
        known = newer(known, self._stored(index, hits, len(last), engine))
        check_not_nan(known.drop_nulls().to_arrow(), column, "the table")
        is_late = (own < known).fill_null(value=False).to_numpy()
        # A tombstone deletes the row whatever its value is, and is remembered with it.
        put = np.where(is_late & last.tombstone, -1, last.put)
        own = own.zip_with(pl.Series(~last.tombstone), newer(own, known))
        kept = ~is_late | last.tombstone
        deleted = kept & (put < 0) & own.is_not_null().to_numpy()
        newest = replace(changes, last=newest_rows(replace(last, put=put), kept))
        left, numbers = hits.take(kept[hits.keys]), np.cumsum(kept) - 1
        left = replace(left, keys=numbers[left.keys])
        return newest, left, known, int(is_late.sum()), (hashes[deleted], own.filter(pl.Series(deleted)))

    def remembered(self, base: Base, memory: Memory, found: Sequence[Deleted], engine: Engine) -> Memory:
        """Write the deletes of a batch in one task. Return what is remembered after it."""
        may_forget = bool(memory.names) and self.deletes.without_lost  # files that are lost
        if not may_forget and not any(len(keys) for keys, _ in found):
            return memory.with_batch()
        write, deletes = base.write, self.deletes

        def written(deleted: Deleted) -> Memory:
            return deletes.written(write, write.io, memory, *deleted)

        keys, values = zip(*found, strict=True)
        (after,) = engine.map(written, [(np.concatenate(keys), pl.concat(values))])
        return after

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

    def _stored(self, index: Index, hits: IndexHits, count: int, engine: Engine) -> pl.Series:
        """Return the value of the stored row of each key, or null."""
        kind = arrow_type(self.column.field_type)
        found = pl.Series("value", pa.nulls(count, kind))
        for rows, table in index.stored(hits, [self.column], engine):
            # Others may have written a key twice, and of one key only one row can be set at once.
            values, keys = pl.Series("value", flat(table.column(0))), hits.keys[rows]
            order = values.rank("dense").fill_null(0).to_numpy()
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
