"""Check the table metadata alone: ids, references, schemas and specs. Check that the files it names exist.

Spec: "Table Metadata Fields", "Snapshots", "Partition Specs", "Row Lineage", https://iceberg.apache.org/spec/
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from deletekit.errors import DeletekitError
from deletekit.maintenance.verify.history_rules import check_history
from deletekit.maintenance.verify.report import Finding, error, warning
from deletekit.maintenance.verify.unreadable import DAMAGE, from_error, guarded
from deletekit.table.consistency import in_metadata
from deletekit.table.file_io import FileIO
from deletekit.table.metadata import Snapshot, TableMetadata, check_schema_version
from deletekit.table.properties import NAME_MAPPING

_SNAPSHOT_TYPES = (
    ("snapshot_id", int),
    ("sequence_number", int),
    ("timestamp_ms", int),
    ("parent_snapshot_id", int | None),
    ("schema_id", int | None),
    ("first_row_id", int | None),
    ("added_rows", int | None),
    ("manifest_list", str | None),
)


def check_metadata(metadata: TableMetadata) -> Iterator[Finding]:
    """Check every rule that needs only the document. Findings name no file: there is only this one."""
    for rules in _RULES:
        yield from guarded(rules(metadata), None, "table metadata")


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
        wrong = next((name for name, types in _SNAPSHOT_TYPES if not isinstance(getattr(snapshot, name), types)), None)
        if wrong is None and all(isinstance(v, str) for v in snapshot.summary.values()):
            usable[key] = snapshot
        else:
            name = "summary" if wrong is None else wrong.replace("_", "-")
            findings.append(error("metadata-field", "snapshot has a value of another type", f"snapshots.{name}", key))
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
    fields = metadata.all_fields
    for order in raw.get("sort-orders") or ():
        for item in order.get("fields") or ():
            if item.get("source-id") not in fields and "source-ids" not in item:
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
            where = f"partition-specs.{spec_id}.{field.name}"
            transform = str(field.transform)
            is_default = spec_id == metadata.raw["default-spec-id"]  # a rule of writing looks at that one
            if not is_default and transform != "void" and field.source_id not in metadata.all_fields:
                yield error("partition-spec", "source column is in no schema", where, field.source_id)
            meaning = (field.source_id, transform)
            # v1 keeps a dropped field's id and makes it void; ids of v1 specs were given by position, so may repeat.
            if metadata.version.keeps_removed_partition_fields or transform == "void":
                continue
            known = meanings.setdefault(field.field_id, meaning)
            if known != meaning:
                yield error("partition-spec", "one id for two partition fields", where, meaning, known)


def _name_mapping(metadata: TableMetadata) -> Iterator[Finding]:
    text = metadata.properties.get(NAME_MAPPING)
    if text is None:
        return
    try:
        ids = list(_mapped_ids(json.loads(text)))
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


_RULES: tuple[Callable[[TableMetadata], Iterator[Finding]], ...] = (
    _required_fields,
    _written_on,
    _references,
    _schemas,
    _specs,
    _name_mapping,
    check_history,
)
