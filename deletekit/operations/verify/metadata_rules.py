"""Rules of the table metadata alone: ids, references, order and row ids; and the files it names.

Spec: "Table Metadata Fields", "Snapshots", "Partition Specs", "Row Lineage", https://iceberg.apache.org/spec/
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from deletekit.errors import DeletekitError
from deletekit.operations.verify.damage import DAMAGE, from_error, guarded
from deletekit.operations.verify.history_rules import check_history
from deletekit.operations.verify.report import Finding, error, warning
from deletekit.table.file_io import FileIO
from deletekit.table.metadata import MAIN, Snapshot, TableMetadata, check_schema_version

__all__ = ["check_metadata", "check_named_files", "usable_snapshots"]

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
_NAME_MAPPING = "schema.name-mapping.default"


def check_metadata(metadata: TableMetadata) -> Iterator[Finding]:
    """Every rule that needs nothing but the document. Findings name no file: there is only this one."""
    for rules in _RULES:
        yield from guarded(rules(metadata), None, "table metadata")


def usable_snapshots(metadata: TableMetadata) -> tuple[dict[int, Snapshot], list[Finding]]:
    """The snapshots whose fields have values of their types, and what is wrong with the others.

    None at all when schemas, specs or refs cannot be understood, for nothing in a snapshot can then.
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
            findings.append(
                error("metadata-field", "snapshot has a value of another type", field=f"snapshots.{name}", found=key)
            )
    return usable, findings


def check_named_files(metadata: TableMetadata, io: FileIO) -> Iterator[Finding]:
    """Whether the logged metadata files and the statistics files are there; none of them is needed to read a table."""
    named = [("metadata-log", e.get("metadata-file"), None) for e in metadata.raw.get("metadata-log") or ()]
    for name in ("statistics", "partition-statistics"):
        entries = metadata.raw.get(name) or ()
        named += [(name, e.get("statistics-path"), e.get("file-size-in-bytes")) for e in entries]
    for name, path, size in named:
        if not isinstance(path, str):
            yield error("metadata-field", "file has no path", field=name)
            continue
        try:
            found = io.size(path)
        except DAMAGE as e:
            missing = from_error(e, path, name)
            yield warning(missing.kind, missing.message, file=path, field=name)
            continue
        if size is not None and size != found:
            yield warning(
                "file-size", "file has another size", file=path, field="file-size-in-bytes", found=size, expected=found
            )


# --- ids and references -----------------------------------------------------------------------------------------------


def _required_fields(metadata: TableMetadata) -> Iterator[Finding]:
    names = ["location", "last-updated-ms", "last-column-id"]
    if metadata.format_version >= 2:
        names += ["table-uuid", "last-sequence-number", "last-partition-id", "default-sort-order-id"]
    if metadata.format_version >= 3:
        names.append("next-row-id")
    for name in names:
        if metadata.raw.get(name) is None:
            yield error("metadata-field", "table metadata lacks a field", field=name, expected="a value")


def _ids_once(metadata: TableMetadata) -> Iterator[Finding]:
    raw = metadata.raw
    lists = [
        ("schemas", "schema-id"),
        ("partition-specs", "spec-id"),
        ("sort-orders", "order-id"),
        ("snapshots", "snapshot-id"),
    ]
    for name, key in lists:
        for value, times in Counter(item.get(key) for item in raw.get(name) or ()).items():
            if times > 1:
                yield error("duplicate-id", "id is given twice", field=f"{name}.{key}", found=value, expected="once")
    for schema in raw["schemas"]:
        for value, times in Counter(_field_ids(schema)).items():
            if times > 1:
                where = f"schemas.{schema.get('schema-id')}"
                yield error("duplicate-id", "field id is given twice", field=where, found=value, expected="once")


def _references(metadata: TableMetadata) -> Iterator[Finding]:
    raw = metadata.raw
    orders = {o.get("order-id") for o in raw.get("sort-orders") or ()}
    checks: list[tuple[str, Any, Any]] = [
        ("current-schema-id", raw["current-schema-id"], metadata.schemas),
        ("default-spec-id", raw["default-spec-id"], metadata.specs),
        ("default-sort-order-id", raw.get("default-sort-order-id", 0), orders),
    ]
    checks += [(f"refs.{name}", ref.get("snapshot-id"), metadata.snapshots) for name, ref in metadata.refs.items()]
    checks += [
        (f"snapshots.{s.snapshot_id}.schema-id", s.schema_id, metadata.schemas)
        for s in metadata.snapshots.values()
        if s.schema_id is not None
    ]
    current = raw.get("current-snapshot-id")
    if current is not None:
        checks.append(("current-snapshot-id", current, metadata.snapshots))
    for field, found, known in checks:
        if found not in known:
            yield error("reference", "id does not resolve", field=field, found=found, expected=sorted(known)[:20])
    for name in ("statistics", "partition-statistics"):
        for entry in raw.get(name) or ():
            if entry.get("snapshot-id") not in metadata.snapshots:
                yield warning(
                    "reference",
                    "statistics of a snapshot that is not there",
                    file=entry.get("statistics-path"),
                    field=f"{name}.snapshot-id",
                    found=entry.get("snapshot-id"),
                )
    fields = metadata.all_fields
    for order in raw.get("sort-orders") or ():
        for item in order.get("fields") or ():
            if item.get("source-id") not in fields and "source-ids" not in item:
                where = f"sort-orders.{order.get('order-id')}.source-id"
                yield error("reference", "sort column is in no schema", field=where, found=item.get("source-id"))


def _refs(metadata: TableMetadata) -> Iterator[Finding]:
    for name, ref in metadata.refs.items():
        if ref.get("type") not in ("branch", "tag"):
            yield error(
                "ref", "ref has no type", field=f"refs.{name}.type", found=ref.get("type"), expected="branch, tag"
            )
    main = metadata.refs.get(MAIN, {})
    if main.get("type") == "tag":
        yield error("ref", "main is a branch", field="refs.main.type", found="tag", expected="branch")
    current = metadata.raw.get("current-snapshot-id")
    if current != main.get("snapshot-id"):
        yield error(
            "current-snapshot",
            "current snapshot is not the head of main",
            field="current-snapshot-id",
            found=current,
            expected=main.get("snapshot-id"),
        )


def _highest_ids(metadata: TableMetadata) -> Iterator[Finding]:
    raw = metadata.raw
    highest = {
        "last-column-id": max(metadata.all_fields, default=0),
        "last-partition-id": max((f.field_id for s in metadata.specs.values() for f in s.fields), default=0),
        "last-sequence-number": max((s.sequence_number for s in metadata.snapshots.values()), default=0),
    }
    for name, least in highest.items():
        found = raw.get(name)
        if found is not None and found < least:
            yield error(name, "a higher one is in use", field=name, found=found, expected=f">= {least}")


# --- schemas and specs ------------------------------------------------------------------------------------------------


def _schemas(metadata: TableMetadata) -> Iterator[Finding]:
    for schema_id, schema in metadata.schemas.items():
        try:
            check_schema_version(schema, metadata.format_version)
        except DeletekitError as e:
            where = f"schemas.{schema_id}.{e.field}"
            yield error("schema-format-version", e.message, field=where, found=e.found, expected=e.expected)


def _specs(metadata: TableMetadata) -> Iterator[Finding]:
    meanings: dict[int, tuple[int, str]] = {}
    for spec_id, spec in metadata.specs.items():
        for field in spec.fields:
            where = f"partition-specs.{spec_id}.{field.name}"
            transform = str(field.transform)
            if transform != "void" and field.source_id not in metadata.all_fields:
                yield error("partition-spec", "source column is in no schema", field=where, found=field.source_id)
            meaning = (field.source_id, transform)
            # v1 keeps a dropped field's id and makes it void; ids of v1 specs were given by position, so may repeat.
            if metadata.format_version == 1 or transform == "void":
                continue
            known = meanings.setdefault(field.field_id, meaning)
            if known != meaning:
                yield error(
                    "partition-spec", "one id for two partition fields", field=where, found=meaning, expected=known
                )


def _name_mapping(metadata: TableMetadata) -> Iterator[Finding]:
    text = metadata.properties.get(_NAME_MAPPING)
    if text is None:
        return
    try:
        ids = list(_mapped_ids(json.loads(text)))
    except DAMAGE as e:
        yield error("name-mapping", "name mapping cannot be read", field=_NAME_MAPPING, found=str(e))
        return
    twice = sorted(i for i, times in Counter(ids).items() if times > 1)
    if twice:
        yield error("name-mapping", "name mapping gives an id twice", field=_NAME_MAPPING, found=twice)


def _mapped_ids(mapping: Any) -> Iterator[int]:
    for item in mapping:
        if not all(isinstance(name, str) for name in item["names"]):
            raise TypeError("names are text")
        if item.get("field-id") is not None:
            yield int(item["field-id"])
        yield from _mapped_ids(item.get("fields") or ())


def _field_ids(raw: Any) -> Iterator[int]:
    if isinstance(raw, Mapping):
        for key in ("id", "element-id", "key-id", "value-id"):
            if key in raw:
                yield raw[key]
        for key in ("fields", "type", "element", "key", "value"):
            yield from _field_ids(raw.get(key))
    elif isinstance(raw, list):
        for item in raw:
            yield from _field_ids(item)


_RULES: tuple[Callable[[TableMetadata], Iterator[Finding]], ...] = (
    _required_fields,
    _ids_once,
    _references,
    _refs,
    _highest_ids,
    _schemas,
    _specs,
    _name_mapping,
    check_history,
)
