"""Map the fields of a manifest's Avro schema to the spec's names, whatever an older writer named them.

The types of the fields are checked here, once for each schema.
Spec: "Manifests", https://iceberg.apache.org/spec/#manifests
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from deletekit.errors import FormatError
from deletekit.formats.avro import field_ids_by_name
from deletekit.formats.avro_schema import check_types
from deletekit.formats.manifest_schema import CANONICAL_DATA_FILE, CANONICAL_ENTRY, manifest_entry_schema

__all__ = ["BOUND_MAPS", "COUNT_MAPS", "REQUIRED_DATA_FILE", "EntryShape", "entry_shape"]

COUNT_MAPS = ("column_sizes", "value_counts", "null_value_counts", "nan_value_counts")
BOUND_MAPS = ("lower_bounds", "upper_bounds")

REQUIRED_DATA_FILE = ("file_path", "file_format", "record_count", "file_size_in_bytes")
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

    def entry(self, record: Mapping[str, Any]) -> dict[str, Any]:
        """The fields of an entry's record by the spec's names."""
        return {self._entry_names.get(k, k): v for k, v in record.items()}

    def file(self, record: Mapping[str, Any]) -> dict[str, Any]:
        """The fields of a `data_file` record by the spec's names."""
        return {self._file_names.get(k, k): v for k, v in record.items()}


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
