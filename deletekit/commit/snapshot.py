"""Make a snapshot of a change: write its manifests and manifest list, count its summary, assign its row ids.

The snapshot is not committed: `NewSnapshot` says which metadata updates commit it. A change that the specification
forbids is refused before anything is written.
Spec: "Snapshots", "Manifest Lists", "Row Lineage", https://iceberg.apache.org/spec/#snapshots. Java
MergingSnapshotProducer, BaseRewriteManifests.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from deletekit.commit.change import Base, ManifestRewrite, RowDelta
from deletekit.commit.manifests import ManifestWriter
from deletekit.commit.summary import summarise
from deletekit.commit.validation import check_delta, check_same_files
from deletekit.formats.content_file import DeleteFile
from deletekit.formats.manifest_list import ManifestContent, ManifestFile, write_manifest_list
from deletekit.table.live_files import FoundFiles, find_live_files
from deletekit.table.metadata import Snapshot, TableMetadata
from deletekit.table.metadata_update import apply_updates


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSnapshot:
    """A snapshot that is ready to be committed.

    Attributes
    ----------
    delta: the change that it commits.
    updates, requirements: of the REST catalog's commit; the requirements are what must still be true.
    """

    snapshot: Snapshot
    delta: RowDelta
    updates: tuple[Mapping[str, Any], ...]
    requirements: tuple[Mapping[str, Any], ...]


def new_snapshot(base: Base, change: RowDelta | ManifestRewrite, properties: Mapping[str, str]) -> NewSnapshot:
    """Write the manifests and the manifest list of a change.

    Parameters
    ----------
    base: the head that the change was planned on; its snapshot becomes the parent.
    properties: extra summary entries.

    Raises InvalidInputError for a change that the format version or the table does not allow; CommitConflictError if a
    file to remove is not live; FormatError for broken metadata. Nothing is written then.
    """
    old, delta = base.metadata, change if isinstance(change, RowDelta) else RowDelta(operation="replace")
    if delta.metadata_updates:
        base = replace(base, metadata=apply_updates(old, delta.metadata_updates))
    metadata, parent = base.metadata, base.snapshot
    snapshot_id = _new_snapshot_id(metadata)
    sequence_number = metadata.version.next_sequence_number(metadata.last_sequence_number)
    manifests = ManifestWriter(base.write, snapshot_id, sequence_number)
    if isinstance(change, RowDelta):
        found = _live_files(base, delta)
        delta = _with_vectors_of_removed(delta, metadata, found)
        check_delta(delta, metadata, found)
        listed, counts = _manifests_of_delta(base, delta, manifests)
        extra = {**properties, **delta.summary}
    else:
        check_same_files(base, change)
        listed, counts = _manifests_of_rewrite(base, change, manifests)
        extra = {"entries-processed": str(sum(map(len, change.manifests))), **properties}
    first_row_id, listed, added_rows = _assign_row_ids(metadata, listed)
    snapshot = Snapshot(
        snapshot_id=snapshot_id,
        parent_snapshot_id=parent.snapshot_id if parent else None,
        sequence_number=sequence_number,
        timestamp_ms=_timestamp(metadata, parent),
        manifest_list=base.write.metadata_path(
            f"snap-{snapshot_id}-1-{base.write.operation_id}-{uuid.uuid4().hex[:8]}.avro"
        ),
        summary=summarise(delta, metadata, parent, counts, extra),
        schema_id=int(metadata.raw["current-schema-id"]),
        first_row_id=first_row_id,
        added_rows=added_rows,
    )
    _write_list(base, snapshot, listed)
    return NewSnapshot(
        snapshot=snapshot,
        delta=delta,
        updates=(*delta.metadata_updates, *_updates(snapshot, delta, base)),
        requirements=(*_requirements(delta, base), *(schema_requirements(old) if delta.metadata_updates else ())),
    )


def schema_requirements(metadata: TableMetadata) -> tuple[Mapping[str, Any], ...]:
    """Return the requirements that schema, spec and the counters of their ids are still those of `metadata`."""
    raw = metadata.raw
    return (
        {"type": "assert-current-schema-id", "current-schema-id": raw["current-schema-id"]},
        {"type": "assert-default-spec-id", "default-spec-id": raw["default-spec-id"]},
        {"type": "assert-last-assigned-field-id", "last-assigned-field-id": raw["last-column-id"]},
        {"type": "assert-last-assigned-partition-id", "last-assigned-partition-id": raw["last-partition-id"]},
    )


def _new_snapshot_id(metadata: TableMetadata) -> int:
    """Return a random positive 63-bit id that the table does not use (Java SnapshotIdGeneratorUtil)."""
    while True:
        candidate = (uuid.uuid4().int >> 64 ^ uuid.uuid4().int) & 0x7FFFFFFFFFFFFFFF
        if candidate and candidate not in metadata.snapshots:
            return candidate


def _live_files(base: Base, delta: RowDelta) -> FoundFiles:
    """Find the live files of the head that the change names."""
    added = [f.file_path for f in (*delta.added_data_files, *delta.added_delete_files)]
    removed = [e.data_file.file_path for e in delta.removed_data_files]
    covered = [path for _, path in delta.covered_data_files]
    return find_live_files(
        base.reader,
        base.snapshot,
        data=[*added, *removed, *covered],
        deletes=[*added, *(e.data_file.file_path for e in delta.removed_delete_files)],
        vectors_of=[*removed, *covered],
    )


def _with_vectors_of_removed(delta: RowDelta, metadata: TableMetadata, found: FoundFiles) -> RowDelta:
    """Remove the deletion vector of each removed data file in the same commit (spec "Deletion Vectors")."""
    if not metadata.version.has_deletion_vectors:
        return delta
    gone = {e.data_file.file_path for e in delta.removed_data_files}
    named = {e.data_file.identity for e in delta.removed_delete_files}
    extra = [
        e
        for e in found.vectors
        if isinstance(e.data_file, DeleteFile)
        and e.data_file.referenced_data_file in gone
        and e.data_file.identity not in named
    ]
    return replace(delta, removed_delete_files=(*delta.removed_delete_files, *extra))


def _manifests_of_delta(
    base: Base, delta: RowDelta, manifests: ManifestWriter
) -> tuple[list[ManifestFile], dict[str, int]]:
    """Write the manifests in Java's order: data before deletes, and of each the new before the kept and filtered."""
    out: list[ManifestFile] = []
    counts = {"created": 0, "kept": 0, "replaced": 0}
    for content, added, removed in (
        (ManifestContent.DATA, delta.added_data_files, delta.removed_data_files),
        (ManifestContent.DELETES, delta.added_delete_files, delta.removed_delete_files),
    ):
        new = manifests.added(added, delta.sequence_numbers)
        old = [m for m in base.manifests if m.content == content]
        filtered = manifests.without(base.reader, old, removed)
        paths = {m.manifest_path for m in old}
        kept = sum(m.manifest_path in paths for m in filtered)
        counts["created"] += len(new) + len(filtered) - kept
        counts["kept"] += kept
        counts["replaced"] += len(filtered) - kept
        out += [*new, *filtered]
    return out, counts


def _manifests_of_rewrite(
    base: Base, change: ManifestRewrite, manifests: ManifestWriter
) -> tuple[list[ManifestFile], dict[str, int]]:
    """Write the new manifests; each live entry keeps its sequence numbers, ids, first row id and partition values."""
    paths = {m.manifest_path for m in change.replaced}
    kept = [m for m in base.manifests if m.manifest_path not in paths and m.has_live_files]
    new = [manifests.write([e.existing() for e in group]) for group in change.manifests]
    listed = sorted([*new, *kept], key=lambda m: m.content == ManifestContent.DELETES)
    return listed, {"created": len(new), "kept": len(kept), "replaced": len(paths)}


def _assign_row_ids(
    metadata: TableMetadata, listed: Sequence[ManifestFile]
) -> tuple[int | None, list[ManifestFile], int | None]:
    """Give each data manifest without a `first_row_id` the next free one, in list order (spec "Row Lineage").

    Returns the snapshot's first row id, the manifests, and the number of row ids assigned; None before version 3.
    """
    if not metadata.version.has_row_lineage:
        return None, list(listed), None
    first = next_id = metadata.next_row_id
    out = []
    for manifest in listed:
        if manifest.content == ManifestContent.DATA and manifest.first_row_id is None:
            out.append(replace(manifest, first_row_id=next_id))
            next_id += (manifest.added_rows_count or 0) + (manifest.existing_rows_count or 0)
        else:
            out.append(manifest)
    return first, out, next_id - first


def _write_list(base: Base, snapshot: Snapshot, listed: Sequence[ManifestFile]) -> None:
    data = write_manifest_list(
        listed,
        format_version=base.metadata.format_version,
        snapshot_id=snapshot.snapshot_id,
        parent_snapshot_id=snapshot.parent_snapshot_id,
        sequence_number=snapshot.sequence_number,
        first_row_id=snapshot.first_row_id,
    )
    assert snapshot.manifest_list is not None
    base.write.write(snapshot.manifest_list, data)


def _timestamp(metadata: TableMetadata, parent: Snapshot | None) -> int:
    """Return the time, but never one before the parent's: clocks differ, and time travel reads the log by time."""
    newest = max((s.timestamp_ms for s in metadata.snapshots.values()), default=0)
    return max(int(time.time() * 1000), newest, parent.timestamp_ms + 1 if parent else 0)


def _updates(snapshot: Snapshot, delta: RowDelta, base: Base) -> Iterator[Mapping[str, Any]]:
    """Yield the updates that add the snapshot and move its branch, and the other refs of the change."""
    refs = base.metadata.refs
    yield {"action": "add-snapshot", "snapshot": snapshot.to_json(base.metadata.format_version)}
    branch = {"ref-name": base.ref, "type": "branch", "snapshot-id": snapshot.snapshot_id}
    yield {"action": "set-snapshot-ref", **refs.get(base.ref, {}), **branch}
    for ref in delta.refs:
        target = snapshot.snapshot_id if ref.snapshot_id is None else ref.snapshot_id
        kept = {**refs.get(ref.name, {}), **ref.retention}
        yield {"action": "set-snapshot-ref", **kept, "ref-name": ref.name, "type": ref.type, "snapshot-id": target}


def _requirements(delta: RowDelta, base: Base) -> Iterator[Mapping[str, Any]]:
    """Yield what must still be true: the same table, the same head, the other refs where they were."""
    if base.metadata.table_uuid is not None:
        yield {"type": "assert-table-uuid", "uuid": base.metadata.table_uuid}
    head = base.snapshot.snapshot_id if base.snapshot else None
    yield {"type": "assert-ref-snapshot-id", "ref": base.ref, "snapshot-id": head}
    for ref in delta.refs:
        yield {"type": "assert-ref-snapshot-id", "ref": ref.name, "snapshot-id": ref.found}
