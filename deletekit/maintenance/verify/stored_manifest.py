"""Read manifest lists and manifests as they are stored, whatever is wrong with them.

Damage never raises. What cannot be read becomes a finding, and the rest is checked without it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from deletekit.errors import NotFoundError
from deletekit.formats.avro import read_container
from deletekit.formats.content_file import ManifestEntry
from deletekit.formats.manifest_list import ManifestFile, read_manifest_list
from deletekit.formats.manifests import Manifest, inherit, read_manifest
from deletekit.maintenance.verify.report import Finding, warning
from deletekit.maintenance.verify.unreadable import DAMAGE, from_error, not_checked
from deletekit.table.file_io import FileIO
from deletekit.table.metadata import Snapshot, TableMetadata
from deletekit.table.partition import with_current_decimals
from deletekit.table.snapshot import SnapshotReader


@dataclass(frozen=True)
class StoredManifest:
    """A row of a manifest list, and the manifest it names.

    Attributes
    ----------
    size: bytes of the file; None if it is missing.
    manifest: what is stored; None if it cannot be read.
    entries: its entries with what they inherit.
    unread: why it cannot be read.
    """

    listed: ManifestFile
    size: int | None = None
    manifest: Manifest | None = None
    entries: tuple[ManifestEntry, ...] = ()
    unread: Finding | None = None


def read_list(
    io: FileIO, metadata: TableMetadata, snapshot: Snapshot
) -> tuple[tuple[ManifestFile, ...], list[Finding]]:
    """Return the rows of a snapshot's manifest list, and what is wrong with its Avro metadata."""
    if snapshot.manifest_list is None:
        try:
            return SnapshotReader(io, metadata).manifests(snapshot), []
        except DAMAGE as e:
            return (), [from_error(e, ", ".join(snapshot.manifests), "manifests")]
    path = snapshot.manifest_list
    try:
        data = io.read(path)
        rows = read_manifest_list(data)
        stored = read_container(data).metadata
    except DAMAGE as e:
        return (), [from_error(e, path, "manifest-list")]
    expected = {
        "snapshot-id": snapshot.snapshot_id,
        "parent-snapshot-id": snapshot.parent_snapshot_id,
        "sequence-number": snapshot.sequence_number,
        "first-row-id": snapshot.first_row_id,
    }
    texts = {name: "null" if value is None else str(value) for name, value in expected.items()}
    message = "manifest list says it is another snapshot's"
    return rows, [
        # No reader uses these. They show first that a list was copied from another snapshot.
        warning("manifest-list-metadata", message, name, stored[name], text, file=path)
        for name, text in texts.items()
        if name in stored and stored[name] != text
    ]


def read_stored(io: FileIO, metadata: TableMetadata, listed: ManifestFile) -> StoredManifest:
    """Read the manifest that a row names."""
    path = listed.manifest_path
    if listed.key_metadata is not None:
        return StoredManifest(listed, unread=not_checked("manifests", path))
    size = None
    try:
        data = io.read(path)
        size = len(data)
        manifest = read_manifest(data, spec_id=listed.partition_spec_id)
        return StoredManifest(listed, size, manifest, _entries(manifest, listed, metadata))
    except NotFoundError as e:
        return StoredManifest(listed, unread=from_error(e, path, "manifest_path"))
    except DAMAGE as e:
        return StoredManifest(listed, size, unread=from_error(e, path, "manifest_path"))


def _entries(manifest: Manifest, listed: ManifestFile, metadata: TableMetadata) -> tuple[ManifestEntry, ...]:
    """Entries with what they inherit, also where they may not: a rule of its own reports those, all others see them."""
    columns, spec = inherit(manifest, listed, strict=False), metadata.specs.get(listed.partition_spec_id)
    if spec is not None and len(columns.partition_field_ids) == len(spec.fields):
        columns = replace(columns, partition=with_current_decimals(columns.partition, metadata, spec))
    return columns.all_entries()
