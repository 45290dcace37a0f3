"""The Avro schemas of manifests and manifest lists: as Iceberg Java writes them, and as other writers may have.

Field names, ids and order are those of Java's V1Metadata, V2Metadata and V3Metadata.
Spec: "Manifests" and "Manifest Lists", https://iceberg.apache.org/spec/#manifests
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from deletekit.errors import FormatError, UnsupportedError
from deletekit.formats.avro import check_types, field_ids_by_name
from deletekit.formats.content_file import METRIC_MAPS
from deletekit.formats.decimals import decimal_size

PartitionFieldType = tuple[int, str, str]
"""(field id, name, Iceberg primitive type string) of one partition field."""

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


class _Field(NamedTuple):
    """A field of a record, and the format versions that have it."""

    field_id: int
    name: str
    type: Any
    required_since: int = 99
    since: int = 1
    until: int = 3


def _map(key_id: int, value_id: int, value_type: Any) -> dict[str, Any]:
    parts = (_Field(key_id, "key", "int", 1), _Field(value_id, "value", value_type, 1))
    return {"type": "array", "items": _record(f"k{key_id}_v{value_id}", parts, 3), "logicalType": "map"}


def _list(element_id: int, element: Any) -> dict[str, Any]:
    return {"type": "array", "items": element, "element-id": element_id}


def _record(name: str, fields: Sequence[_Field], version: int) -> dict[str, Any]:
    """Return a record with the fields of one format version."""
    avro: list[dict[str, Any]] = []
    for f in fields:
        if f.since <= version <= f.until:
            optional = {} if version >= f.required_since else {"type": ["null", f.type], "default": None}
            avro.append({"name": f.name, "type": f.type, **optional, "field-id": f.field_id})
    return {"type": "record", "name": name, "fields": avro}


_ENTRY = (
    _Field(0, "status", "int", required_since=1),
    _Field(1, "snapshot_id", "long"),
    _Field(3, "sequence_number", "long", since=2),
    _Field(4, "file_sequence_number", "long", since=2),
)
_DATA_FILE = (
    _Field(134, "content", "int", required_since=2, since=2),
    _Field(100, "file_path", "string", required_since=1),
    _Field(101, "file_format", "string", required_since=1),
    _Field(102, "partition", {"type": "record", "name": "r102", "fields": []}, required_since=1),
    _Field(103, "record_count", "long", required_since=1),
    _Field(104, "file_size_in_bytes", "long", required_since=1),
    _Field(105, "block_size_in_bytes", "long", required_since=1, until=1),
    _Field(108, "column_sizes", _map(117, 118, "long")),
    _Field(109, "value_counts", _map(119, 120, "long")),
    _Field(110, "null_value_counts", _map(121, 122, "long")),
    _Field(137, "nan_value_counts", _map(138, 139, "long")),
    _Field(125, "lower_bounds", _map(126, 127, "bytes")),
    _Field(128, "upper_bounds", _map(129, 130, "bytes")),
    _Field(131, "key_metadata", "bytes"),
    _Field(132, "split_offsets", _list(133, "long")),
    _Field(135, "equality_ids", _list(136, "int"), since=2),
    _Field(140, "sort_order_id", "int"),
    _Field(142, "first_row_id", "long", since=3),
    _Field(143, "referenced_data_file", "string", since=2),
    _Field(144, "content_offset", "long", since=3),
    _Field(145, "content_size_in_bytes", "long", since=3),
)
_SUMMARY = (
    _Field(509, "contains_null", "boolean", required_since=1),
    _Field(518, "contains_nan", "boolean"),
    _Field(510, "lower_bound", "bytes"),
    _Field(511, "upper_bound", "bytes"),
)
_SUMMARIES = _Field(507, "partitions", _list(508, _record("r508", _SUMMARY, 3)))
_MANIFEST_FILE = (
    _Field(500, "manifest_path", "string", required_since=1),
    _Field(501, "manifest_length", "long", required_since=1),
    _Field(502, "partition_spec_id", "int", required_since=1),
    _Field(517, "content", "int", required_since=2, since=2),
    _Field(515, "sequence_number", "long", required_since=2, since=2),
    _Field(516, "min_sequence_number", "long", required_since=2, since=2),
    _Field(503, "added_snapshot_id", "long", required_since=1),
    _Field(504, "added_files_count", "int", required_since=2),
    _Field(505, "existing_files_count", "int", required_since=2),
    _Field(506, "deleted_files_count", "int", required_since=2),
    _SUMMARIES._replace(until=1),
    _Field(512, "added_rows_count", "long", required_since=2),
    _Field(513, "existing_rows_count", "long", required_since=2),
    _Field(514, "deleted_rows_count", "long", required_since=2),
    _SUMMARIES._replace(since=2),
    _Field(519, "key_metadata", "bytes"),
    _Field(520, "first_row_id", "long", since=3),
)

REQUIRED_DATA_FILE = ("file_path", "file_format", "record_count", "file_size_in_bytes")
"""The fields of `data_file` that a manifest of every format version has."""
OPTIONAL_DATA_FILE = tuple(f.name for f in _DATA_FILE if f.required_since > 3 and f.name not in METRIC_MAPS)
"""The fields of `data_file` that may be absent and are not metrics."""


def manifest_entry_schema(version: int, partition: Sequence[PartitionFieldType]) -> dict[str, Any]:
    """Return the `manifest_entry` record of a manifest, for one partition spec."""
    data_file = _record("r2", _DATA_FILE, version)
    next(f for f in data_file["fields"] if f["name"] == "partition")["type"] = _partition(partition)
    return _record("manifest_entry", (*_ENTRY, _Field(2, "data_file", data_file, required_since=1)), version)


def manifest_file_schema(version: int) -> dict[str, Any]:
    """Return the `manifest_file` record of a manifest list."""
    return _record("manifest_file", _MANIFEST_FILE, version)


# --- partition values -------------------------------------------------------------------------------------------------


def _partition(fields: Sequence[PartitionFieldType]) -> dict[str, Any]:
    seen: set[str] = set()
    avro = []
    for field_id, name, iceberg_type in fields:
        kind = _primitive(iceberg_type)
        if isinstance(kind, dict) and kind["type"] == "fixed":
            # Avro defines a named type once; later fields refer to it by name.
            defined = kind["name"]
            kind = defined if defined in seen else kind
            seen.add(defined)
        field = {"name": avro_name(name), "type": kind if kind == "null" else ["null", kind], "default": None}
        real_name = {} if field["name"] == name else {"iceberg-field-name": name}
        avro.append({**field, "field-id": field_id, **real_name})
    return {"type": "record", "name": "r102", "fields": avro}


def _primitive(iceberg_type: str) -> Any:
    if iceberg_type.startswith("fixed"):
        # Java reads and writes these with a length in front, against Avro and the schema beside them
        # (apache/iceberg#17501): no bytes are right for everyone.
        raise UnsupportedError("partition values of type fixed cannot be written", "partition-type", found=iceberg_type)
    if match := re.fullmatch(r"decimal\((\d+),\s*(\d+)\)", iceberg_type):
        precision, scale = int(match.group(1)), int(match.group(2))
        fixed = {"type": "fixed", "name": f"decimal_{precision}_{scale}", "size": decimal_size(precision)}
        return {**fixed, "logicalType": "decimal", "precision": precision, "scale": scale}
    if iceberg_type not in _PRIMITIVES:
        raise FormatError("not a partition type", "partition-type", found=iceberg_type, expected="a primitive type")
    return _PRIMITIVES[iceberg_type]


def avro_name(name: str) -> str:
    """Write `_x2D` for characters that Avro forbids, as Java's AvroSchemaUtil.makeCompatibleName does."""
    allowed = re.sub(r"[^A-Za-z0-9_]", lambda found: f"_x{ord(found[0]):X}", name)
    return allowed if re.match(r"[A-Za-z_]", allowed) else f"_{allowed}"


# --- what is stored ---------------------------------------------------------------------------------------------------


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
            raise FormatError("not a manifest", "manifest", "avro.schema", schema, "a manifest_entry record") from e

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
_DATA_FILE_SCHEMA = _record("r2", _DATA_FILE, 3)
