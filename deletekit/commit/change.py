"""A row-level change as one value, and the snapshot it becomes.

Law: a RowDelta says which files come and go; `produce` turns it into manifests, a manifest list, a summary and the
metadata updates. It refuses what the specification forbids before it writes anything.
Spec: "Snapshots", "Manifest Lists", "Row Lineage", https://iceberg.apache.org/spec/#snapshots. Java
MergingSnapshotProducer.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from deletekit.commit.manifests import filter_manifests, write_added
from deletekit.commit.summary import summarise
from deletekit.commit.validation import check_delta
from deletekit.deletes.write_context import WriteContext
from deletekit.formats.content_file import DataFile, DeleteFile, ManifestEntry
from deletekit.formats.manifest_list import ManifestContent, ManifestFile, write_manifest_list
from deletekit.table.live_files import LiveFiles
from deletekit.table.metadata import MAIN, Snapshot, TableMetadata
from deletekit.table.metadata_update import apply_updates
from deletekit.table.snapshot import SnapshotReader

__all__ = [
    "Base",
    "Produced",
    "RefUpdate",
    "RowDelta",
    "evolved",
    "finish",
    "new_identity",
    "produce",
    "schema_requirements",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class RefUpdate:
    """Another branch or tag that a commit moves together with its own branch, or not at all.

    Attributes
    ----------
    found: the snapshot that it must point to until then; None: it must not be there.
    snapshot_id: where it points to then; None: the snapshot of the commit.
    retention: entries of the reference, such as `max-ref-age-ms`.
    """

    name: str
    type: str
    found: int | None
    snapshot_id: int | None = None
    retention: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowDelta:
    """Files added and removed by one commit.

    Added files inherit the new snapshot's data sequence number, but for those of a rewrite whose path is in
    `sequence_numbers`: what hides or hid their rows goes by that number. Removed ones are live entries of the snapshot
    the change was planned on. `operation` overrides what the files imply (`replace` for maintenance). `parent_totals`
    are the totals of the parent snapshot, counted anew, when those of its summary are wrong; a change that only sets
    them right is a change. `metadata_updates` (of schema, specs, properties) are committed with the files, which were
    planned and written with their result. `summary` are entries of the snapshot's summary that were planned with the
    change. `refs` is what else it moves; a change that only does that is one, too, whose snapshot has the files of its
    parent.
    """

    added_data_files: tuple[DataFile, ...] = ()
    removed_data_files: tuple[ManifestEntry, ...] = ()
    added_delete_files: tuple[DeleteFile, ...] = ()
    removed_delete_files: tuple[ManifestEntry, ...] = ()
    operation: str | None = None
    parent_totals: Mapping[str, int] | None = None
    metadata_updates: tuple[Mapping[str, Any], ...] = ()
    sequence_numbers: Mapping[str, int] = field(default_factory=dict)
    summary: Mapping[str, str] = field(default_factory=dict)
    refs: tuple[RefUpdate, ...] = ()

    @property
    def is_empty(self) -> bool:
        return (
            not self.refs
            and self.parent_totals is None
            and not (
                self.added_data_files or self.removed_data_files or self.added_delete_files or self.removed_delete_files
            )
        )

    @property
    def implied_operation(self) -> str:
        """As Java's BaseRowDelta and BaseOverwriteFiles name it."""
        if self.operation is not None:
            return self.operation
        if self.added_data_files and not (
            self.removed_data_files or self.added_delete_files or self.removed_delete_files
        ):
            return "append"
        if not self.added_data_files and (self.added_delete_files or self.removed_data_files):
            return "delete"
        return "overwrite"


@dataclass(frozen=True, slots=True, kw_only=True)
class Produced:
    """A snapshot ready to be committed: its metadata updates, what must still be true, and the delta it stands for."""

    snapshot: Snapshot
    delta: RowDelta
    updates: tuple[Mapping[str, Any], ...]
    requirements: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """What a change is made on top of: metadata, the head of the branch, and a reader of its manifests."""

    metadata: TableMetadata
    ref: str = MAIN
    snapshot: Snapshot | None
    reader: SnapshotReader = field(repr=False)


def produce(
    base: Base, delta: RowDelta, context: WriteContext, properties: Mapping[str, str] | None = None
) -> Produced:
    """Write the manifests and manifest list of a change.

    Parameters
    ----------
    base: the state the change was planned on; its snapshot becomes the parent.
    properties: extra summary entries.

    Raises InvalidInputError for a change the format version or the table does not allow, FormatError when the table's
    own metadata is broken; nothing is written then.
    """
    requirements = schema_requirements(base.metadata) if delta.metadata_updates else ()
    if delta.metadata_updates:
        base = replace(base, metadata=evolved(base.metadata, delta.metadata_updates))
    deletes = LiveFiles(base.reader, base.snapshot, ManifestContent.DELETES)
    data = LiveFiles(base.reader, base.snapshot, ManifestContent.DATA)
    delta = _with_dangling_vectors(delta, base, deletes)
    check_delta(delta, base.metadata, data, deletes)
    snapshot_id, sequence_number = new_identity(base.metadata)
    listed, counts = _manifests(base, delta, context, snapshot_id, sequence_number)
    summary = summarise(delta, base.metadata, base.snapshot, counts, {**(properties or {}), **delta.summary})
    produced = finish(base, delta, context, (snapshot_id, sequence_number), listed, summary)
    return replace(
        produced,
        updates=(*delta.metadata_updates, *produced.updates),
        requirements=(*produced.requirements, *requirements),
    )


def evolved(metadata: TableMetadata, updates: Sequence[Mapping[str, Any]]) -> TableMetadata:
    """Metadata after the `metadata_updates` of a change."""
    return apply_updates(metadata, updates, int(time.time() * 1000))


def schema_requirements(metadata: TableMetadata) -> tuple[Mapping[str, Any], ...]:
    """That schema, spec and the counters of their ids are still what a change of them was derived from."""
    raw = metadata.raw
    return (
        {"type": "assert-current-schema-id", "current-schema-id": raw["current-schema-id"]},
        {"type": "assert-default-spec-id", "default-spec-id": raw["default-spec-id"]},
        {"type": "assert-last-assigned-field-id", "last-assigned-field-id": raw["last-column-id"]},
        {"type": "assert-last-assigned-partition-id", "last-assigned-partition-id": raw["last-partition-id"]},
    )


def new_identity(metadata: TableMetadata) -> tuple[int, int]:
    """Id and sequence number of the next snapshot."""
    return new_snapshot_id(metadata), metadata.last_sequence_number + 1 if metadata.format_version >= 2 else 0


def finish(
    base: Base,
    delta: RowDelta,
    context: WriteContext,
    identity: tuple[int, int],
    listed: Sequence[ManifestFile],
    summary: Mapping[str, str],
) -> Produced:
    """Write the manifest list of a snapshot whose manifests are written, and give the snapshot."""
    snapshot_id, sequence_number = identity
    first_row_id, listed, added_rows = _assign_row_ids(base.metadata, listed)
    list_path = context.metadata_path(f"snap-{snapshot_id}-1-{context.operation_id}-{uuid.uuid4().hex[:8]}.avro")
    parent = base.snapshot
    written = write_manifest_list(
        listed,
        format_version=base.metadata.format_version,
        snapshot_id=snapshot_id,
        parent_snapshot_id=parent.snapshot_id if parent else None,
        sequence_number=sequence_number,
        first_row_id=first_row_id,
    )
    context.write(list_path, written)
    snapshot = Snapshot(
        snapshot_id=snapshot_id,
        parent_snapshot_id=parent.snapshot_id if parent else None,
        sequence_number=sequence_number,
        timestamp_ms=_timestamp(base.metadata, parent),
        manifest_list=list_path,
        summary=summary,
        schema_id=int(base.metadata.raw["current-schema-id"]),
        first_row_id=first_row_id,
        added_rows=added_rows,
    )
    return Produced(
        snapshot=snapshot,
        delta=delta,
        updates=(*_updates(snapshot, base), *_ref_updates(delta, snapshot, base.metadata)),
        requirements=(*ref_requirements(base.metadata, base.ref, parent), *_ref_requirements(delta)),
    )


def new_snapshot_id(metadata: TableMetadata) -> int:
    """A random positive 63-bit id that the table does not use (Java SnapshotIdGeneratorUtil)."""
    while True:
        candidate = (uuid.uuid4().int >> 64 ^ uuid.uuid4().int) & 0x7FFFFFFFFFFFFFFF
        if candidate and candidate not in metadata.snapshots:
            return candidate


def ref_requirements(metadata: TableMetadata, ref: str, head: Snapshot | None) -> tuple[Mapping[str, Any], ...]:
    """What must hold for a commit on `ref`: the same table, the same head."""
    out: list[Mapping[str, Any]] = []
    if metadata.table_uuid is not None:
        out.append({"type": "assert-table-uuid", "uuid": metadata.table_uuid})
    out.append({"type": "assert-ref-snapshot-id", "ref": ref, "snapshot-id": head.snapshot_id if head else None})
    return tuple(out)


def _manifests(
    base: Base, delta: RowDelta, context: WriteContext, snapshot_id: int, sequence_number: int
) -> tuple[list[ManifestFile], dict[str, int]]:
    """The new manifest list, in Java's order: data before deletes, and of each the new before the kept and filtered."""
    old = base.reader.manifests(base.snapshot) if base.snapshot else ()
    out: list[ManifestFile] = []
    counts = {"created": 0, "kept": 0, "replaced": 0}
    for content, added, removed in (
        (ManifestContent.DATA, delta.added_data_files, delta.removed_data_files),
        (ManifestContent.DELETES, delta.added_delete_files, delta.removed_delete_files),
    ):
        new = write_added(context, added, snapshot_id, sequence_number, delta.sequence_numbers)
        mine = [m for m in old if m.content == content]
        paths = {m.manifest_path for m in mine}
        filtered = filter_manifests(context, base.reader, mine, removed, snapshot_id, sequence_number)
        kept = [m for m in filtered if m.manifest_path in paths]
        counts["created"] += len(new) + len(filtered) - len(kept)
        counts["kept"] += len(kept)
        counts["replaced"] += len(filtered) - len(kept)
        out += [*new, *filtered]
    return out, counts


def _with_dangling_vectors(delta: RowDelta, base: Base, deletes: LiveFiles) -> RowDelta:
    """Removing a data file removes its deletion vector in the same commit (spec "Deletion Vectors")."""
    gone = {e.data_file.file_path for e in delta.removed_data_files}
    if not gone or base.metadata.format_version < 3:
        return delta
    named = {e.data_file.identity for e in delta.removed_delete_files}
    extra = [e for e in deletes.vectors_of(gone) if e.data_file.identity not in named]
    return replace(delta, removed_delete_files=(*delta.removed_delete_files, *extra))


def _assign_row_ids(
    metadata: TableMetadata, listed: Sequence[ManifestFile]
) -> tuple[int | None, list[ManifestFile], int | None]:
    """v3: each data manifest without a first row id gets the next free one, in list order."""
    if metadata.format_version < 3:
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


def _timestamp(metadata: TableMetadata, parent: Snapshot | None) -> int:
    """Now, but never before the parent: clocks differ, and time travel reads the log by time."""
    newest = max((s.timestamp_ms for s in metadata.snapshots.values()), default=0)
    return max(int(time.time() * 1000), newest, parent.timestamp_ms + 1 if parent else 0)


def _updates(snapshot: Snapshot, base: Base) -> tuple[Mapping[str, Any], ...]:
    kept = base.metadata.refs.get(base.ref, {})
    ref = {**kept, "ref-name": base.ref, "type": "branch", "snapshot-id": snapshot.snapshot_id}
    return (
        {"action": "add-snapshot", "snapshot": snapshot.to_json(base.metadata.format_version)},
        {"action": "set-snapshot-ref", **ref},
    )


def _ref_updates(delta: RowDelta, snapshot: Snapshot, metadata: TableMetadata) -> Iterator[Mapping[str, Any]]:
    for ref in delta.refs:
        target = snapshot.snapshot_id if ref.snapshot_id is None else ref.snapshot_id
        kept = {**metadata.refs.get(ref.name, {}), **ref.retention}
        yield {"action": "set-snapshot-ref", **kept, "ref-name": ref.name, "type": ref.type, "snapshot-id": target}


def _ref_requirements(delta: RowDelta) -> Iterator[Mapping[str, Any]]:
    for ref in delta.refs:
        yield {"type": "assert-ref-snapshot-id", "ref": ref.name, "snapshot-id": ref.found}
