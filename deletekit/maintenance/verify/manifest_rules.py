"""Rules of one manifest: its row in the manifest list against what it holds.

Spec: "Manifest Lists", "Manifests", https://iceberg.apache.org/spec/#manifest-lists
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from deletekit.formats.content_file import DataFile, EntryStatus
from deletekit.formats.manifest import Manifest
from deletekit.formats.manifest_list import FieldSummary, ManifestContent, ManifestFile
from deletekit.maintenance.verify.bounds import comparable, is_ordered
from deletekit.maintenance.verify.damage import DAMAGE
from deletekit.maintenance.verify.report import Finding, error
from deletekit.maintenance.verify.stored import StoredManifest
from deletekit.table.metadata import Snapshot, TableMetadata
from deletekit.table.partition import schema_of_spec
from deletekit.table.types import partition_types, single_value_of_stored

__all__ = ["check_listed", "check_manifest"]


def check_listed(listed: ManifestFile, snapshot: Snapshot, metadata: TableMetadata) -> Iterator[Finding]:
    """A row against the snapshot whose manifest list it stands in."""
    file = listed.manifest_path
    writer = metadata.snapshots.get(listed.added_snapshot_id)
    expected = [snapshot.sequence_number] if writer is None else [writer.sequence_number]
    too_new = listed.sequence_number > snapshot.sequence_number
    if too_new or (writer is not None and listed.sequence_number != writer.sequence_number):
        yield error(
            "manifest-sequence",
            "manifest is newer than its snapshot" if too_new else "manifest has another number than its snapshot",
            file=file,
            field="sequence_number",
            found=listed.sequence_number,
            expected=expected[0],
        )
    is_data = listed.content == ManifestContent.DATA
    if is_data and snapshot.first_row_id is not None and listed.first_row_id is None:
        yield error(
            "manifest-row-id", "data manifest has no row ids", file=file, field="first_row_id", expected="a number"
        )
    if not is_data and listed.first_row_id is not None:
        yield error(
            "manifest-row-id", "delete manifest has row ids", file=file, field="first_row_id", found=listed.first_row_id
        )
    if not metadata.version.has_deletes and not is_data:
        yield error("delete-kind", "format version 1 has no deletes", file=file, field="content", found="deletes")


def check_manifest(stored: StoredManifest, metadata: TableMetadata) -> Iterator[Finding]:
    """A manifest against its row."""
    listed, manifest, file = stored.listed, stored.manifest, stored.listed.manifest_path
    if stored.unread is not None:
        yield stored.unread
    if stored.size is not None and stored.size != listed.manifest_length:
        yield error(
            "manifest-length",
            "manifest has another length",
            file=file,
            field="manifest_length",
            found=listed.manifest_length,
            expected=stored.size,
        )
    if manifest is None:
        return
    yield from _spec(listed, manifest, metadata)
    yield from _content(listed, manifest, metadata)
    yield from _min_sequence(stored)
    yield from _counts(stored)
    yield from _partitions(stored, metadata)


def _spec(listed: ManifestFile, manifest: Manifest, metadata: TableMetadata) -> Iterator[Finding]:
    file, spec = listed.manifest_path, metadata.specs.get(listed.partition_spec_id)
    if spec is None:
        yield error(
            "manifest-spec",
            "manifest of a partition spec that the table does not have",
            file=file,
            field="partition_spec_id",
            found=listed.partition_spec_id,
            expected=sorted(metadata.specs),
        )
        return
    own = manifest.metadata.get("partition-spec-id")
    if own is not None and own != str(listed.partition_spec_id):
        yield error(
            "manifest-spec",
            "manifest says it is of another partition spec",
            file=file,
            field="partition-spec-id",
            found=own,
            expected=listed.partition_spec_id,
        )
    expected = tuple(f.field_id for f in spec.fields)
    if manifest.entries and manifest.partition_field_ids != expected:
        yield error(
            "manifest-spec",
            "manifest's partition fields are not those of its spec",
            file=file,
            field="partition",
            found=manifest.partition_field_ids,
            expected=expected,
        )


def _content(listed: ManifestFile, manifest: Manifest, metadata: TableMetadata) -> Iterator[Finding]:
    file, wanted = listed.manifest_path, listed.content.name.lower()
    own = manifest.metadata.get("content")
    if own is not None and own != wanted:
        yield error(
            "manifest-content", "manifest says it holds others", file=file, field="content", found=own, expected=wanted
        )
    is_data = listed.content == ManifestContent.DATA
    strangers = [e.data_file for e in manifest.entries if isinstance(e.data_file, DataFile) != is_data]
    if strangers:
        yield error(
            "manifest-content",
            "manifest mixes data files and delete files",
            file=file,
            field="content",
            found=f"{strangers[0].content.name} {strangers[0].file_path}",
            expected=wanted,
        )
    if manifest.format_version > metadata.format_version:
        yield error(
            "manifest-version",
            "manifest is of a later format version than the table",
            file=file,
            field="format-version",
            found=manifest.format_version,
            expected=f"<= {metadata.format_version}",
        )


def _min_sequence(stored: StoredManifest) -> Iterator[Finding]:
    least = min((e.sequence_number or 0 for e in stored.entries if e.is_live), default=None)
    found = stored.listed.min_sequence_number
    if least is not None and found != least:
        yield error(
            "manifest-min-sequence",
            "lowest sequence number is another",
            file=stored.listed.manifest_path,
            field="min_sequence_number",
            found=found,
            expected=least,
        )


def _counts(stored: StoredManifest) -> Iterator[Finding]:
    for status in EntryStatus:
        mine = [e.data_file.record_count for e in stored.entries if e.status == status]
        for unit, expected in (("files", len(mine)), ("rows", sum(mine))):
            name = f"{status.name.lower()}_{unit}_count"
            found = getattr(stored.listed, name)
            if found is not None and found != expected:
                yield error(
                    "manifest-count",
                    "manifest is counted wrong",
                    file=stored.listed.manifest_path,
                    field=name,
                    found=found,
                    expected=expected,
                )


def _partitions(stored: StoredManifest, metadata: TableMetadata) -> Iterator[Finding]:
    summaries, spec = stored.listed.partitions, metadata.specs.get(stored.listed.partition_spec_id)
    if summaries is None or spec is None:
        return
    file = stored.listed.manifest_path
    if len(summaries) != len(spec.fields):
        yield error(
            "manifest-partitions",
            "one summary for each partition field",
            file=file,
            field="partitions",
            found=len(summaries),
            expected=len(spec.fields),
        )
        return
    live = [e.data_file.partition for e in stored.entries if e.is_live]
    if any(len(partition) != len(spec.fields) for partition in live):
        return  # reported as a manifest of another spec
    types = partition_types(spec, schema_of_spec(metadata, spec))
    for i, (summary, (_, name, kind)) in enumerate(zip(summaries, types, strict=True)):
        for what, found, expected in _summary_problems(summary, [p[i] for p in live], kind):
            yield error(
                "manifest-partitions",
                "partition summary leaves out a live file",
                file=file,
                field=f"partitions.{name}.{what}",
                found=found,
                expected=expected,
            )


def _summary_problems(summary: FieldSummary, values: list[Any], kind: str) -> Iterator[tuple[str, Any, Any]]:
    """(field, found, expected); a summary may say that there is more than there is, never less."""
    if any(v is None for v in values) and not summary.contains_null:
        yield "contains_null", False, True
    if any(v != v for v in values) and summary.contains_nan is False:
        yield "contains_nan", False, True
    present = list(dict.fromkeys(v for v in values if v is not None and v == v))
    for name, bound, below in (
        ("lower_bound", summary.lower_bound, True),
        ("upper_bound", summary.upper_bound, False),
    ):
        for value in present if bound is not None else ():
            assert bound is not None
            stored = single_value_of_stored(value, kind)
            try:
                low, high = (comparable(b, kind) for b in ((bound, stored) if below else (stored, bound)))
                fits = is_ordered(low, high, kind)
            except DAMAGE as e:
                yield name, f"{bound.hex()}: {e}", kind
                break
            if not fits:
                yield name, bound.hex(), f"{'<=' if below else '>='} {stored.hex()}"
                break
