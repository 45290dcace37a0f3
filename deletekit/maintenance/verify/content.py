"""Every live file: that it is there, and what is in it.

Law: each file is opened once, by the engine; what needs several files is judged here from what came back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from deletekit.deletes.scope import referenced_path, scope_of
from deletekit.engines.local import Engine
from deletekit.formats.content_file import ContentFile, DeleteFile, ManifestEntry
from deletekit.maintenance.verify.damage import DAMAGE, from_error
from deletekit.maintenance.verify.data_content import check_data_file
from deletekit.maintenance.verify.delete_content import DeleteContent, check_delete_file
from deletekit.maintenance.verify.report import Finding, Level, error, warning
from deletekit.maintenance.verify.snapshot_files import LiveFiles
from deletekit.table.file_io import FileIO
from deletekit.table.metadata import TableMetadata

__all__ = ["check_files", "names_nothing"]


def check_files(
    io: FileIO,
    metadata: TableMetadata,
    live: Mapping[int, LiveFiles],
    opened: set[int],
    level: Level,
    engine: Engine,
) -> tuple[list[Finding], dict[str, int]]:
    """Findings with their snapshots, and counts of what was looked at.

    `live` has the files of every snapshot that is checked, `opened` the snapshots whose files are opened too.
    """
    files = _by_path(live, live)
    sizes = engine.map(partial(_check_size, io), [file for file, _ in files.values()])
    findings: list[Finding] = []
    missing = set()
    for (path, (_, ids)), found in zip(files.items(), sizes, strict=True):
        findings += [replace(f, snapshot_ids=tuple(ids)) for f in found]
        if any(f.kind == "missing-file" for f in found):
            missing.add(path)
    chosen = {i: live[i] for i in live if i in opened}
    checked = {"files": len(files), "delete_files": 0, "data_files": 0, "rows": 0}
    found_deletes = _open_deletes(io, metadata, chosen, missing, engine, checked)
    found_data = _open_data(io, metadata, chosen, missing, level, engine, checked)
    return [*findings, *found_deletes, *found_data], checked


def names_nothing(live: LiveFiles, entry: ManifestEntry, paths: Iterable[str]) -> bool:
    """Whether a position delete file of a partition applies to none of the data files that its rows name."""
    for path in paths:
        data = live.by_path.get(path)
        if data is None or path in live.vectors or scope_of(data.data_file) != scope_of(entry.data_file):
            continue
        if (data.sequence_number or 0) <= (entry.sequence_number or 0):
            return False
    return True


def _by_path(live: Mapping[int, LiveFiles], ids: Iterable[int]) -> dict[str, tuple[ContentFile, list[int]]]:
    found: dict[str, tuple[ContentFile, list[int]]] = {}
    for i in ids:
        for entry in (*live[i].data, *live[i].deletes):
            snapshots = found.setdefault(entry.data_file.file_path, (entry.data_file, []))[1]
            if not snapshots or snapshots[-1] != i:
                snapshots.append(i)
    return found


def _check_size(io: FileIO, file: ContentFile) -> list[Finding]:
    try:
        size = io.size(file.file_path)
    except DAMAGE as e:
        return [from_error(e, file.file_path, "file_path")]
    if size == file.file_size_in_bytes:
        return []
    return [
        error(
            "file-size",
            "file has another size",
            file=file.file_path,
            field="file_size_in_bytes",
            found=file.file_size_in_bytes,
            expected=size,
        )
    ]


def _open_deletes(
    io: FileIO,
    metadata: TableMetadata,
    live: Mapping[int, LiveFiles],
    missing: set[str],
    engine: Engine,
    checked: dict[str, int],
) -> Iterator[Finding]:
    """Delete files, the deletion vectors of one Puffin file together."""
    files: dict[str, dict[tuple[Any, ...], DeleteFile]] = {}
    for snapshot in live.values():
        for _, delete in snapshot.delete_files():
            if delete.file_path not in missing:
                files.setdefault(delete.file_path, {})[delete.identity] = delete
    holders = _by_path(live, live)
    results = engine.map(partial(check_delete_file, io, metadata), [tuple(f.values()) for f in files.values()])
    contents: dict[tuple[Any, ...], DeleteContent] = {}
    for path, content in zip(files, results, strict=True):
        checked["delete_files"] += len(files[path])
        checked["rows"] += content.rows
        yield from (replace(f, snapshot_ids=tuple(holders[path][1])) for f in content.findings)
        contents |= dict.fromkeys(files[path], content)
    for snapshot_id, snapshot in live.items():
        for finding in _against_data(snapshot, contents):
            yield replace(finding, snapshot_ids=(snapshot_id,))


def _against_data(live: LiveFiles, contents: Mapping[tuple[Any, ...], DeleteContent]) -> Iterator[Finding]:
    """Positions against the rows of the data files they are in."""
    dangling = {e.data_file.identity for e in live.dangling()}
    for entry, delete in live.delete_files():
        content = contents.get(delete.identity)
        last = content.last_positions.get(delete.identity) if content is not None else None
        if last is None:
            continue
        for path, position in last.items():
            data = live.by_path.get(path)
            if data is not None and position >= data.data_file.record_count:
                yield warning(
                    "position-out-of-range",
                    f"position behind the last row of {path}",
                    file=delete.file_path,
                    field="pos",
                    found=position,
                    expected=f"< {data.data_file.record_count}",
                )
        partition_scoped = delete.kind == "position-delete" and referenced_path(delete) is None
        if partition_scoped and delete.identity not in dangling and names_nothing(live, entry, last):
            yield warning(
                "dangling-position-delete",
                "delete has no effect: it names no live data file that it applies to",
                file=delete.file_path,
                found=f"{len(last)} paths",
                repair="dangling-position-delete",
            )


def _open_data(
    io: FileIO,
    metadata: TableMetadata,
    live: Mapping[int, LiveFiles],
    missing: set[str],
    level: Level,
    engine: Engine,
    checked: dict[str, int],
) -> Iterator[Finding]:
    entries: dict[str, ManifestEntry] = {}
    for snapshot in live.values():
        entries |= {e.data_file.file_path: e for e in snapshot.data if e.data_file.file_path not in missing}
    holders = _by_path(live, live)
    results = engine.map(partial(check_data_file, io, metadata, level), list(entries.values()))
    for path, (findings, rows) in zip(entries, results, strict=True):
        checked["data_files"] += 1
        checked["rows"] += rows
        yield from (replace(f, snapshot_ids=tuple(holders[path][1])) for f in findings)
