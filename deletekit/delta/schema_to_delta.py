"""Convert an Iceberg table's schema and partitioning to Delta's `metaData` action.

What Delta cannot hold is refused by name, with one exception: partitions with other transforms than identity are left
out, because Delta does not need them.
Spec: Delta protocol, "Schema Serialization Format", "Column Mapping".
"""

import json
from collections.abc import Sequence
from typing import Any, Literal

from pyiceberg import types as it
from pyiceberg.transforms import IdentityTransform

from deletekit.delta.column_types import check_case, delta_type
from deletekit.delta.user_properties import user_properties
from deletekit.errors import UnsupportedError
from deletekit.table.metadata import TableMetadata

Json = dict[str, Any]
ColumnMapping = Literal["none", "id"]


def metadata_action(metadata: TableMetadata, mode: ColumnMapping) -> Json:
    """Return the `metaData` action, with the table's comment and its user's own properties.

    With mode `id`, columns are found by their field ids, so they may be renamed.

    Raise UnsupportedError for a type that Delta does not have, a promoted column, and a default of existing rows.
    Without column mapping, also raise it for a name that belonged to two columns, and for a column that had two names.
    """
    _check_types(metadata)
    if mode == "none":
        _check_names(metadata)
    fields = _fields(metadata.schema.fields, mode)
    raw: Json = {
        "id": metadata.table_uuid,
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": fields}, ensure_ascii=False),
        "partitionColumns": [metadata.schema.find_field(i).name for i in partition_columns(metadata)],
        "configuration": {**user_properties(metadata.properties), "delta.enableDeletionVectors": "true"},
    }
    if "comment" in metadata.properties:
        raw["description"] = metadata.properties["comment"]
    if mode == "id":
        most = max(metadata.all_fields, default=0)
        raw["configuration"] |= {"delta.columnMapping.mode": "id", "delta.columnMapping.maxColumnId": str(most)}
    return {"metaData": raw}


def partition_columns(metadata: TableMetadata) -> tuple[int, ...]:
    """Return the field ids of Delta's partition columns. Only a table with a single identity spec has any.

    Raise UnsupportedError for several specs with identity fields: files of one may not have a column of another.
    """
    fields = [f for spec in metadata.specs.values() for f in spec.fields]
    identity = [f for f in fields if isinstance(f.transform, IdentityTransform)]
    if identity and len(metadata.specs) > 1:
        message = "a table whose partitioning was changed cannot be exported as a Delta table"
        found, expected = f"{len(metadata.specs)} partition specs", "one, or none with identity fields"
        raise UnsupportedError(message, "delta-partition", identity[0].name, found, expected)
    return tuple(f.source_id for f in fields) if fields == identity else ()


def physical_name_of(field: it.NestedField, mode: ColumnMapping) -> str:
    """Return the name that a column has in data files, statistics and partition values."""
    return field.name if mode == "none" else f"col-{field.field_id}"


def _fields(fields: Sequence[it.NestedField], mode: ColumnMapping) -> list[Json]:
    message = "columns differ in case only, which Delta's readers refuse"
    check_case((field.name for field in fields), UnsupportedError, message)
    return [_field(f, mode) for f in fields]


def _field(field: it.NestedField, mode: ColumnMapping) -> Json:
    if field.initial_default is not None:
        raise UnsupportedError("Delta has no default for existing rows", "delta-default", field.name)
    metadata: Json = {}
    if mode == "id":
        metadata["delta.columnMapping.id"] = field.field_id
        metadata["delta.columnMapping.physicalName"] = physical_name_of(field, mode)
    if field.doc:
        metadata["comment"] = field.doc
    kind = _type(field.field_type, field.name, mode)
    return {"name": field.name, "type": kind, "nullable": not field.required, "metadata": metadata}


def _type(kind: it.IcebergType, name: str, mode: ColumnMapping) -> Any:
    if isinstance(kind, it.StructType):
        return {"type": "struct", "fields": _fields(kind.fields, mode)}
    if isinstance(kind, it.ListType):
        element = _type(kind.element_type, f"{name}.element", mode)
        return {"type": "array", "elementType": element, "containsNull": not kind.element_required}
    if isinstance(kind, it.MapType):
        key = _type(kind.key_type, f"{name}.key", mode)
        value = _type(kind.value_type, f"{name}.value", mode)
        return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": not kind.value_required}
    return delta_type(kind, name)


def _check_names(metadata: TableMetadata) -> None:
    """Refuse renamed columns. Without column mapping, Delta finds columns of old files by today's names."""
    schemas, all_ids = metadata.schemas.values(), metadata.all_fields
    pairs = {(name, i) for schema in schemas for i in all_ids if (name := schema.find_column_name(i)) is not None}
    names, ids = [name for name, _ in pairs], [field_id for _, field_id in pairs]
    message = "a column name was used for two columns, or a column was renamed: Delta needs column mapping by id"
    for name, field_id in sorted(pairs, key=str):
        if names.count(name) > 1 or ids.count(field_id) > 1:
            expected = 'column_mapping="id", which Spark reads, and deltalake 1.6 reads as NULL'
            raise UnsupportedError(message, "delta-renamed-column", name, expected=expected)


def _check_types(metadata: TableMetadata) -> None:
    """Refuse promoted columns. Their old files have the old type, and Delta would need type widening."""
    for schema in metadata.schemas.values():
        for field_id, current in metadata.all_fields.items():
            name = schema.find_column_name(field_id)
            if name is None:
                continue
            old = schema.find_type(field_id)
            if old.is_primitive and old != current.field_type:
                found, message = f"{old} to {current.field_type}", "a promoted column cannot be exported"
                raise UnsupportedError(message, "delta-type-widening", current.name, found)
