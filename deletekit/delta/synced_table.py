"""Describe an Iceberg table that follows a Delta table: its Delta version, its folders, its schema, and who else
changed it.

The snapshots of the table hold its Delta version, so that a rollback takes that back too. Data files belong to Delta:
`gc.enabled` is false. A table that follows another Delta table, or that others changed, is refused with the reason.
Spec: Iceberg, "Snapshots" (summary), "Schema Evolution"; Delta protocol, "Change Metadata" (`id`); Delta, VACUUM.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any

from pyiceberg.partitioning import PartitionSpec

from deletekit.delta.actions import Metadata
from deletekit.delta.log import DeltaLog
from deletekit.delta.paths import is_hidden_below, path_below
from deletekit.delta.row_ids import ROW_IDS
from deletekit.delta.schema_from_delta import DeltaSchema, delta_schema
from deletekit.delta.user_properties import OTHER_MARKS, USER_PROPERTIES, followed, with_names
from deletekit.errors import InvalidInputError, NotFoundError
from deletekit.table.locations import SpellingRules, normalised
from deletekit.table.metadata import Snapshot, TableMetadata, spec_to_json
from deletekit.table.own_places import DELTA_LOCATION
from deletekit.table.types import schema_to_json

DELTA_VERSION = "deletekit.delta-version"
DELTA_TABLE_ID = "deletekit.delta-table-id"
DELTA_TIMESTAMP = "deletekit.delta-timestamp-ms"
DELETE_DIRECTORY = "deletekit.delta-delete-directory"
"""Table property: where the delete files of `sync_delta` are."""
DELTA_HEAD = "deletekit.delta-head"
"""Table property: the Delta version that a snapshot, or an empty table, has come to by versions without changed files.

JSON with `snapshot-id`, `version`, `table-id` and `rewritten`. It counts only while that snapshot is in the table's
history.
"""
NAME_MAPPING = "schema.name-mapping.default"
_DELETE_CHANGES = {"added-delete-files", "removed-delete-files"}
_CHANGES = {"added-data-files", "deleted-data-files"} | _DELETE_CHANGES


@dataclass(frozen=True, slots=True, kw_only=True)
class Watermark:
    """The Delta version that a table is at, and what others did to the table since.

    Attributes
    ----------
    table_id, location: of the Delta table.
    foreign: the first commit of someone else that may have changed rows.
    rewritten: whether delete files were rewritten, so that their Delta vectors are not known.
    """

    version: int
    table_id: str | None
    location: str | None = None
    foreign: Snapshot | None = None
    rewritten: bool = False


def watermark_of(metadata: TableMetadata, snapshot: Snapshot | None) -> Watermark | None:
    """Return the Delta version that a table is at, or None if no snapshot in its history names one.

    Snapshots that change no file do not count. Snapshots that only replace delete files by others of the same rows do
    not count as foreign.
    """
    foreign: Snapshot | None = None
    rewritten = False
    head, location = _head(metadata), metadata.properties.get(DELTA_LOCATION)
    if snapshot is None and head.get("snapshot-id", 0) is None:
        return Watermark(version=head["version"], table_id=head["table-id"], location=location)
    for ancestor in metadata.ancestors(snapshot.snapshot_id if snapshot else None):
        version, table_id = ancestor.summary.get(DELTA_VERSION, ""), ancestor.summary.get(DELTA_TABLE_ID)
        if head.get("snapshot-id") == ancestor.snapshot_id:
            version, table_id = str(head["version"]), head["table-id"]
            rewritten = rewritten or head.get("rewritten") is True
        if version.isdecimal():
            at, root = int(version), ancestor.summary.get(DELTA_LOCATION) or location
            return Watermark(version=at, table_id=table_id, location=root, foreign=foreign, rewritten=rewritten)
        moved = {name for name in _CHANGES if ancestor.summary.get(name, "0") != "0"}
        if moved and ancestor.operation == "replace" and moved <= _DELETE_CHANGES:
            rewritten = True
        elif moved:
            foreign = ancestor
    return None


def head_property(snapshot: Snapshot | None, version: int, table_id: str, *, rewritten: bool = False) -> dict[str, str]:
    """Return the property that says which Delta version a snapshot is at, where its summary does not."""
    snapshot_id = None if snapshot is None else snapshot.snapshot_id
    found = {"snapshot-id": snapshot_id, "version": version, "table-id": table_id, "rewritten": rewritten}
    return {DELTA_HEAD: json.dumps(found)}


def kept_watermark(metadata: TableMetadata) -> tuple[Mapping[str, Any], ...]:
    """Return the updates that keep the Delta version of the head when the snapshot that names it expires."""
    head, location = metadata.current_snapshot, metadata.properties.get(DELTA_LOCATION)
    found = watermark_of(metadata, head)
    if head is None or found is None or found.table_id is None or found.foreign is not None:
        return ()
    if DELTA_VERSION in head.summary or _head(metadata).get("snapshot-id") == head.snapshot_id:
        return ()
    if found.location != location:  # the property would name the wrong folder
        return ()
    kept = head_property(head, found.version, found.table_id, rewritten=found.rewritten)
    return ({"action": "set-properties", "updates": kept},)


def _head(metadata: TableMetadata) -> Mapping[str, Any]:
    """Return what `head_property` wrote; {} for anything else."""
    try:
        found = json.loads(metadata.properties.get(DELTA_HEAD, "{}"))
    except (ValueError, RecursionError):
        return {}
    known = isinstance(found, dict) and type(found.get("version")) is int and isinstance(found.get("table-id"), str)
    return found if known else {}


def known_spelling(root: str, metadata: TableMetadata) -> str:
    """Return the table's own spelling of the folder `root`, if it is the same folder. Its files are named with it."""
    found = watermark_of(metadata, metadata.current_snapshot)
    known = metadata.properties.get(DELTA_LOCATION) if found is None else found.location
    return known if known is not None and _is_same_folder(root, known) else root


def _is_same_folder(one: str, other: str) -> bool:
    rules = SpellingRules()
    return rules.folder(one) == rules.folder(other)


def checked_watermark(metadata: TableMetadata, log: DeltaLog, wanted: int, *, force: bool) -> Watermark | None:
    """Return the Delta version that the table is at, or None if every file must be compared.

    Raises InvalidInputError for a table that does not follow this Delta table, and for one that others changed.
    """
    if force:
        return None
    found = watermark_of(metadata, metadata.current_snapshot)
    if found is None:
        if metadata.current_snapshot is None and metadata.properties.get(DELTA_LOCATION) == log.root:
            return None  # an empty Delta table was synced
        maker = made_by_another_tool(metadata)
        if maker is not None:
            _check_take_over(metadata, log.root, maker)
            return None
        location = metadata.properties.get(DELTA_LOCATION)
        message = "the table was not made by sync_delta from this Delta table"
        if location is not None and _is_same_folder(location, log.root):
            message = "no snapshot of the table tells any more which version of this Delta table it is at"
        expected = "another name, or force, which removes all that Delta does not have"
        raise InvalidInputError(message, "delta-foreign-table", DELTA_LOCATION, location, expected)
    check_same_delta(found, log, wanted)
    if found.foreign is not None:
        message = "someone else has committed to the table since the last sync"
        other = found.foreign.snapshot_id
        raise InvalidInputError(message, "delta-foreign-commit", "snapshot-id", other, "none, or force")
    if found.version > wanted:
        newest = " than the newest of the Delta log" if found.version > log.latest else ""
        message = f"the table is at a later Delta version{newest}"
        expected = f">= {found.version}; force would take the table back"
        raise InvalidInputError(message, "delta-version-behind", "version", wanted, expected)
    return found


def made_by_another_tool(metadata: TableMetadata) -> str | None:
    """Return `XTable` or `UniForm` if one of them made the table from a Delta table, and no sync has followed yet.

    Source: XTable TableSyncMetadata; Delta, IcebergConverter (`delta-version`).
    """
    if DELTA_LOCATION in metadata.properties:
        return None
    try:
        xtable = json.loads(metadata.properties.get(OTHER_MARKS[0], "{}"))
    except (ValueError, RecursionError):
        xtable = {}
    if isinstance(xtable, dict) and xtable.get("sourceTableFormat") == "DELTA":
        return "XTable"
    return "UniForm" if metadata.properties.get(OTHER_MARKS[1], "").isdecimal() else None


def _check_take_over(metadata: TableMetadata, root: str, maker: str) -> None:
    """Refuse a table in Delta's folder, where those tools make it: VACUUM would delete the files of a sync."""
    below = path_below(metadata.location, root)
    if below is not None and not is_hidden_below(below):
        message = f"the table of {maker} lies in the Delta table's folder, where Delta's VACUUM would delete our files"
        expected = "another name: sync_delta makes that table outside of the folder, and copies no data file"
        raise InvalidInputError(message, "delta-take-over", "location", metadata.location, expected)


def check_same_delta(found: Watermark, log: DeltaLog, wanted: int) -> None:
    """Raise InvalidInputError if the table follows another Delta table, or this one in another folder.

    CREATE OR REPLACE gives a table another id in the same log. The log proves that if it still has the version that the
    Iceberg table is at, with the id that it had then, and every commit from there on.
    """
    table_id = log.state(min(wanted, log.latest)).metadata.id
    if found.table_id not in (None, table_id) and not _was_in(log, found, wanted):
        message = "the table follows another Delta table than the one in this folder, or one that was replaced there"
        expected = f"{found.table_id}; or force, if the log no longer reaches back to version {found.version}"
        raise InvalidInputError(message, "delta-table-replaced", "metaData.id", table_id, expected, file=log.root)
    if found.location is not None and not _is_same_folder(log.root, found.location):
        message = "the table follows this Delta table in another folder: it was moved, or this is a copy"
        expected = f"{found.location}; or force, which makes the table refer to the data files in the new folder"
        raise InvalidInputError(message, "delta-moved", DELTA_LOCATION, log.root, expected)


def _was_in(log: DeltaLog, found: Watermark, wanted: int) -> bool:
    """Return whether a table was in a log at its version, and the log goes on from there to another version."""
    if found.version > log.latest:  # another sync has come further since the log was listed
        log = log.listed_again()
    first, last = sorted((found.version, wanted))
    try:
        return log.has_commits(first + 1, last) and log.state(found.version).metadata.id == found.table_id
    except NotFoundError:
        return False


def delete_directory(wanted: str | None, location: str) -> str:
    """Return where delete files go: in a folder below a table's location, whatever folder the process works in.

    Raises InvalidInputError for `.`, `..` and empty names, and for a place that is not below the location.
    """
    below = path_below(wanted or "deletion-vectors", location)
    parts = (wanted or "deletion-vectors").rstrip("/").split("/") if below is None else below.split("/")
    if {"", ".", ".."} & {*parts} or ":" in parts[0] or "\0" in "".join(parts):
        message = "delete files lie below the table's location, or no other reader would find them"
        raise InvalidInputError(message, "location", "delete_directory", wanted, f"a folder below {location}")
    return normalised("/".join([location.rstrip("/"), *parts]), "delete_directory")


def check_folders(root: str, location: str) -> None:
    """Refuse folders in which one table's maintenance would delete the other's files.

    Raises InvalidInputError for a table in a folder that Delta's VACUUM visits, or that holds the Delta table.
    """
    below = path_below(location, root)
    if below is not None and not is_hidden_below(below):
        message = "Delta's VACUUM would delete the files in this folder"
        expected = f"a folder outside of {root}, or below it one whose name begins with _"
        raise InvalidInputError(message, "delta-location", "location", location, expected)
    if path_below(root, location) is not None:
        message = "the Delta table lies within the Iceberg table, whose maintenance would delete its files"
        raise InvalidInputError(message, "delta-location", "location", location, f"a folder that does not hold {root}")


def schema_for(source: Metadata, metadata: TableMetadata, *, row_ids: bool = True) -> DeltaSchema:
    """Convert the schema of a Delta version, with the ids and names that the Iceberg table has.

    With `row_ids`, the table keeps Delta's row ids if it has them. Raise as `delta_schema`.
    """
    mapping, row_ids = metadata.properties.get(NAME_MAPPING, "[]"), row_ids and ROW_IDS in metadata.properties
    read = {snapshot.schema_id for snapshot in metadata.snapshots.values()}
    older = [s for i, s in metadata.schemas.items() if None in read or i in read]
    known = [metadata.schema, *sorted(older, key=lambda s: s.schema_id, reverse=True)]
    return delta_schema(source, metadata.format_version, known, metadata.all_fields, mapping, row_ids=row_ids)


def evolving_updates(
    metadata: TableMetadata, schema: DeltaSchema, root: str, directory: str
) -> tuple[Mapping[str, Any], ...]:
    """Return the updates that bring a table's schema, spec and name mapping to those of a Delta version.

    `root` is where the Delta table is now, `directory` where delete files go.
    """
    updates: list[Mapping[str, Any]] = []
    wanted = schema_to_json(schema.schema)
    if schema_to_json(metadata.schema)["fields"] != wanted["fields"]:
        last = max(int(metadata.raw["last-column-id"]), schema.schema.highest_field_id)
        updates += [
            {"action": "add-schema", "schema": wanted, "last-column-id": last},
            {"action": "set-current-schema", "schema-id": -1},
        ]
    spec = _spec(metadata, schema)
    if spec is not None:
        updates += [{"action": "add-spec", "spec": spec_to_json(spec)}, {"action": "set-default-spec", "spec-id": -1}]
    properties = {**owned_properties(schema), DELTA_LOCATION: root, DELETE_DIRECTORY: directory}
    changed = {k: v for k, v in properties.items() if metadata.properties.get(k) != v}
    if changed:
        updates.append({"action": "set-properties", "updates": changed})
    owned = {*OTHER_MARKS, ROW_IDS, USER_PROPERTIES, *followed(metadata.properties)}
    gone = (owned - properties.keys()) & metadata.properties.keys()
    if gone:
        updates.append({"action": "remove-properties", "removals": sorted(gone)})
    return tuple(updates)


def owned_properties(schema: DeltaSchema) -> dict[str, str]:
    """Return the properties that a synced table always has."""
    row_ids = {ROW_IDS: "true"} if schema.carries_row_ids else {}
    comment = {} if schema.comment is None else {"comment": schema.comment}
    own = {NAME_MAPPING: schema.name_mapping, "gc.enabled": "false"}
    return {**with_names(schema.properties), **own, **row_ids, **comment}


def _spec(metadata: TableMetadata, schema: DeltaSchema) -> PartitionSpec | None:
    """Return the spec to add, or None if the table's is right. A field keeps the id that it had in an earlier spec."""
    wanted = schema.partition_spec
    if [(f.source_id, f.name) for f in wanted.fields] == [(f.source_id, f.name) for f in metadata.spec.fields]:
        return None
    known = {f.source_id: f.field_id for s in metadata.specs.values() for f in s.fields}
    new_ids = count(int(metadata.raw["last-partition-id"]) + 1)
    ids = [known[f.source_id] if f.source_id in known else next(new_ids) for f in wanted.fields]
    fields = [f.model_copy(update={"field_id": i}) for f, i in zip(wanted.fields, ids, strict=True)]
    return PartitionSpec(*fields, spec_id=max(metadata.specs) + 1)
