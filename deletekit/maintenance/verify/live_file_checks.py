"""Check every live file: that it exists, has the right size, and holds what its manifest entry says.

The engine opens each file once. Rules that need several files are judged here, from what came back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from deletekit.deletes.which_apply import is_old_enough, referenced_path, scope_of
from deletekit.engines.local import Engine
from deletekit.formats.content_file import ContentFile, DeleteFile, ManifestEntry
from deletekit.maintenance.verify.data_file_rules import check_data_file
from deletekit.maintenance.verify.delete_file_rules import DeleteContent, check_delete_file
from deletekit.maintenance.verify.report import Finding, Level, error, warning
from deletekit.maintenance.verify.snapshot_files import SnapshotFiles
from deletekit.maintenance.verify.unreadable import DAMAGE, from_error
from deletekit.table.file_io import FileIO
from deletekit.table.metadata import TableMetadata


class LiveFileChecks:
    """Check the live files of snapshots.

    Parameters
    ----------
    live: the files of every snapshot that is checked, by the snapshot's id.
    opened: the snapshots whose files are opened too.
    """

    def __init__(
        self, io: FileIO, metadata: TableMetadata, live: Mapping[int, SnapshotFiles], opened: set[int], engine: Engine
    ) -> None:
        self._io = io
        self._metadata = metadata
        self._engine = engine
        self._live = live
        self._opened = {i: live[i] for i in live if i in opened}
        self._files: dict[str, ContentFile] = {}
        self._snapshots: dict[str, set[int]] = {}
        for snapshot_id, files in live.items():
            for file in (e.data_file for e in (*files.data, *files.deletes)):
                self._files.setdefault(file.file_path, file)
                self._snapshots.setdefault(file.file_path, set()).add(snapshot_id)
        self._missing: set[str] = set()
        self.checked = {"files": len(self._files), "delete_files": 0, "data_files": 0, "rows": 0}

    def findings(self, level: Level) -> Iterator[Finding]:
        """Yield findings with their snapshots, and count in `checked` what was looked at."""
        sizes = self._engine.map(partial(_check_size, self._io), list(self._files.values()))
        for path, found in zip(self._files, sizes, strict=True):
            yield from self._located(path, found, self._live)
            if any(f.kind == "missing-file" for f in found):
                self._missing.add(path)
        yield from self._delete_files()
        yield from self._data_files(level)

    def _located(self, path: str, findings: Iterable[Finding], snapshots: Iterable[int]) -> Iterator[Finding]:
        ids = tuple(i for i in snapshots if i in self._snapshots[path])
        return (replace(f, snapshot_ids=ids) for f in findings)

    def _delete_files(self) -> Iterator[Finding]:
        """Check delete files, the deletion vectors of one Puffin file together."""
        files: dict[str, dict[tuple[Any, ...], DeleteFile]] = {}
        for snapshot in self._opened.values():
            for _, delete in snapshot.delete_files():
                if delete.file_path not in self._missing:
                    files.setdefault(delete.file_path, {})[delete.identity] = delete
        check = partial(check_delete_file, self._io, self._metadata)
        results = self._engine.map(check, [tuple(f.values()) for f in files.values()])
        contents: dict[tuple[Any, ...], DeleteContent] = {}
        for path, content in zip(files, results, strict=True):
            self.checked["delete_files"] += len(files[path])
            self.checked["rows"] += content.rows
            yield from self._located(path, content.findings, self._opened)
            contents |= dict.fromkeys(files[path], content)
        for snapshot_id, snapshot in self._opened.items():
            for finding in _against_data(snapshot, contents):
                yield replace(finding, snapshot_ids=(snapshot_id,))

    def _data_files(self, level: Level) -> Iterator[Finding]:
        entries: dict[str, ManifestEntry] = {}
        for snapshot in self._opened.values():
            entries |= {path: entry for path, entry in snapshot.by_path.items() if path not in self._missing}
        results = self._engine.map(partial(check_data_file, self._io, self._metadata, level), list(entries.values()))
        for path, (findings, rows) in zip(entries, results, strict=True):
            self.checked["data_files"] += 1
            self.checked["rows"] += rows
            yield from self._located(path, findings, self._opened)


def names_nothing(live: SnapshotFiles, entry: ManifestEntry, paths: Iterable[str]) -> bool:
    """Tell whether a position delete file of a partition applies to none of the data files that its rows name."""
    for path in paths:
        data = live.by_path.get(path)
        if data is None or path in live.vectors or scope_of(data.data_file) != scope_of(entry.data_file):
            continue
        if is_old_enough(data, entry):
            return False
    return True


def _check_size(io: FileIO, file: ContentFile) -> list[Finding]:
    path, expected = file.file_path, file.file_size_in_bytes
    try:
        size = io.size(path)
    except DAMAGE as e:
        return [from_error(e, path, "file_path")]
    if size == expected:
        return []
    return [error("file-size", "file has another size", "file_size_in_bytes", expected, size, file=path)]


def _against_data(live: SnapshotFiles, contents: Mapping[tuple[Any, ...], DeleteContent]) -> Iterator[Finding]:
    """Check positions against the data files that they are in."""
    dangling = {e.data_file.identity for e in live.dangling()}
    for entry, delete in live.delete_files():
        content, file = contents.get(delete.identity), delete.file_path
        last = content.last_positions.get(delete.identity) if content is not None else None
        if last is None:
            continue
        for path, position in last.items():
            data = live.by_path.get(path)
            rows = data.data_file.record_count if data is not None else None
            if rows is not None and position >= rows:
                message = f"position behind the last row of {path}"
                yield warning("position-out-of-range", message, "pos", position, f"< {rows}", file=file)
        is_of_partition = delete.kind == "position-delete" and referenced_path(delete) is None
        if is_of_partition and delete.identity not in dangling and names_nothing(live, entry, last):
            kind = "dangling-position-delete"
            message = "delete has no effect: it names no live data file that it applies to"
            yield warning(kind, message, found=f"{len(last)} paths", file=file, repair=kind)
