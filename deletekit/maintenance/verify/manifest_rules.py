"""Read manifest lists and manifests as they are stored, and check each: its row in the list, and each of its entries.

What cannot be read becomes a finding, and the rest is checked without it.
Spec: "Manifest Lists", "Manifests", "Manifest Entry Fields" and "Data File Fields" with their notes, "Format
Versioning", https://iceberg.apache.org/spec/#manifests
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from typing import Any

import numpy as np
from pyiceberg.schema import index_by_id

from deletekit.formats.avro import read_container
from deletekit.formats.content_file import ContentFile, DataFile, DeleteFile, EntryStatus, FileContent, ManifestEntry
from deletekit.formats.manifest_list import FieldSummary, ManifestContent, ManifestFile, read_manifest_list
from deletekit.formats.manifests import Manifest, inherit, read_manifest
from deletekit.maintenance.verify.column_stats import are_ordered, is_range
from deletekit.maintenance.verify.report import (
    DAMAGE,
    Finding,
    differs,
    error,
    from_error,
    guarded,
    in_file,
    not_checked,
    warning,
)
from deletekit.table.file_io import FileIO
from deletekit.table.metadata import Snapshot, TableMetadata
from deletekit.table.partition import schema_of_spec, with_current_decimals
from deletekit.table.row_counts import with_true_counts
from deletekit.table.snapshot import SnapshotReader
from deletekit.table.types import partition_types, single_value_of_stored, struct_paths


@dataclass(frozen=True)
class CheckedManifest:
    """What a manifest holds, and what is wrong with it.

    Attributes
    ----------
    entries: with what they inherit. Empty if the manifest cannot be read.
    is_read: whether it could be read.
    """

    entries: tuple[ManifestEntry, ...]
    findings: Sequence[Finding]
    is_read: bool


def check_list(
    io: FileIO, metadata: TableMetadata, snapshot: Snapshot
) -> tuple[tuple[ManifestFile, ...], list[Finding]]:
    """Return the rows of a snapshot's manifest list, and what is wrong with the list and with each row."""
    path, field = snapshot.manifest_list, "manifest-list"
    findings: list[Finding] = []
    try:
        if path is None:
            path, field = ", ".join(snapshot.manifests or ()) or None, "manifests"
            rows = SnapshotReader(io, metadata).manifests(snapshot)
        else:
            data = io.read(path)
            rows = read_manifest_list(data)
            findings += in_file(_list_metadata(read_container(data).metadata, snapshot), path)
    except DAMAGE as e:
        return (), [from_error(e, path, field)]
    for row in rows:
        findings += guarded(_listed(row, snapshot, metadata), row.manifest_path, "manifest-list")
    return rows, findings


def check_manifest(io: FileIO, metadata: TableMetadata, listed: ManifestFile) -> CheckedManifest:
    """Read the manifest that a row names. Check it against its row, and each of its entries."""
    path, field = listed.manifest_path, "manifest_path"
    if listed.key_metadata is not None:
        return CheckedManifest((), [not_checked("manifests", path)], is_read=False)
    findings: list[Finding] = []
    try:
        data = io.read(path)
        message = "manifest has another length"
        length = listed.manifest_length
        findings += differs("manifest-length", message, "manifest_length", length, len(data), file=path)
        manifest = read_manifest(data, spec_id=listed.partition_spec_id)
        counted = replace(manifest, columns=with_true_counts(io, manifest.columns))
        findings += _uncounted(manifest, counted)
        entries = _entries(counted, listed, metadata)
    except DAMAGE as e:
        return CheckedManifest((), [*findings, from_error(e, path, field)], is_read=False)
    of_row = (
        _spec(listed, manifest, metadata),
        _content(listed, manifest, metadata),
        _counts(listed, entries),
        _partitions(listed, entries, metadata),
    )
    findings += guarded(chain(*of_row), path, field)
    findings += guarded(_each_entry(listed, manifest, entries, metadata), path, field)
    return CheckedManifest(entries, findings, is_read=True)


def _entries(manifest: Manifest, listed: ManifestFile, metadata: TableMetadata) -> tuple[ManifestEntry, ...]:
    """Entries with what they inherit, also where they may not: a rule of its own reports those, all others see them."""
    columns, spec = inherit(manifest, listed, strict=False), metadata.specs.get(listed.partition_spec_id)
    if spec is not None and len(columns.partition_field_ids) == len(spec.fields):
        columns = replace(columns, partition=with_current_decimals(columns.partition, metadata, spec))
    return columns.all_entries()


def _uncounted(stored: Manifest, counted: Manifest) -> Iterator[Finding]:
    for row in np.flatnonzero(stored.columns.record_count != counted.columns.record_count).tolist():
        file, rows = stored.columns.entry(row).data_file, int(counted.columns.record_count[row])
        message = "manifest entry has no count of rows"
        yield error("record-count", message, "record_count", file.record_count, rows, file=file.file_path)


# --- manifest lists, and manifests ------------------------------------------------------------------------------------


def _list_metadata(stored: Mapping[str, str], snapshot: Snapshot) -> Iterator[Finding]:
    """Check what no reader uses. It shows first that a list was copied from another snapshot."""
    for name in ("snapshot-id", "parent-snapshot-id", "sequence-number", "first-row-id"):
        value = getattr(snapshot, name.replace("-", "_"))
        expected = "null" if value is None else str(value)
        if stored.get(name, expected) != expected:
            message = "manifest list says it is another snapshot's"
            yield warning("manifest-list-metadata", message, name, stored[name], expected)


def _listed(listed: ManifestFile, snapshot: Snapshot, metadata: TableMetadata) -> Iterator[Finding]:
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


def _spec(listed: ManifestFile, manifest: Manifest, metadata: TableMetadata) -> Iterator[Finding]:
    spec_id = listed.partition_spec_id
    spec = metadata.specs.get(spec_id)
    if spec is None:
        message = "manifest of a partition spec that the table does not have"
        yield error("manifest-spec", message, "partition_spec_id", spec_id, sorted(metadata.specs))
        return
    own = manifest.metadata.get("partition-spec-id", str(spec_id))
    message = "manifest says it is of another partition spec"
    yield from differs("manifest-spec", message, "partition-spec-id", own, str(spec_id))
    if manifest.entries:
        message, expected = (
            "manifest's partition fields are not those of its spec",
            tuple(f.field_id for f in spec.fields),
        )
        yield from differs("manifest-spec", message, "partition", manifest.partition_field_ids, expected)


def _content(listed: ManifestFile, manifest: Manifest, metadata: TableMetadata) -> Iterator[Finding]:
    wanted = listed.content.name.lower()
    own = manifest.metadata.get("content", wanted)
    yield from differs("manifest-content", "manifest says it holds others", "content", own, wanted)
    is_data = listed.content == ManifestContent.DATA
    strangers = [e.data_file for e in manifest.entries if isinstance(e.data_file, DataFile) != is_data]
    if strangers:
        found = f"{strangers[0].content.name} {strangers[0].file_path}"
        yield error("manifest-content", "manifest mixes data and delete files", "content", found, wanted)
    version = manifest.format_version
    if version > metadata.format_version:
        message = "manifest is of a later format version than the table"
        yield error("manifest-version", message, "format-version", version, f"<= {metadata.format_version}")


def _counts(listed: ManifestFile, entries: Sequence[ManifestEntry]) -> Iterator[Finding]:
    live = [e.sequence_number or 0 for e in entries if e.is_live]
    if live:
        message, found = "lowest sequence number is another", listed.min_sequence_number
        yield from differs("manifest-min-sequence", message, "min_sequence_number", found, min(live))
    for status in EntryStatus:
        rows = [e.data_file.record_count for e in entries if e.status == status]
        for unit, expected in (("files", len(rows)), ("rows", sum(rows))):
            name = f"{status.name.lower()}_{unit}_count"
            stated = getattr(listed, name)
            if stated is not None:
                yield from differs("manifest-count", "manifest is counted wrong", name, stated, expected)


def _partitions(listed: ManifestFile, entries: Sequence[ManifestEntry], metadata: TableMetadata) -> Iterator[Finding]:
    summaries, spec = listed.partitions, metadata.specs.get(listed.partition_spec_id)
    if summaries is None or spec is None:
        return
    width = len(spec.fields)
    if len(summaries) != width:
        yield error("manifest-partitions", "one summary for each partition field", "partitions", len(summaries), width)
        return
    live = [e.data_file.partition for e in entries if e.is_live]
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
    for name, relation in (("lower_bound", "<="), ("upper_bound", ">=")):
        bound: bytes | None = getattr(summary, name)
        if bound is None:
            continue
        for value in present:
            stored = single_value_of_stored(value, kind)
            try:
                fits = are_ordered(*((bound, stored) if relation == "<=" else (stored, bound)), kind)
            except DAMAGE as e:
                yield name, f"{bound.hex()}: {e}", kind
                break
            if not fits:
                yield name, bound.hex(), f"{relation} {stored.hex()}"
                break


# --- entries ----------------------------------------------------------------------------------------------------------


def _each_entry(
    listed: ManifestFile, manifest: Manifest, entries: Sequence[ManifestEntry], metadata: TableMetadata
) -> Iterator[Finding]:
    schemas = metadata.schemas.values()
    known = {field_id for schema in schemas for field_id in index_by_id(schema)}
    possible_keys = {field_id for schema in schemas for field_id in struct_paths(schema)}
    for raw, entry in zip(manifest.entries, entries, strict=True):
        file = entry.data_file
        rules = [_sequence(raw, entry, listed, metadata), _snapshot(entry, listed)]
        if entry.is_live:
            rules += [_metrics(file, metadata), _split_offsets(file)]
        if entry.is_live and isinstance(file, DeleteFile):
            rules += [_delete_kind(entry, file, manifest.format_version, metadata), _delete_fields(file)]
            rules.append(_equality_ids(file, known, possible_keys))
        for findings in rules:
            yield from in_file(findings, file.file_path)


def _sequence(
    raw: ManifestEntry, entry: ManifestEntry, listed: ManifestFile, metadata: TableMetadata
) -> Iterator[Finding]:
    kind, message = "entry-sequence", "sequence number cannot be right"
    most, number = listed.sequence_number, entry.file_sequence_number
    if raw.status != EntryStatus.ADDED and raw.sequence_number is None and most > 0:
        yield error(kind, message, "sequence_number", "null", f"a number, for {raw.status.name}")
    elif not 0 <= (entry.sequence_number or 0) <= most:
        yield error(kind, message, "sequence_number", entry.sequence_number, f"0 .. {most}")
    elif number is not None and number > most:
        yield error(kind, message, "file_sequence_number", number, f"<= {most}")
    elif number is not None and entry.is_live and (adder := metadata.snapshots.get(entry.snapshot_id or 0)):
        yield from differs(kind, message, "file_sequence_number", number, adder.sequence_number)


def _snapshot(entry: ManifestEntry, listed: ManifestFile) -> Iterator[Finding]:
    if entry.status != EntryStatus.EXISTING and listed.added_snapshot_id != 0:
        message = f"{entry.status.name.lower()} entry names another snapshot than the one that wrote it"
        writer = listed.added_snapshot_id
        yield from differs("entry-snapshot", message, "snapshot_id", entry.snapshot_id, writer)


def _metrics(file: ContentFile, metadata: TableMetadata) -> Iterator[Finding]:
    doubtful, values = metadata.untrusted_bounds_of(file.file_format), file.value_counts or {}
    for name in ("column_sizes", "value_counts", "null_value_counts", "nan_value_counts"):
        for field_id, count in (getattr(file, name) or {}).items():
            most = None if name == "column_sizes" else values.get(field_id)
            if count < 0 or (most is not None and count > most and field_id not in doubtful):
                expected = f"0 .. {'' if most is None else most}"
                yield error("metrics", "count cannot be right", f"{name}.{field_id}", count, expected)
    for field_id, lower in (file.lower_bounds or {}).items():
        upper, field = (file.upper_bounds or {}).get(field_id), metadata.all_fields.get(field_id)
        if upper is None or field is None or field_id in doubtful or not field.field_type.is_primitive:
            continue
        if not is_range(lower, upper, field):
            found = f"{lower.hex()} .. {upper.hex()}"
            yield error("metrics", "bounds are not a range", f"lower_bounds.{field_id}", found, str(field.field_type))


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
