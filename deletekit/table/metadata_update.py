"""Apply the REST catalog's updates to table metadata, check its requirements, and prepare updates for a catalog.

Spec: REST catalog "TableUpdate", "TableRequirement", "CreateTableRequest" with `stage-create`; "Table Metadata" for
what each field means.
"""

import copy
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from deletekit.errors import CommitConflictError, CommitStateUnknownError, InvalidInputError, UnsupportedError
from deletekit.table.format_version import NEWEST, FormatVersion
from deletekit.table.metadata import MAIN, TableMetadata, spec_to_json
from deletekit.table.types import schema_to_json

Json = dict[str, Any]
Update = Mapping[str, Any]

# What an update adds, the list it is added to, and its id. By which key and for which id another one makes it current.
_ADDED = {
    "add-schema": ("schema", "schemas", "schema-id"),
    "add-spec": ("spec", "partition-specs", "spec-id"),
    "add-sort-order": ("sort-order", "sort-orders", "order-id"),
}
_CHOSEN = {
    "set-current-schema": ("schema-id", "schema-id", "current-schema-id"),
    "set-default-spec": ("spec-id", "spec-id", "default-spec-id"),
    "set-default-sort-order": ("sort-order-id", "order-id", "default-sort-order-id"),
}


def apply_updates(metadata: TableMetadata, updates: Sequence[Update], now_ms: int | None = None) -> TableMetadata:
    """Return the metadata after `updates`, each `{"action": ..., ...}` as in the REST specification.

    Raises UnsupportedError for an unknown action, InvalidInputError for one that the metadata cannot take, and
    CommitConflictError if a snapshot's sequence number or first row id is behind the table (retryable).
    """
    # The actions add to these containers, but change nothing inside them. A name with `_` is for the actions only.
    raw: Json = {k: copy.copy(v) if isinstance(v, list | dict) else v for k, v in metadata.raw.items()}
    raw["_now-ms"] = now = int(time.time() * 1000) if now_ms is None else now_ms
    for update in updates:
        action = update["action"]
        if action not in _ACTIONS:
            raise UnsupportedError("unknown metadata update", kind="metadata-update", found=action)
        _ACTIONS[action](raw, update)
    raw = {name: value for name, value in raw.items() if not name.startswith("_")}
    raw["last-updated-ms"] = max(now, int(raw.get("last-updated-ms") or 0))
    return TableMetadata(raw)


def check_requirements(metadata: TableMetadata | None, requirements: Sequence[Update]) -> None:
    """Raise CommitConflictError, naming the first requirement that does not hold."""
    for requirement in requirements:
        kind = requirement["type"]
        found: Any
        if metadata is None or kind == "assert-create":
            found = "no table" if metadata is None else "a table"
            expected = "no table" if kind == "assert-create" else "a table"
        elif kind == "assert-ref-snapshot-id":
            found = metadata.refs.get(requirement["ref"], {}).get("snapshot-id")
            expected = requirement["snapshot-id"]
        elif kind in _ASSERTIONS:
            field, key = _ASSERTIONS[kind]
            found, expected = metadata.raw.get(field), requirement[key]
        else:
            raise UnsupportedError("unknown requirement", kind="metadata-update", found=kind)
        if found != expected:
            raise _conflict(kind, found, expected)


# The field of the metadata that a requirement is about, and its name in the requirement.
_ASSERTIONS = {
    "assert-table-uuid": ("table-uuid", "uuid"),
    "assert-last-assigned-field-id": ("last-column-id", "last-assigned-field-id"),
    "assert-current-schema-id": ("current-schema-id", "current-schema-id"),
    "assert-last-assigned-partition-id": ("last-partition-id", "last-assigned-partition-id"),
    "assert-default-spec-id": ("default-spec-id", "default-spec-id"),
    "assert-default-sort-order-id": ("default-sort-order-id", "default-sort-order-id"),
}


def requirements_of(
    metadata: TableMetadata, refs: Mapping[str, int | None], *, same_schema: bool
) -> tuple[Update, ...]:
    """Return the requirements that a table is still the one of `metadata`, and its refs are where they were.

    Parameters
    ----------
    refs: the snapshot of each ref; None: there is no such ref.
    same_schema: also require schema, spec, sort order, and the counters of their ids.
    """
    kinds = ["assert-table-uuid"] if metadata.table_uuid is not None else []
    if same_schema:
        kinds += [
            kind
            for kind, (field, _) in _ASSERTIONS.items()
            if kind not in kinds and metadata.raw.get(field) is not None
        ]
    return (
        *({"type": kind, _ASSERTIONS[kind][1]: metadata.raw[_ASSERTIONS[kind][0]]} for kind in kinds),
        *({"type": "assert-ref-snapshot-id", "ref": name, "snapshot-id": found} for name, found in refs.items()),
    )


def rehearse(metadata: TableMetadata, requirements: Sequence[Update], updates: Sequence[Update]) -> list[Update]:
    """Raise what a catalog in this state must refuse. Otherwise return the updates as pyiceberg can apply them.

    pyiceberg takes schema and spec ids as given; Java's servers assign them, and recognise a schema that they have.
    pyiceberg also fails to remove a property that is not set.
    """
    check_requirements(metadata, requirements)
    after = apply_updates(metadata, updates)
    out: list[Update] = []
    ids: dict[str, int] = {}
    for asked in without_known(metadata, updates):
        action, update = asked["action"], dict(asked)
        if action in _ADDED:
            thing, things, key = _ADDED[action]
            ids[key] = _same(update[thing], after.raw[things])[0][key]
            update[thing] = {**update[thing], key: ids[key]}
        elif action in _CHOSEN:
            key, made, _ = _CHOSEN[action]
            update[key] = ids[made] if update[key] == -1 else update[key]
        elif action == "remove-properties":
            update["removals"] = [name for name in update["removals"] if name in metadata.properties]
        out.append(update)
    return out


def without_known(metadata: TableMetadata, updates: Sequence[Update]) -> list[Update]:
    """Return the updates without schemas, specs and sort orders that the table has, which are chosen by their ids.

    Java's servers do not take such a one for the last that was added.
    """
    out: list[Update] = []
    known: dict[str, list[Update]] = {}
    for update in updates:
        action = update["action"]
        if action in _ADDED:
            thing, things, key = _ADDED[action]
            known[key] = _same(update[thing], metadata.raw[things])
            out += [] if known[key] else [update]
        elif action in _CHOSEN and update[_CHOSEN[action][0]] == -1 and known.get(_CHOSEN[action][1]):
            key, made, _ = _CHOSEN[action]
            out.append({**update, key: known[made][0].get(made, 0)})
        else:
            out.append(update)
    return out


def has_landed(metadata: TableMetadata, requirements: Sequence[Update], updates: Sequence[Update]) -> bool:
    """Tell whether a state has what the updates ask for. Except for snapshots, anyone may have committed it.

    Raises CommitStateUnknownError if that cannot be told: it is another table's state, or a snapshot of the updates may
    have landed and expired since.
    """
    try:
        check_uuid(metadata.table_uuid, requirements)
    except CommitConflictError as e:
        raise CommitStateUnknownError("the table was replaced by another of its name", found=str(e)) from e
    snapshots = [u["snapshot"] for u in updates if u["action"] == "add-snapshot"]
    if snapshots:
        landed = {s["snapshot-id"] for s in snapshots} <= set(metadata.snapshots)
        if not landed and not all(_never_landed(metadata, s) for s in snapshots):
            raise CommitStateUnknownError("the commit may have landed, and its snapshot expired since")
        return landed
    try:
        again = apply_updates(metadata, updates, 0)
    except (InvalidInputError, UnsupportedError):
        return False  # this state cannot take them: it has not what they ask for
    return dict(again.raw) == {**metadata.raw, "last-updated-ms": again.raw["last-updated-ms"]}


def _never_landed(metadata: TableMetadata, snapshot: Update) -> bool:
    """Tell whether a snapshot that a state has not was certainly never in the table.

    A sequence number is given once: ours is still free, or another snapshot has it. In version 1 the parent tells: it
    is still a head, or has another child.
    """
    number, parent = snapshot.get("sequence-number"), snapshot.get("parent-snapshot-id")
    others = metadata.snapshots.values()
    if number and metadata.version.has_sequence_numbers:
        return metadata.last_sequence_number < number or any(o.sequence_number == number for o in others)
    heads = {ref["snapshot-id"] for ref in metadata.refs.values()}
    return not metadata.snapshots or parent in heads or any(o.parent_snapshot_id == parent for o in others)


def check_uuid(uuid: str | None, requirements: Sequence[Update]) -> None:
    """Raise CommitConflictError if the requirements are for a table with another uuid."""
    for requirement in requirements:
        if requirement["type"] == "assert-table-uuid" and requirement["uuid"] != uuid:
            raise _conflict(requirement["type"], uuid, requirement["uuid"])


def creating_updates(metadata: TableMetadata, location: str) -> list[Update]:
    """Return the updates that create a table with this metadata at `location`, as Java's create transaction."""
    return [
        {"action": "assign-uuid", "uuid": metadata.table_uuid},
        {"action": "upgrade-format-version", "format-version": metadata.format_version},
        {"action": "add-schema", "schema": schema_to_json(metadata.schema)},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": spec_to_json(metadata.spec)},
        {"action": "set-default-spec", "spec-id": -1},
        {"action": "add-sort-order", "sort-order": metadata.raw["sort-orders"][-1]},
        {"action": "set-default-sort-order", "sort-order-id": -1},
        {"action": "set-location", "location": location},
        {"action": "set-properties", "updates": metadata.properties},
        *({"action": "add-snapshot", "snapshot": s} for s in metadata.raw["snapshots"]),
        *({"action": "set-snapshot-ref", "ref-name": name, **ref} for name, ref in metadata.refs.items()),
    ]


def _conflict(requirement: str, found: Any, expected: Any) -> CommitConflictError:
    return CommitConflictError("the table changed meanwhile", field=requirement, found=found, expected=expected)


def _refused(message: str, field: str | None, found: Any) -> InvalidInputError:
    return InvalidInputError(message, kind="metadata-update", field=field, found=found)


def _assign_uuid(raw: Json, update: Update) -> None:
    if raw.get("table-uuid") not in (None, update["uuid"]):
        raise _refused("table has another uuid", "table-uuid", raw["table-uuid"])
    raw["table-uuid"] = update["uuid"]


def _upgrade(raw: Json, update: Update) -> None:
    target, current = int(update["format-version"]), int(raw["format-version"])
    if not current <= target <= NEWEST:
        found, expected = f"{current} -> {target}", f"{current} .. {NEWEST}"
        raise InvalidInputError("format version cannot be set", kind="format-version", found=found, expected=expected)
    raw["format-version"] = target
    if FormatVersion(target).has_sequence_numbers:
        raw.setdefault("last-sequence-number", 0)
    if FormatVersion(target).has_row_lineage:
        raw.setdefault("next-row-id", 0)


def _same(thing: Update, things: Sequence[Update]) -> list[Update]:
    """Return the equal schemas, partition specs or sort orders."""

    def content(one: Update) -> tuple[Any, Any]:
        return one["fields"], sorted(one.get("identifier-field-ids") or ())

    return [one for one in things if content(one) == content(thing)]


def _add(raw: Json, update: Update) -> None:
    """Add a schema, partition spec or sort order, unless the table has an equal one."""
    thing, things, key = _ADDED[update["action"]]
    new, same = update[thing], _same(update[thing], raw[things])
    number = same[0].get(key, 0) if same else max(t.get(key, 0) for t in raw[things]) + 1
    if thing == "sort-order" and not new["fields"]:
        number = 0  # reserved for rows in no order
    raw[f"_last-{key}"] = number
    if not same:
        raw[things].append({**new, key: number})
    if thing == "schema":
        raw["last-column-id"] = max(raw["last-column-id"], update.get("last-column-id") or 0)
    elif thing == "spec":
        raw["last-partition-id"] = max([raw["last-partition-id"], *(f["field-id"] for f in new["fields"])])


def _choose(raw: Json, update: Update) -> None:
    """Make a schema, partition spec or sort order the current one; -1 is the one that was added last."""
    key, made, current = _CHOSEN[update["action"]]
    raw[current] = raw.get(f"_last-{made}") if update[key] == -1 else update[key]


def _add_snapshot(raw: Json, update: Update) -> None:
    snapshot, version = dict(update["snapshot"]), FormatVersion(raw["format-version"])
    if any(s["snapshot-id"] == snapshot["snapshot-id"] for s in raw["snapshots"]):
        raise _refused("snapshot is there already", None, snapshot["snapshot-id"])
    if version.has_sequence_numbers:
        number, last = snapshot.get("sequence-number"), raw["last-sequence-number"]
        # None: made for a v1 table that a concurrent commit upgraded.
        if number is None or (number <= last and snapshot.get("parent-snapshot-id") is not None):
            raise _conflict("sequence-number", number, f"> {last}")
        raw["last-sequence-number"] = max(number, last)
    if version.has_row_lineage:
        first, free = snapshot.get("first-row-id"), raw["next-row-id"]
        if first is None or first < free:
            raise _conflict("first-row-id", first, f">= {free}")
        raw["next-row-id"] = free + snapshot["added-rows"]
    raw["snapshots"].append(snapshot)
    raw.setdefault("_added-snapshots", []).append(snapshot["snapshot-id"])


def _set_ref(raw: Json, update: Update) -> None:
    name, snapshot_id = update["ref-name"], update["snapshot-id"]
    made = next((s["timestamp-ms"] for s in reversed(raw["snapshots"]) if s["snapshot-id"] == snapshot_id), None)
    if made is None:
        raise _refused("ref to a snapshot that does not exist", name, snapshot_id)
    kept = ("type", "snapshot-id", "max-ref-age-ms", "max-snapshot-age-ms", "min-snapshots-to-keep")
    raw["refs"][name] = {k: update[k] for k in kept if update.get(k) is not None}
    if name == MAIN and raw.get("current-snapshot-id") != snapshot_id:
        raw["current-snapshot-id"] = snapshot_id
        # An older snapshot becomes current now, not when it was made (Java TableMetadata.setRef).
        at = made if snapshot_id in raw.get("_added-snapshots", ()) else raw["_now-ms"]
        raw.setdefault("snapshot-log", []).append({"timestamp-ms": at, "snapshot-id": snapshot_id})


def _remove_ref(raw: Json, update: Update) -> None:
    raw["refs"].pop(update["ref-name"], None)
    if update["ref-name"] == MAIN:
        raw["current-snapshot-id"] = None


def _remove_snapshots(raw: Json, update: Update) -> None:
    gone = set(update["snapshot-ids"])
    for name, ref in raw["refs"].items():
        # Java silently drops the ref. A ref that was created while snapshots were chosen to expire would be lost.
        if ref["snapshot-id"] in gone:
            raise _conflict(f"refs.{name}", ref["snapshot-id"], "a snapshot that is not removed")
    # The log is incomplete before a removed snapshot, so it is cut there (Java TableMetadata.updateSnapshotLog).
    log: list[Any] = []
    for entry in raw.get("snapshot-log") or ():
        log = [] if entry["snapshot-id"] in gone else [*log, entry]
    raw["snapshot-log"] = log
    for name in ("snapshots", "statistics", "partition-statistics"):
        if raw.get(name):
            raw[name] = [s for s in raw[name] if s["snapshot-id"] not in gone]


def _set_properties(raw: Json, update: Update) -> None:
    raw["properties"] = {**(raw.get("properties") or {}), **update["updates"]}


def _remove_properties(raw: Json, update: Update) -> None:
    raw["properties"] = {k: v for k, v in (raw.get("properties") or {}).items() if k not in update["removals"]}


_ACTIONS: dict[str, Callable[[Json, Update], None]] = {
    "assign-uuid": _assign_uuid,
    "upgrade-format-version": _upgrade,
    "add-schema": _add,
    "set-current-schema": _choose,
    "add-spec": _add,
    "set-default-spec": _choose,
    "add-sort-order": _add,
    "set-default-sort-order": _choose,
    "add-snapshot": _add_snapshot,
    "set-snapshot-ref": _set_ref,
    "remove-snapshot-ref": _remove_ref,
    "remove-snapshots": _remove_snapshots,
    "set-properties": _set_properties,
    "remove-properties": _remove_properties,
}
