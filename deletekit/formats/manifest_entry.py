"""One Avro record of a manifest as a manifest entry, whatever an older writer named its fields.

Law: records -> values. The types of the fields are checked once, in the schema; a record then only has to hold values
that the spec allows.
Spec: "Manifests", https://iceberg.apache.org/spec/#manifests
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, TypeVar

from deletekit.errors import FormatError
from deletekit.formats.avro import field_ids_by_name
from deletekit.formats.avro_schema import check_types
from deletekit.formats.content_file import (
    DataFile,
    DeleteFile,
    EntryStatus,
    FileContent,
    ManifestEntry,
    file_format_of,
)
from deletekit.formats.manifest_schema import CANONICAL_DATA_FILE, CANONICAL_ENTRY, manifest_entry_schema

__all__ = [
    "BOUND_MAPS",
    "COUNT_MAPS",
    "NEVER_NEGATIVE",
    "REQUIRED_DATA_FILE",
    "VECTOR_FIELDS",
    "EntryShape",
    "entry_shape",
]

COUNT_MAPS = ("column_sizes", "value_counts", "null_value_counts", "nan_value_counts")
BOUND_MAPS = ("lower_bounds", "upper_bounds")

_E = TypeVar("_E", EntryStatus, FileContent)

_REQUIRED = ("status", "data_file")
REQUIRED_DATA_FILE = ("file_path", "file_format", "record_count", "file_size_in_bytes")
NEVER_NEGATIVE = ("record_count", "file_size_in_bytes", "content_offset", "content_size_in_bytes", "first_row_id")
VECTOR_FIELDS = ("referenced_data_file", "content_offset", "content_size_in_bytes")
_ENTRY_SCHEMA = manifest_entry_schema(3, ())
_DATA_FILE_SCHEMA = next(f["type"] for f in _ENTRY_SCHEMA["fields"] if f["name"] == "data_file")


@lru_cache(maxsize=64)
def entry_shape(schema_text: bytes) -> EntryShape:
    """The shape of a manifest's `avro.schema`; a table's manifests share it, so it is worked out once."""
    return EntryShape(json.loads(schema_text))


class EntryShape:
    """How one manifest's Avro records map to the spec's fields, by field id where ids are present.

    Raises FormatError when the schema is not that of a manifest.
    """

    def __init__(self, schema: Any) -> None:
        try:
            self._entry_names = _renamed(schema, CANONICAL_ENTRY)
            data_file = _field(schema, self._entry_names, "data_file")
            _field(schema, self._entry_names, "status")
            check_types(schema, _ENTRY_SCHEMA, self._entry_names, "manifest")
            record = _record_of(data_file["type"])
            self._file_names = _renamed(record, CANONICAL_DATA_FILE)
            for name in REQUIRED_DATA_FILE:
                _field(record, self._file_names, name)
            check_types(record, _DATA_FILE_SCHEMA, self._file_names, "manifest")
            partition = [f for f in record["fields"] if self._file_names.get(f["name"], f["name"]) == "partition"]
            self.partition_names, self.partition_field_ids = _partition_fields(partition)
        except (StopIteration, KeyError, TypeError, AttributeError) as e:
            raise FormatError(
                "not a manifest", kind="manifest", field="avro.schema", found=schema, expected="a manifest_entry record"
            ) from e

    def canonical(self, path: tuple[str, ...]) -> tuple[str, ...]:
        """The spec's names for a path of stored field names; those of partition fields stay as they are."""
        top = self._entry_names.get(path[0], path[0])
        if top != "data_file" or len(path) == 1:
            return (top, *path[1:])
        return (top, self._file_names.get(path[1], path[1]), *path[2:])

    def entry(self, record: Mapping[str, Any], spec_id: int) -> ManifestEntry:
        """Raises FormatError for a value that the spec does not allow."""
        raw = {self._entry_names.get(k, k): v for k, v in record.items()}
        _require(raw, _REQUIRED, "manifest entry lacks a field")
        return ManifestEntry(
            status=_enum(EntryStatus, raw["status"], "status"),
            snapshot_id=raw.get("snapshot_id"),
            sequence_number=raw.get("sequence_number"),
            file_sequence_number=raw.get("file_sequence_number"),
            data_file=self._content_file({self._file_names.get(k, k): v for k, v in raw["data_file"].items()}, spec_id),
        )

    def _content_file(self, raw: dict[str, Any], spec_id: int) -> DataFile | DeleteFile:
        _require(raw, REQUIRED_DATA_FILE, "content file lacks a field")
        _check_counts(raw)
        content = _enum(FileContent, raw.get("content") or 0, "content")
        common = _common(raw) | {"content": content, "spec_id": spec_id}
        partition = raw.get("partition") or {}
        common["partition"] = tuple(_scalar(partition.get(name), name) for name in self.partition_names)
        if content == FileContent.DATA:
            return DataFile(**common, first_row_id=raw.get("first_row_id"))
        file = DeleteFile(
            **common,
            equality_ids=_tuple(raw.get("equality_ids")),
            referenced_data_file=raw.get("referenced_data_file"),
            content_offset=raw.get("content_offset"),
            content_size_in_bytes=raw.get("content_size_in_bytes"),
        )
        if content == FileContent.EQUALITY_DELETES and not file.equality_ids:
            raise _lacks("equality delete file lacks a field", "equality_ids")
        if file.is_deletion_vector:
            _require(raw, VECTOR_FIELDS, "deletion vector lacks a field")
        return file


def _common(raw: Mapping[str, Any]) -> dict[str, Any]:
    maps = {name: _map_of(raw.get(name)) for name in (*COUNT_MAPS, *BOUND_MAPS)}
    return maps | {
        "file_path": raw["file_path"],
        "file_format": file_format_of(raw["file_format"]),
        "record_count": raw["record_count"],
        "file_size_in_bytes": raw["file_size_in_bytes"],
        "key_metadata": raw.get("key_metadata"),
        "split_offsets": _tuple(raw.get("split_offsets")),
        "sort_order_id": raw.get("sort_order_id"),
    }


def _require(raw: Mapping[str, Any], names: tuple[str, ...], message: str) -> None:
    for name in names:
        if raw.get(name) is None:
            raise _lacks(message, name)


def _lacks(message: str, name: str) -> FormatError:
    return FormatError(message, kind="manifest-entry", field=name, found="null", expected="a value")


def _check_counts(raw: Mapping[str, Any]) -> None:
    for name in NEVER_NEGATIVE:
        value = raw.get(name)
        if value is not None and value < 0:
            raise FormatError("bad count", kind="manifest-entry", field=name, found=value, expected=">= 0")


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


def _tuple(raw: Any) -> tuple[Any, ...] | None:
    return None if raw is None else tuple(raw)


def _scalar(value: Any, name: str) -> Any:
    if isinstance(value, dict | list):
        raise FormatError(
            "bad partition value", kind="manifest-entry", field=name, found=value, expected="a primitive value"
        )
    return value


def _renamed(schema: Any, canonical: Mapping[int, str]) -> dict[str, str]:
    """Stored field name -> the spec's name, for fields that carry an id under another name (old pyiceberg, Impala)."""
    return {
        name: canonical[field_id]
        for name, field_id in field_ids_by_name(schema).items()
        if field_id in canonical and canonical[field_id] != name
    }


def _field(schema: Any, names: Mapping[str, str], name: str) -> dict[str, Any]:
    """The field of a record schema that the spec calls `name`; StopIteration when it has none."""
    found: dict[str, Any] = next(f for f in schema["fields"] if names.get(f["name"], f["name"]) == name)
    return found


def _record_of(schema: Any) -> dict[str, Any]:
    """The record of a type that is one, optional or not."""
    found: dict[str, Any] = next(t for t in (schema if isinstance(schema, list) else [schema]) if isinstance(t, dict))
    return found


def _partition_fields(partition: list[Any]) -> tuple[tuple[str, ...], tuple[int, ...]]:
    if not partition:
        return (), ()
    record = _record_of(partition[0]["type"])
    ids = field_ids_by_name(record)
    names = tuple(f["name"] for f in record["fields"])
    return names, tuple(ids.get(name, 1000 + i) for i, name in enumerate(names))
