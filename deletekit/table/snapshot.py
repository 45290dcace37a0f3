"""Read one snapshot's manifests and entries, each when it is needed.

Deletes come only from the chosen snapshot's manifest list (spec "Scan Planning").
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from deletekit.errors import UNREADABLE, DeletekitError, FormatError, UnsupportedError
from deletekit.formats.content_file import DataFile, EntryStatus, FileContent, ManifestEntry
from deletekit.formats.manifest_columns import ManifestColumns, MetricsCache
from deletekit.formats.manifest_list import ManifestContent, ManifestFile, read_manifest_list
from deletekit.formats.manifests import inherit, read_manifest
from deletekit.table.file_io import FileIO
from deletekit.table.metadata import Snapshot, TableMetadata
from deletekit.table.partition import with_current_decimals

# What the strict decoder takes about as long for as polars takes to be imported.
_WORTH_POLARS_BYTES = 1 << 19
_WORTH_COLUMNS_BYTES = 1 << 14


class SnapshotReader:
    """Manifests and entries of a table's snapshots. Decoded manifests are kept while the reader lives.

    Small tables are decoded entry by entry, and from some size on columns with polars; the answers are the same.
    """

    def __init__(self, io: FileIO, metadata: TableMetadata) -> None:
        self._io = io
        self._metadata = metadata
        self._lists: dict[int, tuple[ManifestFile, ...]] = {}
        self._entries: dict[str, tuple[ManifestEntry, ...]] = {}
        self._columns: dict[str, ManifestColumns] = {}
        self._metrics = MetricsCache()
        self._listed_bytes = 0

    def manifests(self, snapshot: Snapshot) -> tuple[ManifestFile, ...]:
        """Return the manifest list, in file order. Raises FormatError, NotFoundError."""
        if snapshot.snapshot_id not in self._lists:
            self._lists[snapshot.snapshot_id] = self._read_list(snapshot)
            self._listed_bytes += sum(m.manifest_length for m in self._lists[snapshot.snapshot_id])
        return self._lists[snapshot.snapshot_id]

    def entries(self, listed: ManifestFile) -> tuple[ManifestEntry, ...]:
        """All entries of a manifest, deleted ones too, with everything inherited. Raises FormatError, NotFoundError."""
        if listed.manifest_path not in self._entries:
            self._entries[listed.manifest_path] = self.columns(listed).all_entries()
        return self._entries[listed.manifest_path]

    def columns(self, listed: ManifestFile) -> ManifestColumns:
        """Return the same entries as columns. Raises FormatError, NotFoundError, UnsupportedError."""
        path = listed.manifest_path
        if path not in self._columns:
            try:
                self._columns[path] = self._read(self._bytes(listed), listed)
            except DeletekitError as e:
                raise e.in_file(path) from e
        return self._columns[path]

    def live_entries(self, snapshot: Snapshot, content: ManifestContent) -> Iterator[ManifestEntry]:
        """Yield the live data files, or the live delete files, of a snapshot."""
        for columns in self.live_columns(snapshot, content):
            yield from columns.entries(np.flatnonzero(columns.is_live))

    def live_columns(self, snapshot: Snapshot, content: ManifestContent) -> Iterator[ManifestColumns]:
        """Yield the manifests that hold live data files, or live delete files, of a snapshot."""
        for listed in self.manifests(snapshot):
            if listed.content == content and listed.has_live_files:
                yield self.columns(listed)

    def changed_entries(self, snapshot: Snapshot, content: ManifestContent | None = None) -> Iterator[ManifestEntry]:
        """Yield the entries that a snapshot itself added or removed: data files, delete files, or (None) both."""
        for listed in self.manifests(snapshot):
            if listed.added_snapshot_id == snapshot.snapshot_id and content in (None, listed.content):
                for entry in self.entries(listed):
                    if entry.snapshot_id == snapshot.snapshot_id and entry.status != EntryStatus.EXISTING:
                        yield entry

    def leave_out_unreadable(self, snapshot: Snapshot) -> dict[ManifestFile, DeletekitError]:
        """Return why manifests of a snapshot cannot be read. From now on the snapshot is read without them.

        Use it only to show a damaged table as damaged. Raises FormatError, NotFoundError for the manifest list.
        """
        unread: dict[ManifestFile, DeletekitError] = {}
        for listed in self.manifests(snapshot):
            try:
                self.columns(listed)
            except UNREADABLE as e:
                unread[listed] = e
        self._lists[snapshot.snapshot_id] = tuple(m for m in self.manifests(snapshot) if m not in unread)
        return unread

    def renew(self, io: FileIO, metadata: TableMetadata, snapshot: Snapshot | None) -> None:
        """Update a long-lived reader to newer metadata.

        Keep what is known of this snapshot's manifests, or nothing if schemas or partition specs changed.
        """
        same = all(self._metadata.raw.get(n) == metadata.raw.get(n) for n in ("schemas", "partition-specs"))
        self._io, self._metadata = io, metadata
        lists = {i: self._lists[i] for i in self._lists if snapshot is not None and i == snapshot.snapshot_id}
        self._lists, self._listed_bytes = lists, sum(m.manifest_length for found in lists.values() for m in found)
        listed = self.manifests(snapshot) if snapshot is not None else ()
        kept = {m.manifest_path for m in listed} if same else set()
        self._entries = {path: found for path, found in self._entries.items() if path in kept}
        self._columns = {path: found for path, found in self._columns.items() if path in kept}

    def _bytes(self, listed: ManifestFile) -> bytes:
        if listed.key_metadata is not None:
            raise UnsupportedError(
                "encrypted manifests cannot be read",
                kind="encryption",
                file=listed.manifest_path,
                field="key_metadata",
            )
        return self._io.read(listed.manifest_path)

    def _read(self, data: bytes, listed: ManifestFile) -> ManifestColumns:
        large = self._listed_bytes >= _WORTH_POLARS_BYTES and len(data) >= _WORTH_COLUMNS_BYTES
        manifest = read_manifest(data, spec_id=listed.partition_spec_id, cache=self._metrics, by_polars=large)
        self._check(manifest.columns, listed)
        columns, spec = inherit(manifest, listed), self._metadata.specs[listed.partition_spec_id]
        return replace(columns, partition=with_current_decimals(columns.partition, self._metadata, spec))

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

    def _check(self, columns: ManifestColumns, listed: ManifestFile) -> None:
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
        if len(columns) and columns.partition_field_ids != expected:
            raise FormatError(
                "manifest's partition fields are not those of its spec",
                kind="partition-spec",
                field="partition",
                found=columns.partition_field_ids,
                expected=expected,
            )
        is_data = columns.content == FileContent.DATA
        wrong = np.flatnonzero(is_data != (listed.content == ManifestContent.DATA))
        if len(wrong):
            raise FormatError(
                "manifest mixes data files and delete files",
                kind="manifest",
                field="content",
                found=columns.entry(int(wrong[0])).data_file.content.name,
                expected=listed.content.name,
            )


def without_first_row_id(entry: ManifestEntry) -> ManifestEntry:
    """Return the entry of an added data file without its first row id, which the commit assigns."""
    if isinstance(entry.data_file, DataFile):
        return replace(entry, data_file=replace(entry.data_file, first_row_id=None))
    return entry
