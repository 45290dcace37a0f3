"""Check each manifest entry by itself.

Spec: "Manifest Entry Fields" and "Data File Fields" with their notes, "Format Versioning".
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from pyiceberg.schema import index_by_id

from deletekit.formats.content_file import ContentFile, DeleteFile, EntryStatus, FileContent, ManifestEntry
from deletekit.maintenance.verify.bounds import is_range
from deletekit.maintenance.verify.report import Finding, error, in_file
from deletekit.maintenance.verify.stored_manifest import StoredManifest
from deletekit.table.metadata import TableMetadata
from deletekit.table.types import struct_paths


def check_entries(stored: StoredManifest, metadata: TableMetadata) -> Iterator[Finding]:
    """Check every entry of a manifest."""
    if stored.manifest is None:
        return
    schemas = metadata.schemas.values()
    known = {field_id for schema in schemas for field_id in index_by_id(schema)}
    possible_keys = {field_id for schema in schemas for field_id in struct_paths(schema)}
    for raw, entry in zip(stored.manifest.entries, stored.entries, strict=True):
        rules = [_sequence(raw, entry, stored, metadata), _snapshot(entry, stored)]
        file = entry.data_file
        if entry.is_live:
            rules += [_counts(file, metadata), _bounds(file, metadata), _split_offsets(file)]
            if isinstance(file, DeleteFile):
                rules += [_delete_kind(entry, file, stored.manifest.format_version, metadata), _delete_fields(file)]
                rules.append(_equality_ids(file, known, possible_keys))
        for findings in rules:
            yield from in_file(findings, file.file_path)


def _sequence(
    raw: ManifestEntry, entry: ManifestEntry, stored: StoredManifest, metadata: TableMetadata
) -> Iterator[Finding]:
    kind, message = "entry-sequence", "sequence number cannot be right"
    most, number = stored.listed.sequence_number, entry.file_sequence_number
    if raw.status != EntryStatus.ADDED and raw.sequence_number is None and most > 0:
        yield error(kind, message, "sequence_number", "null", f"a number, for {raw.status.name}")
    elif (entry.sequence_number or 0) > most:
        yield error(kind, message, "sequence_number", entry.sequence_number, f"<= {most}")
    elif number is not None and number > most:
        yield error(kind, message, "file_sequence_number", number, f"<= {most}")
    elif number is not None and entry.is_live:
        adder = metadata.snapshots.get(entry.snapshot_id or 0)
        if adder is not None and number != adder.sequence_number:
            yield error(kind, message, "file_sequence_number", number, adder.sequence_number)


def _snapshot(entry: ManifestEntry, stored: StoredManifest) -> Iterator[Finding]:
    writer = stored.listed.added_snapshot_id
    if entry.status != EntryStatus.EXISTING and entry.snapshot_id != writer:
        message = f"{entry.status.name.lower()} entry names another snapshot than the one that wrote it"
        yield error("entry-snapshot", message, "snapshot_id", entry.snapshot_id, writer)


def _counts(file: ContentFile, metadata: TableMetadata) -> Iterator[Finding]:
    doubtful, values = metadata.untrusted_bounds_of(file.file_format), file.value_counts or {}
    for name in ("column_sizes", "value_counts", "null_value_counts", "nan_value_counts"):
        for field_id, count in (getattr(file, name) or {}).items():
            most = None if name == "column_sizes" else values.get(field_id)
            if count < 0 or (most is not None and count > most and field_id not in doubtful):
                expected = f"0 .. {'' if most is None else most}"
                yield error("metrics", "count cannot be right", f"{name}.{field_id}", count, expected)


def _bounds(file: ContentFile, metadata: TableMetadata) -> Iterator[Finding]:
    doubtful = metadata.untrusted_bounds_of(file.file_format)
    for field_id, lower in (file.lower_bounds or {}).items():
        upper, field = (file.upper_bounds or {}).get(field_id), metadata.all_fields.get(field_id)
        if upper is None or field is None or field_id in doubtful or not field.field_type.is_primitive:
            continue
        if not is_range(lower, upper, field):
            found = f"{lower.hex()} .. {upper.hex()}"
            yield error("metrics", "bounds are no range", f"lower_bounds.{field_id}", found, str(field.field_type))


def _split_offsets(file: ContentFile) -> Iterator[Finding]:
    offsets, size = file.split_offsets or (), file.file_size_in_bytes
    if any(a >= b for a, b in pairwise(offsets)) or any(not 0 <= o < size for o in offsets):
        message = "split offsets do not ascend within the file"
        yield error("split-offsets", message, "split_offsets", list(offsets)[:20], f"0 .. {size}")


def _delete_kind(
    entry: ManifestEntry, file: DeleteFile, manifest_version: int, metadata: TableMetadata
) -> Iterator[Finding]:
    """Check an added delete by the format version that its manifest says: the same commit wrote both."""
    found = None
    if not metadata.version.has_deletion_vectors and file.is_deletion_vector:
        found = f"a deletion vector in format version {metadata.format_version}"
    elif entry.status == EntryStatus.ADDED and file.kind == "position-delete" and manifest_version >= 3:
        found = f"a position delete file added in format version {manifest_version}"
    if found is not None:
        expected = "position delete files in 2, deletion vectors from 3"
        yield error("delete-kind", "format version does not take this kind of delete", "content", found, expected)


def _delete_fields(file: DeleteFile) -> Iterator[Finding]:
    is_equality = file.content == FileContent.EQUALITY_DELETES
    never = {
        "equality_ids": not is_equality and file.equality_ids is not None,
        "sort_order_id": not is_equality and file.sort_order_id is not None,
        "referenced_data_file": is_equality and file.referenced_data_file is not None,
        "content_offset": not file.is_deletion_vector and file.content_offset is not None,
        "content_size_in_bytes": not file.is_deletion_vector and file.content_size_in_bytes is not None,
        "file_format": is_equality and file.file_format == "PUFFIN",
    }
    for name, wrong in never.items():
        if wrong:
            message = f"{file.kind} may not have this field, or not this value"
            yield error("delete-file-field", message, name, getattr(file, name))


def _equality_ids(file: DeleteFile, known: set[int], possible_keys: set[int]) -> Iterator[Finding]:
    """Check that each key is a primitive column of some schema of the table, outside lists and maps."""
    for field_id in file.equality_ids or ():
        if field_id not in possible_keys:
            where = "inside a list or map" if field_id in known else "in no schema"
            yield error("equality-id", f"equality id is {where}", "equality_ids", field_id, "a column of the table")
