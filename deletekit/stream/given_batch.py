"""Parse a batch as callers give it, and make it ready to be written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from deletekit.errors import InvalidInputError
from deletekit.stream.applied_batches import BatchId, Step
from deletekit.stream.batch_rows import batch_rows
from deletekit.stream.batch_run import BatchRun
from deletekit.stream.change_files import FileBatch
from deletekit.stream.file_batches import check_not_moved
from deletekit.stream.file_log import AppliedFile, FileLog
from deletekit.stream.sink_state import SinkState


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenBatch:
    """What is known of a batch besides its rows.

    Attributes
    ----------
    ordered: whether its rows come in order.
    source: the file that it comes from, or None.
    applied: what that file is; log: of the files that were applied before.
    step: the step in the source that it comes from, or None.
    """

    batch_id: int
    query_id: str = ""
    ordered: bool = True
    source: FileBatch | None = None
    applied: AppliedFile | None = None
    log: FileLog | None = None
    step: Step | None = None


def prepared(state: SinkState, columns: tuple[str | None, str | None], changes: Any, given: GivenBatch) -> BatchRun:
    """Return a batch ready to be written. Nothing is written yet. The caller holds the lock of the sink.

    Parameters
    ----------
    columns: the names of the columns with the change's type and with the order.

    Raises InvalidInputError for changes that do not fit the table.
    """
    state.table.refresh()
    state.check()
    source = given.source
    rows = batch_rows(state, changes, columns, ordered=given.ordered, source=source.file if source else "")
    if rows.truncates and state.sequence_by is not None and not state.allow_rewind:
        raise InvalidInputError(
            "a truncation has no value of sequence_by, so an older change could bring a row back after it",
            kind="truncate",
            field="sequence_by",
            found="a batch that truncates the table",
            expected="a sink without sequence_by; allow_rewind=True applies it",
        )
    batch = BatchId(
        sink_id=state.sink_id,
        query_id=given.query_id,
        batch_id=given.batch_id,
        digest=rows.letters.digest(rows.digest),
        key=tuple(f.field_id for f in rows.fields),
        file=source.file if source else None,
        before=source.before if source else (),
        applied=given.applied,
        step=given.step,
    )
    if source is not None and given.applied is not None and given.log is not None and len(rows):
        check_not_moved(given.applied, given.log, batch, source.moved)
    return BatchRun(state, rows, batch)
