"""Manifests: lists of content files of one partition spec, with inheritance.

Law: bytes <-> entries. Fields are found by id, whatever an older writer named them; what a manifest leaves null is
inherited from its row in the manifest list, and only there.
Spec: "Manifests", "Sequence Number Inheritance", "First Row ID Inheritance", https://iceberg.apache.org/spec/#manifests
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from deletekit.errors import FormatError
from deletekit.formats.avro import ContainerFile, read_container, write_container
from deletekit.formats.content_file import DataFile, DeleteFile, EntryStatus, FileContent, ManifestEntry
from deletekit.formats.manifest_entry import BOUND_MAPS, COUNT_MAPS, entry_shape
from deletekit.formats.manifest_list import ManifestFile
from deletekit.formats.manifest_schema import PartitionFieldType, manifest_entry_schema

__all__ = ["Manifest", "check_version", "inherit", "read_manifest", "write_manifest"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """A manifest as stored: its Avro metadata, and its entries before inheritance."""

    metadata: Mapping[str, str]
    partition_field_ids: tuple[int, ...]
    entries: tuple[ManifestEntry, ...]

    @property
    def format_version(self) -> int:
        return int(self.metadata.get("format-version", "1"))


def read_manifest(data: bytes, *, spec_id: int | None = None) -> Manifest:
    """Decode a manifest of any format version 1 to 3.

    Parameters
    ----------
    data: the whole file.
    spec_id: the manifest list's `partition_spec_id`; the manifest's own metadata is used when None.

    Raises FormatError for anything that is not a manifest, and for format version 4 and later.
    """
    container = read_container(data, distinct=True)
    if container.has_plain_fixed:
        return _read_with_fixed(data, spec_id)
    return _decode(container, spec_id)


def _decode(container: ContainerFile, spec_id: int | None) -> Manifest:
    check_version(container)
    if spec_id is None:
        spec_id = _int_text(container.metadata.get("partition-spec-id", "0"), "partition-spec-id")
    shape = entry_shape(container.schema_text)
    entries = tuple(shape.entry(record, spec_id) for record in container)
    return Manifest(metadata=container.metadata, partition_field_ids=shape.partition_field_ids, entries=entries)


def inherit(manifest: Manifest, listed: ManifestFile) -> Iterator[ManifestEntry]:
    """Entries with sequence numbers, snapshot ids and first row ids inherited from the manifest list's row.

    A null sequence number of an added entry takes the manifest's, and of any entry where that is 0. Those of v1
    manifests are all null: their row says 0, or when they were appended to a v2 table that snapshot's number, which
    Java and pyiceberg take too (the spec says 0 always). What a manifest says of its own format version does not count
    here: some have lost it. An existing or deleted entry of an early v2 writer may lack its file sequence number, and
    then has none.

    A live data file's null `first_row_id` takes the manifest's `first_row_id` plus the rows of the live files before it
    that had none; deleted entries do not count (as Java's ManifestReader does; the spec says "all data files that
    preceded").
    """
    next_row_id = listed.first_row_id
    for entry in manifest.entries:
        inherits = entry.status == EntryStatus.ADDED or listed.sequence_number == 0
        inherited = listed.sequence_number if inherits else None
        if entry.sequence_number is None and inherited is None:
            raise FormatError(
                "only added entries inherit their sequence number",
                kind="manifest-entry",
                file=listed.manifest_path,
                field="sequence_number",
                found=f"null for {entry.data_file.file_path} with status {entry.status.name}",
                expected="a number",
            )
        data_file = entry.data_file
        if isinstance(data_file, DataFile):
            if listed.first_row_id is None:
                data_file = replace(data_file, first_row_id=None) if data_file.first_row_id is not None else data_file
            elif data_file.first_row_id is None and entry.is_live and next_row_id is not None:
                data_file = replace(data_file, first_row_id=next_row_id)
                next_row_id += data_file.record_count
        yield replace(
            entry,
            snapshot_id=listed.added_snapshot_id if entry.snapshot_id is None else entry.snapshot_id,
            sequence_number=inherited if entry.sequence_number is None else entry.sequence_number,
            file_sequence_number=inherited if entry.file_sequence_number is None else entry.file_sequence_number,
            data_file=data_file,
        )


def write_manifest(
    entries: Sequence[ManifestEntry],
    *,
    format_version: int,
    content: FileContent,
    schema_json: Mapping[str, Any],
    spec_json: Mapping[str, Any],
    partition_types: Sequence[PartitionFieldType],
    codec: str = "deflate",
) -> bytes:
    """Encode a manifest with the Avro schema and metadata Iceberg Java reads.

    Parameters
    ----------
    entries: all of one partition spec, all data files or all delete files.
    content: FileContent.DATA for data files; anything else marks a delete manifest.
    schema_json, spec_json: the table schema and partition spec as in table metadata.
    partition_types: the spec's fields as (field id, name, result type).
    codec: an Avro codec name (`write.manifest.compression-codec`; Java's `gzip` is Avro's `deflate`).

    Raises FormatError when an entry may not be written: see `ManifestEntry` and the spec's status rules.
    """
    is_data = content == FileContent.DATA
    for entry in entries:
        _check_writable(entry, is_data, spec_json, format_version)
    metadata = {
        "schema": json.dumps(schema_json, separators=(",", ":")),
        "schema-id": str(schema_json.get("schema-id", 0)),
        "partition-spec": json.dumps(spec_json["fields"], separators=(",", ":")),
        "partition-spec-id": str(spec_json["spec-id"]),
        "format-version": str(format_version),
    }
    if format_version >= 2:
        metadata["content"] = "data" if is_data else "deletes"
    avro_schema = manifest_entry_schema(format_version, partition_types)
    names = _partition_names(avro_schema)
    records = (_record(e, format_version, names) for e in entries)
    return write_container(avro_schema, records, metadata, codec)


def _read_with_fixed(data: bytes, spec_id: int | None) -> Manifest:
    """A manifest partitioned by a fixed column: as Java writes it (length first) if that decodes, else as Avro says."""
    try:
        return _decode(read_container(data, fixed_as_bytes=True, distinct=True), spec_id)
    except FormatError:
        return _decode(read_container(data, distinct=True), spec_id)


def check_version(container: ContainerFile) -> None:
    """Raise FormatError for a manifest of a format version that is not 1 to 3."""
    version = _int_text(container.metadata.get("format-version", "1"), "format-version")
    if version not in (1, 2, 3):
        raise FormatError(
            "unsupported manifest format version",
            kind="format-version",
            field="format-version",
            found=version,
            expected="1, 2 or 3",
        )


def _int_text(text: str, field: str) -> int:
    try:
        return int(text)
    except ValueError as e:
        raise FormatError(
            "bad manifest metadata", kind="manifest", field=field, found=text, expected="an integer"
        ) from e


def _partition_names(schema: Any) -> list[str]:
    """Avro's names of the partition fields, in order."""
    (data_file,) = (f["type"] for f in schema["fields"] if f["name"] == "data_file")
    (partition,) = (f["type"] for f in data_file["fields"] if f["name"] == "partition")
    return [f["name"] for f in partition["fields"]]


def _check_writable(entry: ManifestEntry, is_data: bool, spec_json: Mapping[str, Any], version: int) -> None:
    for field, found, expected in _problems(entry, is_data, spec_json, version):
        raise FormatError(
            "manifest entry may not be written",
            kind="manifest-entry",
            file=entry.data_file.file_path,
            field=field,
            found=found,
            expected=expected,
        )


def _problems(
    entry: ManifestEntry, is_data: bool, spec_json: Mapping[str, Any], version: int
) -> Iterator[tuple[str, Any, Any]]:
    """(field, found, expected) of what the spec forbids."""
    file, added = entry.data_file, entry.status == EntryStatus.ADDED
    if isinstance(file, DataFile) != is_data:
        yield "content", file.content.name, "data files or delete files, not both"
    if version == 1 and not is_data:
        yield "content", file.content.name, "data files in format version 1"
    if version < 3 and isinstance(file, DeleteFile) and file.is_deletion_vector:
        yield "file_format", file.file_format, "no deletion vector below format version 3"
    if file.spec_id != int(spec_json["spec-id"]):
        yield "partition_spec_id", file.spec_id, spec_json["spec-id"]
    if len(file.partition) != len(spec_json["fields"]):
        yield "partition", file.partition, f"{len(spec_json['fields'])} values"
    if version >= 2 and not added and entry.sequence_number is None:
        yield "sequence_number", "null", f"explicit for {entry.status.name}"
    if added and isinstance(file, DataFile) and file.first_row_id is not None:
        yield "first_row_id", file.first_row_id, "null, to be inherited, for ADDED"


def _record(entry: ManifestEntry, version: int, partition_names: Sequence[str]) -> dict[str, Any]:
    file = entry.data_file
    stored: dict[str, Any] = {
        "content": int(file.content),
        "file_path": file.file_path,
        "file_format": file.file_format,
        "partition": dict(zip(partition_names, file.partition, strict=True)),
        "record_count": file.record_count,
        "file_size_in_bytes": file.file_size_in_bytes,
        "block_size_in_bytes": 64 * 1024 * 1024,  # required in v1, always ignored; Java's constant
        "key_metadata": file.key_metadata,
        "split_offsets": None if file.split_offsets is None else list(file.split_offsets),
        "sort_order_id": file.sort_order_id,
    }
    for name in (*COUNT_MAPS, *BOUND_MAPS):
        values = getattr(file, name)
        stored[name] = None if values is None else [{"key": k, "value": v} for k, v in values.items()]
    if isinstance(file, DeleteFile):
        stored["equality_ids"] = None if file.equality_ids is None else list(file.equality_ids)
        stored["referenced_data_file"] = file.referenced_data_file
        stored["content_offset"] = file.content_offset
        stored["content_size_in_bytes"] = file.content_size_in_bytes
    else:
        stored["first_row_id"] = file.first_row_id
    record = {"status": int(entry.status), "snapshot_id": entry.snapshot_id, "data_file": stored}
    if version >= 2:
        record["sequence_number"] = entry.sequence_number
        record["file_sequence_number"] = entry.file_sequence_number
    return record
