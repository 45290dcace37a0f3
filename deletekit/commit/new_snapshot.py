"""Make a snapshot of a change: write its manifests and manifest list, count its summary, assign its row ids.

The snapshot is not committed: `NewSnapshot` says which metadata updates commit it. A change that the specification
forbids is refused before anything is written.
Spec: "Snapshots", "Manifest Lists", "Row Lineage", https://iceberg.apache.org/spec/#snapshots. Java
MergingSnapshotProducer, BaseRewriteManifests.
"""

import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from deletekit.commit.change import Base, RowDelta
from deletekit.commit.head import Head, read_head
from deletekit.commit.manifest_merging import ManifestWriter
from deletekit.commit.validation import check_delta, check_same_files
from deletekit.deletes.which_apply import referenced_path, scope_of
from deletekit.formats.content_file import ContentFile
from deletekit.formats.manifest_list import ManifestContent, ManifestFile, write_manifest_list
from deletekit.rows.write_context import partition_path
from deletekit.table.metadata import Snapshot, TableMetadata
from deletekit.table.metadata_update import apply_updates, requirements_of
from deletekit.table.properties import value_of
from deletekit.table.summary_counters import TOTALS, count_files
from deletekit.version import __version__


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


def new_snapshot(base: Base, delta: RowDelta, properties: Mapping[str, str]) -> NewSnapshot:
    """Write the manifests and the manifest list of a change.

    Parameters
    ----------
    base: the head that the change was planned on; its snapshot becomes the parent.
    properties: extra summary entries.

    Raises InvalidInputError for a change that the format version or the table does not allow; CommitConflictError if a
    file to remove is not live; FormatError for broken metadata. Nothing is written then.
    """
    old = base.metadata
    if delta.metadata_updates:
        base = replace(base, metadata=apply_updates(old, delta.metadata_updates))
    metadata, parent = base.metadata, base.snapshot
    snapshot_id = _new_snapshot_id(metadata)
    next_number = metadata.version.next_sequence_number(metadata.last_sequence_number)
    sequence_number = max(next_number, delta.least_sequence_number)
    writer = ManifestWriter(base.write, snapshot_id, sequence_number)
    live = read_head(base, delta)
    if delta.replaced_manifests:
        check_same_files(delta, live)
        manifests = writer.for_rewrite(live, delta)
        extra = {"entries-processed": str(sum(map(len, delta.manifests))), **properties}
    else:
        delta = _with_vectors_of_removed(delta, metadata, live)
        check_delta(delta, metadata, live)
        manifests = writer.for_delta(live, delta)
        extra = {**properties, **delta.summary}
    kept = len({m.manifest_path for m in manifests} & {m.manifest_path for m in live.manifests})
    replaced = sum(m.has_live_files for m in live.manifests) - kept
    counts = {"created": len(manifests) - kept, "kept": kept, "replaced": replaced}
    listed, added_rows = _with_row_ids(metadata, manifests, delta)
    write, head = base.write, parent.snapshot_id if parent else None
    snapshot = Snapshot(
        snapshot_id=snapshot_id,
        parent_snapshot_id=head,
        sequence_number=sequence_number,
        timestamp_ms=_timestamp(metadata, parent),
        manifest_list=write.metadata_path(f"snap-{snapshot_id}-1-{write.operation_id}-{uuid.uuid4().hex[:8]}.avro"),
        summary=_summary(delta, metadata, parent, counts, extra),
        schema_id=int(metadata.raw["current-schema-id"]),
        first_row_id=None if added_rows is None else metadata.next_row_id,
        added_rows=added_rows,
    )
    _write_list(base, snapshot, listed)
    base.reader.know(snapshot_id, listed)
    heads = {base.ref: head, **{ref.name: ref.found for ref in delta.refs}}
    return NewSnapshot(
        snapshot=snapshot,
        delta=delta,
        updates=(*delta.metadata_updates, *_updates(snapshot, delta, base)),
        requirements=requirements_of(old, heads, same_schema=bool(delta.metadata_updates)),
    )


def _new_snapshot_id(metadata: TableMetadata) -> int:
    """Return a random positive 63-bit id that the table does not use (Java SnapshotIdGeneratorUtil)."""
    while True:
        candidate = (uuid.uuid4().int >> 64 ^ uuid.uuid4().int) & 0x7FFFFFFFFFFFFFFF
        if candidate and candidate not in metadata.snapshots:
            return candidate


def _with_vectors_of_removed(delta: RowDelta, metadata: TableMetadata, live: Head) -> RowDelta:
    """Remove the deletion vector of each removed data file in the same commit (spec "Deletion Vectors")."""
    if not metadata.version.has_deletion_vectors:
        return delta
    gone, named = delta.removed_data_paths, {e.data_file.identity for e in delta.removed_delete_files}
    extra = [e for e in live.vectors if referenced_path(e.data_file) in gone and e.data_file.identity not in named]
    return replace(delta, removed_delete_files=(*delta.removed_delete_files, *extra))


def _with_row_ids(
    metadata: TableMetadata, manifests: list[ManifestFile], delta: RowDelta
) -> tuple[list[ManifestFile], int | None]:
    """Give each data manifest without a `first_row_id` the next free one, in list order (spec "Row Lineage").

    Also return the number of row ids taken, those that added files bring along included; None before version 3.
    """
    if not metadata.version.has_row_lineage:
        return manifests, None
    next_id, out = metadata.next_row_id, []
    for manifest in manifests:
        if manifest.content == ManifestContent.DATA and manifest.first_row_id is None:
            out.append(replace(manifest, first_row_id=next_id))
            next_id += (manifest.added_rows_count or 0) + (manifest.existing_rows_count or 0)
        else:
            out.append(manifest)
    brought = [f for f in delta.added_data_files if f.file_path in delta.with_row_ids]
    stops = [f.first_row_id + f.record_count for f in brought if f.first_row_id is not None]
    return out, max([next_id, *stops]) - metadata.next_row_id


def _summary(
    delta: RowDelta,
    metadata: TableMetadata,
    parent: Snapshot | None,
    manifests: Mapping[str, int],
    properties: Mapping[str, str],
) -> dict[str, str]:
    """Return the summary, `operation` first: the caller's entries, what the commit adds and removes, and the totals.

    Keys and rules are those of Java's SnapshotSummary. Counters of zero are left out, totals are not; all values are
    text. `total-records` never subtracts deleted positions.
    """
    added: tuple[ContentFile, ...] = (*delta.added_data_files, *delta.added_delete_files)
    removed = tuple(e.data_file for e in (*delta.removed_data_files, *delta.removed_delete_files))
    counters = count_files(added, removed)
    summary: dict[str, str] = {"operation": delta.implied_operation, **properties}
    summary |= {k: str(v) for k, v in counters.items() if v > 0}
    summary |= _partitions(metadata, added, removed)
    summary |= {f"manifests-{name}": str(count) for name, count in manifests.items()}
    summary |= _totals(delta.parent_totals, parent, counters)
    return {**summary, "engine-name": "deletekit", "engine-version": __version__}


def _totals(known: Mapping[str, int] | None, parent: Snapshot | None, counters: Mapping[str, int]) -> dict[str, str]:
    """Continue the totals of the parent. One that it lacks, or that is not a number, is left out, as Java does."""
    out = {}
    for total, (plus, minus) in TOTALS.items():
        before = "0" if parent is None else parent.summary.get(total, "")
        before = before if known is None else str(known[total])
        if before.isdigit():
            out[total] = str(int(before) + counters.get(plus, 0) - counters.get(minus, 0))
    return out


def _partitions(
    metadata: TableMetadata, added: tuple[ContentFile, ...], removed: tuple[ContentFile, ...]
) -> dict[str, str]:
    keys = {scope_of(f): (f.spec_id, f.partition) for f in (*added, *removed)}
    out = {"changed-partition-count": str(len(keys))}
    if not 0 < len(keys) <= value_of(metadata.properties, "write.summary.partition-limit"):
        return out
    out["partition-summaries-included"] = "true"
    for key, (spec_id, partition) in keys.items():
        mine = count_files(*((f for f in files if scope_of(f) == key) for files in (added, removed)))
        path = partition_path(metadata.specs[spec_id], partition, metadata)
        out[f"partitions.{path}"] = ",".join(f"{k}={v}" for k, v in mine.items() if v > 0)
    return out


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
