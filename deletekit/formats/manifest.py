"""Manifests: lists of content files of one partition spec, with inheritance.

Law: bytes <-> entries. Fields are found by id, whatever an older writer named them; what a manifest leaves null is
inherited from its row in the manifest list, and only there.
Spec: "Manifests", "Sequence Number Inheritance", "First Row ID Inheritance", https://iceberg.apache.org/spec/#manifests
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from deletekit.errors import FormatError
from deletekit.formats.avro import ContainerFile, field_ids_by_name, read_container, write_container
from deletekit.formats.content_file import (
    DataFile,
    DeleteFile,
    EntryStatus,
    FileContent,
    ManifestEntry,
    file_format_of,
)
from deletekit.formats.manifest_list import ManifestFile
from deletekit.formats.manifest_schema import (
    CANONICAL_DATA_FILE,
    CANONICAL_ENTRY,
    PartitionFieldType,
    manifest_entry_schema,
)

__all__ = ["Manifest", "inherit", "read_manifest", "write_manifest"]

_E = TypeVar("_E", EntryStatus, FileContent)

_REQUIRED = ("status", "data_file")
_REQUIRED_DATA_FILE = ("file_path", "file_format", "record_count", "file_size_in_bytes")
_INT_MAPS = ("column_sizes", "value_counts", "null_value_counts", "nan_value_counts")


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
    container = read_container(data)
    if _has_plain_fixed(container.schema):
        return _read_with_fixed(data, spec_id)
    return _decode(container, spec_id)


def _decode(container: ContainerFile, spec_id: int | None) -> Manifest:
    version = _version(container)
    if spec_id is None:
        spec_id = _int_text(container.metadata.get("partition-spec-id", "0"), "partition-spec-id")
    shape = _EntryShape(container.schema)
    entries = tuple(shape.entry(record, spec_id, version) for record in container)
    return Manifest(metadata=container.metadata, partition_field_ids=shape.partition_field_ids, entries=entries)


def inherit(manifest: Manifest, listed: ManifestFile) -> Iterator[ManifestEntry]:
    """Entries with sequence numbers, snapshot ids and first row ids inherited from the manifest list's row.

    A null sequence number takes the manifest's (v1 manifests: 0). A live data file's null `first_row_id` takes the
    manifest's `first_row_id` plus the rows of the live files before it that had none; deleted entries do not count
    (as Java's ManifestReader does; the spec says "all data files that preceded").
    """
    next_row_id = listed.first_row_id
    for entry in manifest.entries:
        inherits = entry.status == EntryStatus.ADDED or manifest.format_version == 1
        if entry.sequence_number is None and not inherits and listed.sequence_number > 0:
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
            sequence_number=listed.sequence_number if entry.sequence_number is None else entry.sequence_number,
            file_sequence_number=(
                listed.sequence_number if entry.file_sequence_number is None else entry.file_sequence_number
            ),
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
        _check_writable(entry, is_data, int(spec_json["spec-id"]))
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
    partition_names = [f["name"] for f in _data_file_fields(avro_schema)["partition"]["type"]["fields"]]
    records = (_record(e, format_version, partition_names) for e in entries)
    return write_container(avro_schema, records, metadata, codec)


def _has_plain_fixed(schema: Any) -> bool:
    if isinstance(schema, list):
        return any(_has_plain_fixed(s) for s in schema)
    if isinstance(schema, dict):
        if schema.get("type") == "fixed" and "logicalType" not in schema:
            return True
        return any(_has_plain_fixed(v) for v in schema.values() if isinstance(v, dict | list))
    return False


def _read_with_fixed(data: bytes, spec_id: int | None) -> Manifest:
    """A manifest partitioned by a fixed column: as Java writes it (length first) if that decodes, else as Avro says."""
    try:
        return _decode(read_container(data, fixed_as_bytes=True), spec_id)
    except FormatError:
        return _decode(read_container(data), spec_id)


def _version(container: ContainerFile) -> int:
    version = _int_text(container.metadata.get("format-version", "1"), "format-version")
    if version not in (1, 2, 3):
        raise FormatError(
            "unsupported manifest format version",
            kind="format-version",
            field="format-version",
            found=version,
            expected="1, 2 or 3",
        )
    return version


def _int_text(text: str, field: str) -> int:
    try:
        return int(text)
    except ValueError as e:
        raise FormatError(
            "bad manifest metadata", kind="manifest", field=field, found=text, expected="an integer"
        ) from e


def _data_file_fields(schema: Any) -> dict[str, Any]:
    for field in schema["fields"]:
        if field["name"] == "data_file":
            return {f["name"]: f for f in field["type"]["fields"]}
    raise FormatError("manifest has no data_file", kind="manifest", field="data_file")


class _EntryShape:
    """How one manifest's Avro records map to the spec's fields, by field id where ids are present."""

    def __init__(self, schema: Any) -> None:
        try:
            self._entry_names = _rename(schema, CANONICAL_ENTRY)
            data_file = next(f for f in schema["fields"] if self._entry_names.get(f["name"], f["name"]) == "data_file")
            status = next(f for f in schema["fields"] if self._entry_names.get(f["name"], f["name"]) == "status")
            self._file_names = _rename(data_file["type"], CANONICAL_DATA_FILE)
            partition = next(
                (f for f in data_file["type"]["fields"] if self._file_names.get(f["name"], f["name"]) == "partition"),
                None,
            )
            self.partition_names, self.partition_field_ids = _partition_fields(partition)
        except (StopIteration, KeyError, TypeError, AttributeError) as e:
            raise FormatError(
                "not a manifest", kind="manifest", field="avro.schema", expected="a manifest_entry record"
            ) from e
        if status["type"] not in ("int", ["null", "int"], {"type": "int"}):
            raise FormatError("not a manifest", kind="manifest", field="status", found=status["type"], expected="int")

    def entry(self, record: dict[str, Any], spec_id: int, version: int) -> ManifestEntry:
        raw = {self._entry_names.get(k, k): v for k, v in record.items()}
        for name in _REQUIRED:
            if raw.get(name) is None:
                raise FormatError("manifest entry lacks a field", kind="manifest-entry", field=name)
        data_file = raw["data_file"]
        if not isinstance(data_file, dict):
            raise FormatError("manifest entry lacks a data_file struct", kind="manifest-entry", field="data_file")
        status = _enum(EntryStatus, raw["status"], "status")
        sequence_number = 0 if version == 1 else raw.get("sequence_number")
        return ManifestEntry(
            status=status,
            snapshot_id=raw.get("snapshot_id"),
            sequence_number=sequence_number,
            file_sequence_number=0 if version == 1 else raw.get("file_sequence_number"),
            data_file=self._content_file({self._file_names.get(k, k): v for k, v in data_file.items()}, spec_id),
        )

    def _content_file(self, raw: dict[str, Any], spec_id: int) -> DataFile | DeleteFile:
        for name in _REQUIRED_DATA_FILE:
            if raw.get(name) is None:
                raise FormatError("content file lacks a field", kind="manifest-entry", field=name)
        content = _enum(FileContent, raw.get("content") or 0, "content")
        common = _common(raw, content, spec_id)
        partition = raw.get("partition") or {}
        common["partition"] = tuple(_scalar(partition.get(name), name) for name in self.partition_names)
        if content == FileContent.DATA:
            return DataFile(**common, first_row_id=raw.get("first_row_id"))
        ids = raw.get("equality_ids")
        return DeleteFile(
            **common,
            equality_ids=None if ids is None else tuple(ids),
            referenced_data_file=raw.get("referenced_data_file"),
            content_offset=raw.get("content_offset"),
            content_size_in_bytes=raw.get("content_size_in_bytes"),
        )


def _common(raw: dict[str, Any], content: FileContent, spec_id: int) -> dict[str, Any]:
    try:
        common: dict[str, Any] = {name: _map_of(raw.get(name)) for name in (*_INT_MAPS, "lower_bounds", "upper_bounds")}
    except (TypeError, KeyError) as e:
        raise FormatError("bad metrics map", kind="manifest-entry", field="metrics", found=str(e)) from e
    for name in ("record_count", "file_size_in_bytes"):
        if not isinstance(raw[name], int) or raw[name] < 0:
            raise FormatError("bad count", kind="manifest-entry", field=name, found=raw[name], expected=">= 0")
    offsets = raw.get("split_offsets")
    return common | {
        "content": content,
        "spec_id": spec_id,
        "file_path": raw["file_path"],
        "file_format": file_format_of(raw["file_format"]),
        "record_count": raw["record_count"],
        "file_size_in_bytes": raw["file_size_in_bytes"],
        "key_metadata": raw.get("key_metadata"),
        "split_offsets": None if offsets is None else tuple(offsets),
        "sort_order_id": raw.get("sort_order_id"),
    }


def _enum(kind: type[_E], value: Any, field: str) -> _E:
    try:
        return kind(value)
    except ValueError as e:
        raise FormatError(
            "unknown value in manifest entry", kind="manifest-entry", field=field, found=value, expected="0, 1 or 2"
        ) from e


def _map_of(raw: Any) -> dict[int, Any] | None:
    """Java writes maps as arrays of {key, value}; an empty array means nothing was collected, as null does."""
    return {item["key"]: item["value"] for item in raw} if raw else None


def _scalar(value: Any, name: str) -> Any:
    if isinstance(value, dict | list):
        raise FormatError("partition value is not a primitive", kind="manifest-entry", field=name, found=value)
    return value


def _rename(schema: Any, canonical: Mapping[int, str]) -> dict[str, str]:
    """Stored field name -> the spec's name, for fields that carry an id under another name (old pyiceberg, Impala)."""
    return {
        name: canonical[field_id]
        for name, field_id in field_ids_by_name(schema).items()
        if field_id in canonical and canonical[field_id] != name
    }


def _partition_fields(partition: Any) -> tuple[tuple[str, ...], tuple[int, ...]]:
    if partition is None:
        return (), ()
    record = partition["type"]
    if isinstance(record, list):
        record = next(t for t in record if isinstance(t, dict))
    fields = record["fields"]
    ids = field_ids_by_name(record)
    return tuple(f["name"] for f in fields), tuple(ids.get(f["name"], 1000 + i) for i, f in enumerate(fields))


def _check_writable(entry: ManifestEntry, is_data: bool, spec_id: int) -> None:
    problem: tuple[str, Any, Any] | None = None
    if isinstance(entry.data_file, DataFile) != is_data:
        problem = ("content", entry.data_file.content.name, "data files or delete files, not both")
    elif entry.data_file.spec_id != spec_id:
        problem = ("partition_spec_id", entry.data_file.spec_id, spec_id)
    elif entry.status != EntryStatus.ADDED and (entry.sequence_number is None or entry.file_sequence_number is None):
        problem = ("sequence_number", None, f"explicit for {entry.status.name}")
    elif (
        entry.status == EntryStatus.ADDED
        and isinstance(entry.data_file, DataFile)
        and entry.data_file.first_row_id is not None
    ):
        problem = ("first_row_id", entry.data_file.first_row_id, "null, to be inherited, for ADDED")
    if problem is not None:
        field, found, expected = problem
        raise FormatError(
            "manifest entry may not be written",
            kind="manifest-entry",
            file=entry.data_file.file_path,
            field=field,
            found=found,
            expected=expected,
        )


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
    for name in (*_INT_MAPS, "lower_bounds", "upper_bounds"):
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
