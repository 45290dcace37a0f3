"""Prepare the updates for a catalog that applies them itself: to create a table, and to commit to it.

Spec: REST catalog "TableUpdate", "CreateTableRequest" with `stage-create`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from deletekit.table.metadata import TableMetadata, spec_to_json
from deletekit.table.metadata_update import apply_updates, check_requirements
from deletekit.table.types import schema_to_json

Json = Mapping[str, Any]


def rehearse(metadata: TableMetadata, requirements: Sequence[Json], updates: Sequence[Json]) -> list[Json]:
    """Raise what a catalog in this state must refuse. Otherwise return the updates as pyiceberg can apply them.

    pyiceberg takes schema and spec ids as given; Java's servers assign them, and recognise a schema that they have.
    pyiceberg also fails to remove a property that is not set.
    """
    check_requirements(metadata, requirements)
    out: list[Json] = []
    added: dict[str, int] = {}
    for asked in updates:
        action, update = asked["action"], dict(asked)
        if action in _CHOSEN and update[_CHOSEN[action]] == -1:
            update[_CHOSEN[action]] = added[_CHOSEN[action]]
        before, metadata = metadata, apply_updates(metadata, [update], int(time.time() * 1000))
        if action in _NUMBERED:
            thing, things, key = _NUMBERED[action]
            added[key] = next(t[key] for t in metadata.raw[things] if _content(t) == _content(update[thing]))
            if len(metadata.raw[things]) == len(before.raw[things]):
                continue
            update[thing] = {**update[thing], key: added[key]}
        elif action == "remove-properties":
            update["removals"] = [k for k in update["removals"] if k in before.properties]
        out.append(update)
    return out


# What an update adds, the list it is added to, and its id; and by which id another update chooses.
_NUMBERED = {"add-schema": ("schema", "schemas", "schema-id"), "add-spec": ("spec", "partition-specs", "spec-id")}
_CHOSEN = {"set-current-schema": "schema-id", "set-default-spec": "spec-id"}


def _content(thing: Json) -> tuple[Any, Any]:
    return thing["fields"], sorted(thing.get("identifier-field-ids") or ())


def is_applied(metadata: TableMetadata, updates: Sequence[Json]) -> bool:
    """Tell whether a state has what the updates ask for. Except for snapshots, anyone may have committed it."""
    added = {u["snapshot"]["snapshot-id"] for u in updates if u["action"] == "add-snapshot"}
    if added:
        return added <= set(metadata.snapshots)
    again = apply_updates(metadata, updates, 0)
    return dict(again.raw) == {**metadata.raw, "last-updated-ms": again.raw["last-updated-ms"]}


def has_defaults(metadata: TableMetadata) -> bool:
    """Tell whether a column has a default. pyiceberg's `create_table` drops defaults."""
    return any(f.initial_default is not None or f.write_default is not None for f in metadata.all_fields.values())


def creating_updates(metadata: TableMetadata, location: str) -> list[Json]:
    """Return the updates that create a table with this metadata at `location`, as Java's create transaction."""
    return [
        {"action": "assign-uuid", "uuid": metadata.table_uuid},
        {"action": "upgrade-format-version", "format-version": metadata.format_version},
        {"action": "add-schema", "schema": schema_to_json(metadata.schema)},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": spec_to_json(metadata.spec)},
        {"action": "set-default-spec", "spec-id": -1},
        {"action": "add-sort-order", "sort-order": {"order-id": 0, "fields": []}},
        {"action": "set-default-sort-order", "sort-order-id": -1},
        {"action": "set-location", "location": location},
        {"action": "set-properties", "updates": metadata.properties},
        *({"action": "add-snapshot", "snapshot": s} for s in metadata.raw["snapshots"]),
        *({"action": "set-snapshot-ref", "ref-name": name, **ref} for name, ref in metadata.refs.items()),
    ]
