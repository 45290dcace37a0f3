"""Replace the schema, partitioning and sort order of a table that exists, as CREATE OR REPLACE TABLE does.

The table starts empty, and stays the same table: its snapshots, tags and other branches are kept, and ids are not used
for another column or partition field. Spec: REST "CommitTableRequest"; Java TableMetadata.buildReplacement.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Any

from pyiceberg.schema import Schema
from pyiceberg.types import IcebergType, ListType, MapType, NestedField, StructType

from deletekit.errors import InvalidInputError, UnsupportedError
from deletekit.rows.sort_order import sort_order_updates
from deletekit.table.metadata import MAIN, TableMetadata, check_reserved_names, check_schema_version, spec_to_json
from deletekit.table.properties import check_properties
from deletekit.table.types import schema_to_json
from deletekit.verbs.shared.partition_fields import partition_spec, sort_fields


def replacing_updates(
    metadata: TableMetadata,
    schema: Schema,
    *,
    format_version: int,
    partition_by: str | Sequence[str],
    sort_by: str | Sequence[str],
    properties: Mapping[str, str],
) -> list[Mapping[str, Any]]:
    """Return the updates that make a table empty, with this schema. Properties that are not given stay.

    Raises InvalidInputError as `create_table` does; UnsupportedError for format version 1, whose partition fields
    cannot be taken away.
    """
    if metadata.version.keeps_removed_partition_fields:
        message, expected = "a table of format version 1 cannot be replaced", "format version 2 or later"
        raise UnsupportedError(message, "format-version", "replace", 1, expected)
    version = max(format_version, metadata.format_version)
    check_properties(properties)
    new = _with_known_ids(schema, metadata)
    check_schema_version(new, version)
    check_reserved_names(new, version)
    spec = partition_spec(new, partition_by, int(metadata.raw["last-partition-id"]) + 1)
    known = {(f.source_id, str(f.transform)): f.field_id for s in metadata.specs.values() for f in s.fields}
    fields = [
        f.model_copy(update={"field_id": known.get((f.source_id, str(f.transform)), f.field_id)}) for f in spec.fields
    ]
    spec_json = spec_to_json(spec.model_copy(update={"fields": tuple(fields)}))
    last = max(int(metadata.raw["last-column-id"]), new.highest_field_id)
    return [
        {"action": "upgrade-format-version", "format-version": version},
        {"action": "add-schema", "schema": schema_to_json(new), "last-column-id": last},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": spec_json},
        {"action": "set-default-spec", "spec-id": -1},
        *sort_order_updates(sort_fields(new, sort_by)),
        *([{"action": "set-properties", "updates": dict(properties)}] if properties else []),
        *([{"action": "remove-snapshot-ref", "ref-name": MAIN}] if MAIN in metadata.refs else []),
    ]


def check_location(metadata: TableMetadata, location: str | None) -> None:
    """Raise InvalidInputError for another location than the table has: no table would have its old files."""
    if location is not None and location.rstrip("/") != metadata.location:
        message, expected = "a table that is replaced stays where it is", metadata.location
        raise InvalidInputError(message, "location", "location", location, expected)


def _with_known_ids(schema: Schema, metadata: TableMetadata) -> Schema:
    """Return a schema with the ids that its columns have in the table, by full name and type, and new ones."""
    old = metadata.schema
    fresh = count(int(metadata.raw["last-column-id"]) + 1)
    used = {name: old.find_field(name) for name in old.column_names}

    def number(name: str, kind: IcebergType) -> int:
        field = used.get(name)
        is_same = field is not None and (
            field.field_type == kind if kind.is_primitive else type(field.field_type) is type(kind)
        )
        return field.field_id if field is not None and is_same else next(fresh)

    def numbered(fields: Sequence[NestedField], path: str) -> Iterator[NestedField]:
        for field in fields:
            name = path + field.name
            update = {"field_id": number(name, field.field_type), "field_type": inner(field.field_type, name + ".")}
            yield field.model_copy(update=update)

    def inner(kind: IcebergType, path: str) -> IcebergType:
        if isinstance(kind, StructType):
            return StructType(*numbered(kind.fields, path))
        if isinstance(kind, ListType):
            (element,) = numbered([kind.element_field], path)
            return ListType(element.field_id, element.field_type, element.required)
        if isinstance(kind, MapType):
            key, value = numbered([kind.key_field, kind.value_field], path)
            return MapType(key.field_id, key.field_type, value.field_id, value.field_type, value.required)
        return kind

    new = Schema(*numbered(schema.fields, ""))
    names = [schema.find_column_name(i) for i in schema.identifier_field_ids]
    identifiers = [new.find_field(name).field_id for name in names if name is not None]
    return Schema(*new.fields, identifier_field_ids=identifiers)
