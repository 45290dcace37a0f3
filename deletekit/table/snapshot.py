"""One snapshot's manifests and entries, read when asked for.

Law: read-only. Deletes are taken from the chosen snapshot's manifest list and from nowhere else (spec "Scan Planning").
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from deletekit.errors import DeletekitError, FormatError, UnsupportedError
from deletekit.formats.content_file import DataFile, ManifestEntry
from deletekit.formats.manifest import Manifest, inherit, read_manifest
from deletekit.formats.manifest_list import ManifestContent, ManifestFile, read_manifest_list
from deletekit.table.file_io import FileIO
from deletekit.table.metadata import Snapshot, TableMetadata
from deletekit.table.partition import with_current_decimals

__all__ = ["SnapshotReader"]


class SnapshotReader:
    """Manifests and entries of a table's snapshots. Decoded manifests are kept while the reader lives."""

    def __init__(self, io: FileIO, metadata: TableMetadata) -> None:
        self._io = io
        self._metadata = metadata
        self._lists: dict[int, tuple[ManifestFile, ...]] = {}
        self._entries: dict[str, tuple[ManifestEntry, ...]] = {}

    def manifests(self, snapshot: Snapshot) -> tuple[ManifestFile, ...]:
        """The manifest list, in file order. Raises FormatError, NotFoundError."""
        if snapshot.snapshot_id not in self._lists:
            self._lists[snapshot.snapshot_id] = self._read_list(snapshot)
        return self._lists[snapshot.snapshot_id]

    def entries(self, listed: ManifestFile) -> tuple[ManifestEntry, ...]:
        """All entries of a manifest, deleted ones too, with everything inherited. Raises FormatError, NotFoundError."""
        if listed.manifest_path not in self._entries:
            if listed.key_metadata is not None:
                raise UnsupportedError(
                    "encrypted manifests cannot be read",
                    kind="encryption",
                    file=listed.manifest_path,
                    field="key_metadata",
                )
            try:
                manifest = read_manifest(self._io.read(listed.manifest_path), spec_id=listed.partition_spec_id)
                self._check(manifest, listed)
                spec = self._metadata.specs[listed.partition_spec_id]
                entries = with_current_decimals(inherit(manifest, listed), self._metadata, spec)
                self._entries[listed.manifest_path] = entries
            except DeletekitError as e:
                raise e.in_file(listed.manifest_path) from e
        return self._entries[listed.manifest_path]

    def live_entries(self, snapshot: Snapshot, content: ManifestContent) -> Iterator[ManifestEntry]:
        """Live data files, or live delete files, of a snapshot."""
        for listed in self.manifests(snapshot):
            if listed.content == content and listed.has_live_files:
                yield from (e for e in self.entries(listed) if e.is_live)

    def _read_list(self, snapshot: Snapshot) -> tuple[ManifestFile, ...]:
        if snapshot.manifest_list is None:
            return tuple(self._inline(path, snapshot) for path in snapshot.manifests)
        try:
            return read_manifest_list(self._io.read(snapshot.manifest_list))
        except DeletekitError as e:
            raise e.in_file(snapshot.manifest_list) from e

    def _inline(self, path: str, snapshot: Snapshot) -> ManifestFile:
        """Oldest v1 tables list manifest paths in the snapshot itself."""
        data = self._io.read(path)
        spec_id = int(read_manifest(data).metadata.get("partition-spec-id", "0"))
        return ManifestFile(
            manifest_path=path,
            manifest_length=len(data),
            partition_spec_id=spec_id,
            added_snapshot_id=snapshot.snapshot_id,
        )

    def _check(self, manifest: Manifest, listed: ManifestFile) -> None:
        spec = self._metadata.specs.get(listed.partition_spec_id)
        if spec is None:
            raise FormatError(
                "manifest of a partition spec the table does not have",
                kind="partition-spec",
                field="partition_spec_id",
                found=listed.partition_spec_id,
                expected=sorted(self._metadata.specs),
            )
        expected = tuple(f.field_id for f in spec.fields)
        if manifest.entries and manifest.partition_field_ids != expected:
            raise FormatError(
                "manifest's partition fields are not those of its spec",
                kind="partition-spec",
                field="partition",
                found=manifest.partition_field_ids,
                expected=expected,
            )
        wrong = [
            e for e in manifest.entries if isinstance(e.data_file, DataFile) != (listed.content == ManifestContent.DATA)
        ]
        if wrong:
            raise FormatError(
                "manifest mixes data files and delete files",
                kind="manifest",
                field="content",
                found=wrong[0].data_file.content.name,
                expected=listed.content.name,
            )


def without_first_row_id(entry: ManifestEntry) -> ManifestEntry:
    """The entry of a newly added data file, whose first row id the commit will assign."""
    if isinstance(entry.data_file, DataFile):
        return replace(entry, data_file=replace(entry.data_file, first_row_id=None))
    return entry
