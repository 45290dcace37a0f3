"""Write batches of change rows to one branch of a table, each batch once and in one commit.

A sink is its table, its id and its key, and the markers of its batches hold these. Everything else that it keeps only
makes it faster. Another process with the same id continues where this one ended. Threads take turns.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, Self

from deletekit.commit.swap import Commit
from deletekit.engines.local import Engine
from deletekit.errors import InvalidInputError
from deletekit.maintenance.convert_equality_deletes import convert_equality_deletes
from deletekit.public import public, public_methods
from deletekit.rows.row_files import reader_of
from deletekit.spark.releases import query_of_frame
from deletekit.stream.applied_batches import BatchId, Step, last_marker
from deletekit.stream.batch_run import BatchProgress, prepared, report
from deletekit.stream.change_files import FileBatch, FileLog, check_unchanged
from deletekit.stream.dead_letters import DeadLetters
from deletekit.stream.file_batches import plan_batches, read_file
from deletekit.stream.maintain import convert_by_index
from deletekit.stream.run_source import run_source
from deletekit.stream.sink_options import Evolve, Maintain, SinkMode, SinkOptions
from deletekit.stream.sink_state import SinkState
from deletekit.stream.sources import Decoder
from deletekit.stream.sources.json_lines import check_messages_file, file_decoder
from deletekit.stream.sources.source import Source, SourceBatch, Until
from deletekit.stream.table_index import TableIndex
from deletekit.table.metadata import MAIN
from deletekit.table.table import Table


@public
def sink(
    table: Table,
    sink_id: str,
    *,
    on: str | Sequence[str] | None = None,
    mode: SinkMode = "auto",
    ref: str = MAIN,
    change_type: str | None = "_change_type",
    order: str | None = None,
    allow_rewind: bool = False,
    allow_gaps: bool = False,
    sequence_by: str | None = None,
    forget_deletes_after: int | None = None,
    evolve: Evolve = "refuse",
    maintain: int | Maintain | Literal["auto"] | None = "auto",
    dead_letters: Table | None = None,
    max_dead_letters: int = 1000,
    engine: Engine | None = None,
    readable_by: str | Sequence[str] | None = None,
) -> Sink:
    """Open a sink for change rows.

    Parameters
    ----------
    sink_id: names the sink in the table, as long as it exists. Each stream has its own.
    on: the key columns, the same for all batches of one id; default the schema's identifier fields.
    mode: how old rows are deleted. `auto`: by position, with an index, and by value where that cannot be; `index-only`:
        by position; `eq-only`: by value.
    ref, engine, readable_by: as in `delete`; a batch that these engines would not read right is refused.
    change_type: the column with the change's type: `INSERT`, `UPDATE_BEFORE`, `UPDATE_AFTER`, `DELETE`, or the words of
        Flink, Delta and Debezium. None: every row is an upsert.
    order: the column that rows of a batch are sorted by; None: they come in order.
    allow_rewind, allow_gaps: apply a batch even if stream or branch went back, or if batches before it are missing.
    sequence_by: a column of the table. A change with a lower value than its key's row or newest delete is dropped.
    forget_deletes_after: for how many batches the deletes of `sequence_by` are remembered; None for ever.
    evolve: `add` adds columns that only the batch has; `widen` also promotes types; `refuse` does neither.
    maintain: how the table is kept small: a `Maintain`, or after how many batches; `auto`: after 20; None: never.
    dead_letters, max_dead_letters: a table for rows that do not fit, and how many a batch may have; None: it has none.

    Raises InvalidInputError for a bad option, and if batches of this id have another key. Close the sink at the end.
    """
    options = SinkOptions(
        sink_id=sink_id,
        on=on,
        mode=mode,
        ref=ref,
        change_type=change_type,
        order=order,
        allow_rewind=allow_rewind,
        allow_gaps=allow_gaps,
        sequence_by=sequence_by,
        forget_deletes_after=forget_deletes_after,
        evolve=evolve,
        maintain=maintain,
        dead_letters=dead_letters,
        max_dead_letters=max_dead_letters,
        engine=engine,
        readable_by=readable_by,
    )
    return Sink(SinkState(table.refresh(), options))


@public
def convert(table: Table | Sink, *, ref: str = MAIN) -> Commit:
    """Replace all equality deletes of a branch by deletion vectors (v3) or position deletes (v2), in one commit.

    Parameters
    ----------
    table: a table, or a sink, whose branch and index are used.
    ref: the branch of a table.

    No row changes. The index of a sink knows the hidden positions, so no data file is read. Without it, every data file
    that equality deletes apply to is read (`convert_equality_deletes`).

    Returns the commit. Its `snapshot_id` is None if there was nothing to do, so the call may be repeated at any time.
    Raises CommitConflictError, CommitStateUnknownError as every commit; FormatError for files that cannot be read.
    """
    if isinstance(table, Table):
        return convert_equality_deletes(table, ref=ref).commit or Commit()
    return convert_by_index(table.state)


@public_methods
class Sink:
    """An open sink; made by `sink`.

    Attributes
    ----------
    state: its table and options, and what it keeps between batches.
    recent_progress: the results of the last hundred batches, the newest last.
    """

    def __init__(self, state: SinkState) -> None:
        self.state = state
        self.recent_progress: deque[BatchProgress] = deque(maxlen=100)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Free the index. The sink may be used again; it then builds a new index."""
        self.state.close()

    @property
    def index(self) -> TableIndex | None:
        """Return the index, or None before the first batch that needs it."""
        return self.state.index

    @property
    def dead_letters(self) -> DeadLetters | None:
        """Return what keeps rows that do not fit, or None if they refuse their batch."""
        return self.state.dead_letters

    def last_batch(self) -> tuple[str, int] | None:
        """Return query id and number of the newest batch of this sink in the branch, or None."""
        state = self.state
        with state.lock:
            metadata = state.table.refresh().metadata
            last = last_marker(metadata, metadata.snapshot_of_ref(state.options.ref), state.options.sink_id)
        return None if last is None else (last.query_id or "", last.batch_id)

    def write(self, changes: Any, batch_id: int, *, query_id: str = "", ordered: bool = True) -> BatchProgress:
        """Apply one batch, unless it is in the table already.

        Parameters
        ----------
        changes: pyarrow Table or RecordBatch, anything with `__arrow_c_stream__`, or a list of dicts: the table's
            columns, and those of `change_type` and `order`. Rows that delete need only their key. Or a Spark DataFrame,
            as in `foreach_batch`.
        batch_id: the batch's number in its stream, from 0 and without gaps. A repeated batch has the same number. A
            batch without rows has a number too.
        query_id: the source of the batch numbers.
        ordered: whether rows come in order. If not, the column `order` must tell the changes of a key apart.

        Raises InvalidInputError, before anything is written, for changes that do not fit the table, and for a batch
        that may or may not have been applied; CommitConflictError, CommitStateUnknownError as every commit.
        """
        if not 0 <= batch_id < 2**63:
            raise InvalidInputError("a batch has a number", "batch-id", "batch_id", batch_id, ">= 0")
        with self.state.lock:
            return self._write(changes, self._batch(batch_id, query_id=query_id), ordered=ordered)

    def _batch(self, batch_id: int, **known: Any) -> BatchId:
        return BatchId(sink_id=self.state.options.sink_id, batch_id=batch_id, **known)

    def _write(self, changes: Any, batch: BatchId, **known: Any) -> BatchProgress:
        started = time.monotonic()
        run = prepared(self.state, changes, batch, **known)
        try:
            return self._told(run.run(started))
        finally:
            run.discard()

    def _told(self, progress: BatchProgress) -> BatchProgress:
        self.recent_progress.append(progress)
        report(self.state.table.name, self.state.options.ref, progress)
        return progress

    def run(self, batches: Iterable[Any], *, query_id: str = "", first_batch_id: int = 0) -> Iterator[BatchProgress]:
        """Apply batches one after another, numbered from `first_batch_id`. Skip those that are in the table.

        Parameters
        ----------
        batches: as `write` takes them. If the stream is started again, they must be the same ones in the same order.
        """
        for batch_id, changes in enumerate(batches, first_batch_id):
            yield self.write(changes, batch_id, query_id=query_id)

    def run_files(
        self,
        files: Sequence[str | Path],
        *,
        as_given: bool = False,
        format: str | Decoder | None = None,  # noqa: A002  # the word of Kafka's and Flink's options
    ) -> Iterator[BatchProgress]:
        """Apply files of changes (Parquet, CSV or JSON lines), each as a batch. Skip those that are in the table.

        A file is known by its path and content, so calls may name all files of the stream or only the new ones. Logs in
        the table keep what was applied, whatever snapshots expire.

        Parameters
        ----------
        files: in the order in which they must be applied. A folder stands for the files in it and below, a pattern for
            those that match, in natural order (`2.parquet` before `10.parquet`).
        as_given: also accept a shell's order, which has `10.parquet` before `2.parquet`.
        format: the files are JSON lines of messages in this format; `decoder` gives one with options.

        Raises NotFoundError for a missing path; FormatError (`file-log`) if a log is missing or damaged;
        InvalidInputError for a file that has changed or moved since (`file-changed`, `file-moved`), for a file that
        cannot be put in order, for an unknown format, if the sink's batches come from no files (`file-unknown`), and as
        `write`.
        """
        state = self.state
        messages = None if format is None else file_decoder(format, state.options.change_type)
        with state.lock:
            planned, log = plan_batches(
                state, files, as_given=as_given, check=check_messages_file if messages else reader_of
            )
        for source in planned:
            with state.lock:
                progress = self._write_file(source, log, messages)
            yield progress

    def _write_file(self, source: FileBatch, log: FileLog, messages: Decoder | None) -> BatchProgress:
        if source.applied is not None:
            check_unchanged(source.applied)
            progress = BatchProgress(
                sink_id=self.state.options.sink_id,
                query_id="",
                batch_id=source.batch_id,
                status="skipped",
                file=source.file,
            )
            return self._told(progress)
        rows, applied = read_file(source, self.state, messages)
        return self._write(rows, self._batch(source.batch_id, applied=applied), log=log)

    def run_source(
        self, source: Source, *, max_batches: int | None = None, until: Until = "end"
    ) -> Iterator[BatchProgress]:
        """Apply the batches of a source, from the position of the newest batch of this sink on.

        The position is written in the commit of its batch. So a restart goes on without a gap and applies nothing
        twice, and so do several processes at once, which then share the work.

        Parameters
        ----------
        source: one that `stream.sources` makes.
        max_batches: end after so many batches.
        until: `end`: end with what the source holds now; None: wait for more and never end.

        Raises InvalidInputError of kind `source-lost` if the source no longer has the changes after the position, and
        `source-changed` if the position is not of this source; and as `write`.
        """
        yield from run_source(self.state, source, self._write_step, max_batches=max_batches, until=until)

    def _write_step(self, batch: SourceBatch, batch_id: int, step: Step) -> BatchProgress:
        with self.state.lock:
            rows = self.state.decoded(batch.decode)
            return self._write(rows, self._batch(batch_id, query_id=f"source:{step.source}", step=step))

    def foreach_batch(self, frame: Any, batch_id: int) -> None:
        """Apply one micro-batch of Spark: `stream.writeStream.foreachBatch(sink.foreach_batch)`.

        The rows stay on the executors, which parse them, find old rows and write files; this process commits. The order
        of the rows is not reliable, so the column `order` or `sequence_by` must tell several changes of a key apart.
        Rows that become dead letters have no position.

        Raises UnsupportedError under Spark Connect, where a batch does not know its query; otherwise as `write`.
        """
        self.write(frame, batch_id, query_id=query_of_frame(frame), ordered=False)
