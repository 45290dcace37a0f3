"""Convert a Delta table's schema to Iceberg: types, field ids, partition spec and name mapping.

With column mapping the field ids are Delta's, because data files have them too. Without it, a column keeps the id that
the Iceberg table has for its name. Delta has no ids for list elements, map keys and map values; those come from a range
that Delta's ids never reach. A type or a type change that Iceberg does not have is refused by name.

Data files of a Delta table have no field ids, or not in every file, so the table has a name mapping. Its names are
physical ones, because data files have those. A dropped column keeps its entry, so that its name is not given to another
id while files with it may exist.
Spec: Delta protocol, "Schema Serialization Format", "Column Mapping", "Type Widening"; Iceberg, "Schema Evolution",
"Column Projection", "Name Mapping Serialization".
"""

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
from deletekit.delta.row_ids import ROW_ID_COLUMN, tracks_row_ids
from deletekit.delta.user_properties import user_properties
from deletekit.errors import FormatError, InvalidInputError, UnsupportedError
from deletekit.formats.reserved_fields import ROW_ID_ID

FIRST_NESTED_ID = 1_000_000_000
"""Where ids of list elements, map keys and map values begin."""
_FIRST_INTERNAL_ID = 1_999_999_996
_COMMIT_VERSION_COLUMN = "delta.rowTracking.materializedRowCommitVersionColumnName"
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
    def top_level_names(self) -> set[str]:
        """Return the physical names of the columns that are not inside of others."""
        return {self.names[field.field_id] for field in self.schema.fields}

    @property
    def partition_spec(self) -> PartitionSpec:
        """Return identity partitioning with spec id 0. A table that had a spec before may need other field ids."""
        sources = [self.schema.find_field(c.field_id) for c in self.partition_columns]
        fields = [PartitionField(s.field_id, 1000 + i, IdentityTransform(), s.name) for i, s in enumerate(sources)]
        return PartitionSpec(*fields, spec_id=0)


def delta_schema(
    metadata: Metadata,
    known: Schema | None = None,
    used: Collection[int] = (),
    known_mapping: str = "[]",
    *,
    row_ids: bool = False,
) -> DeltaSchema:
    """Convert the schema of a Delta table to Iceberg's types.

    Parameters
    ----------
    known: the Iceberg table's current schema, whose ids are kept.
    used: every id that the Iceberg table ever had; none is given to another column.
    known_mapping: the table's name mapping.
    row_ids: whether the table may have Delta's row ids.

    Raises UnsupportedError, naming the column, for a type or a widening that Iceberg does not have; FormatError for a
    damaged schema; InvalidInputError if column mapping, added later, gave columns other ids than `known` has.
    """
    raw = _parsed(metadata.schema_string)
    builder = _Builder(metadata.column_mapping_mode != "none", known, used)
    fields = builder.fields(raw, (), known.as_struct() if known is not None else None)
    schema = Schema(*fields, schema_id=0)
    if known is not None:
        _check_promotions(known, schema)
    by_logical = {f["name"]: _physical_name(f, builder.mapped) for f in raw}
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
        name_mapping=_name_mapping(raw, fields, metadata, known_mapping, row_ids=row_ids),
        carries_row_ids=row_ids,
        row_id_column=metadata.configuration.get(ROW_ID_COLUMN),
        comment=metadata.description,
        properties=user_properties(metadata.configuration),
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
        self.names: dict[int, str] = {}
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
            field_id = _mapped_id(field) if self.mapped else old.field_id if old else next(self._new_ids)
            physical = _physical_name(field, self.mapped)
            if physical in names:
                raise FormatError("column twice in the Delta schema", kind="delta-schema", field=field["name"])
            names.add(physical)
            self.names[field_id] = physical
            here = None if path is None else (*path, physical)
            self._nested_ids = _property(field, "delta.columnMapping.nested.ids") or self._nested_ids
            kind = self.type(field["type"], (field["name"], physical), here, old.field_type if old else None)
            self._check_changes(field)
            if here is not None and kind.is_primitive:
                self.columns.append(DeltaColumn(physical_path=here, field_id=field_id, type=kind))
            comment = _property(field, "comment")
            doc = comment if isinstance(comment, str) else None
            # What was optional stays so: Iceberg has no way back without a default for old rows.
            required = field.get("nullable") is False and (self._known is None or (old is not None and old.required))
            out.append(it.NestedField(field_id, field["name"], kind, required=required, doc=doc))
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
        for change in _property(field, "delta.typeChanges") or ():
            before, after = str(change.get("fromType")), str(change.get("toType"))
            if not is_promotion(before, after):
                message, found = "type widening that Iceberg does not have", f"{before} to {after}"
                expected = "integers, float to double, or a decimal's precision"
                name = field["name"]
                raise UnsupportedError(message, kind="delta-type-widening", field=name, found=found, expected=expected)


def _mapped_id(field: Json) -> int:
    key = "delta.columnMapping.id"
    found = _property(field, key)
    if not isinstance(found, int) or not 0 < found < FIRST_NESTED_ID:
        message = "column without an id in a table with column mapping"
        raise FormatError(message, kind="delta-schema", field=field["name"], found=found, expected=key)
    return found


def _check_promotions(known: Schema, schema: Schema) -> None:
    """Refuse changes of a column that Iceberg cannot read.

    An id always means one column: only its type may be promoted.
    """
    before = index_by_id(known)
    for field in index_by_id(schema).values():
        old = before.get(field.field_id)
        if old is None or can_be_promoted(old.field_type, field.field_type):
            continue
        message = "a column of the Delta table was replaced by one whose type does not fit the old data files"
        types = f"{old.field_type} to {field.field_type}"
        expected = "a promotion of the Iceberg specification; else sync into a new table"
        raise UnsupportedError(message, kind="delta-schema-change", field=field.name, found=types, expected=expected)
    by_name = {f.name: f.field_id for f in known.fields}
    ids = {f.field_id for f in schema.fields}
    for field in schema.fields:
        known_id = by_name.get(field.name)
        if known_id not in (None, field.field_id, *ids) and not ids & set(by_name.values()):
            message = "column mapping gave the columns other ids than the Iceberg table has"
            found, expected = field.field_id, f"{known_id}; sync into a new table"
            raise InvalidInputError(message, kind="delta-column-ids", field=field.name, found=found, expected=expected)


def _property(field: Json, key: str) -> Any:
    return (field.get("metadata") or {}).get(key)


# --- name mapping -----------------------------------------------------------------------------------------------------


def _name_mapping(
    raw: Sequence[Json], fields: Sequence[it.NestedField], metadata: Metadata, known_mapping: str, *, row_ids: bool
) -> str:
    """Return the JSON of `schema.name-mapping.default`.

    Columns are given as Delta (`raw`) and as Iceberg (`fields`) have them. Entries of dropped columns in
    `known_mapping` are kept. Most readers ignore them, and the columns that Delta stores for itself, but pyiceberg
    fails at a column without an entry. Raise FormatError if `known_mapping` is not a name mapping.
    """
    before = _names_before(known_mapping, metadata, row_ids=row_ids)
    mapping = _with_dropped(_entries(raw, fields, metadata.column_mapping_mode != "none"), before)
    return json.dumps(mapping, separators=(",", ":"), ensure_ascii=False)


def _physical_name(field: Json, mapped: bool) -> str:
    """Return the name of a column in data files, statistics and partition values."""
    name = _property(field, "delta.columnMapping.physicalName") if mapped else None
    return str(field["name"] if name is None else name)


def _entries(raw: Sequence[Json], fields: Sequence[it.NestedField], mapped: bool) -> list[dict[str, Any]]:
    return [_mapped_names(_physical_name(r, mapped), r["type"], f, mapped) for r, f in zip(raw, fields, strict=True)]


def _names_before(known_mapping: str, metadata: Metadata, *, row_ids: bool) -> list[dict[str, Any]]:
    row_id = _FIRST_INTERNAL_ID + 2
    numbers = (_FIRST_INTERNAL_ID, _FIRST_INTERNAL_ID + 1, ROW_ID_ID if row_ids else row_id, _FIRST_INTERNAL_ID + 3)
    renumbered = {ROW_ID_ID: numbers[2], row_id: numbers[2]}
    try:
        before = [{**b, "field-id": renumbered.get(b["field-id"], b["field-id"])} for b in json.loads(known_mapping)]
        ids = {entry["field-id"] for entry in before}
    except (ValueError, TypeError, KeyError) as e:
        found = f"{type(e).__name__}: {e}"
        raise FormatError("bad name mapping", kind="field-ids", field="schema.name-mapping.default", found=found) from e
    stored = (metadata.configuration.get(key) for key in (ROW_ID_COLUMN, _COMMIT_VERSION_COLUMN))
    numbered = zip(numbers, ("__is_cdc", "_change_type", *stored), strict=True)
    return before + [{"field-id": i, "names": [name]} for i, name in numbered if name and i not in ids]


def _with_dropped(now: list[dict[str, Any]], before: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Add the entries of dropped columns, which keep their ids, to a mapping."""
    out = []
    for entry in now:
        old = next((b for b in before if b.get("field-id") == entry["field-id"]), {})
        nested = entry.get("fields")
        out.append(entry if nested is None else {**entry, "fields": _with_dropped(nested, old.get("fields", []))})
    ids = {entry["field-id"] for entry in out}
    names = {name for entry in out for name in entry["names"]}
    return out + [b for b in before if b.get("field-id") not in ids and not names & set(b.get("names", ()))]


def _mapped_names(name: str, raw: Any, field: it.NestedField, mapped: bool) -> dict[str, Any]:
    kind, entry = field.field_type, {"field-id": field.field_id, "names": [name]}
    if isinstance(kind, it.StructType):
        return {**entry, "fields": _entries(raw["fields"], kind.fields, mapped)}
    if isinstance(kind, it.ListType):
        return {**entry, "fields": [_mapped_names("element", raw["elementType"], kind.element_field, mapped)]}
    if isinstance(kind, it.MapType):
        key = _mapped_names("key", raw["keyType"], kind.key_field, mapped)
        return {**entry, "fields": [key, _mapped_names("value", raw["valueType"], kind.value_field, mapped)]}
    return entry
