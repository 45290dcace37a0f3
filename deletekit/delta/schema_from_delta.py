"""Convert a Delta table's schema to Iceberg: types, field ids, partition spec and name mapping.

With column mapping the field ids are Delta's, because data files have them too. Without it, a column keeps the id that
the Iceberg table has for its name. Delta has no ids for list elements, map keys and map values; those come from a range
that Delta's ids never reach. A type or a type change that Iceberg does not have is refused by name.

An id is one column in all snapshots of the table, also where CREATE OR REPLACE or RESTORE bring other columns: old
files are read by it, and by the name mapping (`name_mapping`). What would make them other columns is refused.
Spec: Delta protocol, "Schema Serialization Format", "Column Mapping", "Type Widening"; Iceberg, "Schema Evolution".
"""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from pyiceberg import types as it
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform

from deletekit.delta.actions import Metadata
from deletekit.delta.column_types import can_be_promoted, check_case, iceberg_type, is_promotion
from deletekit.delta.name_mapping import Json, column_property, name_mapping, names_by_id, physical_name
from deletekit.delta.row_ids import ROW_ID_COLUMN, tracks_row_ids
from deletekit.delta.user_properties import user_properties
from deletekit.errors import FormatError, InvalidInputError, UnsupportedError
from deletekit.table.types import new_schema

FIRST_NESTED_ID = 1_000_000_000
"""Where ids of list elements, map keys and map values begin."""
_WAY_OUT = "drop the Iceberg table and sync again, or sync into another one: no file is copied"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaColumn:
    """A primitive column, at the top or inside structs: its path in statistics, and its id and type in Iceberg."""

    physical_path: tuple[str, ...]
    field_id: int
    type: it.IcebergType


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaSchema:
    """The schema of a Delta version, in Iceberg's terms.

    Attributes
    ----------
    schema: with schema id 0.
    names: physical names of the columns, at the top and inside of others, by field id.
    found_by_id: whether Delta, too, finds columns of data files by their ids, whatever their names.
    partition_columns: physical name, id and type of each partition column, in order.
    columns: primitive columns outside of lists and maps, including partition columns.
    name_mapping: JSON of `schema.name-mapping.default`, with physical names, because data files have those.
    carries_row_ids: whether the Iceberg table has Delta's row ids.
    row_id_column: the column of data files in which Delta stores row ids; None if it has none.
    comment: of the table; None if it has none.
    properties: of the table, the user's own.
    """

    schema: Schema
    names: Mapping[int, str]
    found_by_id: bool
    partition_columns: tuple[DeltaColumn, ...]
    columns: tuple[DeltaColumn, ...]
    name_mapping: str
    carries_row_ids: bool = False
    row_id_column: str | None = None
    comment: str | None = None
    properties: Mapping[str, str]

    @property
    def partition_spec(self) -> PartitionSpec:
        """Return identity partitioning with spec id 0. A table that had a spec before may need other field ids."""
        sources = [self.schema.find_field(c.field_id) for c in self.partition_columns]
        fields = [PartitionField(s.field_id, 1000 + i, IdentityTransform(), s.name) for i, s in enumerate(sources)]
        return PartitionSpec(*fields, spec_id=0)


def delta_schema(
    metadata: Metadata,
    format_version: int,
    known: Sequence[Schema] = (),
    used: Collection[int] = (),
    known_mapping: str = "[]",
    *,
    row_ids: bool = False,
) -> DeltaSchema:
    """Convert the schema of a Delta table to Iceberg's types.

    Parameters
    ----------
    format_version: of the Iceberg table.
    known: the Iceberg table's current schema, then those of its snapshots, the newest first. Their ids are kept.
    used: every id that the Iceberg table ever had; none is given to another column.
    known_mapping: the table's name mapping.
    row_ids: whether the table may have Delta's row ids.

    Raises UnsupportedError, naming the column, for a type or a widening that Iceberg does not have; FormatError for a
    damaged schema; InvalidInputError for names that Iceberg does not tell apart, and if a column has the id, or in
    files the name, of another one in `known`.
    """
    raw = _parsed(metadata.schema_string)
    for field in raw:
        if field["name"] in metadata.partition_columns and field["type"] == "void":
            message, expected = "partition column of type void, which Delta's own writers refuse", "another type"
            raise UnsupportedError(message, "delta-type", field["name"], "void", expected)
    if it.UnknownType().minimum_format_version() > format_version:
        raw = _without_void(raw)
    mapped = metadata.column_mapping_mode != "none"
    merged = _merged([schema.as_struct() for schema in known], by_id=mapped)
    builder = _Builder(mapped, merged, used)
    fields = builder.fields(raw, (), merged)
    schema = new_schema(*fields, schema_id=0)
    before = {} if merged is None else _placed(merged)
    read = {field_id for one in known for field_id in _placed(one.as_struct())}
    _check_same_columns(before, _placed(schema.as_struct()), builder.names, known_mapping)
    by_logical = {f["name"]: physical_name(f, mapped) for f in raw}
    by_physical = {c.physical_path: c for c in builder.columns}
    message, row_ids = "partition column is not in the schema", row_ids and tracks_row_ids(metadata)
    for name in metadata.partition_columns:
        if (by_logical.get(name, ""),) not in by_physical:
            raise FormatError(message, kind="delta-schema", field="partitionColumns", found=name)
    return DeltaSchema(
        schema=schema,
        names=builder.names,
        found_by_id=metadata.column_mapping_mode == "id",
        partition_columns=tuple(by_physical[by_logical[name],] for name in metadata.partition_columns),
        columns=tuple(builder.columns),
        name_mapping=name_mapping(raw, fields, metadata, known_mapping, read, row_ids=row_ids),
        carries_row_ids=row_ids,
        row_id_column=metadata.configuration.get(ROW_ID_COLUMN),
        comment=metadata.description,
        properties=user_properties(metadata.configuration),
    )


def void_columns(metadata: Metadata) -> Iterator[str]:
    """Yield the names of the columns of Delta's type void, which hold only NULL and are in no data file."""

    def found(fields: Sequence[Json], path: str) -> Iterator[str]:
        for field in fields:
            kind, name = field["type"], f"{path}{field['name']}"
            if kind == "void":
                yield name
            elif _is_struct(kind):
                yield from found(kind["fields"], f"{name}.")

    return found(_parsed(metadata.schema_string), "")


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, Mapping) and kind.get("type") == "struct"


def _without_void(fields: Sequence[Json]) -> list[Json]:
    """Return the fields without those of type void, and without structs that have no other."""
    out: list[Json] = []
    for field in fields:
        kind = field["type"]
        if _is_struct(kind) and kind["fields"]:
            inner = _without_void(kind["fields"])
            kind = {**kind, "fields": inner} if inner else "void"
        out += [] if kind == "void" else [{**field, "type": kind}]
    return out


def _merged(structs: Sequence[it.StructType], *, by_id: bool) -> it.StructType | None:
    """Return one struct with every field of some: of two for one column the first, with older ids never twice."""
    if not structs:
        return None
    out: dict[object, it.NestedField] = {f.field_id if by_id else f.name: f for f in structs[0].fields}
    for struct in structs[1:]:
        for field in struct.fields:
            key = field.field_id if by_id else field.name
            if key in out:
                found = _with_older(out[key].field_type, field.field_type, by_id=by_id)
                out[key] = out[key].model_copy(update={"field_type": found})
            elif all(field.field_id != other.field_id for other in out.values()):
                out[key] = field.model_copy(update={"required": False})
    return it.StructType(*out.values())


def _with_older(now: it.IcebergType, older: it.IcebergType, *, by_id: bool) -> it.IcebergType:
    if isinstance(now, it.StructType) and isinstance(older, it.StructType):
        merged = _merged([now, older], by_id=by_id)
        return now if merged is None else merged
    if isinstance(now, it.ListType) and isinstance(older, it.ListType):
        element = _with_older(now.element_type, older.element_type, by_id=by_id)
        return it.ListType(now.element_id, element, now.element_required)
    if isinstance(now, it.MapType) and isinstance(older, it.MapType):
        value = _with_older(now.value_type, older.value_type, by_id=by_id)
        return it.MapType(now.key_id, now.key_type, now.value_id, value, now.value_required)
    return now


_Place = tuple[int | None, it.NestedField]


def _placed(struct: it.StructType) -> dict[int, _Place]:
    """Return each field, also those inside of others, with the id of what it is inside of, by id."""
    out: dict[int, _Place] = {}
    pending: list[_Place] = [(None, field) for field in struct.fields]
    while pending:
        parent, field = pending.pop()
        out[field.field_id] = parent, field
        pending += [(field.field_id, inner) for inner in _inner(field.field_type)]
    return out


def _inner(kind: it.IcebergType) -> Sequence[it.NestedField]:
    if isinstance(kind, it.ListType):
        return (kind.element_field,)
    if isinstance(kind, it.MapType):
        return (kind.key_field, kind.value_field)
    return kind.fields if isinstance(kind, it.StructType) else ()


def _check_same_columns(
    before: Mapping[int, _Place], now: Mapping[int, _Place], physical: Mapping[int, str], known_mapping: str
) -> None:
    """Refuse an id that was another column, or one of a type that Iceberg does not promote.

    A renamed column keeps its physical name, and its place. Ids of column mapping may begin again in a table that was
    replaced.
    """
    names = names_by_id(known_mapping)
    for field_id, (parent, field) in now.items():
        if field_id not in before:
            continue
        known_parent, old = before[field_id]
        renamed = field_id not in names or physical.get(field_id) in names[field_id]
        if parent != known_parent or not (field.name == old.name or renamed):
            message = "a column of the Delta table has the id that another column has in older snapshots"
            found, expected = f"{field.name}: {field_id}", f"{old.name}: {field_id}; {_WAY_OUT}"
            raise InvalidInputError(message, kind="delta-column-ids", field=field.name, found=found, expected=expected)
        if not can_be_promoted(old.field_type, field.field_type):
            message = "a column of the Delta table was replaced by one whose type does not fit the old data files"
            found, expected = f"{old.field_type} to {field.field_type}", f"a promotion of Iceberg's; else {_WAY_OUT}"
            raise UnsupportedError(message, "delta-schema-change", field.name, found, expected)


def _parsed(text: str) -> list[Json]:
    try:
        raw = json.loads(text)
        fields = list(raw["fields"])
        if any(not isinstance(f["name"], str) or "type" not in f for f in fields):
            raise TypeError("a field without name or type")
    except (ValueError, TypeError, KeyError, RecursionError) as e:
        raise FormatError("bad schema in the Delta log", kind="delta-schema", field="schemaString", found=str(e)) from e
    return fields


class _Builder:
    def __init__(self, mapped: bool, known: it.StructType | None, used: Collection[int]) -> None:
        self.mapped = mapped
        self.columns: list[DeltaColumn] = []
        self.names: dict[int, str] = {}
        self._is_new = known is None
        self._nested_ids: Mapping[str, Any] = {}
        ids = {*used, *(() if known is None else _placed(known))}
        self._new_ids = count(max((i for i in ids if i < FIRST_NESTED_ID), default=0) + 1)
        self._new_nested_ids = count(max((i for i in ids if i >= FIRST_NESTED_ID), default=FIRST_NESTED_ID - 1) + 1)

    def fields(
        self, raw: Sequence[Json], path: tuple[str, ...] | None, known: it.StructType | None
    ) -> list[it.NestedField]:
        """Convert the fields of a struct. `path` leads to it by physical names; it is None inside a list or map."""
        out = []
        names: set[str] = set()
        message = "columns of the Delta schema differ in case only, which Delta's readers refuse"
        check_case((field["name"] for field in raw), FormatError, message)
        for field in raw:
            old = self._old(field, known)
            field_id = _mapped_id(field) if self.mapped else old.field_id if old else next(self._new_ids)
            physical = physical_name(field, self.mapped)
            if physical in names:
                raise FormatError("column twice in the Delta schema", kind="delta-schema", field=field["name"])
            names.add(physical)
            self.names[field_id] = physical
            here = None if path is None else (*path, physical)
            self._nested_ids = column_property(field, "delta.columnMapping.nested.ids") or self._nested_ids
            kind = self.type(field["type"], (field["name"], physical), here, old.field_type if old else None)
            self._check_changes(field)
            if here is not None and kind.is_primitive and not isinstance(kind, it.UnknownType):
                self.columns.append(DeltaColumn(physical_path=here, field_id=field_id, type=kind))
            comment = column_property(field, "comment")
            doc = comment if isinstance(comment, str) else None
            # What was optional stays so: Iceberg has no way back without a default for old rows.
            required = (
                field.get("nullable") is False
                and not isinstance(kind, it.UnknownType)
                and (self._is_new or (old is not None and old.required))
            )
            out.append(it.NestedField(field_id, field["name"], kind, required=required, doc=doc))
        return out

    def type(
        self, raw: Any, names: tuple[str, str], path: tuple[str, ...] | None, known: it.IcebergType | None
    ) -> it.IcebergType:
        """Convert a type. `names` are the logical and the physical name, for error messages and to find nested ids."""
        name, physical = names
        if isinstance(raw, str):
            if raw == "void" and path is None:
                message = "type void inside of a list or map, which Delta's own writers refuse"
                raise UnsupportedError(message, kind="delta-type", field=name, found=raw, expected="another type")
            return iceberg_type(raw, name)
        kind = raw.get("type") if isinstance(raw, Mapping) else None
        if kind == "struct":
            return it.StructType(*self.fields(raw["fields"], path, known if isinstance(known, it.StructType) else None))
        if kind == "array":
            old = known.element_field if isinstance(known, it.ListType) else None
            element_id = self._nested_id(f"{physical}.element", old)
            element = self._nested_type(raw["elementType"], names, "element", old)
            return it.ListType(element_id, element, element_required=raw.get("containsNull") is False)
        if kind == "map":
            old_key, old_value = (known.key_field, known.value_field) if isinstance(known, it.MapType) else (None, None)
            key_id = self._nested_id(f"{physical}.key", old_key)
            value_id = self._nested_id(f"{physical}.value", old_value)
            key = self._nested_type(raw["keyType"], names, "key", old_key)
            value = self._nested_type(raw["valueType"], names, "value", old_value)
            return it.MapType(key_id, key, value_id, value, value_required=raw.get("valueContainsNull") is False)
        raise UnsupportedError("Delta column type is not supported", kind="delta-type", field=name, found=raw)

    def _old(self, field: Json, known: it.StructType | None) -> it.NestedField | None:
        if known is None:
            return None
        if self.mapped:
            field_id = _mapped_id(field)
            return next((f for f in known.fields if f.field_id == field_id), None)
        return next((f for f in known.fields if f.name == field["name"]), None)

    def _nested_id(self, path: str, old: it.NestedField | None) -> int:
        """Return the id that IcebergCompat wrote into data files, else the known one, else a new one."""
        stored = self._nested_ids.get(path)
        if isinstance(stored, int):
            return stored
        return next(self._new_nested_ids) if old is None else old.field_id

    def _nested_type(self, raw: Any, names: tuple[str, str], part: str, old: it.NestedField | None) -> it.IcebergType:
        return self.type(raw, (f"{names[0]}.{part}", f"{names[1]}.{part}"), None, old.field_type if old else None)

    def _check_changes(self, field: Json) -> None:
        """Refuse widenings after which Iceberg would read old data files wrong."""
        for change in column_property(field, "delta.typeChanges") or ():
            before, after = str(change.get("fromType")), str(change.get("toType"))
            if not is_promotion(before, after):
                message, found = "type widening that Iceberg does not have", f"{before} to {after}"
                expected = "integers, float to double, or a decimal's precision"
                raise UnsupportedError(message, "delta-type-widening", field["name"], found, expected)


def _mapped_id(field: Json) -> int:
    key = "delta.columnMapping.id"
    found = column_property(field, key)
    if not isinstance(found, int) or not 0 < found < FIRST_NESTED_ID:
        message = "column without an id in a table with column mapping"
        raise FormatError(message, kind="delta-schema", field=field["name"], found=found, expected=key)
    return found
