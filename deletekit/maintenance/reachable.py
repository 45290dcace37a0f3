"""Find the files that snapshots lead to, also while others expire snapshots. Remove files that nothing leads to.

A file is reachable if any snapshot has it live. A Puffin file is reachable while one deletion vector in it is live.
(Java's incremental clean-up looks only at the vector that was replaced, and deletes the file under the others.)

Before a file is removed it is compared once more with all needed files, by what it is on disk. A file that is already
gone is not an error. A file that cannot be removed is reported, and the others are still removed.
Spec: "Manifest Entry Fields" (status), "Snapshot Retention Policy"; Java ReachableFileUtil.
"""

import os
import posixpath
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from deletekit.engines.local import Engine
from deletekit.errors import DeletekitError, InvalidInputError, NotFoundError, UnsupportedError
from deletekit.formats.content_file import DeleteFile
from deletekit.formats.manifest_list import ManifestFile
from deletekit.formats.manifests import read_manifest
from deletekit.table.file_io import FileIO, remove_empty_folder
from deletekit.table.locations import SpellingRules, is_ambiguous, is_below, local_path
from deletekit.table.metadata import Snapshot, TableMetadata
from deletekit.table.metadata_file import metadata_folder
from deletekit.table.own_places import own_folders
from deletekit.table.properties import value_of
from deletekit.table.sinks.batches import file_logs
from deletekit.table.sinks.files import delete_names, root_names, sink_path
from deletekit.table.sinks.index_files import DamagedIndexError, read_root
from deletekit.table.snapshot import SnapshotReader
from deletekit.table.table import Table
from deletekit.text import without_secrets

_K = TypeVar("_K")
_V = TypeVar("_V")
_T = TypeVar("_T")
_R = TypeVar("_R")


@dataclass
class Reachability:
    """Finds files by kind, from snapshots. Each manifest list and manifest is read once: they never change."""

    io: FileIO
    engine: Engine
    _lists: dict[tuple[int, str | None], tuple[ManifestFile, ...]] = field(default_factory=dict)
    _content: dict[str, Mapping[str, str]] = field(default_factory=dict)
    _runs: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def manifests(
        self, metadata: TableMetadata, snapshots: Iterable[Snapshot], *, missing_ok: bool = False
    ) -> dict[str, ManifestFile]:
        """Return the manifests of the snapshots by path.

        Raises FormatError; NotFoundError for a missing list, unless `missing_ok`: then it leads to nothing.
        """
        wanted = {(s.snapshot_id, s.manifest_list): s for s in snapshots}
        lists = self._once(self._lists, wanted, partial(_read_list, self.io, metadata, missing_ok))
        return {m.manifest_path: m for listed in lists for m in listed}

    def content(self, manifests: Iterable[ManifestFile], *, missing_ok: bool = False) -> dict[str, str]:
        """Return the live data and delete files of manifests: path -> `"data"` or the kind of delete.

        Raises FormatError, UnsupportedError for an encrypted manifest; NotFoundError as `manifests` does.
        """
        wanted = {m.manifest_path: m for m in manifests if m.has_live_files}
        found = self._once(self._content, wanted, partial(_read_manifest, self.io, missing_ok))
        return {path: kind for files in found for path, kind in files.items()}

    def files(self, metadata: TableMetadata) -> dict[str, str]:
        """Return every file, by path, that a snapshot of the metadata leads to, and statistics. Raises as `content`."""
        manifests = self.manifests(metadata, metadata.snapshots.values())
        out = self.content(manifests.values())
        out |= dict.fromkeys(manifests, "manifest")
        out |= {s.manifest_list: "manifest-list" for s in metadata.snapshots.values() if s.manifest_list is not None}
        out |= dict.fromkeys(self.indexes(metadata, metadata.snapshots.values()), "key-index")
        out |= dict.fromkeys(file_logs(metadata, metadata.snapshots.values()), "file-log")
        return out | dict.fromkeys(statistics_files(metadata), "statistics")

    def indexes(self, metadata: TableMetadata, snapshots: Iterable[Snapshot]) -> set[str]:
        """Return the files of key indexes and of remembered deletes that snapshots name.

        A damaged or missing root leads to nothing.
        """
        snapshots = tuple(snapshots)
        wanted = {path: path for path in (sink_path(metadata, name) for name in root_names(snapshots))}
        runs = self._once(self._runs, wanted, partial(_read_root, self.io))
        names = {name for names in (*runs, delete_names(snapshots)) for name in names}
        return {*wanted.keys() & self._runs.keys(), *(sink_path(metadata, name) for name in names)}

    def _once(self, known: dict[_K, _V], wanted: Mapping[_K, _T], read: Callable[[_T], _V | None]) -> list[_V]:
        """Return what was read of the wanted items. Read those that are not known; None is a missing file."""
        unread = {key: item for key, item in wanted.items() if key not in known}
        done = zip(unread, self.engine.map(read, list(unread.values())), strict=True)
        known |= {key: value for key, value in done if value is not None}
        return [known[key] for key in wanted if key in known]


def statistics_files(metadata: TableMetadata, snapshot_ids: Iterable[int] | None = None) -> set[str]:
    """Return the statistics and partition statistics files of all snapshots or of some."""
    wanted = None if snapshot_ids is None else set(snapshot_ids)
    return {
        entry["statistics-path"]
        for name in ("statistics", "partition-statistics")
        for entry in metadata.raw.get(name) or ()
        if wanted is None or entry["snapshot-id"] in wanted
    }


def _read_list(
    io: FileIO, metadata: TableMetadata, missing_ok: bool, snapshot: Snapshot
) -> tuple[ManifestFile, ...] | None:
    with suppress(NotFoundError) if missing_ok else nullcontext():
        return SnapshotReader(io, metadata).manifests(snapshot)
    return None


def _read_root(io: FileIO, path: str) -> tuple[str, ...] | None:
    """Return the names of the runs of an index; None without its root."""
    try:
        return tuple(run.name for run in read_root(io, path).runs)
    except DamagedIndexError as e:
        return None if isinstance(e.__cause__, NotFoundError) else ()


def _read_manifest(io: FileIO, missing_ok: bool, listed: ManifestFile) -> Mapping[str, str] | None:
    path = listed.manifest_path
    if listed.key_metadata is not None:
        raise UnsupportedError("encrypted manifests cannot be read", kind="encryption", file=path, field="key_metadata")
    try:
        manifest = read_manifest(io.read(path), spec_id=listed.partition_spec_id)
    except NotFoundError:
        if missing_ok:
            return None
        raise
    except DeletekitError as e:
        raise e.in_file(path) from e
    files = (e.data_file for e in manifest.entries if e.is_live)
    return {f.file_path: f.kind if isinstance(f, DeleteFile) else "data" for f in files}


def read_latest(table: Table, read: Callable[[TableMetadata], _R]) -> _R:
    """Return `read` of the table's latest metadata. Read again if snapshots expired meanwhile.

    A file is missing only if its snapshot is still in the metadata. Raises what `read` raises, and NotFoundError only
    for files of such snapshots.
    """
    while True:
        metadata = table.refresh().metadata
        try:
            return read(metadata)
        except NotFoundError:
            if metadata.snapshots.keys() <= table.refresh().metadata.snapshots.keys():
                raise


# --- removing files ---------------------------------------------------------------------------------------------------


def check_gc_enabled(metadata: TableMetadata) -> None:
    """Raise InvalidInputError if `gc.enabled` is false: other tables may use this table's files."""
    if not value_of(metadata.properties, "gc.enabled"):
        raise InvalidInputError(
            "files of this table may not be removed: other tables may use them",
            kind="gc-disabled",
            field="gc.enabled",
            found="false",
            expected="true",
        )


def check_not_needed(paths: Iterable[str], needed: Iterable[str]) -> None:
    """Raise InvalidInputError if a file to be removed is one that the table needs, whatever its name.

    This chooses no files. It compares what is on disk, so that no mistake about names removes a needed file.
    """
    rules = SpellingRules()
    chosen = {identity: path for path in paths for identity in _identities(path, rules, link_itself=True)}
    for path in needed if chosen else ():
        found = next((chosen[i] for i in _identities(path, rules, link_itself=False) if i in chosen), None)
        if found is not None or is_ambiguous(path):
            raise InvalidInputError(
                "a file that the table needs would be removed" if found else "path may be of two files",
                kind="needed-file",
                file=found or path,
                found=path,
                expected="files that nothing needs; nothing was removed",
            )


def _identities(path: str, rules: SpellingRules, *, link_itself: bool) -> Iterator[Any]:
    """Yield what identifies a file: its name and, unless the file has several names, its number on the disk."""
    yield rules.key(path)
    local = local_path(path)
    for stat in (os.lstat,) if link_itself else (os.lstat, os.stat):
        try:
            status = stat(local) if local is not None else None
        except (OSError, ValueError):
            continue
        if status is not None and status.st_nlink == 1:
            yield status.st_dev, status.st_ino


def remove_files(io: FileIO, metadata: TableMetadata, paths: Iterable[str], engine: Engine) -> dict[str, str]:
    """Remove files of a table and the folders that become empty. Return the reason for each file that is left."""
    chosen = list(paths)
    reasons = engine.map(partial(_remove, io), chosen)
    failed = {path: reason for path, reason in zip(chosen, reasons, strict=True) if reason is not None}
    _remove_folders(metadata, [path for path in chosen if path not in failed])
    return failed


def _remove(io: FileIO, path: str) -> str | None:
    try:
        io.delete(path)
    except Exception as e:  # noqa: BLE001  # storages raise errors of many classes, and all are reported
        return str(without_secrets(f"{type(e).__name__}: {e}"))
    return None


def _remove_folders(metadata: TableMetadata, files: Iterable[str]) -> None:
    """Remove folders on a local disk that held these files and are empty. A partition's folder names a value of rows.

    The table's location itself stays, and so do the folders that its writers use.
    """
    rules = SpellingRules()
    home = rules.folder(metadata.location)
    kept = set(map(rules.folder, (f"{metadata.location}/data", metadata_folder(metadata), *own_folders(metadata))))
    local = (posixpath.normpath(path) for file in files if (path := local_path(file)) is not None)
    for folder in {posixpath.dirname(path) for path in local}:
        at = folder
        while (place := rules.folder(at)) not in kept and is_below(place, home) and remove_empty_folder(at):
            at = posixpath.dirname(at)
