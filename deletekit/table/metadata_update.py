"""Apply the REST catalog's updates to table metadata, and check its requirements.

Spec: REST catalog "TableUpdate" and "TableRequirement"; "Table Metadata" for what each field means.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from deletekit.errors import CommitConflictError, InvalidInputError, UnsupportedError
from deletekit.table.metadata import MAIN, TableMetadata

Json = dict[str, Any]


def apply_updates(metadata: TableMetadata, updates: Sequence[Mapping[str, Any]], now_ms: int) -> TableMetadata:
    """Return the metadata after `updates`, each `{"action": ..., ...}` as in the REST specification.

    Raises UnsupportedError for an unknown action, InvalidInputError for one that the metadata cannot take, and
    CommitConflictError if a snapshot's sequence number or first row id is behind the table (retryable).
    """
    # The actions add to these containers, but change nothing inside them. A name with `_` is for the actions only.
    raw: Json = {k: copy.copy(v) if isinstance(v, list | dict) else v for k, v in metadata.raw.items()}
    raw["_now-ms"] = now_ms
    for update in updates:
        action = update["action"]
        if action not in _ACTIONS:
            raise UnsupportedError("unknown metadata update", kind="metadata-update", found=action)
        _ACTIONS[action](raw, update)
    raw = {name: value for name, value in raw.items() if not name.startswith("_")}
    raw["last-updated-ms"] = max(now_ms, int(raw.get("last-updated-ms") or 0))
    return TableMetadata(raw)


def check_requirements(metadata: TableMetadata | None, requirements: Sequence[Mapping[str, Any]]) -> None:
    """Raise CommitConflictError, naming the first requirement that does not hold."""
    for requirement in requirements:
        kind = requirement["type"]
        if metadata is None:
            if kind != "assert-create":
                raise _conflict(kind, "no table", "a table")
            continue
        raw = metadata.raw
        if kind == "assert-create":
            raise _conflict(kind, "a table", "no table")
        if kind == "assert-ref-snapshot-id":
            ref = raw["refs"].get(requirement["ref"])
            _equal(kind, ref["snapshot-id"] if ref else None, requirement["snapshot-id"])
        elif kind in _ASSERTIONS:
            field, key = _ASSERTIONS[kind]
            _equal(kind, raw.get(field), requirement[key])
        else:
            raise UnsupportedError("unknown requirement", kind="metadata-update", found=kind)


_ASSERTIONS = {
    "assert-table-uuid": ("table-uuid", "uuid"),
    "assert-last-assigned-field-id": ("last-column-id", "last-assigned-field-id"),
    "assert-current-schema-id": ("current-schema-id", "current-schema-id"),
    "assert-last-assigned-partition-id": ("last-partition-id", "last-assigned-partition-id"),
    "assert-default-spec-id": ("default-spec-id", "default-spec-id"),
    "assert-default-sort-order-id": ("default-sort-order-id", "default-sort-order-id"),
}


def _equal(kind: str, found: Any, expected: Any) -> None:
    if found != expected:
        raise _conflict(kind, found, expected)


def _conflict(requirement: str, found: Any, expected: Any) -> CommitConflictError:
    return CommitConflictError(
        "the table changed meanwhile", kind="commit-conflict", field=requirement, found=found, expected=expected
    )


def _upgrade(raw: Json, update: Mapping[str, Any]) -> None:
    target, current = int(update["format-version"]), int(raw["format-version"])
    if not current <= target <= 3:
        raise InvalidInputError(
            "format version cannot be set",
            kind="format-version",
            found=f"{current} -> {target}",
            expected=f"{current} .. 3",
        )
    raw["format-version"] = target
    if target >= 2:
        raw.setdefault("last-sequence-number", 0)
    if target >= 3:
        raw.setdefault("next-row-id", 0)


def _add_schema(raw: Json, update: Mapping[str, Any]) -> None:
    schema = dict(update["schema"])
    same = [s for s in raw["schemas"] if s["fields"] == schema["fields"] and _identifiers(s) == _identifiers(schema)]
    schema["schema-id"] = same[0]["schema-id"] if same else max(s.get("schema-id", 0) for s in raw["schemas"]) + 1
    if not same:
        raw["schemas"].append(schema)
    raw["last-column-id"] = max(raw["last-column-id"], update.get("last-column-id") or 0)
    raw["_last-added-schema"] = schema["schema-id"]


def _identifiers(schema: Mapping[str, Any]) -> list[int]:
    return sorted(schema.get("identifier-field-ids") or ())


def _set_schema(raw: Json, update: Mapping[str, Any]) -> None:
    added = raw.pop("_last-added-schema", None)
    raw["current-schema-id"] = added if update["schema-id"] == -1 else update["schema-id"]


def _add_spec(raw: Json, update: Mapping[str, Any]) -> None:
    spec = dict(update["spec"])
    same = [s for s in raw["partition-specs"] if s["fields"] == spec["fields"]]
    spec["spec-id"] = same[0]["spec-id"] if same else max(s["spec-id"] for s in raw["partition-specs"]) + 1
    if not same:
        raw["partition-specs"].append(spec)
    raw["last-partition-id"] = max([raw["last-partition-id"], *(f["field-id"] for f in spec["fields"])])
    raw["_last-added-spec"] = spec["spec-id"]


def _set_spec(raw: Json, update: Mapping[str, Any]) -> None:
    added = raw.pop("_last-added-spec", None)
    raw["default-spec-id"] = added if update["spec-id"] == -1 else update["spec-id"]


def _add_snapshot(raw: Json, update: Mapping[str, Any]) -> None:
    snapshot = dict(update["snapshot"])
    version = raw["format-version"]
    if any(s["snapshot-id"] == snapshot["snapshot-id"] for s in raw["snapshots"]):
        raise InvalidInputError("snapshot is there already", kind="metadata-update", found=snapshot["snapshot-id"])
    if version >= 2:
        number, last = snapshot.get("sequence-number"), raw["last-sequence-number"]
        # None: made for a v1 table that a concurrent commit upgraded.
        if number is None or (number <= last and snapshot.get("parent-snapshot-id") is not None):
            raise _conflict("sequence-number", number, f"> {last}")
        raw["last-sequence-number"] = max(number, last)
    if version >= 3:
        if snapshot.get("first-row-id") is None or snapshot["first-row-id"] < raw["next-row-id"]:
            raise _conflict("first-row-id", snapshot.get("first-row-id"), f">= {raw['next-row-id']}")
        raw["next-row-id"] = raw["next-row-id"] + snapshot["added-rows"]
    raw["snapshots"].append(snapshot)
    raw.setdefault("_added-snapshots", []).append(snapshot["snapshot-id"])


def _set_ref(raw: Json, update: Mapping[str, Any]) -> None:
    name, snapshot_id = update["ref-name"], update["snapshot-id"]
    snapshot = next((s for s in raw["snapshots"] if s["snapshot-id"] == snapshot_id), None)
    if snapshot is None:
        raise InvalidInputError(
            "ref to a snapshot that does not exist", kind="metadata-update", field=name, found=snapshot_id
        )
    kept = ("type", "snapshot-id", "max-ref-age-ms", "max-snapshot-age-ms", "min-snapshots-to-keep")
    raw["refs"][name] = {k: update[k] for k in kept if update.get(k) is not None}
    if name == MAIN and raw.get("current-snapshot-id") != snapshot_id:
        raw["current-snapshot-id"] = snapshot_id
        # An older snapshot becomes current now, not when it was made (Java TableMetadata.setRef).
        added = snapshot_id in raw.get("_added-snapshots", ())
        raw.setdefault("snapshot-log", []).append(
            {"timestamp-ms": snapshot["timestamp-ms"] if added else raw["_now-ms"], "snapshot-id": snapshot_id}
        )


def _remove_ref(raw: Json, update: Mapping[str, Any]) -> None:
    raw["refs"].pop(update["ref-name"], None)
    if update["ref-name"] == MAIN:
        raw["current-snapshot-id"] = None


def _remove_snapshots(raw: Json, update: Mapping[str, Any]) -> None:
    gone = set(update["snapshot-ids"])
    for name, ref in raw["refs"].items():
        # Java silently drops the ref. A ref that was created while snapshots were chosen to expire would be lost.
        if ref["snapshot-id"] in gone:
            raise _conflict(f"refs.{name}", ref["snapshot-id"], "a snapshot that is not removed")
    raw["snapshots"] = [s for s in raw["snapshots"] if s["snapshot-id"] not in gone]
    # The log is incomplete before a removed snapshot, so it is cut there (Java TableMetadata.updateSnapshotLog).
    log: list[Any] = []
    for entry in raw.get("snapshot-log") or ():
        log = [] if entry["snapshot-id"] in gone else [*log, entry]
    raw["snapshot-log"] = log
    for name in ("statistics", "partition-statistics"):
        if raw.get(name):
            raw[name] = [s for s in raw[name] if s["snapshot-id"] not in gone]


def _set_properties(raw: Json, update: Mapping[str, Any]) -> None:
    raw["properties"] = {**(raw.get("properties") or {}), **update["updates"]}


def _remove_properties(raw: Json, update: Mapping[str, Any]) -> None:
    raw["properties"] = {k: v for k, v in (raw.get("properties") or {}).items() if k not in set(update["removals"])}


_ACTIONS: dict[str, Callable[[Json, Mapping[str, Any]], None]] = {
    "upgrade-format-version": _upgrade,
    "add-schema": _add_schema,
    "set-current-schema": _set_schema,
    "add-spec": _add_spec,
    "set-default-spec": _set_spec,
    "add-snapshot": _add_snapshot,
    "set-snapshot-ref": _set_ref,
    "remove-snapshot-ref": _remove_ref,
    "remove-snapshots": _remove_snapshots,
    "set-properties": _set_properties,
    "remove-properties": _remove_properties,
}
