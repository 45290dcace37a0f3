"""Check each manifest: its row in the manifest list against what it holds.

Spec: "Manifest Lists", "Manifests", https://iceberg.apache.org/spec/#manifest-lists
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from deletekit.formats.content_file import DataFile, EntryStatus
from deletekit.formats.manifest_list import FieldSummary, ManifestContent, ManifestFile
from deletekit.formats.manifests import Manifest
from deletekit.maintenance.verify.bounds import comparable, is_ordered
from deletekit.maintenance.verify.report import Finding, error
from deletekit.maintenance.verify.stored_manifest import StoredManifest
from deletekit.maintenance.verify.unreadable import DAMAGE
from deletekit.table.metadata import Snapshot, TableMetadata
from deletekit.table.partition import schema_of_spec
from deletekit.table.types import partition_types, single_value_of_stored


def check_listed(listed: ManifestFile, snapshot: Snapshot, metadata: TableMetadata) -> Iterator[Finding]:
    """Check a row against the snapshot of its manifest list."""
    number, writer = listed.sequence_number, metadata.snapshots.get(listed.added_snapshot_id)
    expected = (writer or snapshot).sequence_number
    if number > snapshot.sequence_number:
        yield error("manifest-sequence", "manifest is newer than its snapshot", "sequence_number", number, expected)
    elif writer is not None and number != expected:
        message = "manifest has another number than its snapshot"
        yield error("manifest-sequence", message, "sequence_number", number, expected)
    is_data = listed.content == ManifestContent.DATA
    if is_data and snapshot.first_row_id is not None and listed.first_row_id is None:
        yield error("manifest-row-id", "data manifest has no row ids", "first_row_id", expected="a number")
    if not is_data and listed.first_row_id is not None:
        yield error("manifest-row-id", "delete manifest has row ids", "first_row_id", listed.first_row_id)
    if not metadata.version.has_deletes and not is_data:
        yield error("delete-kind", "format version 1 has no deletes", "content", "deletes")


def check_manifest(stored: StoredManifest, metadata: TableMetadata) -> Iterator[Finding]:
    """Check a manifest against its row."""
    listed, manifest = stored.listed, stored.manifest
    if stored.unread is not None:
        yield stored.unread
    if stored.size is not None and stored.size != listed.manifest_length:
        message = "manifest has another length"
        yield error("manifest-length", message, "manifest_length", listed.manifest_length, stored.size)
    if manifest is None:
        return
    yield from _spec(listed, manifest, metadata)
    yield from _content(listed, manifest, metadata)
    yield from _min_sequence(stored)
    yield from _counts(stored)
    yield from _partitions(stored, metadata)


def _spec(listed: ManifestFile, manifest: Manifest, metadata: TableMetadata) -> Iterator[Finding]:
    spec_id = listed.partition_spec_id
    spec = metadata.specs.get(spec_id)
    if spec is None:
        message = "manifest of a partition spec that the table does not have"
        yield error("manifest-spec", message, "partition_spec_id", spec_id, sorted(metadata.specs))
        return
    own = manifest.metadata.get("partition-spec-id")
    if own is not None and own != str(spec_id):
        message = "manifest says it is of another partition spec"
        yield error("manifest-spec", message, "partition-spec-id", own, spec_id)
    expected = tuple(f.field_id for f in spec.fields)
    if manifest.entries and manifest.partition_field_ids != expected:
        message = "manifest's partition fields are not those of its spec"
        yield error("manifest-spec", message, "partition", manifest.partition_field_ids, expected)


def _content(listed: ManifestFile, manifest: Manifest, metadata: TableMetadata) -> Iterator[Finding]:
    wanted, own = listed.content.name.lower(), manifest.metadata.get("content")
    if own is not None and own != wanted:
        yield error("manifest-content", "manifest says it holds others", "content", own, wanted)
    is_data = listed.content == ManifestContent.DATA
    strangers = [e.data_file for e in manifest.entries if isinstance(e.data_file, DataFile) != is_data]
    if strangers:
        found = f"{strangers[0].content.name} {strangers[0].file_path}"
        yield error("manifest-content", "manifest mixes data files and delete files", "content", found, wanted)
    version = manifest.format_version
    if version > metadata.format_version:
        message = "manifest is of a later format version than the table"
        yield error("manifest-version", message, "format-version", version, f"<= {metadata.format_version}")


def _min_sequence(stored: StoredManifest) -> Iterator[Finding]:
    least = min((e.sequence_number or 0 for e in stored.entries if e.is_live), default=None)
    found = stored.listed.min_sequence_number
    if least is not None and found != least:
        message = "lowest sequence number is another"
        yield error("manifest-min-sequence", message, "min_sequence_number", found, least)


def _counts(stored: StoredManifest) -> Iterator[Finding]:
    for status in EntryStatus:
        rows = [e.data_file.record_count for e in stored.entries if e.status == status]
        for unit, expected in (("files", len(rows)), ("rows", sum(rows))):
            name = f"{status.name.lower()}_{unit}_count"
            found = getattr(stored.listed, name)
            if found is not None and found != expected:
                yield error("manifest-count", "manifest is counted wrong", name, found, expected)


def _partitions(stored: StoredManifest, metadata: TableMetadata) -> Iterator[Finding]:
    summaries, spec = stored.listed.partitions, metadata.specs.get(stored.listed.partition_spec_id)
    if summaries is None or spec is None:
        return
    width = len(spec.fields)
    if len(summaries) != width:
        yield error("manifest-partitions", "one summary for each partition field", "partitions", len(summaries), width)
        return
    live = [e.data_file.partition for e in stored.entries if e.is_live]
    if any(len(partition) != width for partition in live):
        return  # reported as a manifest of another spec
    types = partition_types(spec, schema_of_spec(metadata, spec))
    for i, (summary, (_, name, kind)) in enumerate(zip(summaries, types, strict=True)):
        for what, found, expected in _summary_problems(summary, [p[i] for p in live], kind):
            message = "partition summary leaves out a live file"
            yield error("manifest-partitions", message, f"partitions.{name}.{what}", found, expected)


def _summary_problems(summary: FieldSummary, values: list[Any], kind: str) -> Iterator[tuple[str, Any, Any]]:
    """Yield (field, found, expected). A summary may promise more values than there are, but not fewer."""
    if any(v is None for v in values) and not summary.contains_null:
        yield "contains_null", False, True
    if any(v != v for v in values) and summary.contains_nan is False:
        yield "contains_nan", False, True
    present = list(dict.fromkeys(v for v in values if v is not None and v == v))
    for name, bound in (("lower_bound", summary.lower_bound), ("upper_bound", summary.upper_bound)):
        is_lower = name == "lower_bound"
        for value in present if bound is not None else ():
            assert bound is not None
            stored = single_value_of_stored(value, kind)
            try:
                low, high = (comparable(b, kind) for b in ((bound, stored) if is_lower else (stored, bound)))
                fits = is_ordered(low, high, kind)
            except DAMAGE as e:
                yield name, f"{bound.hex()}: {e}", kind
                break
            if not fits:
                yield name, bound.hex(), f"{'<=' if is_lower else '>='} {stored.hex()}"
                break
