"""Make the name mapping of a synced table: by which physical names files without field ids have which columns.

Data files of a Delta table have no field ids, or not in every file. A column keeps the names that it had before, and a
dropped one keeps its entry, so that a name is not given to another id while files with it may exist.
Spec: Delta protocol, "Column Mapping"; Iceberg, "Column Projection", "Name Mapping Serialization".
"""

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from pyiceberg import types as it

from deletekit.delta.actions import Metadata
from deletekit.delta.row_ids import ROW_ID_COLUMN
from deletekit.errors import FormatError, InvalidInputError
from deletekit.formats.reserved_fields import ROW_ID_ID

FIRST_INTERNAL_ID = 1_999_999_996
_COMMIT_VERSION_COLUMN = "delta.rowTracking.materializedRowCommitVersionColumnName"
Json = Mapping[str, Any]


def name_mapping(
    raw: Sequence[Json],
    fields: Sequence[it.NestedField],
    metadata: Metadata,
    known_mapping: str,
    used: Collection[int],
    *,
    row_ids: bool,
) -> str:
    """Return the JSON of `schema.name-mapping.default`.

    Parameters
    ----------
    raw, fields: the columns as Delta and as Iceberg have them.
    known_mapping: the table's name mapping. Entries of dropped columns are kept. Most readers ignore them, and the
        columns that Delta stores for itself, but pyiceberg fails at a column without an entry.
    used: the ids of the columns of the table's snapshots.

    Raises FormatError if `known_mapping` is not a name mapping, and InvalidInputError if a file's column with one name
    would be another column than it was.
    """
    before = _names_before(known_mapping, metadata, row_ids=row_ids)
    mapping = _with_dropped(_entries(raw, fields, metadata.column_mapping_mode != "none"), before, used)
    return json.dumps(mapping, separators=(",", ":"), ensure_ascii=False)


def names_by_id(mapping: str) -> dict[int, set[str]]:
    """Return the names of each column of a name mapping, also those inside of others."""
    out: dict[int, set[str]] = {}
    pending = json.loads(mapping)
    while pending:
        entry = pending.pop()
        pending += entry.get("fields") or ()
        if "field-id" in entry:
            out[entry["field-id"]] = set(entry["names"])
    return out


def column_property(field: Json, key: str) -> Any:
    """Return what Delta's schema says of a column; None if it says nothing."""
    return (field.get("metadata") or {}).get(key)


def physical_name(field: Json, mapped: bool) -> str:
    """Return the name of a column in data files, statistics and partition values."""
    name = column_property(field, "delta.columnMapping.physicalName") if mapped else None
    return str(field["name"] if name is None else name)


def _entries(raw: Sequence[Json], fields: Sequence[it.NestedField], mapped: bool) -> list[dict[str, Any]]:
    return [_mapped_names(physical_name(r, mapped), r["type"], f, mapped) for r, f in zip(raw, fields, strict=True)]


def _names_before(known_mapping: str, metadata: Metadata, *, row_ids: bool) -> list[dict[str, Any]]:
    row_id = FIRST_INTERNAL_ID + 2
    numbers = (FIRST_INTERNAL_ID, FIRST_INTERNAL_ID + 1, ROW_ID_ID if row_ids else row_id, FIRST_INTERNAL_ID + 3)
    renumbered = {ROW_ID_ID: numbers[2], row_id: numbers[2]}
    try:
        before = [{**b, "field-id": renumbered.get(b["field-id"], b["field-id"])} for b in json.loads(known_mapping)]
        names = {entry["field-id"]: [str(name) for name in entry["names"]] for entry in before}
    except (ValueError, TypeError, KeyError) as e:
        found = f"{type(e).__name__}: {e}"
        raise FormatError("bad name mapping", kind="field-ids", field="schema.name-mapping.default", found=found) from e
    stored = (metadata.configuration.get(key) for key in (ROW_ID_COLUMN, _COMMIT_VERSION_COLUMN))
    internal = dict(zip(numbers, ("__is_cdc", "_change_type", *stored), strict=True))
    kept = [b for b in before if b["field-id"] not in internal]
    own = {i: dict.fromkeys([*([name] if name else []), *names.get(i, ())]) for i, name in internal.items()}
    return kept + [{"field-id": i, "names": list(found)} for i, found in own.items() if found]


def _with_dropped(
    now: list[dict[str, Any]], before: list[dict[str, Any]], used: Collection[int]
) -> list[dict[str, Any]]:
    """Add older names of columns, and the entries of dropped columns, which keep their ids, to a mapping."""
    out, owner = [], {name: entry["field-id"] for entry in now for name in entry["names"]}
    for b in before:
        known_id, found = b.get("field-id"), [name for name in b["names"] if name in owner]
        if known_id in used and any(owner[name] != known_id for name in found):
            message = "a name of data files without field ids would belong to another column than in older snapshots"
            expected = f"{known_id}; drop the Iceberg table and sync again, or sync into another one: no file is copied"
            name = next(name for name in found if owner[name] != known_id)
            raise InvalidInputError(message, kind="delta-column-ids", field=name, found=owner[name], expected=expected)
    for entry in now:
        old = next((b for b in before if b.get("field-id") == entry["field-id"]), {"names": ()})
        older = [name for name in old["names"] if name not in owner]
        nested = entry.get("fields")
        merged = {} if nested is None else {"fields": _with_dropped(nested, old.get("fields") or [], used)}
        out.append({**entry, "names": [*entry["names"], *older], **merged})
    ids = {entry["field-id"] for entry in out}
    names = {name for entry in out for name in entry["names"]}
    return out + [b for b in before if b.get("field-id") not in ids and not names & set(b["names"])]


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
