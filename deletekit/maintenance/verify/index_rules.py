"""Check the files of sinks that snapshots name: key indexes, remembered deletes, logs of files. No reader needs them.

A sink makes a damaged index again. Remembered deletes and logs that are lost cannot be made again.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

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

Named = defaultdict[Any, list[int]]
"""What snapshots name, with the ids of these snapshots."""

_REPAIRED = "made again by the next batch of its sink"
_UNKNOWN = "what the sink wrote; without it files that may have been applied are refused"


def check_indexes(
    io: FileIO, metadata: TableMetadata, snapshots: Iterable[Snapshot], level: Level, engine: Engine
) -> Iterator[tuple[Finding, list[int]]]:
    """Check the files of sinks that snapshots name. Yield findings with their snapshots.

    Of indexes, roots and the tails of runs are read, at level `data` each block.

    Raises StorageError.
    """
    deletes, logs, roots, runs = (Named(list) for _ in range(4))
    for snapshot in snapshots:
        for name in delete_names([snapshot]):
            deletes[sink_path(metadata, name)].append(snapshot.snapshot_id)
        if (marker := marker_of(snapshot)) is not None:
            for name in marker.logs:
                logs[marker.sink_id, name].append(snapshot.snapshot_id)
        if (root := root_name(snapshot)) is not None:
            roots[root].append(snapshot.snapshot_id)
    yield from _each(partial(_deletes, io), deletes, engine)
    yield from _each(partial(_log, io, metadata), logs, engine)
    for name, (of_root, found) in zip(roots, engine.map(partial(_root, io, metadata), roots), strict=True):
        for run in of_root:
            runs[run] += roots[name]
        yield from ((finding, roots[name]) for finding in found)
    if level != "metadata":
        yield from _each(partial(_run, io, metadata, level), runs, engine)


def _each(check: Callable[[Any], list[Finding]], named: Named, engine: Engine) -> Iterator[tuple[Finding, list[int]]]:
    """Check what snapshots name. Yield findings with their snapshots."""
    for ids, found in zip(named.values(), engine.map(check, named), strict=True):
        yield from ((finding, ids) for finding in found)


def _deletes(io: FileIO, path: str) -> list[Finding]:
    if io.exists(path):
        return []
    message, expected = "remembered deletes of a sink are missing", "the file that the snapshot names"
    return [warning("sequence-deletes", message, SEQUENCE_DELETES, "no file", expected, file=path)]


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
