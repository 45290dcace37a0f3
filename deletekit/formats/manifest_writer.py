"""Write manifests: entries of one partition spec, with the Avro schema and metadata that Iceberg Java reads.

Spec: "Manifests", https://iceberg.apache.org/spec/#manifests
"""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any

from deletekit.errors import FormatError
from deletekit.formats.avro import write_container
from deletekit.formats.content_file import METRIC_MAPS, DataFile, DeleteFile, EntryStatus, FileContent, ManifestEntry
from deletekit.formats.manifest_schema import PartitionFieldType, avro_name, manifest_entry_schema


def write_manifest(
    entries: Sequence[ManifestEntry],
    *,
    format_version: int,
    content: FileContent,
    schema_json: Mapping[str, Any],
    spec_json: Mapping[str, Any],
    partition_types: Sequence[PartitionFieldType],
    codec: str = "deflate",
    with_row_ids: Collection[str] = (),
) -> bytes:
    """Encode a manifest with the Avro schema and metadata Iceberg Java reads.

    Parameters
    ----------
    entries: all of one partition spec, all data files or all delete files.
    content: FileContent.DATA for data files; anything else marks a delete manifest.
    schema_json, spec_json: the table schema and partition spec as in table metadata.
    partition_types: the spec's fields as (field id, name, result type).
    codec: an Avro codec name (`write.manifest.compression-codec`; Java's `gzip` is Avro's `deflate`).
    with_row_ids: paths of data files whose rows have ids already, because another branch has the files too. Their
        entries keep their first row id even if they are ADDED. Readers assign one only where there is none.

    Raises FormatError when an entry may not be written: see `ManifestEntry` and the spec's status rules.
    """
    is_data = content == FileContent.DATA
    for entry in entries:
        for name, found, expected in _problems(entry, is_data, spec_json, format_version):
            message, file = "manifest entry may not be written", entry.data_file.file_path
            if name != "first_row_id" or file not in with_row_ids:
                raise FormatError(message, kind="manifest-entry", file=file, field=name, found=found, expected=expected)
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
    names = [avro_name(name) for _, name, _ in partition_types]
    records = (_record(e, format_version, names) for e in entries)
    return write_container(avro_schema, records, metadata, codec)


def _problems(
    entry: ManifestEntry, is_data: bool, spec_json: Mapping[str, Any], version: int
) -> Iterator[tuple[str, Any, Any]]:
    """Yield (field, found, expected) for each rule of the spec that an entry breaks."""
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
    stored: dict[str, Any] = {field.name: getattr(file, field.name) for field in fields(file)}
    stored["content"] = int(file.content)
    stored["partition"] = dict(zip(partition_names, file.partition, strict=True))
    stored["block_size_in_bytes"] = 64 * 1024 * 1024  # required in v1, always ignored; Java's constant
    for name in METRIC_MAPS:
        if stored[name] is not None:
            stored[name] = [{"key": k, "value": v} for k, v in stored[name].items()]
    for name in ("split_offsets", "equality_ids"):
        if stored.get(name) is not None:
            stored[name] = list(stored[name])
    record = {"status": int(entry.status), "snapshot_id": entry.snapshot_id, "data_file": stored}
    if version >= 2:
        record["sequence_number"] = entry.sequence_number
        record["file_sequence_number"] = entry.file_sequence_number
    return record
