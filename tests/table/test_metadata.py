"""Table metadata: Iceberg Java's files, what it reads in them, and changes by the REST catalog's words."""

import gzip
import json
from typing import Any

import pytest
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, TimestampNanoType

from deletekit.errors import (
    CommitConflictError,
    DeletekitError,
    FormatError,
    InvalidInputError,
    NotFoundError,
    UnsupportedError,
)
from deletekit.table.metadata import Snapshot, TableMetadata, new_metadata, parse_metadata, serialise_metadata
from deletekit.table.metadata_update import apply_updates, check_requirements
from tests.golden_files import Entry, cases, content
from tests.tables import raises

VARIANT = "v3_defaults.metadata.json"  # has columns of types that deletekit does not have
FILES = cases("metadata", lambda e: e["file"] != VARIANT)
SAME_NAMES = (
    "format-version",
    "table-uuid",
    "last-updated-ms",
    "last-column-id",
    "current-schema-id",
    "default-spec-id",
    "last-partition-id",
    "default-sort-order-id",
    "current-snapshot-id",
)


def parsed(entry: Entry) -> TableMetadata:
    return parse_metadata(content("metadata", entry["file"]), entry["file"])


def document(data: bytes) -> Entry:
    return json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)


def full(file: str = "v2_full.metadata.json") -> TableMetadata:
    return parse_metadata(content("metadata", file))


# --- golden -----------------------------------------------------------------------------------------------------------


@pytest.mark.golden
@pytest.mark.parametrize("entry", FILES)
def test_fields_are_what_java_reads(entry: Entry) -> None:
    metadata, read = parsed(entry), entry["read"]
    assert {name: metadata.raw.get(name) for name in SAME_NAMES} == {name: read[name] for name in SAME_NAMES}
    assert metadata.format_version == read["format-version"]
    assert metadata.table_uuid == read["table-uuid"]
    assert metadata.location == read["location"]
    assert metadata.last_sequence_number == read["last-sequence-number"]
    assert metadata.next_row_id == read["next-row-id"]
    assert metadata.properties == read["properties"]
    assert list(metadata.schemas) == read["schema-ids"]
    assert metadata.schema.schema_id == read["current-schema-id"]
    assert list(metadata.specs) == read["spec-ids"]
    assert metadata.spec.spec_id == read["default-spec-id"]
    assert [order["order-id"] for order in metadata.raw["sort-orders"]] == read["sort-order-ids"]


@pytest.mark.golden
@pytest.mark.parametrize("entry", FILES)
def test_snapshots_are_what_java_reads(entry: Entry) -> None:
    metadata, read = parsed(entry), entry["read"]
    found = [
        {
            "snapshot-id": s.snapshot_id,
            "parent-snapshot-id": s.parent_snapshot_id,
            "sequence-number": s.sequence_number,
            "timestamp-ms": s.timestamp_ms,
            "operation": s.operation,
            "schema-id": s.schema_id,
            "manifest-list": s.manifest_list,
            "first-row-id": s.first_row_id,
            "added-rows": s.added_rows,
        }
        for s in metadata.snapshots.values()
    ]
    assert found == [{k: v for k, v in s.items() if k != "key-id"} for s in read["snapshots"]]
    current = metadata.current_snapshot
    assert (current.snapshot_id if current else None) == read["current-snapshot-id"]


@pytest.mark.golden
@pytest.mark.parametrize("entry", FILES)
def test_refs_and_logs_are_what_java_reads(entry: Entry) -> None:
    metadata, read = parsed(entry), entry["read"]
    raw = metadata.raw
    assert metadata.refs == read["refs"]
    for name in read["refs"]:
        head = metadata.snapshot_of_ref(name)
        assert head is not None
        assert head.snapshot_id == read["refs"][name]["snapshot-id"]
    assert [e["snapshot-id"] for e in raw.get("snapshot-log") or ()] == read["snapshot-log"]
    assert [e["metadata-file"] for e in raw.get("metadata-log") or ()] == read["metadata-log"]
    for name in ("statistics", "partition-statistics"):
        assert [s["statistics-path"] for s in raw.get(name) or ()] == read[name]
    assert [k["key-id"] for k in raw.get("encryption-keys") or ()] == read["encryption-keys"]


@pytest.mark.golden
@pytest.mark.parametrize("entry", FILES)
def test_nothing_of_the_document_is_lost(entry: Entry) -> None:
    data = content("metadata", entry["file"])
    written = document(serialise_metadata(parse_metadata(data)))
    original = document(data)
    assert {k: written.get(k) for k in original} == original
    added = {k: v for k, v in written.items() if k not in original}
    assert set(added) <= {"refs", "current-snapshot-id", "partition-specs", "sort-orders"}


@pytest.mark.golden
@pytest.mark.parametrize("entry", FILES)
def test_what_is_written_reads_as_the_same(entry: Entry) -> None:
    metadata = parsed(entry)
    again = parse_metadata(serialise_metadata(metadata))
    assert again.raw == metadata.raw


@pytest.mark.golden
def test_a_snapshot_with_its_manifests_inside() -> None:
    metadata = full("v1_inline_manifests.metadata.json")
    assert metadata.current_snapshot is not None
    assert metadata.current_snapshot.manifest_list is None
    assert metadata.current_snapshot.manifests


@pytest.mark.golden
def test_a_column_type_that_deletekit_lacks_is_named() -> None:
    with raises(UnsupportedError, "type"):
        full(VARIANT)


# --- refusals ---------------------------------------------------------------------------------------------------------


def changed(**changes: Any) -> bytes:
    raw = document(content("metadata", "v2_full.metadata.json"))
    for name, value in changes.items():
        key = name.replace("_", "-")
        if value is None:
            del raw[key]
        else:
            raw[key] = value
    return json.dumps(raw).encode()


@pytest.mark.parametrize("version", [4, 5, 99])
def test_a_later_format_version_is_unsupported(version: int) -> None:
    with raises(UnsupportedError, "format-version", file="m.json", found=version):
        parse_metadata(changed(format_version=version), "m.json")


@pytest.mark.parametrize("version", [0, -1, "2", [2]])
def test_no_format_version(version: Any) -> None:
    with pytest.raises(FormatError):
        parse_metadata(changed(format_version=version))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff\xfe",
        b"[" * 100_000,
        b"\x1f\x8b",
        b"\x1f\x8b\x08\x00 not gzip",
        gzip.compress(b"{}")[:-9],
        b"{}",
    ],
    ids=["empty", "open", "list", "null", "bytes", "deep", "gzip-magic", "gzip-garbage", "gzip-cut", "no-fields"],
)
def test_what_is_no_metadata(data: bytes) -> None:
    with pytest.raises(FormatError) as caught:
        parse_metadata(data, "m.json")
    assert caught.value.file == "m.json"


@pytest.mark.parametrize(
    "data",
    [
        changed(location=None),
        changed(last_column_id=None),
        changed(current_schema_id=99),
        changed(default_spec_id=99),
        changed(schemas=[{"type": "struct", "schema-id": 1, "fields": [{"id": 1}]}]),
        changed(partition_specs=[{"spec-id": 1, "fields": [{"name": "x"}]}]),
        changed(snapshots=[{}]),
        changed(refs={"main": {"snapshot-id": 5, "type": "branch"}}),
    ],
    ids=["location", "column", "schema-id", "spec-id", "schema", "spec", "snapshot", "ref"],
)
def test_a_field_that_is_wrong(data: bytes) -> None:
    with pytest.raises(FormatError):
        parse_metadata(data)


@pytest.mark.parametrize("transform", ["bucket[!6]", "truncate[]"])
def test_a_transform_that_there_is_not(transform: str) -> None:
    field = {"name": "x", "transform": transform, "source-id": 1, "field-id": 1000}
    with pytest.raises(DeletekitError):
        parse_metadata(changed(partition_specs=[{"spec-id": 1, "fields": [field]}]))


def test_every_cut_is_refused() -> None:
    data = content("metadata", "v3_full.metadata.json")
    for end in range(0, len(data) - 1, 11):
        with pytest.raises(DeletekitError):
            parse_metadata(data[:end])


# --- looking things up ------------------------------------------------------------------------------------------------

FIRST, SECOND, OTHER = 3051729675574597004, 3055729675574597004, 3059729675574597004


def test_a_snapshot_by_id_by_ref_and_by_time() -> None:
    metadata = full()
    assert metadata.snapshot_by_id(OTHER).snapshot_id == OTHER
    head = metadata.snapshot_of_ref("dev")
    assert head is not None
    assert head.snapshot_id == OTHER
    log = metadata.raw["snapshot-log"]
    assert metadata.snapshot_as_of(log[0]["timestamp-ms"]).snapshot_id == FIRST
    assert metadata.snapshot_as_of(log[1]["timestamp-ms"] - 1).snapshot_id == FIRST
    assert metadata.snapshot_as_of(log[1]["timestamp-ms"]).snapshot_id == SECOND
    assert metadata.schema_of(metadata.snapshot_by_id(FIRST)).schema_id == 0


def test_what_is_not_there() -> None:
    metadata = full()
    with pytest.raises(NotFoundError):
        metadata.snapshot_by_id(1)
    with pytest.raises(NotFoundError):
        metadata.snapshot_of_ref("none")
    with pytest.raises(NotFoundError):
        metadata.snapshot_as_of(0)


def test_main_without_a_snapshot_is_none() -> None:
    assert full("v2_no_current_snapshot.metadata.json").snapshot_of_ref("main") is None
    assert full("v3_new.metadata.json").current_snapshot is None


# --- new tables -------------------------------------------------------------------------------------------------------

SCHEMA = Schema(NestedField(1, "id", LongType(), required=True))


def new(version: int) -> TableMetadata:
    return new_metadata(SCHEMA, PartitionSpec(), location="s3://b/t/", format_version=version, properties={"a": "b"})


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_new_table_reads_back(version: int) -> None:
    metadata = parse_metadata(serialise_metadata(new(version)))
    assert (metadata.format_version, metadata.location) == (version, "s3://b/t")
    assert (metadata.properties, metadata.snapshots, metadata.refs) == ({"a": "b"}, {}, {})
    assert metadata.schema.fields == SCHEMA.fields
    assert ("next-row-id" in metadata.raw) == (version == 3)


def test_a_new_table_of_a_version_or_type_that_there_is_not() -> None:
    with pytest.raises(InvalidInputError):
        new(4)
    schema = Schema(NestedField(1, "at", TimestampNanoType(), required=False))
    with pytest.raises(InvalidInputError, match="newer format version"):
        new_metadata(schema, PartitionSpec(), location="s3://b/t", format_version=2)


# --- updates ----------------------------------------------------------------------------------------------------------


def snapshot(number: int, *, parent: int | None = None, first_row_id: int = 0, version: int = 3) -> Entry:
    return Snapshot(
        snapshot_id=number,
        parent_snapshot_id=parent,
        sequence_number=number,
        timestamp_ms=1000 * number,
        manifest_list=f"s3://b/{number}.avro",
        summary={"operation": "append"},
        schema_id=0,
        first_row_id=first_row_id,
        added_rows=10,
    ).to_json(version)


def add(number: int, **options: Any) -> Entry:
    return {"action": "add-snapshot", "snapshot": snapshot(number, **options)}


def to_main(number: int) -> Entry:
    return {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": number}


def committed() -> TableMetadata:
    return apply_updates(new(3), [add(1), to_main(1)], 5000)


def test_a_snapshot_is_added_and_becomes_current() -> None:
    before = new(3)
    kept = json.dumps(before.raw)
    metadata = apply_updates(before, [add(1), to_main(1)], 10**14)
    assert metadata.current_snapshot == Snapshot.from_json(snapshot(1))
    assert (metadata.last_sequence_number, metadata.next_row_id) == (1, 10)
    assert metadata.raw["snapshot-log"] == [{"timestamp-ms": 1000, "snapshot-id": 1}]
    assert metadata.raw["last-updated-ms"] == 10**14
    assert json.dumps(before.raw) == kept


@pytest.mark.parametrize(
    "update",
    [
        {"action": "add-snapshot", "snapshot": snapshot(2, parent=1) | {"sequence-number": 1, "first-row-id": 10}},
        {"action": "add-snapshot", "snapshot": snapshot(2, parent=1) | {"sequence-number": None}},
        add(2, parent=1, first_row_id=9),
    ],
    ids=["sequence-number", "no-sequence-number", "first-row-id"],
)
def test_a_snapshot_behind_the_table_is_a_conflict(update: Entry) -> None:
    with pytest.raises(CommitConflictError):
        apply_updates(committed(), [update], 5000)


@pytest.mark.parametrize(
    "update",
    [add(1), to_main(77), {"action": "upgrade-format-version", "format-version": 4},
     {"action": "upgrade-format-version", "format-version": 2}],
    ids=["twice", "no-snapshot", "v4", "downgrade"],
)  # fmt: skip
def test_an_update_that_the_metadata_cannot_take(update: Entry) -> None:
    with pytest.raises(InvalidInputError):
        apply_updates(committed(), [update], 5000)


def test_an_unknown_update_is_unsupported() -> None:
    with pytest.raises(UnsupportedError):
        apply_updates(committed(), [{"action": "add-view"}], 5000)


def test_upgrades() -> None:
    metadata = apply_updates(new(1), [{"action": "upgrade-format-version", "format-version": 3}], 5000)
    assert (metadata.format_version, metadata.next_row_id, metadata.last_sequence_number) == (3, 0, 0)


def test_schemas_and_specs_are_added_once() -> None:
    fields = [{"id": 1, "name": "id", "required": True, "type": "long"}]
    more = [*fields, {"id": 2, "name": "x", "required": False, "type": "int"}]
    spec = {"fields": [{"name": "x", "transform": "identity", "source-id": 2, "field-id": 1000}]}
    updates = [
        {"action": "add-schema", "schema": {"type": "struct", "fields": more}, "last-column-id": 2},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": spec},
        {"action": "set-default-spec", "spec-id": -1},
    ]
    metadata = apply_updates(apply_updates(new(2), updates, 5000), updates, 6000)
    assert (list(metadata.schemas), metadata.schema.schema_id) == ([0, 1], 1)
    assert (list(metadata.specs), metadata.spec.spec_id) == ([0, 1], 1)
    assert (metadata.raw["last-column-id"], metadata.raw["last-partition-id"]) == (2, 1000)
    assert not [name for name in metadata.raw if name.startswith("_")]


def test_properties_are_set_and_removed() -> None:
    updates = [
        {"action": "set-properties", "updates": {"c": "d"}},
        {"action": "remove-properties", "removals": ["a", "z"]},
    ]
    assert apply_updates(new(2), updates, 5000).properties == {"c": "d"}


def test_a_removed_snapshot_takes_refs_and_history_with_it() -> None:
    metadata = apply_updates(committed(), [add(2, parent=1, first_row_id=10), to_main(2)], 6000)
    found = apply_updates(metadata, [{"action": "remove-snapshots", "snapshot-ids": [1]}], 7000)
    assert (list(found.snapshots), [e["snapshot-id"] for e in found.raw["snapshot-log"]]) == ([2], [2])


def test_main_is_removed() -> None:
    found = apply_updates(committed(), [{"action": "remove-snapshot-ref", "ref-name": "main"}], 7000)
    assert (found.current_snapshot, found.raw["current-snapshot-id"]) == (None, None)


HOLDS = [
    {"type": "assert-table-uuid", "uuid": "fb072c92-a02b-11e9-ae9c-1bb7bc9eca94"},
    {"type": "assert-last-assigned-field-id", "last-assigned-field-id": 13},
    {"type": "assert-current-schema-id", "current-schema-id": 1},
    {"type": "assert-last-assigned-partition-id", "last-assigned-partition-id": 1002},
    {"type": "assert-default-spec-id", "default-spec-id": 1},
    {"type": "assert-default-sort-order-id", "default-sort-order-id": 2},
    {"type": "assert-ref-snapshot-id", "ref": "dev", "snapshot-id": OTHER},
    {"type": "assert-ref-snapshot-id", "ref": "none", "snapshot-id": None},
]


@pytest.mark.parametrize("requirement", HOLDS, ids=lambda r: r["type"])
def test_a_requirement_holds_or_is_a_conflict(requirement: Entry) -> None:
    check_requirements(full(), [requirement])
    key = list(requirement)[-1]
    with pytest.raises(CommitConflictError) as caught:
        check_requirements(full(), [requirement | {key: 4711}])
    assert (caught.value.field, caught.value.retryable) == (requirement["type"], True)
    with pytest.raises(CommitConflictError):
        check_requirements(None, [requirement])


def test_creation_is_required_of_no_table() -> None:
    check_requirements(None, [{"type": "assert-create"}])
    with pytest.raises(CommitConflictError):
        check_requirements(full(), [{"type": "assert-create"}])


def test_an_unknown_requirement_is_unsupported() -> None:
    with pytest.raises(UnsupportedError):
        check_requirements(full(), [{"type": "assert-view-uuid"}])


@pytest.mark.parametrize("field", ["current_schema_id", "default_spec_id"])
def test_a_number_without_end(field: str) -> None:
    with pytest.raises(DeletekitError):
        parse_metadata(changed(**{field: float("inf")}))
