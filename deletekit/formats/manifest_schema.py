"""The Avro schemas of manifests and manifest lists: as Iceberg Java writes them, and as other writers may have.

Field names, ids and order are those of Java's V1Metadata, V2Metadata and V3Metadata.
Spec: "Manifests" and "Manifest Lists", https://iceberg.apache.org/spec/#manifests
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from deletekit.errors import FormatError, UnsupportedError
from deletekit.formats.avro import field_ids_by_name
from deletekit.formats.avro_schema import check_types

PartitionFieldType = tuple[int, str, str]
"""(field id, name, Iceberg primitive type string) of one partition field."""

REQUIRED_DATA_FILE = ("file_path", "file_format", "record_count", "file_size_in_bytes")
"""The fields of `data_file` that a manifest of every format version has."""

_PRIMITIVES: dict[str, Any] = {
    "boolean": "boolean",
    "int": "int",
    "long": "long",
    "float": "float",
    "double": "double",
    "string": "string",
    "binary": "bytes",
    "date": {"type": "int", "logicalType": "date"},
    "time": {"type": "long", "logicalType": "time-micros"},
    "timestamp": {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": False},
    "timestamptz": {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": True},
    "timestamp_ns": {"type": "long", "logicalType": "timestamp-nanos", "adjust-to-utc": False},
    "timestamptz_ns": {"type": "long", "logicalType": "timestamp-nanos", "adjust-to-utc": True},
    "uuid": {"type": "fixed", "name": "uuid_fixed", "size": 16, "logicalType": "uuid"},
    "unknown": "null",
}


def _primitive(iceberg_type: str) -> Any:
    if iceberg_type.startswith("fixed"):
        # Java reads and writes these with a length in front, against Avro and the schema beside them
        # (apache/iceberg#17501): no bytes are right for everyone.
        raise UnsupportedError(
            "partition values of type fixed cannot be written", kind="partition-type", found=iceberg_type
        )
    if match := re.fullmatch(r"decimal\((\d+),\s*(\d+)\)", iceberg_type):
        precision, scale = int(match.group(1)), int(match.group(2))
        return {
            "type": "fixed",
            "name": f"decimal_{precision}_{scale}",
            "size": decimal_size(precision),
            "logicalType": "decimal",
            "precision": precision,
            "scale": scale,
        }
    if iceberg_type not in _PRIMITIVES:
        raise FormatError(
            "not a partition type", kind="partition-type", found=iceberg_type, expected="a primitive type"
        )
    return _PRIMITIVES[iceberg_type]


def decimal_size(precision: int) -> int:
    """Return the bytes of the smallest fixed that holds `precision` digits (Java TypeUtil.decimalRequiredBytes)."""
    return int((10**precision - 1).bit_length() + 8) // 8


def _field(field_id: int, name: str, avro_type: Any, *, required: bool = False) -> dict[str, Any]:
    if required:
        return {"name": name, "type": avro_type, "field-id": field_id}
    return {"name": name, "type": ["null", avro_type], "default": None, "field-id": field_id}


def _map(field_id: int, name: str, key_id: int, value_id: int, value_type: Any) -> dict[str, Any]:
    item = {
        "type": "record",
        "name": f"k{key_id}_v{value_id}",
        "fields": [_field(key_id, "key", "int", required=True), _field(value_id, "value", value_type, required=True)],
    }
    return _field(field_id, name, {"type": "array", "items": item, "logicalType": "map"})


def _list(field_id: int, name: str, element_id: int, element: str) -> dict[str, Any]:
    return _field(field_id, name, {"type": "array", "items": element, "element-id": element_id})


def _partition(fields: Sequence[PartitionFieldType]) -> dict[str, Any]:
    seen: set[str] = set()
    avro_fields = []
    for field_id, name, iceberg_type in fields:
        avro_type = _primitive(iceberg_type)
        if isinstance(avro_type, dict) and avro_type.get("type") == "fixed":
            # Avro defines a named type once; later fields refer to it by name.
            repeated = avro_type["name"] in seen
            seen.add(avro_type["name"])
            avro_type = avro_type["name"] if repeated else avro_type
        avro_name = _avro_name(name)
        field: dict[str, Any] = {
            "name": avro_name,
            "type": "null" if avro_type == "null" else ["null", avro_type],
            "default": None,
        }
        field["field-id"] = field_id
        if avro_name != name:
            field["iceberg-field-name"] = name
        avro_fields.append(field)
    return {"type": "record", "name": "r102", "fields": avro_fields}


def _avro_name(name: str) -> str:
    """Write `_x2D` for characters that Avro forbids, as Java's AvroSchemaUtil.makeCompatibleName does."""
    first = name[:1]
    out = first if re.fullmatch(r"[A-Za-z_]", first) else ("_" + first if first.isdigit() else _escape(first))
    return out + "".join(c if re.fullmatch(r"[A-Za-z0-9_]", c) else _escape(c) for c in name[1:])


def _escape(char: str) -> str:
    return f"_x{ord(char):X}" if char else "_"


def _metrics() -> list[dict[str, Any]]:
    return [
        _map(108, "column_sizes", 117, 118, "long"),
        _map(109, "value_counts", 119, 120, "long"),
        _map(110, "null_value_counts", 121, 122, "long"),
        _map(137, "nan_value_counts", 138, 139, "long"),
        _map(125, "lower_bounds", 126, 127, "bytes"),
        _map(128, "upper_bounds", 129, 130, "bytes"),
        _field(131, "key_metadata", "bytes"),
        _list(132, "split_offsets", 133, "long"),
    ]


def _data_file(version: int, partition: Sequence[PartitionFieldType]) -> dict[str, Any]:
    head = [
        _field(100, "file_path", "string", required=True),
        _field(101, "file_format", "string", required=True),
        _field(102, "partition", _partition(partition), required=True),
        _field(103, "record_count", "long", required=True),
        _field(104, "file_size_in_bytes", "long", required=True),
    ]
    sort_order = _field(140, "sort_order_id", "int")
    if version == 1:
        fields = [*head, _field(105, "block_size_in_bytes", "long", required=True), *_metrics(), sort_order]
    else:
        fields = [
            _field(134, "content", "int", required=True),
            *head,
            *_metrics(),
            _list(135, "equality_ids", 136, "int"),
        ]
        fields.append(sort_order)
        if version >= 3:
            fields.append(_field(142, "first_row_id", "long"))
        fields.append(_field(143, "referenced_data_file", "string"))
        if version >= 3:
            fields += [_field(144, "content_offset", "long"), _field(145, "content_size_in_bytes", "long")]
    return {"type": "record", "name": "r2", "fields": fields}


def manifest_entry_schema(version: int, partition: Sequence[PartitionFieldType]) -> dict[str, Any]:
    """Return the `manifest_entry` record of a manifest, for one partition spec."""
    data_file = _field(2, "data_file", _data_file(version, partition), required=True)
    status = _field(0, "status", "int", required=True)
    if version == 1:
        fields = [status, _field(1, "snapshot_id", "long"), data_file]
    else:
        fields = [
            status,
            _field(1, "snapshot_id", "long"),
            _field(3, "sequence_number", "long"),
            _field(4, "file_sequence_number", "long"),
            data_file,
        ]
    return {"type": "record", "name": "manifest_entry", "fields": fields}


def _field_summary() -> dict[str, Any]:
    summary = {
        "type": "record",
        "name": "r508",
        "fields": [
            _field(509, "contains_null", "boolean", required=True),
            _field(518, "contains_nan", "boolean"),
            _field(510, "lower_bound", "bytes"),
            _field(511, "upper_bound", "bytes"),
        ],
    }
    return _field(507, "partitions", {"type": "array", "items": summary, "element-id": 508})


def manifest_file_schema(version: int) -> dict[str, Any]:
    """Return the `manifest_file` record of a manifest list."""
    required = version >= 2
    counts = [
        _field(504, "added_files_count", "int", required=required),
        _field(505, "existing_files_count", "int", required=required),
        _field(506, "deleted_files_count", "int", required=required),
    ]
    rows = [
        _field(512, "added_rows_count", "long", required=required),
        _field(513, "existing_rows_count", "long", required=required),
        _field(514, "deleted_rows_count", "long", required=required),
    ]
    head = [
        _field(500, "manifest_path", "string", required=True),
        _field(501, "manifest_length", "long", required=True),
        _field(502, "partition_spec_id", "int", required=True),
    ]
    added = _field(503, "added_snapshot_id", "long", required=True)
    key_metadata = _field(519, "key_metadata", "bytes")
    if version == 1:
        fields = [*head, added, *counts, _field_summary(), *rows, key_metadata]
    else:
        sequence = [
            _field(517, "content", "int", required=True),
            _field(515, "sequence_number", "long", required=True),
            _field(516, "min_sequence_number", "long", required=True),
        ]
        fields = [*head, *sequence, added, *counts, *rows, _field_summary(), key_metadata]
        if version >= 3:
            fields.append(_field(520, "first_row_id", "long"))
    return {"type": "record", "name": "manifest_file", "fields": fields}


@lru_cache(maxsize=64)
def stored_manifest_schema(text: bytes) -> StoredManifestSchema:
    """Understand a manifest's `avro.schema`; cached, because all manifests of a table have the same one."""
    return StoredManifestSchema(json.loads(text))


class StoredManifestSchema:
    """How one manifest names the spec's fields, whatever an older writer called them.

    Attributes
    ----------
    entry_names, file_names: the spec's name of each stored field of an entry and of its `data_file`.
    partition_names, partition_field_ids: the stored names and the ids of the partition fields.

    Raises FormatError when the schema is not that of a manifest.
    """

    def __init__(self, schema: Any) -> None:
        try:
            self.entry_names = spec_names(schema, _ENTRY_SCHEMA, "manifest")
            record = record_of(_field_of(schema, self.entry_names, "data_file"))
            _field_of(schema, self.entry_names, "status")
            self.file_names = spec_names(record, _DATA_FILE_SCHEMA, "manifest")
            for name in REQUIRED_DATA_FILE:
                _field_of(record, self.file_names, name)
            has_partition = "partition" in self.file_names.values()
            partition = record_of(_field_of(record, self.file_names, "partition")) if has_partition else {"fields": []}
            ids = field_ids_by_name(partition)
            self.partition_names = tuple(f["name"] for f in partition["fields"])
            self.partition_field_ids = tuple(ids.get(name, 1000 + i) for i, name in enumerate(self.partition_names))
        except (StopIteration, KeyError, TypeError, AttributeError) as e:
            raise FormatError(
                "not a manifest", kind="manifest", field="avro.schema", found=schema, expected="a manifest_entry record"
            ) from e

    def spec_path(self, path: tuple[str, ...]) -> tuple[str, ...]:
        """Return a path of stored names with the spec's names; those of partition fields stay."""
        top = self.entry_names[path[0]]
        if top != "data_file" or len(path) == 1:
            return (top, *path[1:])
        return (top, self.file_names[path[1]], *path[2:])


def spec_names(stored: Any, canonical: Mapping[str, Any], kind: str) -> dict[str, str]:
    """Map the field names of a stored record to the names of the spec's record, by field id where there are ids.

    Raises FormatError with `kind` where a field has another type.
    """
    by_id, ids = {f["field-id"]: f["name"] for f in canonical["fields"]}, field_ids_by_name(stored)
    names = {f["name"]: by_id.get(ids.get(f["name"]), f["name"]) for f in stored["fields"]}
    check_types(stored, canonical, names, kind)
    return names


def _field_of(schema: Any, names: Mapping[str, str], name: str) -> Any:
    """Return the type of the field that the spec calls `name`; StopIteration when there is none."""
    return next(f["type"] for f in schema["fields"] if names[f["name"]] == name)


def record_of(schema: Any) -> dict[str, Any]:
    """Return the definition that an optional type has beside null, or the type itself."""
    found: dict[str, Any] = next(t for t in (schema if isinstance(schema, list) else [schema]) if isinstance(t, dict))
    return found


_ENTRY_SCHEMA = manifest_entry_schema(3, ())
_DATA_FILE_SCHEMA = _data_file(3, ())
