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
from deletekit.errors import CommitStateUnknownError, DeletekitError, InvalidInputError
from deletekit.log import tell
from deletekit.stream.applied_batches import BatchId, is_committed, summary_of, tag_update
from deletekit.stream.batch_delta import BatchDelta
from deletekit.stream.batch_digest import digest_of
from deletekit.stream.batch_rows import BatchRows, batch_rows
from deletekit.stream.change_files import FileLog
from deletekit.stream.file_batches import check_not_moved, logged
from deletekit.stream.maintain import Maintenance, after_batch
from deletekit.stream.saved_index import index_entry
from deletekit.stream.sink_state import SinkState
from deletekit.stream.sources.left_out import options_needed, servers_of, understood
from deletekit.stream.stored_values import UnsentError
from deletekit.table.metadata import Snapshot, TableMetadata
from deletekit.table.sinks.batches import NEWEST_TIME, markers, sink_tag
from deletekit.verbs.shared.equality_keys import ensure_unpartitioned_spec, partitionable
from deletekit.verbs.shared.guards import Guards

_PLANS_BY_POSITION = 3
_MANY_MESSAGES = 10
"""So many messages that lack the same options are not an accident."""


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
        check = Guards(readable_by=state.options.readable_by).readable(table.properties)
        if self.rows.schema != table.metadata.schema and state.options.evolve != "refuse":
            self.rows.evolve(table)
            self._batch = replace(self._batch, digest=self.rows.letters.digest(self.rows.digest))
        if state.options.mode != "index-only" and not partitionable(table.metadata, self.rows.fields):
            ensure_unpartitioned_spec(table)
        while True:
            check_some_fit(table.metadata, self._head(), self._batch, self.rows)
            if state.dead_letters is not None:
                state.dead_letters.write(table, self._batch, self.rows.letters)
            try:
                validate, ref = self._validate, state.options.ref
                return plan_change(table, self._build, ref=ref, validate=validate, check=check, reader=state.reader)
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
            allow_rewind=state.options.allow_rewind,
            allow_gaps=state.options.allow_gaps,
            starts_anywhere=state.options.starts_anywhere,
        )

    def _build(self, base: Base) -> RowDelta:
        self._plans += 1
        metadata = base.metadata
        rows = self.rows
        if metadata.schema != rows.schema:
            rows.parse(metadata.schema, self._state.options.key_fields(metadata.schema))
        if rows.truncates:
            written = rows.as_truncation(base)
        elif not len(rows):
            written = BatchDelta(delta=RowDelta())
        elif self._is_by_position:
            written, self._read_files = rows.by_position(base)
        else:
            written = rows.by_value(base)
        self._written = written
        tag = tag_update(metadata, sink_tag(self._batch.sink_id))
        index, index_files = index_entry(base, rows.fields, written.index, keeps=self._state.options.is_indexed)
        logs, log_files = logged(base, self._batch, without_lost=self._state.options.allow_rewind)
        summary = {**summary_of(self._batch, metadata), **index, **logs, **self._newest_time()}
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
    def _falls_back(self) -> bool:
        options = self._state.options
        return options.mode == "auto" and options.sequence_by is None and self._plans > _PLANS_BY_POSITION

    @property
    def _is_by_position(self) -> bool:
        return self._state.options.is_indexed and not self._falls_back

    def _head(self) -> Snapshot | None:
        return self._state.table.metadata.snapshot_of_ref(self._state.options.ref)

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


def report(table: str, ref: str, progress: BatchProgress) -> None:
    """Tell of a batch that was written or skipped."""
    tell(
        "batch",
        table=table,
        ref=ref,
        sink=progress.sink_id,
        query=progress.query_id or None,
        batch=progress.batch_id,
        status=progress.status,
        file=progress.file,
        rows=progress.rows,
        hits=progress.hits,
        misses=progress.misses,
        dead_letters=progress.dead_letters or None,
        duration_ms=progress.duration_ms,
        lag_ms=progress.lag_ms,
    )


def prepared(
    state: SinkState, changes: Any, batch: BatchId, *, ordered: bool = True, log: FileLog | None = None
) -> BatchRun:
    """Return a batch ready to be written. Nothing is written yet. The caller holds the lock of the sink.

    Parameters
    ----------
    batch: without its digest and key.
    ordered: whether its rows come in order.
    log: the files that were applied before, if it comes from a file.

    Raises InvalidInputError for changes that do not fit the table.
    """
    state.table.refresh()
    state.check()
    rows = batch_rows(state, changes, ordered=ordered, source=batch.file or "")
    if rows.truncates and state.options.sequence_by is not None and not state.options.allow_rewind:
        raise InvalidInputError(
            "a truncation has no value of sequence_by, so an older change could bring a row back after it",
            kind="truncate",
            field="sequence_by",
            found="a batch that truncates the table",
            expected="a sink without sequence_by; allow_rewind=True applies it",
        )
    if batch.applied is not None and log is not None and len(rows):
        check_not_moved(batch.applied, log)
    key = tuple(f.field_id for f in rows.fields)
    return BatchRun(state, rows, replace(batch, digest=rows.letters.digest(rows.digest), key=key))


def check_some_fit(metadata: TableMetadata, head: Snapshot | None, batch: BatchId, rows: BatchRows) -> None:
    """Raise InvalidInputError (`nothing-fits`) for a batch of dead letters alone.

    With a wrong format, or without an option that the table's columns need, every message becomes a dead letter: each
    batch is committed, the position goes on, and the table stays empty. One bad message does not stop a stream that has
    begun.

    It is refused if the sink has no row yet and the batch has several dead letters, or one that lacks an option of the
    decoder; later, if it has ten or more that lack options.
    """
    count = len(rows.letters)
    if not count or len(rows) or rows.truncates or (rows.source is not None and understood(rows.source)):
        return
    options = "" if rows.source is None else options_needed(rows.source)
    has_begun = any(m.digest.partition("+")[0] != digest_of([]) for m in markers(metadata, head, batch.sink_id))
    if (count >= _MANY_MESSAGES and options) or (not has_begun and (count > 1 or options)):
        raise InvalidInputError(
            "nothing of the batch fits the table, so all of it would become dead letters",
            kind="nothing-fits",
            field="dead_letters",
            found=f"{count} dead letters and no row, the first: {rows.letters.first}",
            expected=f"the decoder's {options}" if options else "the format of the messages, and columns of the table",
        )
