"""Rules of one manifest entry by itself.

Spec: "Manifest Entry Fields" and "Data File Fields" with their notes, "Format Versioning".
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from pyiceberg.schema import Schema, index_by_id

from deletekit.deletes.which_apply import widened_bound
from deletekit.formats.content_file import ContentFile, DeleteFile, EntryStatus, FileContent, ManifestEntry
from deletekit.maintenance.verify.bounds import comparable, is_ordered
from deletekit.maintenance.verify.damage import DAMAGE
from deletekit.maintenance.verify.report import Finding, error
from deletekit.maintenance.verify.stored import StoredManifest
from deletekit.table.format_version import FormatVersion
from deletekit.table.metadata import TableMetadata
from deletekit.table.types import struct_paths

__all__ = ["check_entries"]


def check_entries(stored: StoredManifest, metadata: TableMetadata) -> Iterator[Finding]:
    """Every entry of a manifest."""
    if stored.manifest is None:
        return
    keys = _KeyColumns(metadata)
    for raw, entry in zip(stored.manifest.entries, stored.entries, strict=True):
        yield from _sequence(raw, entry, stored, metadata)
        yield from _snapshot(entry, stored)
        file = entry.data_file
        if not entry.is_live:
            continue
        yield from _metrics(file, metadata)
        yield from _split_offsets(file)
        if isinstance(file, DeleteFile):
            yield from _delete_kind(entry, file, stored, metadata)
            yield from _delete_fields(file)
            yield from keys.check(file)


def _sequence(
    raw: ManifestEntry, entry: ManifestEntry, stored: StoredManifest, metadata: TableMetadata
) -> Iterator[Finding]:
    listed, number = stored.listed, entry.sequence_number or 0
    problem: tuple[str, Any, Any] | None = None
    if raw.status != EntryStatus.ADDED and raw.sequence_number is None and listed.sequence_number > 0:
        problem = "sequence_number", "null", f"a number, for {raw.status.name}"
    elif number > listed.sequence_number:
        problem = "sequence_number", number, f"<= {listed.sequence_number}"
    elif entry.file_sequence_number is not None and entry.file_sequence_number > listed.sequence_number:
        problem = "file_sequence_number", entry.file_sequence_number, f"<= {listed.sequence_number}"
    else:
        adder = metadata.snapshots.get(entry.snapshot_id or 0)
        known = adder is not None and entry.status != EntryStatus.DELETED and entry.file_sequence_number is not None
        if known and adder is not None and entry.file_sequence_number != adder.sequence_number:
            problem = "file_sequence_number", entry.file_sequence_number, adder.sequence_number
    if problem is not None:
        field, found, expected = problem
        yield error(
            "entry-sequence",
            "sequence number cannot be right",
            file=entry.data_file.file_path,
            field=field,
            found=found,
            expected=expected,
        )


def _snapshot(entry: ManifestEntry, stored: StoredManifest) -> Iterator[Finding]:
    writer = stored.listed.added_snapshot_id
    if entry.status != EntryStatus.EXISTING and entry.snapshot_id != writer:
        yield error(
            "entry-snapshot",
            f"{entry.status.name.lower()} entry names another snapshot than the one that wrote it",
            file=entry.data_file.file_path,
            field="snapshot_id",
            found=entry.snapshot_id,
            expected=writer,
        )


def _metrics(file: ContentFile, metadata: TableMetadata) -> Iterator[Finding]:
    fields, untrusted = metadata.all_fields, metadata.untrusted_bounds
    doubtful = untrusted[""] | untrusted.get(file.file_format, frozenset())
    for name in ("column_sizes", "value_counts", "null_value_counts", "nan_value_counts"):
        for field_id, count in (getattr(file, name) or {}).items():
            most = None if name == "column_sizes" else (file.value_counts or {}).get(field_id)
            if count < 0 or (most is not None and count > most and field_id not in doubtful):
                yield error(
                    "metrics",
                    "count cannot be right",
                    file=file.file_path,
                    field=f"{name}.{field_id}",
                    found=count,
                    expected=f"0 .. {'' if most is None else most}",
                )
    for field_id, lower in (file.lower_bounds or {}).items():
        upper, field = (file.upper_bounds or {}).get(field_id), fields.get(field_id)
        if upper is None or field is None or field_id in doubtful or not field.field_type.is_primitive:
            continue
        kind = str(field.field_type)
        try:
            low, high = (comparable(widened_bound(b, field), kind) for b in (lower, upper))
            fits = is_ordered(low, high, kind)
        except DAMAGE:
            fits = False
        if not fits:
            yield error(
                "metrics",
                "bounds are no range",
                file=file.file_path,
                field=f"lower_bounds.{field_id}",
                found=f"{lower.hex()} .. {upper.hex()}",
                expected=kind,
            )


def _split_offsets(file: ContentFile) -> Iterator[Finding]:
    offsets = file.split_offsets or ()
    ascending = all(a < b for a, b in pairwise(offsets))
    if not ascending or any(not 0 <= o < file.file_size_in_bytes for o in offsets):
        yield error(
            "split-offsets",
            "split offsets do not ascend within the file",
            file=file.file_path,
            field="split_offsets",
            found=list(offsets)[:20],
            expected=f"0 .. {file.file_size_in_bytes}",
        )


def _delete_kind(
    entry: ManifestEntry, file: DeleteFile, stored: StoredManifest, metadata: TableMetadata
) -> Iterator[Finding]:
    """Who wrote an added entry wrote its manifest, in the format version that the manifest says."""
    assert stored.manifest is not None
    found = None
    if not metadata.version.has_deletion_vectors and file.is_deletion_vector:
        found = f"a deletion vector in format version {metadata.format_version}"
    elif (
        entry.status == EntryStatus.ADDED
        and file.kind == "position-delete"
        and FormatVersion(stored.manifest.format_version).has_deletion_vectors
    ):
        found = f"a position delete file added in format version {stored.manifest.format_version}"
    if found is not None:
        yield error(
            "delete-kind",
            "format version does not take this kind of delete",
            file=file.file_path,
            field="content",
            found=found,
            expected="position delete files in 2, deletion vectors from 3",
        )


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
            yield error(
                "delete-file-field",
                f"{file.kind} may not have this field, or not this value",
                file=file.file_path,
                field=name,
                found=getattr(file, name),
            )


class _KeyColumns:
    """Which field ids can be keys: primitive columns that some schema of the table has outside lists and maps."""

    def __init__(self, metadata: TableMetadata) -> None:
        schemas: list[Schema] = list(metadata.schemas.values())
        self._all = {i for schema in schemas for i in index_by_id(schema)}
        self._reachable = {i for schema in schemas for i in struct_paths(schema)}

    def check(self, file: DeleteFile) -> Iterator[Finding]:
        for field_id in file.equality_ids or ():
            if field_id not in self._reachable:
                where = "inside a list or map" if field_id in self._all else "in no schema"
                yield error(
                    "equality-id",
                    f"equality id is {where}",
                    file=file.file_path,
                    field="equality_ids",
                    found=field_id,
                    expected="a column of the table",
                )
