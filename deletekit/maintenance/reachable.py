"""Find the files that snapshots lead to.

A file is reachable if any snapshot has it live. A Puffin file is reachable while one deletion vector in it is live.
(Java's incremental clean-up looks only at the vector that was replaced, and deletes the file under the others.)
Spec: "Manifest Entry Fields" (status), "Snapshot Retention Policy"; Java ReachableFileUtil.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial

from deletekit.engines.local import Engine
from deletekit.errors import DeletekitError, NotFoundError, UnsupportedError
from deletekit.formats.content_file import DeleteFile
from deletekit.formats.manifest_list import ManifestFile
from deletekit.formats.manifests import read_manifest
from deletekit.table.file_io import FileIO
from deletekit.table.metadata import Snapshot, TableMetadata
from deletekit.table.snapshot import SnapshotReader

DATA, MANIFEST, MANIFEST_LIST, STATISTICS = "data", "manifest", "manifest-list", "statistics"


class Reachability:
    """Finds files by kind, from snapshots. Each manifest list and manifest is read once: they never change."""

    def __init__(self, io: FileIO, engine: Engine) -> None:
        self._io = io
        self._engine = engine
        self._lists: dict[tuple[int, str | None], tuple[ManifestFile, ...]] = {}
        self._content: dict[str, Mapping[str, str]] = {}

    def manifests(
        self, metadata: TableMetadata, snapshots: Iterable[Snapshot], *, missing_ok: bool = False
    ) -> dict[str, ManifestFile]:
        """Return the manifests of the snapshots by path.

        Raises FormatError; NotFoundError for a missing list, unless `missing_ok`: then it leads to nothing.
        """
        wanted = list(snapshots)
        unread = [s for s in wanted if (s.snapshot_id, s.manifest_list) not in self._lists]
        read = partial(_read_list, self._io, metadata, missing_ok)
        for snapshot, listed in zip(unread, self._engine.map(read, unread), strict=True):
            if listed is not None:
                self._lists[snapshot.snapshot_id, snapshot.manifest_list] = listed
        found = (self._lists.get((s.snapshot_id, s.manifest_list), ()) for s in wanted)
        return {m.manifest_path: m for manifests in found for m in manifests}

    def content(self, manifests: Iterable[ManifestFile], *, missing_ok: bool = False) -> dict[str, str]:
        """Return the live data and delete files of manifests: path -> `"data"` or the kind of delete.

        Raises FormatError, UnsupportedError for an encrypted manifest; NotFoundError as `manifests` does.
        """
        wanted = [m for m in manifests if m.has_live_files]
        unread = [m for m in wanted if m.manifest_path not in self._content]
        read = partial(_read_manifest, self._io, missing_ok)
        for listed, files in zip(unread, self._engine.map(read, unread), strict=True):
            if files is not None:
                self._content[listed.manifest_path] = files
        out: dict[str, str] = {}
        for listed in wanted:
            out.update(self._content.get(listed.manifest_path, {}))
        return out

    def files(self, metadata: TableMetadata) -> dict[str, str]:
        """Return every file, by path, that a snapshot of the metadata leads to, and statistics. Raises as `content`."""
        manifests = self.manifests(metadata, metadata.snapshots.values())
        out = self.content(manifests.values())
        out |= dict.fromkeys(manifests, MANIFEST)
        out |= {s.manifest_list: MANIFEST_LIST for s in metadata.snapshots.values() if s.manifest_list is not None}
        return out | dict.fromkeys(statistics_files(metadata), STATISTICS)


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
    try:
        return SnapshotReader(io, metadata).manifests(snapshot)
    except NotFoundError:
        if missing_ok:
            return None
        raise


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
    return {f.file_path: f.kind if isinstance(f, DeleteFile) else DATA for f in files}
