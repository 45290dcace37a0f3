"""Convert a Delta table's schema to Iceberg: types, field ids, partition spec and name mapping.

With column mapping the field ids are Delta's, because data files have them too. Without it, a column keeps the id that
the Iceberg table has for its name. Delta has no ids for list elements, map keys and map values; those come from a range
that Delta's ids never reach. A type or a type change that Iceberg does not have is refused by name.
Spec: Delta protocol, "Schema Serialization Format", "Column Mapping", "Type Widening"; Iceberg, "Schema Evolution".
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from pyiceberg import types as it
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema, index_by_id
from pyiceberg.transforms import IdentityTransform

from deletekit.delta.actions import Metadata
from deletekit.delta.column_types import can_be_promoted, check_case, iceberg_type, is_promotion
from deletekit.delta.name_mapping import name_mapping, physical_name
from deletekit.errors import FormatError, InvalidInputError, UnsupportedError

FIRST_NESTED_ID = 1_000_000_000
"""Where ids of list elements, map keys and map values begin."""
Json = Mapping[str, Any]


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
    top_level_names: physical names of the columns.
    found_by_id: whether Delta, too, finds columns of data files by their ids, whatever their names.
    partition_columns: physical name, id and type of each partition column, in order.
    columns: primitive columns outside of lists and maps, including partition columns.
    name_mapping: JSON of `schema.name-mapping.default`, with physical names, because data files have those.
    """

    schema: Schema
    top_level_names: frozenset[str]
    found_by_id: bool
    partition_columns: tuple[DeltaColumn, ...]
    columns: tuple[DeltaColumn, ...]
    name_mapping: str

    @property
    def partition_spec(self) -> PartitionSpec:
        """Return identity partitioning with spec id 0. A table that had a spec before may need other field ids."""
        fields = []
        for i, column in enumerate(self.partition_columns):
            name = self.schema.find_field(column.field_id).name
            fields.append(
                PartitionField(source_id=column.field_id, field_id=1000 + i, transform=IdentityTransform(), name=name)
            )
        return PartitionSpec(*fields, spec_id=0)


def delta_schema(
    metadata: Metadata, known: Schema | None = None, used: Collection[int] = (), known_mapping: str = "[]"
) -> DeltaSchema:
    """Convert the schema of a Delta table to Iceberg's types.

    Parameters
    ----------
    known: the Iceberg table's current schema, whose ids are kept.
    used: every id that the Iceberg table ever had; none is given to another column.
    known_mapping: the table's name mapping.

    Raises UnsupportedError, naming the column, for a type or a widening that Iceberg does not have; FormatError for a
    damaged schema; InvalidInputError if column mapping, added later, gave columns other ids than `known` has.
    """
    raw = _parsed(metadata.schema_string)
    builder = _Builder(metadata.column_mapping_mode != "none", known, used)
    fields = builder.fields(raw, (), known.as_struct() if known is not None else None)
    schema = Schema(*fields, schema_id=0)
    _check_promotions(known, schema)
    by_logical = {f["name"]: physical_name(f, builder.mapped) for f in raw}
    by_physical = {c.physical_path: c for c in builder.columns}
    partition = []
    for name in metadata.partition_columns:
        column = by_physical.get((by_logical.get(name, ""),))
        if column is None:
            raise FormatError(
                "partition column is not in the schema", kind="delta-schema", field="partitionColumns", found=name
            )
        partition.append(column)
    return DeltaSchema(
        schema=schema,
        top_level_names=frozenset(by_logical.values()),
        found_by_id=metadata.column_mapping_mode == "id",
        partition_columns=tuple(partition),
        columns=tuple(builder.columns),
        name_mapping=name_mapping(raw, fields, metadata, known_mapping),
    )


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
    def __init__(self, mapped: bool, known: Schema | None, used: Collection[int]) -> None:
        self.mapped = mapped
        self.columns: list[DeltaColumn] = []
        self._known = known
        self._nested_ids: Mapping[str, Any] = {}
        ids = {*used, *(() if known is None else index_by_id(known))}
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
            field_id = self._id(field, old)
            physical = physical_name(field, self.mapped)
            if physical in names:
                raise FormatError("column twice in the Delta schema", kind="delta-schema", field=field["name"])
            names.add(physical)
            here = None if path is None else (*path, physical)
            self._nested_ids = (field.get("metadata") or {}).get("delta.columnMapping.nested.ids") or self._nested_ids
            kind = self.type(field["type"], (field["name"], physical), here, old.field_type if old else None)
            self._check_changes(field)
            if here is not None and kind.is_primitive:
                self.columns.append(DeltaColumn(physical_path=here, field_id=field_id, type=kind))
            # What was optional stays so: Iceberg has no way back without a default for old rows.
            required = field.get("nullable") is False and (self._known is None or (old is not None and old.required))
            out.append(it.NestedField(field_id, field["name"], kind, required=required, doc=_comment(field)))
        return out

    def type(
        self, raw: Any, names: tuple[str, str], path: tuple[str, ...] | None, known: it.IcebergType | None
    ) -> it.IcebergType:
        """Convert a type. `names` are the logical and the physical name, for error messages and to find nested ids."""
        name, physical = names
        if isinstance(raw, str):
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

    def _id(self, field: Json, old: it.NestedField | None) -> int:
        if self.mapped:
            return _mapped_id(field)
        if old is not None:
            return old.field_id
        return next(self._new_ids)

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
        for change in (field.get("metadata") or {}).get("delta.typeChanges") or ():
            before, after = str(change.get("fromType")), str(change.get("toType"))
            if not is_promotion(before, after):
                raise UnsupportedError(
                    "type widening that Iceberg does not have",
                    kind="delta-type-widening",
                    field=field["name"],
                    found=f"{before} to {after}",
                    expected="integers, float to double, or a decimal's precision",
                )


def _mapped_id(field: Json) -> int:
    found = (field.get("metadata") or {}).get("delta.columnMapping.id")
    if not isinstance(found, int) or not 0 < found < FIRST_NESTED_ID:
        raise FormatError(
            "column without an id in a table with column mapping",
            kind="delta-schema",
            field=field["name"],
            found=found,
            expected="delta.columnMapping.id",
        )
    return found


def _check_promotions(known: Schema | None, schema: Schema) -> None:
    """Refuse changes of a column that Iceberg cannot read.

    An id always means one column: only its type may be promoted.
    """
    if known is None:
        return
    before = index_by_id(known)
    for field in index_by_id(schema).values():
        old = before.get(field.field_id)
        if old is None or can_be_promoted(old.field_type, field.field_type):
            continue
        raise UnsupportedError(
            "a column of the Delta table was replaced by one whose type does not fit the old data files",
            kind="delta-schema-change",
            field=field.name,
            found=f"{old.field_type} to {field.field_type}",
            expected="a promotion of the Iceberg specification; else sync into a new table",
        )
    _check_later_ids(known, schema)


def _check_later_ids(known: Schema, schema: Schema) -> None:
    by_name = {f.name: f.field_id for f in known.fields}
    ids = {f.field_id for f in schema.fields}
    for field in schema.fields:
        old = by_name.get(field.name)
        if old is not None and old != field.field_id and old not in ids and not ids & set(by_name.values()):
            raise InvalidInputError(
                "column mapping gave the columns other ids than the Iceberg table has",
                kind="delta-column-ids",
                field=field.name,
                found=field.field_id,
                expected=f"{old}; sync into a new table",
            )


def _comment(field: Json) -> str | None:
    comment = (field.get("metadata") or {}).get("comment")
    return comment if isinstance(comment, str) else None
