"""Check the files of sinks that snapshots name: key indexes, remembered deletes, logs of files. No reader needs them.

A sink makes a damaged index again. Remembered deletes and logs that are lost cannot be made again.
"""

from collections.abc import Iterable, Iterator
from functools import partial

import numpy as np

from deletekit.engines.local import Engine
from deletekit.errors import FormatError, NotFoundError
from deletekit.maintenance.verify.report import Finding, Level, warning
from deletekit.table.file_io import FileIO
from deletekit.table.metadata import Snapshot, TableMetadata
from deletekit.table.sinks.batches import FILE_LOGS, marker_of
from deletekit.table.sinks.file_logs import read_log
from deletekit.table.sinks.files import SEQUENCE_DELETES, delete_names, root_name, sink_path
from deletekit.table.sinks.index_files import DamagedIndexError, RunInfo, read_blocks, read_root, read_tail

_REPAIRED = "made again by the next batch of its sink"
_UNKNOWN = "what the sink wrote; without it the sink refuses more files"


def check_indexes(
    io: FileIO, metadata: TableMetadata, snapshots: Iterable[Snapshot], level: Level, engine: Engine
) -> Iterator[tuple[Finding, list[int]]]:
    """Check the files of sinks that snapshots name. Yield findings with their snapshots.

    Of indexes, roots and the tails of runs are read, at level `data` each block.

    Raises StorageError.
    """
    snapshots = tuple(snapshots)
    yield from _check_deletes(io, metadata, snapshots, engine)
    yield from _check_logs(io, metadata, snapshots, engine)
    named: dict[str, list[int]] = {}
    for snapshot in snapshots:
        name = root_name(snapshot)
        if name is not None:
            named.setdefault(name, []).append(snapshot.snapshot_id)
    of_run: dict[RunInfo, list[int]] = {}
    for name, (runs, found) in zip(named, engine.map(partial(_root, io, metadata), named), strict=True):
        for run in runs:
            of_run.setdefault(run, []).extend(named[name])
        yield from ((finding, named[name]) for finding in found)
    if level != "metadata":
        for run, found in zip(of_run, engine.map(partial(_run, io, metadata, level), of_run), strict=True):
            yield from ((finding, of_run[run]) for finding in found)


def _check_deletes(
    io: FileIO, metadata: TableMetadata, snapshots: Iterable[Snapshot], engine: Engine
) -> Iterator[tuple[Finding, list[int]]]:
    named: dict[str, list[int]] = {}
    for snapshot in snapshots:
        for name in delete_names([snapshot]):
            named.setdefault(sink_path(metadata, name), []).append(snapshot.snapshot_id)
    for path, is_there in zip(named, engine.map(io.exists, named), strict=True):
        if not is_there:
            message, expected = "remembered deletes of a sink are missing", "the file that the snapshot names"
            found = warning("sequence-deletes", message, SEQUENCE_DELETES, "no file", expected, file=path)
            yield found, named[path]


def _check_logs(
    io: FileIO, metadata: TableMetadata, snapshots: Iterable[Snapshot], engine: Engine
) -> Iterator[tuple[Finding, list[int]]]:
    named: dict[tuple[str, str], list[int]] = {}
    for marker in filter(None, map(marker_of, snapshots)):
        for name in marker.logs:
            named.setdefault((marker.sink_id, name), []).append(marker.snapshot.snapshot_id)
    for log, found in zip(named, engine.map(partial(_log, io, metadata), named), strict=True):
        yield from ((finding, named[log]) for finding in found)


def _log(io: FileIO, metadata: TableMetadata, log: tuple[str, str]) -> list[Finding]:
    sink_id, name = log
    try:
        read_log(io, metadata, sink_id, name)
    except NotFoundError as e:
        return [warning("file-log", "a log of files is missing", FILE_LOGS, "no file", _UNKNOWN, file=e.file)]
    except FormatError as e:
        return [warning("file-log", e.message, FILE_LOGS, e.found, _UNKNOWN, file=e.file)]
    return []


def _root(io: FileIO, metadata: TableMetadata, name: str) -> tuple[tuple[RunInfo, ...], list[Finding]]:
    path = sink_path(metadata, name)
    try:
        root = read_root(io, path)
    except DamagedIndexError as e:
        return (), [_finding(e)]
    if root.table_uuid != metadata.table_uuid:
        found, expected = root.table_uuid, metadata.table_uuid
        message = "the key index is another table's"
        return (), [warning("key-index", message, "table-uuid", found, expected, file=path)]
    return root.runs, []


def _run(io: FileIO, metadata: TableMetadata, level: Level, run: RunInfo) -> list[Finding]:
    path = sink_path(metadata, run.name)
    try:
        tail = read_tail(io, path, run)
        if level == "data":
            for _ in read_blocks(io, path, run, tail, np.arange(1 << run.bits)):
                pass
    except DamagedIndexError as e:
        return [_finding(e)]
    return []


def _finding(error: DamagedIndexError) -> Finding:
    message = "a file of a key index is damaged or missing"
    return warning("key-index", message, "deletekit.key-index", error.found, _REPAIRED, file=error.file)
