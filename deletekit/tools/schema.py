"""Change columns, partitioning, sort order, properties and the format version of a table; no row moves.

Ids are never reused: old deletes on a dropped column keep their meaning.
Spec: "Schema Evolution", "Partition Evolution", "Format Versioning".
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from enum import Enum
from typing import Any
from uuid import uuid4

import numpy as np
import pyarrow as pa
from pyiceberg import types as it
from pyiceberg.exceptions import ValidationError
from pyiceberg.expressions.literals import StringLiteral
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema, index_by_name, promote
from pyiceberg.table.name_mapping import NameMapping, parse_mapping_from_json, update_mapping
from pyiceberg.transforms import VoidTransform

from deletekit.commit.swap import commit_metadata
from deletekit.errors import InvalidInputError, NotFoundError
from deletekit.filters.literals import read_text
from deletekit.rows.input_rows import align
from deletekit.rows.sort_order import sort_order_updates
from deletekit.table.column_names import check_name, columns_like
from deletekit.table.format_version import NEWEST
from deletekit.table.locations import normalised_properties
from deletekit.table.metadata import TableMetadata, check_reserved_names, check_schema_version, spec_to_json
from deletekit.table.properties import NAME_MAPPING, check_properties
from deletekit.table.table import Table
from deletekit.table.types import arrow_schema, arrow_type, new_schema, schema_to_json, struct_paths
from deletekit.verbs.shared.partition_fields import partition_field, sort_fields


class Keep(Enum):
    """The default of an argument for which None is a value of its own."""

    KEEP = "keep"

    def __repr__(self) -> str:
        return "KEEP"


def add_column(
    table: Table,
    name: str,
    type: str | it.IcebergType,
    *,
    default: Any = None,
    required: bool = False,
    doc: str | None = None,
) -> None:
    """Add a column, or a field of a struct as `parent.child`.

    Parameters
    ----------
    type: an Iceberg primitive type as text (`"long"`, `"decimal(9, 2)"`), or a pyiceberg type.
    default: value of existing rows and of rows that do not name the column (`initial-default` and `write-default`);
        needs format version 3. Without one, existing rows read null.
    required: only with a default, since existing rows would have no value.

    Raises InvalidInputError for a name in use, an unknown type, or a default the format version lacks.
    """
    parent, _, own_name = name.rpartition(".")
    check_name(own_name, "name")

    def change(metadata: TableMetadata) -> Schema:
        if required and default is None:
            raise _refused("a required column needs a default", name)
        if name in metadata.schema.column_names:
            raise _refused("column exists already", name)
        field = new_field(_last_column_id(metadata) + 1, own_name, type, required, doc, default)
        arrow_schema(Schema(field))  # refuses, by name, a type that could never be read
        return _edited(metadata.schema, parent, lambda fields: [*fields, field])

    commit_schema(table, change)


def drop_column(table: Table, name: str) -> None:
    """Drop a column or nested field. Equality deletes on it keep hiding the rows they hid.

    Raises NotFoundError for an unknown column, InvalidInputError for one that is the last of its struct, or that the
    partition spec, the sort order or the identifier of the table is about; for a struct with such a field too.
    """

    def change(metadata: TableMetadata) -> Schema:
        field = _find(metadata.schema, name)
        use = metadata.use_of(field)
        if use is not None:
            raise _refused(f"column cannot be dropped, {use}", name)
        parent = name.rpartition(".")[0]
        return _edited(metadata.schema, parent, lambda fields: [f for f in fields if f.field_id != field.field_id])

    commit_schema(table, change)


def rename_column(table: Table, name: str, new_name: str) -> None:
    """Rename a column or nested field (`new_name` without its parents); its id stays, so data and deletes follow.

    Raises NotFoundError for an unknown column, InvalidInputError for a name in use.
    """
    check_name(new_name, "new_name")

    def change(metadata: TableMetadata) -> Schema:
        parent, dot, _ = name.rpartition(".")
        if f"{parent}{dot}{new_name}" in metadata.schema.column_names:
            raise _refused("column exists already", new_name)
        return _with_field(metadata.schema, _find(metadata.schema, name).model_copy(update={"name": new_name}))

    commit_schema(table, change)


def update_column(
    table: Table,
    name: str,
    *,
    type: str | it.IcebergType | None = None,
    required: bool | None = None,
    doc: str | Keep | None = Keep.KEEP,
) -> None:
    """Promote a column's type, make it optional, or change its doc.

    Parameters
    ----------
    type: int to long, float to double, or a wider decimal of the same scale (spec "Schema Evolution").

    Raises InvalidInputError for any other type, or for making an optional column required.
    """

    def change(metadata: TableMetadata) -> Schema:
        field = _find(metadata.schema, name)
        edits: dict[str, Any] = {}
        if type is not None:
            edits["field_type"] = _promoted(field, column_type(type, name))
        if required is not None:
            if required and not field.required:
                raise _refused("an optional column cannot become required", name)
            edits["required"] = required
        if doc is not Keep.KEEP:
            edits["doc"] = doc
        return _with_field(metadata.schema, field.model_copy(update=edits))

    commit_schema(table, change)


def add_partition_field(table: Table, field: str) -> None:
    """Partition new data by one more field, spelled as in `create_table`; data written before stays where it is.

    Raises InvalidInputError for an unknown column or transform, or a field that is there already.
    """

    def build(metadata: TableMetadata) -> list[Mapping[str, Any]]:
        new = partition_field(metadata.schema, field, int(metadata.raw["last-partition-id"]) + 1)
        fields = [_void_renamed(f) if f.name == new.name else f for f in metadata.spec.fields]
        if any(f.name == new.name or _same_values(f, new) for f in fields):
            raise InvalidInputError("partition field exists already", "partition-spec", new.name)
        # A field that an older spec had keeps its id, so its values mean the same (v2 spec "Partition Evolution").
        taken = {f.field_id for f in fields}
        old_specs = () if metadata.version.keeps_removed_partition_fields else metadata.specs.values()
        for old in (f for spec in old_specs for f in spec.fields):
            if _same_values(old, new) and old.field_id not in taken:
                new = new.model_copy(update={"field_id": old.field_id})
        return _spec_updates(metadata, [*fields, new])

    commit_metadata(table, build)


def drop_partition_field(table: Table, name: str) -> None:
    """Stop partitioning new data by the field called `name` (as in the spec: `ts_day`). Raises NotFoundError.

    A v1 table keeps the field with a `void` transform, since v1 identifies partition fields by their place.
    """

    def build(metadata: TableMetadata) -> list[Mapping[str, Any]]:
        if not any(f.name == name for f in metadata.spec.fields):
            found = ", ".join(f.name for f in metadata.spec.fields)
            raise NotFoundError("no such partition field", "partition-spec", name, expected=found)
        if not metadata.version.keeps_removed_partition_fields:
            return _spec_updates(metadata, [f for f in metadata.spec.fields if f.name != name])
        void: dict[str, Any] = {"transform": VoidTransform()}
        fields = [f.model_copy(update=void) if f.name == name else f for f in metadata.spec.fields]
        return _spec_updates(metadata, fields)

    commit_metadata(table, build)


def set_sort_order(table: Table, sort_by: str | Sequence[str]) -> None:
    """Sort the rows of each new data file, spelled as in `create_table`; `()` ends it. Older files stay as they are.

    `compact` with `strategy="sort"` sorts what is there. Raises InvalidInputError for an unknown column or transform.
    """

    def build(metadata: TableMetadata) -> list[Mapping[str, Any]]:
        return [*sort_order_updates(sort_fields(metadata.schema, sort_by))]

    commit_metadata(table, build)


def set_properties(table: Table, properties: Mapping[str, str | None]) -> None:
    """Set table properties; a value of None removes one.

    Raises InvalidInputError for a value that is not text, or that a property deletekit knows cannot have, and for a
    `write.*.path` that not all readers take for the same folder.
    """

    def build(_: TableMetadata) -> list[Mapping[str, Any]]:
        sets = {k: v for k, v in properties.items() if v is not None}
        check_properties(sets)
        gone = [k for k, v in properties.items() if v is None]
        setting = {"action": "set-properties", "updates": normalised_properties(sets)}
        removing = {"action": "remove-properties", "removals": gone}
        return [*([setting] if sets else []), *([removing] if gone else [])]

    commit_metadata(table, build)


def upgrade_format_version(table: Table, format_version: int) -> None:
    """Raise the format version to 2 or 3; there is no way back. Existing files and deletes stay valid.

    Raises InvalidInputError for a lower or unknown version, UnsupportedError when the catalog cannot hold it.
    """
    table.require_catalog().check_writable(format_version)

    def build(metadata: TableMetadata) -> list[Mapping[str, Any]]:
        if (now := metadata.format_version) == format_version:
            return []
        if not now < format_version <= NEWEST:
            message, higher = "a format version can only be raised", " or ".join(map(str, range(now + 1, NEWEST + 1)))
            raise InvalidInputError(
                message,
                "format-version",
                "format_version",
                f"{format_version}, of a table in format version {now}",
                higher or f"nothing: {now} is the newest that deletekit writes",
            )
        check_reserved_names(metadata.schema, format_version)
        uuid = [] if metadata.table_uuid else [{"action": "assign-uuid", "uuid": str(uuid4())}]  # v1 has it optional
        return [*uuid, {"action": "upgrade-format-version", "format-version": format_version}]

    commit_metadata(table, build)


def _same_values(a: PartitionField, b: PartitionField) -> bool:
    return (a.source_id, a.transform) == (b.source_id, b.transform)


def _void_renamed(field: PartitionField) -> PartitionField:
    """Rename a dropped field of a v1 spec, so that a new one may have its name, as in Java."""
    if not isinstance(field.transform, VoidTransform):
        return field
    return field.model_copy(update={"name": f"{field.name}_{field.field_id}"})


def _refused(message: str, field: str) -> InvalidInputError:
    return InvalidInputError(message, "schema", field)


def _last_column_id(metadata: TableMetadata) -> int:
    return int(metadata.raw["last-column-id"])


def commit_schema(table: Table, change: Callable[[TableMetadata], Schema]) -> None:
    """Commit the schema that `change` makes of the current metadata; nothing if it returns the schema that is there."""

    def build(metadata: TableMetadata) -> list[Mapping[str, Any]]:
        schema = change(metadata)
        if schema is metadata.schema:
            return []
        check_schema_version(schema, metadata.format_version)
        check_reserved_names(schema, metadata.format_version)
        last_id = max(_last_column_id(metadata), schema.highest_field_id)
        return [
            {"action": "add-schema", "schema": schema_to_json(schema), "last-column-id": last_id},
            {"action": "set-current-schema", "schema-id": -1},
            *_mapping_updates(metadata, schema),
        ]

    commit_metadata(table, build)


def _mapping_updates(metadata: TableMetadata, schema: Schema) -> Iterator[Mapping[str, Any]]:
    """Yield the update that tells a name mapping the new columns and names, as Java's SchemaUpdate does.

    A name that it has stays with its column. Java gives it to the new one: files without ids would then have the values
    of the dropped column there, and equality deletes on that would hide nothing.
    """
    with suppress(KeyError, ValueError):  # there is none, or it cannot be read, and stays as it is
        mapping = parse_mapping_from_json(metadata.properties[NAME_MAPPING])
        old = {number: name.rpartition(".")[2] for name, number in index_by_name(metadata.schema).items()}
        renamed: dict[int, it.NestedField] = {}
        added: dict[int, list[it.NestedField]] = {}
        for name, number in index_by_name(schema).items():
            parent, _, own = name.rpartition(".")
            if old.get(number) == own or _is_mapped(mapping, name):
                continue
            if number in old:
                renamed[number] = schema.find_field(number)
            else:
                above = schema.find_field(parent).field_id if parent else -1
                added.setdefault(above, []).append(schema.find_field(number))
        if renamed or added:
            new = update_mapping(mapping, renamed, added)
            yield {"action": "set-properties", "updates": {NAME_MAPPING: new.model_dump_json()}}


def _is_mapped(mapping: NameMapping, name: str) -> bool:
    fields, found = list(mapping.root), None
    for part in name.split("."):
        found = next((f for f in fields if part in f.names), None)
        fields = found.fields if found else []
    return found is not None


def _spec_updates(metadata: TableMetadata, fields: Sequence[PartitionField]) -> list[Mapping[str, Any]]:
    spec = PartitionSpec(*fields, spec_id=max(metadata.specs) + 1)
    return [{"action": "add-spec", "spec": spec_to_json(spec)}, {"action": "set-default-spec", "spec-id": -1}]


def _find(schema: Schema, name: str) -> it.NestedField:
    try:
        return schema.find_field(name)
    except ValueError as e:
        raise NotFoundError(
            "no such column", "column-not-found", name, expected=columns_like(name, schema.column_names)
        ) from e


def _promoted(field: it.NestedField, wanted: it.IcebergType) -> it.IcebergType:
    try:
        if wanted == field.field_type:
            return wanted
        if (str(field.field_type), str(wanted)) in {("string", "binary"), ("binary", "string"), ("fixed[16]", "uuid")}:
            raise ValueError("pyiceberg reads these as each other; the spec does not promote them")
        return promote(field.field_type, wanted)
    except Exception as e:  # pyiceberg raises ResolveError, which is not a ValueError
        raise InvalidInputError(
            "type cannot be promoted so", "type-promotion", field.name, str(field.field_type), str(wanted)
        ) from e


def _edited(schema: Schema, parent: str, edit: Callable[[list[it.NestedField]], list[it.NestedField]]) -> Schema:
    """Return the schema with the fields of one struct edited; `parent` "" is the root."""
    if not parent:
        return _with_fields(schema, edit(list(schema.fields)))
    struct = _find(schema, parent)
    if not isinstance(struct.field_type, it.StructType):
        raise _refused("not a struct", parent)
    fields = edit(list(struct.field_type.fields))
    if not fields:
        raise _refused("a struct needs a field", struct.name)
    return _with_field(schema, struct.model_copy(update={"field_type": it.StructType(*fields)}))


def _with_field(schema: Schema, new: it.NestedField) -> Schema:
    """Return the schema with a field, at any depth of structs, in the place of that with the same id."""
    if new.field_id not in struct_paths(schema):
        raise _refused("a field in a list or map cannot be changed", schema.find_field(new.field_id).name)

    def replaced(field: it.NestedField) -> it.NestedField:
        if field.field_id == new.field_id:
            return new
        if not isinstance(field.field_type, it.StructType):
            return field
        return field.model_copy(update={"field_type": it.StructType(*map(replaced, field.field_type.fields))})

    return _with_fields(schema, [replaced(f) for f in schema.fields])


def _with_fields(schema: Schema, fields: list[it.NestedField]) -> Schema:
    if not fields:
        raise InvalidInputError("a table needs a column", "schema")
    return new_schema(*fields, schema_id=schema.schema_id, identifier_field_ids=schema.identifier_field_ids)


_NANOSECONDS = (it.TimestampNanoType, it.TimestamptzNanoType)
_AS_TEXT = (it.DateType, it.TimeType, it.TimestampType, it.TimestamptzType, *_NANOSECONDS, it.UUIDType)


def column_type(text: str | it.IcebergType, name: str) -> it.IcebergType:
    """Return a type, also of its name. Raises InvalidInputError for one that is unknown."""
    if isinstance(text, it.IcebergType):
        return text
    try:
        return it.NestedField(1, "x", text.replace(" ", ""), required=False).field_type
    except (ValueError, TypeError, ValidationError) as e:
        raise InvalidInputError("unknown column type", "type", name, text) from e


def new_field(
    field_id: int, name: str, wanted: str | it.IcebergType, required: bool, doc: str | None, default: Any
) -> it.NestedField:
    """Return a column. Raises InvalidInputError for a type that is not primitive, or a default that does not fit it."""
    kind = column_type(wanted, name)
    if not kind.is_primitive:
        raise InvalidInputError("only primitive columns can be added", "type", name, str(kind))
    try:
        value = None if default is None else _stored(default, it.NestedField(field_id, name, kind, required=False))
        return it.NestedField(field_id, name, kind, required, doc, initial_default=value, write_default=value)
    except (ValueError, TypeError, OverflowError) as e:
        message = f"default does not fit the type ({e.__cause__ or e})"
        raise InvalidInputError(message, "schema", name, default, str(kind)) from e


def _stored(default: Any, field: it.NestedField) -> Any:
    """Return a default as pyiceberg's model of a column takes it: nanoseconds as a number, for Python has no other."""
    kind = field.field_type
    if isinstance(default, str) and isinstance(kind, _AS_TEXT):
        literal = read_text(StringLiteral(default), kind)
        if literal is None:
            raise ValueError("a text that is no such value")
        target = arrow_type(kind)
        default = pa.scalar(literal.value, getattr(target, "storage_type", target))
    if isinstance(default, np.datetime64):
        default = pa.array(np.array([default]))[0]
    value = align([{field.name: default}], Schema(field)).column(0)[0]
    if isinstance(kind, _NANOSECONDS):
        return value.value
    if isinstance(default, float) and not math.isfinite(default):
        raise ValueError("JSON has no such number")
    return value.as_py()
