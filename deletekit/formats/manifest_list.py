"""Read and write manifest lists: one row for each manifest of a snapshot.

Fields are found by id, so `added_data_files_count` of older writers is `added_files_count`.
Spec: "Manifest Lists", https://iceberg.apache.org/spec/#manifest-lists
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from enum import IntEnum
from typing import Any

from deletekit.errors import FormatError
from deletekit.formats.avro import read_container, write_container
from deletekit.formats.manifest_schema import manifest_file_schema, record_of, spec_names

_SCHEMA = manifest_file_schema(3)
_SUMMARY_SCHEMA = next(f["type"][1]["items"] for f in _SCHEMA["fields"] if f["name"] == "partitions")
_REQUIRED = ("manifest_path", "manifest_length", "partition_spec_id")
_ROW_COUNTS = ("added_rows_count", "existing_rows_count", "deleted_rows_count")
_FILE_COUNTS = ("added_files_count", "existing_files_count", "deleted_files_count")
COUNTS = (*_FILE_COUNTS, *_ROW_COUNTS)
"""The fields that count files and rows by status: optional in v1, required in v2."""
_ZERO_IF_ABSENT = ("sequence_number", "min_sequence_number", "added_snapshot_id")
_NEVER_NEGATIVE = ("manifest_length", "sequence_number", "min_sequence_number", "first_row_id", *_FILE_COUNTS)


class ManifestContent(IntEnum):
    """`manifest_file.content` (field 517)."""

    DATA = 0
    DELETES = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldSummary:
    """`field_summary` (508): the values of one partition field over a manifest; bounds are single-value binary."""

    contains_null: bool
    contains_nan: bool | None = None
    lower_bound: bytes | None = None
    upper_bound: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestFile:
    """`manifest_file`: one manifest of a snapshot.

    Counts are None, and `added_snapshot_id` is 0, where a v1 writer left them out: they are not known then.
    """

    manifest_path: str
    manifest_length: int
    partition_spec_id: int
    content: ManifestContent = ManifestContent.DATA
    sequence_number: int = 0
    min_sequence_number: int = 0
    added_snapshot_id: int
    added_files_count: int | None = None
    existing_files_count: int | None = None
    deleted_files_count: int | None = None
    added_rows_count: int | None = None
    existing_rows_count: int | None = None
    deleted_rows_count: int | None = None
    partitions: tuple[FieldSummary, ...] | None = None
    key_metadata: bytes | None = None
    first_row_id: int | None = None

    @property
    def has_live_files(self) -> bool:
        """Whether a live file may be listed: False only when the counts say that no entry is added or existing."""
        rows = self.added_rows_count or self.existing_rows_count
        return self.added_files_count != 0 or self.existing_files_count != 0 or bool(rows)

    @property
    def is_counted(self) -> bool:
        """Whether it has all that a manifest list of v2 requires; `manifests.counted` adds what is missing."""
        return bool(self.added_snapshot_id) and all(getattr(self, name) is not None for name in COUNTS)


_NAMES = tuple(f.name for f in fields(ManifestFile))
_SUMMARY_NAMES = tuple(f.name for f in fields(FieldSummary))


def read_manifest_list(data: bytes) -> tuple[ManifestFile, ...]:
    """Decode a manifest list of format version 1 to 3. Raises FormatError, for a later version too."""
    container = read_container(data, distinct=True)
    version = container.metadata.get("format-version", "1")
    if version not in ("1", "2", "3"):
        message = "unsupported manifest list format version"
        raise FormatError(message, "format-version", "format-version", version, "1, 2 or 3")
    try:
        names = spec_names(container.schema, _SCHEMA, "manifest-list")
        for name in _REQUIRED[:2]:
            if name not in names.values():
                raise FormatError("not a manifest list", "manifest-list", name, expected="a manifest_file record")
        for field in container.schema["fields"]:
            if names[field["name"]] == "partitions":
                spec_names(record_of(field["type"])["items"], _SUMMARY_SCHEMA, "manifest-list")
    except (StopIteration, KeyError, TypeError, AttributeError) as e:
        raise FormatError("not a manifest list", "manifest-list", "avro.schema", container.schema) from e
    required = _REQUIRED if version == "1" else (*_REQUIRED, "sequence_number")
    return tuple(_manifest_file({names[k]: v for k, v in record.items()}, required) for record in container)


def write_manifest_list(
    manifests: Sequence[ManifestFile],
    *,
    format_version: int,
    snapshot_id: int,
    parent_snapshot_id: int | None,
    sequence_number: int,
    first_row_id: int | None = None,
    codec: str = "deflate",
) -> bytes:
    """Encode a manifest list with the Avro metadata that Java writes.

    `first_row_id` is the snapshot's, for v3. Raises FormatError when a v1 list would have to hold a delete manifest,
    or a later one a manifest whose files or rows are not counted.
    """
    metadata = {
        "snapshot-id": str(snapshot_id),
        "parent-snapshot-id": "null" if parent_snapshot_id is None else str(parent_snapshot_id),
        "format-version": str(format_version),
    }
    if format_version >= 2:
        metadata["sequence-number"] = str(sequence_number)
    if format_version >= 3:
        metadata["first-row-id"] = "null" if first_row_id is None else str(first_row_id)
    if format_version == 1 and any(m.content == ManifestContent.DELETES for m in manifests):
        raise FormatError("format version 1 has no deletes", kind="format-version", field="content", found="deletes")
    records = (_record(m, format_version) for m in manifests)
    return write_container(manifest_file_schema(format_version), records, metadata, codec)


def _manifest_file(raw: dict[str, Any], required: Sequence[str]) -> ManifestFile:
    for name in required:
        if raw.get(name) is None:
            raise FormatError("bad manifest list row", "manifest-list", name, "null", "a value")
    for name in _NEVER_NEGATIVE:
        if (raw.get(name) or 0) < 0:
            raise FormatError("bad manifest list row", "manifest-list", name, raw[name], ">= 0")
    content = raw.get("content") or 0
    if content not in (ManifestContent.DATA, ManifestContent.DELETES):
        raise FormatError("bad manifest list row", "manifest-list", "content", content, "0 or 1")
    values: dict[str, Any] = {name: raw.get(name) for name in _NAMES}
    # Java adds up the counts of a manifest's files, and a file without a count has -1.
    values |= {name: None for name in _ROW_COUNTS if (values[name] or 0) < 0}
    values |= {name: values[name] or 0 for name in _ZERO_IF_ABSENT} | {"content": ManifestContent(content)}
    if values["partitions"] is not None:
        values["partitions"] = tuple(_summary(p) for p in values["partitions"])
    return ManifestFile(**values)


def _summary(raw: dict[str, Any]) -> FieldSummary:
    if raw.get("contains_null") is None:
        raise FormatError("bad manifest list row", "manifest-list", "contains_null", "null", "a value")
    values: dict[str, Any] = {name: raw.get(name) for name in _SUMMARY_NAMES}
    return FieldSummary(**values)


def _record(m: ManifestFile, version: int) -> dict[str, Any]:
    record = {name: getattr(m, name) for name in _NAMES}  # `asdict` takes longer than all the rest
    if m.partitions is not None:  # fastavro takes a tuple for a union's branch and value
        record["partitions"] = [{name: getattr(p, name) for name in _SUMMARY_NAMES} for p in m.partitions]
    for name in COUNTS if version >= 2 else ():
        if record[name] is None:  # unknown, and a reader would skip the manifest if it said 0
            raise FormatError("manifest is not counted", "manifest-list", name, "null", "a number").in_file(
                m.manifest_path
            )
    return record
