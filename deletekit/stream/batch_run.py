"""Check, plan and commit one batch of a sink, and report the result.

Every attempt checks the batch against the head (`applied_batches.py`) and plans it on the head that it is committed on.
If rows were found by position, any concurrent commit makes it look again. Equality deletes stay right whatever others
commit, so a batch that lost several races uses them.
"""

import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Literal

from pyiceberg.expressions import AlwaysFalse, AlwaysTrue, BooleanExpression

from deletekit.commit.change import Base, ReadSet, RowDelta
from deletekit.commit.planned_change import plan_change
from deletekit.commit.swap import Commit, commit
from deletekit.errors import CommitStateUnknownError, DeletekitError
from deletekit.stream.applied_batches import BatchId, is_committed, summary_of, tag_update
from deletekit.stream.batch_delta import BatchDelta, equality_delta, flink_delta, indexed_delta
from deletekit.stream.change_rows import Changes, read_changes
from deletekit.stream.sink_state import SinkState
from deletekit.table.metadata import Snapshot
from deletekit.table.sink_batches import sink_tag
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
    hits, misses: keys with an old row in the index (in mode `flink`: in the batch), and the other keys.
    fell_back: old rows were deleted by value in the end, because others kept committing.
    read_files: data files that were read to bring the index up to date.
    index_rows, index_bytes: the rows in the index, and its memory.
    lag_ms: milliseconds from the newest time in the order column to now; None if that is not a time.
    duration_ms: how long the batch took.
    commit: None unless it was committed by this call.
    file: the path of the file that the batch comes from, or None.
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


class _AlreadyCommittedError(Exception):
    """The batch is in the table already."""


class BatchRun:
    """One call of `write`."""

    def __init__(self, state: SinkState, rows: Any, changes: Changes, batch: BatchId) -> None:
        self._state, self._rows, self._changes, self._batch = state, rows, changes, batch
        self._written: BatchDelta | None = None
        self._plans = self._read_files = 0

    def run(self, started: float) -> BatchProgress:
        """Commit the batch, or find that it is in the table already."""
        state, table = self._state, self._state.table
        try:
            if self._is_committed(self._head()):
                return self._progress("skipped", started)
            if state.mode != "index-only" and not partitionable(table.metadata, self._changes.form.fields):
                ensure_unpartitioned_spec(table)
            done = commit(plan_change(table, self._build, ref=state.ref, validate=self._validate, reader=state.reader))
        except _AlreadyCommittedError:
            return self._progress("skipped", started)
        except CommitStateUnknownError as unknown:
            try:
                table.refresh()
            except DeletekitError:  # what the caller must know is that it may have landed
                raise unknown from None
            if not self._is_committed(self._head()):
                raise
            return self._progress("skipped", started)
        return self._progress("committed" if len(self._changes) else "empty", started, done)

    def _validate(self, base: Base) -> None:
        if self._is_committed(base.snapshot):
            raise _AlreadyCommittedError

    def _is_committed(self, head: Snapshot | None) -> bool:
        state = self._state
        return is_committed(
            state.table.metadata, head, self._batch, allow_rewind=state.allow_rewind, allow_gaps=state.allow_gaps
        )

    def _build(self, base: Base) -> RowDelta:
        self._plans += 1
        metadata = base.metadata
        if metadata.schema != self._changes.schema:
            form = replace(self._changes.form, fields=self._state.key_fields(metadata.schema))
            self._changes = read_changes(self._rows, metadata.schema, form)
        changes = self._changes
        if not len(changes):
            written = BatchDelta(delta=RowDelta())
        elif self._state.mode == "flink":
            written = flink_delta(base, changes)
        elif self._state.mode == "eq-only" or self._falls_back:
            written = equality_delta(base, changes)
        else:
            written, self._read_files = self._state.with_index(base, lambda index: indexed_delta(base, changes, index))
        self._written = written
        tag = tag_update(metadata, sink_tag(self._batch.sink_id))
        delta = replace(written.delta, summary=summary_of(self._batch, metadata, base.snapshot), refs=(tag,))
        # Others may add a row with a key that was not found here. A delete by value is right in any case.
        reads: BooleanExpression = AlwaysTrue() if self._is_by_position and len(changes) else AlwaysFalse()
        return replace(delta, read_set=ReadSet(data_files=written.targets, where=reads))

    @property
    def _falls_back(self) -> bool:
        return self._state.mode == "auto" and self._plans > _PLANS_BY_POSITION

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
            rows=len(self._changes),
            keys=len(self._changes.last),
            hits=written.hits if written else 0,
            misses=written.misses if written else 0,
            fell_back=self._falls_back,
            read_files=self._read_files,
            index_rows=len(index) if index else 0,
            index_bytes=index.nbytes if index else 0,
            lag_ms=_lag_ms(self._changes.newest),
            duration_ms=int((time.monotonic() - started) * 1000),
            commit=done,
            file=self._batch.file,
        )


def _lag_ms(newest: Any) -> int | None:
    if not isinstance(newest, datetime):
        return None
    return int((datetime.now(UTC) - (newest if newest.tzinfo else newest.replace(tzinfo=UTC))).total_seconds() * 1000)
