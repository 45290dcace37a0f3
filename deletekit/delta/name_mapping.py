"""Write Iceberg's name mapping for the data files of a Delta table, which have no field ids, or not in every file.

Names are physical ones, because data files have those. A dropped column keeps its entry, so that its name is not given
to another id while files with it may exist.
Spec: Iceberg, "Column Projection", "Name Mapping Serialization"; Delta protocol, "Column Mapping".
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pyiceberg import types as it

from deletekit.delta.actions import Metadata
from deletekit.errors import FormatError

_ROW_TRACKING = (
    "delta.rowTracking.materializedRowIdColumnName",
    "delta.rowTracking.materializedRowCommitVersionColumnName",
)
_FIRST_INTERNAL_ID = 1_999_999_996
Json = Mapping[str, Any]


def name_mapping(raw: Sequence[Json], fields: Sequence[it.NestedField], metadata: Metadata, known_mapping: str) -> str:
    """Return the JSON of `schema.name-mapping.default`.

    Parameters
    ----------
    raw, fields: the columns as Delta and as Iceberg have them.
    known_mapping: the table's mapping so far. Entries of dropped columns are kept. Most readers ignore them, and the
        columns that Delta stores for itself, but pyiceberg fails at a column without an entry.

    Raises FormatError if `known_mapping` is not a name mapping.
    """
    now = _entries(raw, fields, metadata.column_mapping_mode != "none")
    return json.dumps(
        _with_dropped(now, _names_before(known_mapping, metadata)), separators=(",", ":"), ensure_ascii=False
    )


def physical_name(field: Json, mapped: bool) -> str:
    """Return the name of a column in data files, statistics and partition values."""
    name = (field.get("metadata") or {}).get("delta.columnMapping.physicalName") if mapped else None
    return str(field["name"] if name is None else name)


def _entries(raw: Sequence[Json], fields: Sequence[it.NestedField], mapped: bool) -> list[dict[str, Any]]:
    return [_mapped_names(physical_name(r, mapped), r["type"], f, mapped) for r, f in zip(raw, fields, strict=True)]


def _names_before(known_mapping: str, metadata: Metadata) -> list[dict[str, Any]]:
    try:
        before = list(json.loads(known_mapping))
        ids = {entry.get("field-id") for entry in before}
    except (ValueError, TypeError, AttributeError) as e:
        found = f"{type(e).__name__}: {e}"
        raise FormatError("bad name mapping", kind="field-ids", field="schema.name-mapping.default", found=found) from e
    internal = ["__is_cdc", "_change_type", *(metadata.configuration.get(key) for key in _ROW_TRACKING)]
    numbered = enumerate(internal, _FIRST_INTERNAL_ID)
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
