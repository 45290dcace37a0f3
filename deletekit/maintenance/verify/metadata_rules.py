"""Check the table metadata alone: ids, references, schemas, specs, snapshots. Check that the files it names exist.

Spec: "Table Metadata Fields", "Snapshots", "Partition Specs", "Row Lineage", https://iceberg.apache.org/spec/
"""

import json
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, get_type_hints

from deletekit.errors import DeletekitError
from deletekit.maintenance.verify.report import DAMAGE, Finding, error, from_error, guarded, warning
from deletekit.table.consistency import in_metadata
from deletekit.table.file_io import FileIO
from deletekit.table.metadata import Snapshot, TableMetadata, check_schema_version
from deletekit.table.properties import NAME_MAPPING

_CLOCK_SKEW_MS = 60_000
"""How much Java's TableMetadata lets the clocks of two writers differ."""

_SNAPSHOT_TYPES = {n: t for n, t in get_type_hints(Snapshot).items() if n not in ("manifests", "summary")}


def check_metadata(metadata: TableMetadata) -> Iterator[Finding]:
    """Check every rule that needs only the document. Findings name no file: there is only this one."""
    for rule in (
        _required_fields,
        _written_on,
        _references,
        _schemas,
        _specs,
        _name_mapping,
        _snapshots,
        _times,
        _snapshot_log,
        _row_ids,
    ):
        yield from guarded(rule(metadata), None, "table metadata")


def usable_snapshots(metadata: TableMetadata) -> tuple[dict[int, Snapshot], list[Finding]]:
    """Return the snapshots whose fields have values of their types, and what is wrong with the others.

    Return no snapshot if schemas, specs or refs cannot be read: then no snapshot can be understood.
    """
    try:
        _ = metadata.all_fields, metadata.untrusted_bounds, metadata.specs, metadata.last_sequence_number
        _ = metadata.next_row_id, metadata.properties, [r.get("snapshot-id") for r in metadata.refs.values()]
        snapshots = metadata.snapshots
    except DAMAGE as e:
        return {}, [from_error(e, None, "table metadata")]
    usable, findings = {}, []
    for key, snapshot in snapshots.items():
        wrong = [n.replace("_", "-") for n, t in _SNAPSHOT_TYPES.items() if not isinstance(getattr(snapshot, n), t)]
        if not all(isinstance(v, str) for v in snapshot.summary.values()):
            wrong.append("summary")
        if wrong:
            message = "snapshot has a value of another type"
            findings.append(error("metadata-field", message, f"snapshots.{wrong[0]}", key))
        else:
            usable[key] = snapshot
    return usable, findings


def check_named_files(metadata: TableMetadata, io: FileIO) -> Iterator[Finding]:
    """Check that logged metadata files and statistics files exist. No reader needs any of them."""
    named = [("metadata-log", e.get("metadata-file"), None) for e in metadata.raw.get("metadata-log") or ()]
    for name in ("statistics", "partition-statistics"):
        entries = metadata.raw.get(name) or ()
        named += [(name, e.get("statistics-path"), e.get("file-size-in-bytes")) for e in entries]
    for name, path, size in named:
        if not isinstance(path, str):
            yield error("metadata-field", "file has no path", name)
            continue
        try:
            found = io.size(path)
        except DAMAGE as e:
            missing = from_error(e, path, name)
            yield warning(missing.kind, missing.message, name, file=path)
            continue
        if size is not None and size != found:
            yield warning("file-size", "file has another size", "file-size-in-bytes", size, found, file=path)


# --- ids and references -----------------------------------------------------------------------------------------------


def _required_fields(metadata: TableMetadata) -> Iterator[Finding]:
    names = ["location", "last-updated-ms"]
    if metadata.version.has_sequence_numbers:
        names += ["table-uuid", "default-sort-order-id"]
    for name in names:
        if metadata.raw.get(name) is None:
            yield error("metadata-field", "table metadata lacks a field", name, expected="a value")


def _written_on(metadata: TableMetadata) -> Iterator[Finding]:
    """Find what a commit refuses to build on."""
    for c in in_metadata(metadata):
        yield error(c.kind, c.message, c.field, c.found, c.expected, snapshot_ids=c.snapshot_ids)


def _references(metadata: TableMetadata) -> Iterator[Finding]:
    raw = metadata.raw
    for snapshot in metadata.snapshots.values():
        if snapshot.schema_id is not None and snapshot.schema_id not in metadata.schemas:
            where, known = f"snapshots.{snapshot.snapshot_id}.schema-id", sorted(metadata.schemas)[:20]
            yield error("reference", "id does not resolve", where, snapshot.schema_id, known)
    for name in ("statistics", "partition-statistics"):
        for entry in raw.get(name) or ():
            snapshot_id, file = entry.get("snapshot-id"), entry.get("statistics-path")
            if snapshot_id not in metadata.snapshots:
                message = "statistics of a snapshot that is not there"
                yield warning("reference", message, f"{name}.snapshot-id", snapshot_id, file=file)
    for order in raw.get("sort-orders") or ():
        for item in order.get("fields") or ():
            if item.get("source-id") not in metadata.all_fields and "source-ids" not in item:
                where = f"sort-orders.{order.get('order-id')}.source-id"
                yield error("reference", "sort column is in no schema", where, item.get("source-id"))


# --- schemas and specs ------------------------------------------------------------------------------------------------


def _schemas(metadata: TableMetadata) -> Iterator[Finding]:
    for schema_id, schema in metadata.schemas.items():
        try:
            check_schema_version(schema, metadata.format_version)
        except DeletekitError as e:
            yield error("schema-format-version", e.message, f"schemas.{schema_id}.{e.field}", e.found, e.expected)


def _specs(metadata: TableMetadata) -> Iterator[Finding]:
    meanings: dict[int, tuple[int, str]] = {}
    for spec_id, spec in metadata.specs.items():
        for field in spec.fields:
            where, transform = f"partition-specs.{spec_id}.{field.name}", str(field.transform)
            if transform == "void":
                continue
            is_default = spec_id == metadata.raw["default-spec-id"]  # a rule of writing looks at that one
            if not is_default and field.source_id not in metadata.all_fields:
                yield error("partition-spec", "source column is in no schema", where, field.source_id)
            # v1 keeps a dropped field's id and makes it void; ids of v1 specs were given by position, so may repeat.
            if metadata.version.keeps_removed_partition_fields:
                continue
            meaning = (field.source_id, transform)
            known = meanings.setdefault(field.field_id, meaning)
            if known != meaning:
                yield error("partition-spec", "one id for two partition fields", where, meaning, known)


def _name_mapping(metadata: TableMetadata) -> Iterator[Finding]:
    text = metadata.properties.get(NAME_MAPPING)
    try:
        ids = [] if text is None else list(_mapped_ids(json.loads(text)))
    except DAMAGE as e:
        yield error("name-mapping", "name mapping cannot be read", NAME_MAPPING, str(e))
        return
    twice = sorted(i for i, times in Counter(ids).items() if times > 1)
    if twice:
        yield error("name-mapping", "name mapping gives an id twice", NAME_MAPPING, twice)


def _mapped_ids(mapping: Any) -> Iterator[int]:
    for item in mapping:
        if not all(isinstance(name, str) for name in item["names"]):
            raise TypeError("names are text")
        if item.get("field-id") is not None:
            yield int(item["field-id"])
        yield from _mapped_ids(item.get("fields") or ())


# --- snapshots --------------------------------------------------------------------------------------------------------


def _snapshots(metadata: TableMetadata) -> Iterator[Finding]:
    numbers = Counter(s.sequence_number for s in metadata.snapshots.values() if s.sequence_number)
    for snapshot in metadata.snapshots.values():
        number, parent, ids = snapshot.sequence_number, snapshot.parent_snapshot_id, (snapshot.snapshot_id,)
        if numbers[number] > 1:
            message, expected = "sequence number is that of another snapshot", "one of its own"
            yield error("snapshot-sequence", message, "sequence-number", number, expected, snapshot_ids=ids)
        if snapshot.manifest_list is None and (snapshot.manifests is None or number):
            message = "snapshot lacks a field"  # older snapshots of an upgraded table may name their manifests
            yield error("metadata-field", message, "manifest-list", expected="a value", snapshot_ids=ids)
        if any(s is snapshot for s in metadata.ancestors(parent)):
            message = "snapshot is its own ancestor"
            yield error("snapshot-parent", message, "parent-snapshot-id", parent, snapshot_ids=ids)


def _times(metadata: TableMetadata) -> Iterator[Finding]:
    updated = metadata.raw.get("last-updated-ms")
    logs = ("snapshot-log", "metadata-log")
    ordered = [(name, [e["timestamp-ms"] for e in metadata.raw.get(name) or ()]) for name in logs]
    for snapshot in metadata.snapshots.values():
        parent = metadata.snapshots.get(snapshot.parent_snapshot_id or 0)
        if parent is not None:
            ordered.append((f"snapshots.{snapshot.snapshot_id}", [parent.timestamp_ms, snapshot.timestamp_ms]))
    for name, times in ordered:
        for earlier, later in pairwise([*times, updated] if isinstance(updated, int) else times):
            if later - earlier < -_CLOCK_SKEW_MS:
                message = "a time lies before the one it follows"
                yield error("timestamp-order", message, f"{name}.timestamp-ms", later, f">= {earlier}")


def _snapshot_log(metadata: TableMetadata) -> Iterator[Finding]:
    name = "snapshot-log"
    logged = [entry["snapshot-id"] for entry in metadata.raw.get(name) or ()]
    for snapshot_id in logged:
        if snapshot_id not in metadata.snapshots:
            yield warning(name, "logged snapshot is not there", name, snapshot_id)
    current = metadata.raw.get("current-snapshot-id")
    if logged and current is not None and logged[-1] != current:
        yield error(name, "snapshot log does not end with the current snapshot", name, logged[-1], current)


def _row_ids(metadata: TableMetadata) -> Iterator[Finding]:
    """Check that v3 snapshots take row ids that no other takes. Those from before the upgrade take none."""
    if not metadata.version.has_row_lineage:
        return
    kind = "snapshot-row-ids"
    taken: list[tuple[int, int, int]] = []
    for snapshot in sorted(metadata.snapshots.values(), key=lambda s: s.sequence_number):
        first, added, ids = snapshot.first_row_id, snapshot.added_rows, (snapshot.snapshot_id,)
        if first is not None and added is not None:
            taken.append((first, first + added, snapshot.snapshot_id))
        elif taken or (first is None) != (added is None):
            field = "first-row-id" if first is None else "added-rows"
            yield error(kind, "snapshot takes no row ids", field, expected="a number", snapshot_ids=ids)
    used = sorted(t for t in taken if t[1] > t[0])
    for (_, stop, other), (start, _, snapshot_id) in pairwise(used):
        if start < stop:
            message, expected = "two snapshots take the same row ids", f">= {stop}, above those of snapshot {other}"
            yield error(kind, message, "first-row-id", start, expected, snapshot_ids=(snapshot_id,))
