"""Check, plan and commit one batch of a sink, and report the result.

Every attempt checks the batch against the head (`applied_batches.py`) and plans it on the head that it is committed on.
If rows were found by position, any concurrent commit makes it look again. Equality deletes stay right whatever others
commit, so a batch that lost several races uses them.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Literal

from pyiceberg.expressions import AlwaysFalse, AlwaysTrue, BooleanExpression

from deletekit.commit.change import Base, ReadSet, RowDelta
from deletekit.commit.planned_change import PlannedChange, plan_change
from deletekit.commit.swap import Commit, commit
from deletekit.errors import CommitStateUnknownError, DeletekitError
from deletekit.stream.applied_batches import BatchId, is_committed, summary_of, tag_update
from deletekit.stream.batch_delta import BatchDelta
from deletekit.stream.batch_rows import BatchRows
from deletekit.stream.file_batches import logged
from deletekit.stream.maintain import Maintenance, after_batch
from deletekit.stream.saved_index import index_entry
from deletekit.stream.sink_state import SinkState
from deletekit.stream.some_fit import check_some_fit
from deletekit.stream.sources.marks import servers_of
from deletekit.stream.stored_values import UnsentError
from deletekit.table.metadata import Snapshot
from deletekit.table.sink_batches import NEWEST_TIME, sink_tag
from deletekit.verbs.shared.equality_keys import ensure_unpartitioned_spec, partitionable

_PLANS_BY_POSITION = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchProgress:
    """The result of a batch.

    Attributes
    ----------
    status: `committed`; `skipped`, because it was in the table already; or `empty`, because it had no rows: then only
        its number is committed.
    rows, keys: change rows, and different keys among them.
    late: keys whose change was dropped, because `sequence_by` says that the table has a newer one.
    hits, misses: keys with an old row in the index, and the other keys.
    fell_back: old rows were deleted by value in the end, because others kept committing.
    read_files: data files that were read to bring the index up to date.
    index_rows, index_bytes: the rows in the index, and its memory.
    lag_ms: milliseconds from the newest time in the order column to now; None if that is not a time.
    duration_ms: how long the batch took.
    commit: None unless it was committed by this call.
    file: the path of the file that the batch comes from, or None.
    behind: how much the batch's source had after it: messages of Kafka, bytes of PostgreSQL, snapshots of a table; None
        if that is not known.
    maintained: what was done to the table after the batch, or None. `duration_ms` does not include it.
    dead_letters: rows and messages that do not fit, and are in the table of dead letters.
    """

    sink_id: str
    query_id: str
    batch_id: int
    status: Literal["committed", "skipped", "empty"]
    rows: int = 0
    keys: int = 0
    hits: int = 0
    misses: int = 0
    fell_back: bool = False
    read_files: int = 0
    index_rows: int = 0
    index_bytes: int = 0
    lag_ms: int | None = None
    duration_ms: int = 0
    commit: Commit | None = None
    file: str | None = None
    behind: int | None = None
    late: int = 0
    maintained: Maintenance | None = None
    dead_letters: int = 0


class AlreadyCommittedError(Exception):
    """The batch is in the table already."""


class BatchRun:
    """One call of `write`. Its attribute `rows` has the rows."""

    def __init__(self, state: SinkState, rows: BatchRows, batch: BatchId) -> None:
        self._state, self.rows, self._batch = state, rows, batch
        self._written: BatchDelta | None = None
        self._plans = self._read_files = 0

    def run(self, started: float) -> BatchProgress:
        """Commit the batch, or find that it is in the table already."""
        try:
            done = commit(self.planned())
        except AlreadyCommittedError:
            return self.skipped(started)
        except CommitStateUnknownError as unknown:
            if not self.has_landed(unknown):
                raise
            return self.skipped(started)
        return self.done(started, done)

    def planned(self) -> PlannedChange:
        """Return the change of the batch, with its files written. Raise AlreadyCommittedError."""
        state, table = self._state, self._state.table
        if self._is_committed(self._head()):
            raise AlreadyCommittedError
        if self.rows.schema != table.metadata.schema and state.evolve != "refuse":
            self.rows.evolve(table)
            self._batch = replace(self._batch, digest=self.rows.letters.digest(self.rows.digest))
        if state.mode != "index-only" and not partitionable(table.metadata, self.rows.fields):
            ensure_unpartitioned_spec(table)
        while True:
            check_some_fit(table.metadata, self._head(), self._batch, self.rows)
            if state.dead_letters is not None:
                state.dead_letters.write(table, self._batch, self.rows.letters)
            try:
                return plan_change(table, self._build, ref=state.ref, validate=self._validate, reader=state.reader)
            except UnsentError as e:  # some rows take values from rows that are not there
                self.rows.reject(e)

    def discard(self) -> None:
        """Remove what was kept for the batch."""
        self.rows.discard()

    def has_landed(self, unknown: CommitStateUnknownError) -> bool:
        """Return whether the batch is in the table as it is now. Raise `unknown` if the table cannot be read."""
        try:
            self._state.table.refresh()
        except DeletekitError:  # what the caller must know is that it may have landed
            raise unknown from None
        return self._is_committed(self._head())

    def skipped(self, started: float) -> BatchProgress:
        """Return the result of a batch that was in the table already."""
        return self._progress("skipped", started)

    def done(self, started: float, done: Commit) -> BatchProgress:
        """Return the result of a batch that was committed."""
        progress = self._progress("committed" if len(self.rows) or self.rows.truncates else "empty", started, done)
        return replace(progress, maintained=after_batch(self._state))

    def _validate(self, base: Base) -> None:
        if self._is_committed(base.snapshot):
            raise AlreadyCommittedError

    def _is_committed(self, head: Snapshot | None) -> bool:
        state = self._state
        return is_committed(
            state.table.metadata,
            head,
            self._batch,
            allow_rewind=state.allow_rewind,
            allow_gaps=state.allow_gaps,
            starts_anywhere=state.starts_anywhere,
        )

    def _build(self, base: Base) -> RowDelta:
        self._plans += 1
        metadata = base.metadata
        rows = self.rows
        if metadata.schema != rows.schema:
            rows.parse(metadata.schema, self._state.key_fields(metadata.schema))
        if rows.truncates:
            written = rows.as_truncation(base)
        elif not len(rows):
            written = BatchDelta(delta=RowDelta())
        elif self._state.mode == "eq-only" or self._falls_back:
            written = rows.by_value(base)
        else:
            written, self._read_files = rows.by_position(base)
        self._written = written
        tag = tag_update(metadata, sink_tag(self._batch.sink_id))
        index, index_files = index_entry(base, rows.fields, written.index, keeps=self._is_indexed)
        logs, log_files = logged(base, self._batch)
        summary = {**summary_of(self._batch, metadata, base.snapshot), **index, **logs, **self._newest_time()}
        guard = self._state.guard(metadata.schema)
        if guard is not None:
            summary |= guard.entries(base, rows.guarded, servers_of(rows.source) if rows.source is not None else ())
        delta = replace(written.delta, summary=summary, refs=(tag,), other_files=(*index_files, *log_files))
        if guard is not None or rows.takes_stored:
            return delta  # without a read set it is planned again after any lost race
        # Others may add a row with a key that was not found here. A delete by value is right in any case.
        counts_on_rows = rows.truncates or (self._is_by_position and len(rows))
        reads: BooleanExpression = AlwaysTrue() if counts_on_rows else AlwaysFalse()
        return replace(delta, read_set=ReadSet(data_files=written.targets, where=reads))

    def _newest_time(self) -> Mapping[str, str]:
        newest = time_ms(self.rows.newest)
        return {} if newest is None else {NEWEST_TIME: str(newest)}

    @property
    def _is_indexed(self) -> bool:
        return self._state.mode in {"auto", "index-only"}

    @property
    def _falls_back(self) -> bool:
        return self._state.mode == "auto" and self._state.sequence_by is None and self._plans > _PLANS_BY_POSITION

    @property
    def _is_by_position(self) -> bool:
        return self._state.mode == "index-only" or (self._state.mode == "auto" and not self._falls_back)

    def _head(self) -> Snapshot | None:
        return self._state.table.metadata.snapshot_of_ref(self._state.ref)

    def _progress(
        self, status: Literal["committed", "skipped", "empty"], started: float, done: Commit | None = None
    ) -> BatchProgress:
        index, written = self._state.index, self._written
        return BatchProgress(
            sink_id=self._batch.sink_id,
            query_id=self._batch.query_id,
            batch_id=self._batch.batch_id,
            status=status,
            rows=len(self.rows),
            keys=self.rows.keys,
            hits=written.hits if written else 0,
            misses=written.misses if written else 0,
            late=self.rows.guarded.late if self.rows.guarded else 0,
            fell_back=self._falls_back,
            read_files=self._read_files,
            index_rows=len(index) if index else 0,
            index_bytes=index.nbytes if index else 0,
            lag_ms=_lag_ms(self.rows.newest),
            duration_ms=int((time.monotonic() - started) * 1000),
            commit=done,
            file=self._batch.file,
            dead_letters=len(self.rows.letters),
        )


def time_ms(value: Any) -> int | None:
    """Return a time in milliseconds since 1970, or None for a value that is not a time. Without a zone it is UTC."""
    if not isinstance(value, datetime):
        return None
    return int((value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp() * 1000)


def _lag_ms(newest: Any) -> int | None:
    at = time_ms(newest)
    return None if at is None else int(time.time() * 1000) - at
