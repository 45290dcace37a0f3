"""Plan the batches of a stream of files, read each with its identity, and log it with its commit."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from deletekit.commit.change import Base
from deletekit.errors import FormatError, InvalidInputError, NotFoundError
from deletekit.stream.applied_batches import BatchId, marker_in_branch, newest_marker
from deletekit.stream.change_files import (
    FileBatch,
    FileLog,
    change_files,
    check_unchanged,
    identify,
    plan_files,
    read_changes_file,
    read_logs,
    write_log,
)
from deletekit.stream.sink_state import SinkState
from deletekit.stream.sources import Decoder
from deletekit.stream.sources.json_lines import read_messages
from deletekit.table.sinks.batches import FILE_LOGS
from deletekit.table.sinks.file_logs import AppliedFile, read_log
from deletekit.table.sinks.files import sink_path


def plan_batches(
    state: SinkState, paths: Sequence[str | Path], *, as_given: bool, check: Callable[[str], object]
) -> tuple[list[FileBatch], FileLog]:
    """Return the batches of files, and the log of those that are in the table.

    Raises NotFoundError, InvalidInputError as `change_files` and `plan_files`, and for a branch that was rolled back.
    """
    files = change_files(paths, as_given=as_given, check=check)
    metadata = state.table.refresh().metadata
    head = metadata.snapshot_of_ref(state.options.ref)
    if not state.options.allow_rewind:
        marker_in_branch(metadata, head, state.options.sink_id)
    newest = newest_marker(metadata, head, state.options.sink_id)
    log = FileLog() if state.options.allow_rewind else read_logs(state.table.io, metadata, newest)
    return plan_files(files, newest, log, allow_rewind=state.options.allow_rewind), log


def read_file(source: FileBatch, state: SinkState, messages: Decoder | None) -> tuple[pa.Table, AppliedFile]:
    """Return the change rows of a new file, and what the file is. Raise InvalidInputError if it changes meanwhile."""
    before = identify(source.file, source.batch_id)
    if messages is None:
        rows = read_changes_file(source.file, state.table.refresh().schema, state.options.change_type)
    else:
        lines = read_messages(source.file)
        rows = state.decoded(lambda schema, reject: messages.decode(lines, schema, reject=reject))
    check_unchanged(before)
    return rows, before


def check_not_moved(applied: AppliedFile, log: FileLog) -> None:
    """Raise InvalidInputError (`file-moved`) if the content of a new file was applied from another path."""
    found = log.moved_from(applied)
    if found is not None:
        message = "the data of this file is in the table, from a file of another path"
        expected = "other data, or another name to apply the same changes again"
        raise InvalidInputError(message, kind="file-moved", file=applied.path, found=found, expected=expected)


def logged(base: Base, batch: BatchId, *, without_lost: bool) -> tuple[Mapping[str, str], tuple[str, ...]]:
    """Return the summary entry that names the sink's logs of files, and the path of the log that was written for it.

    Parameters
    ----------
    without_lost: leave out logs that are missing or damaged.
    """
    metadata = base.metadata
    last = newest_marker(metadata, base.snapshot, batch.sink_id)
    logs = () if last is None else last.logs
    if batch.applied is None:
        return ({FILE_LOGS: ",".join(logs)}, ()) if logs else ({}, ())
    if without_lost:
        logs = tuple(name for name in logs if _is_whole(base, batch.sink_id, name))
    logs = write_log(base.write, batch.sink_id, logs, batch.applied)
    return {FILE_LOGS: ",".join(logs)}, (sink_path(metadata, logs[-1]),)


def _is_whole(base: Base, sink_id: str, log: str) -> bool:
    try:
        read_log(base.table.io, base.metadata, sink_id, log)
    except (FormatError, NotFoundError):
        return False
    return True
