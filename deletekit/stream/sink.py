"""THE SINK: batches of change rows into one branch of a table, each batch once and in one commit.

Law: a sink is its table, its id and its key, and its batches say so; whatever else it keeps makes it faster, and
nothing depends on it. Another process with the same id goes on where this one ended. Threads take turns.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from deletekit.engines.current import engine_or_default
from deletekit.engines.local import Engine
from deletekit.errors import InvalidInputError, UnsupportedError
from deletekit.public import public
from deletekit.stream.applied_batches import BatchId, check_sink_id, last_marker, newest_marker
from deletekit.stream.batch_digest import batch_digest, digest_of_keys
from deletekit.stream.batch_run import BatchProgress, BatchRun, ParsedBatch
from deletekit.stream.change_files import change_files, read_changes_file
from deletekit.stream.change_rows import ChangeFormat
from deletekit.stream.file_batches import FileBatch, plan_files
from deletekit.stream.sink_state import SinkMode, SinkState
from deletekit.stream.table_index import TableIndex
from deletekit.table.metadata import MAIN
from deletekit.table.sink_batches import markers
from deletekit.table.table import Table

__all__ = ["Sink", "sink"]

_MODES = ("auto", "flink", "eq-only", "index-only")


@public
def sink(  # noqa: PLR0913  # options, each given by its name
    table: Table,
    sink_id: str,
    *,
    equality_fields: str | Sequence[str] | None = None,
    mode: SinkMode = "auto",
    ref: str = MAIN,
    change_type: str | None = "_change_type",
    order: str | None = None,
    allow_rewind: bool = False,
    allow_gaps: bool = False,
    max_index_keys: int | None = None,
    engine: Engine | None = None,
) -> Sink:
    """Open a sink for change rows.

    Parameters
    ----------
    sink_id: names the sink in the table, for as long as it lives; one for each stream.
    equality_fields: the key columns; default the schema's identifier fields. A key has at most one row. The batches of
        one id have one key.
    mode: `auto` deletes old rows by position where its index finds them, and by value where the index is not complete
        or others keep committing; `index-only` by position only; `eq-only` by value only; `flink` as Flink's sink does,
        by value, and by position what the batch itself replaces.
    ref: the branch.
    change_type: the column that says what a row is: `INSERT`, `UPDATE_BEFORE`, `UPDATE_AFTER`, `DELETE`, or as Flink,
        Delta and Debezium write it; None: every row is an upsert.
    order: the column that rows of a batch are put in order by; None: they come in order.
    allow_rewind: apply a batch though stream or branch went back; see `is_committed` in `progress.py`.
    allow_gaps: apply a batch though batches before it are not in the table; else their data would be missing unseen.
    max_index_keys: how many rows the index may hold: those of the newest data files. With fewer than there are, old
        rows are deleted by value, for one may be outside of the index.
    engine: where data files are read.

    Raises InvalidInputError for a bad key, mode, id or branch, and where batches of this id have another key. Close the
    sink when it is done, or use it in a `with`.
    """
    check_sink_id(sink_id)
    _check_mode(mode, max_index_keys)
    state = SinkState(
        table=table.refresh(),
        table_uuid=table.metadata.table_uuid,
        sink_id=sink_id,
        mode=mode,
        ref=ref,
        equality_fields=equality_fields,
        allow_rewind=allow_rewind,
        allow_gaps=allow_gaps,
        max_index_keys=max_index_keys,
        engine=engine_or_default(engine),
    )
    state.check()
    return Sink(state, change_type, order)


class Sink:
    """An open sink; made by `sink`.

    Attributes
    ----------
    state: its table and options, and what it keeps.
    recent_progress: what became of the last hundred batches, the newest last.
    """

    def __init__(self, state: SinkState, change_type: str | None, order: str | None) -> None:
        self.state = state
        self._columns = change_type, order
        self.recent_progress: deque[BatchProgress] = deque(maxlen=100)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @public
    def close(self) -> None:
        """Give back the index. The sink may be used again, and builds another."""
        self.state.close()

    @property
    def index(self) -> TableIndex | None:
        """The index; None before the first batch that needs it."""
        return self.state.index

    @public
    def last_batch(self) -> tuple[str, int] | None:
        """Query id and number of the newest batch of this sink in the branch; None when there is none."""
        state = self.state
        with state.lock:
            metadata = state.table.refresh().metadata
            last = last_marker(metadata, metadata.snapshot_of_ref(state.ref), state.sink_id)
        return None if last is None else (last.query_id, last.batch_id)

    @public
    def write(self, changes: Any, batch_id: int, *, query_id: str = "", ordered: bool = True) -> BatchProgress:
        """Apply one batch, unless it is in the table already.

        Parameters
        ----------
        changes: pyarrow Table or RecordBatch, anything with `__arrow_c_stream__`, or a list of dicts: the table's
            columns, and those of `change_type` and `order`. Rows that delete need their key only.
        batch_id: the batch's number in its stream, from 0 and without gaps; the same batch has the same number when it
            comes again. A batch without rows has a number too.
        query_id: who numbers the batches.
        ordered: whether rows come in order; if not, the column `order` has to tell the changes of a key apart.

        Raises InvalidInputError, before anything is written, for changes that do not fit, and for a batch of which it
        cannot be known that it has to be applied; CommitConflictError, CommitStateUnknownError as every commit.
        """
        _check_batch_id(batch_id, query_id)
        with self.state.lock:
            return self._write(changes, batch_id, query_id, ordered=ordered)

    def _write(
        self, changes: Any, batch_id: int, query_id: str, *, ordered: bool = True, source: FileBatch | None = None
    ) -> BatchProgress:
        started = time.monotonic()
        state = self.state
        metadata = state.table.refresh().metadata
        state.check()
        change_type, order = self._columns
        fields = state.key_fields(metadata.schema)
        form = ChangeFormat(fields=fields, change_type=change_type, order=order, ordered=ordered)
        parsed = ParsedBatch.of(changes, metadata.schema, form)
        batch = BatchId(
            sink_id=state.sink_id,
            query_id=query_id,
            batch_id=batch_id,
            digest=batch_digest(parsed.changes),
            old_digest=partial(digest_of_keys, parsed.changes),
            key=tuple(f.field_id for f in fields),
            file=source.file if source else None,
            before=source.before if source else (),
        )
        if source is not None:
            _check_not_moved(source, batch.digest)
        progress = BatchRun(state, changes, parsed, batch).go(started)
        self.recent_progress.append(progress)
        return progress

    @public
    def run(self, batches: Iterable[Any], *, query_id: str = "", first_batch_id: int = 0) -> Iterator[BatchProgress]:
        """Apply batches one after another, numbered from `first_batch_id`; those that are in the table are skipped.

        Parameters
        ----------
        batches: as `write` takes them, the same ones in the same order when the stream is started again.
        """
        for batch_id, changes in enumerate(batches, first_batch_id):
            yield self.write(changes, batch_id, query_id=query_id)

    @public
    def run_files(self, files: Sequence[str | Path], *, as_given: bool = False) -> Iterator[BatchProgress]:
        """Apply files of changes (Parquet, CSV or JSON lines), each a batch; those that are in the table are skipped.

        A file is known by its path, so that calls may name all files of the stream or only the new ones.

        Parameters
        ----------
        files: in the order in which they are to be applied; a folder stands for the files in it and below, a pattern
            for those it fits, in natural order (`2.parquet` before `10.parquet`).
        as_given: take files in the order of a shell too, which has `10.parquet` before `2.parquet`.

        Raises NotFoundError for a path that is not there; InvalidInputError for a file of which it cannot be known
        whether or in which order it has to be applied, one of another format, and as `write`.
        """
        state = self.state
        found = change_files(files, as_given=as_given)
        with state.lock:
            metadata = state.table.refresh().metadata
            head = metadata.snapshot_of_ref(state.ref)
            newest = newest_marker(metadata, head, state.sink_id)
            known = list(markers(metadata, head, state.sink_id))
        for source in plan_files(found, newest, known, allow_rewind=state.allow_rewind):
            with state.lock:
                progress = self._write_file(source)
            yield progress

    def _write_file(self, source: FileBatch) -> BatchProgress:
        if source.is_old:
            progress = BatchProgress(
                sink_id=self.state.sink_id, query_id="", batch_id=source.batch_id, status="skipped", file=source.file
            )
            self.recent_progress.append(progress)
            return progress
        rows = read_changes_file(source.file, self.state.table.refresh().schema, self._columns[0])
        return self._write(rows, source.batch_id, "", source=source)

    @public
    def foreach_batch(self, frame: Any, batch_id: int) -> None:
        """Apply one micro-batch of Spark: `stream.writeStream.foreachBatch(sink.foreach_batch)`.

        The batch is collected on the driver. Its rows are in no order that can be relied upon: the column `order` has
        to tell several changes of a key apart.

        Raises UnsupportedError under Spark Connect, where a batch does not know its query; else as `write`.
        """
        try:
            query_id = frame.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
        except Exception as e:
            raise UnsupportedError(
                "the query of a batch is not known here", kind="spark-connect", found=type(e).__name__
            ) from e
        self.write(frame.toArrow(), batch_id, query_id=query_id or "", ordered=False)


def _check_not_moved(source: FileBatch, digest: str) -> None:
    if digest in source.moved:
        raise InvalidInputError(
            "the data of this file is in the table, from a file of the same name in another folder",
            kind="file-moved",
            file=source.file,
            found=source.moved[digest],
            expected="other data, or another name if the same changes are to be applied again",
        )


def _check_mode(mode: str, max_index_keys: int | None) -> None:
    if mode not in _MODES:
        raise InvalidInputError("unknown mode", kind="sink-mode", field="mode", found=mode, expected=", ".join(_MODES))
    if max_index_keys is not None and (mode != "auto" or max_index_keys < 0):
        raise InvalidInputError(
            "only mode auto can do with an index that lacks keys",
            kind="sink-mode",
            field="max_index_keys",
            found=f"{max_index_keys}, mode {mode}",
        )


def _check_batch_id(batch_id: Any, query_id: Any) -> None:
    if not isinstance(batch_id, int) or isinstance(batch_id, bool) or not 0 <= batch_id < 2**63:
        raise InvalidInputError(
            "a batch has a number", kind="batch-id", field="batch_id", found=batch_id, expected="a whole number from 0"
        )
    if not isinstance(query_id, str):
        raise InvalidInputError("a query id is text", kind="query-id", field="query_id", found=query_id)
