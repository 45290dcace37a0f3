"""VERIFY, manifest lists and manifests: each rule is broken in the Avro files of a real table, with fastavro."""

import struct
from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import ANY

import fastavro
import pytest

import deletekit as dk
from tests.maintenance.damage import (
    Case,
    Change,
    Record,
    edit_avro,
    edit_file,
    edit_list,
    edit_manifest,
    findings,
    found,
    head_id,
    head_of,
    put_back,
    with_metadata,
)
from tests.storage import stored_at
from tests.stored import entries, head_json, live_files, manifest_list
from tests.tables import items, make, new_catalog

ROWS = items((1, "a", 1.0), (2, None, 2.0), (3, "b", 3.0), (4, "a", None), (5, "b", float("nan")))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dk.Table]:
    """v3, partitioned: data files of two commits, deletion vectors, an equality delete."""
    with new_catalog(tmp_path_factory.mktemp("manifests")) as catalog:
        table = make(catalog, ROWS, ROWS, format_version=3, partition_by=["category"])
        dk.delete(table, "id = 1", mode="deletion-vector")
        dk.delete_keys(table, [{"id": 3}])
        yield table


@pytest.fixture
def table(made: dk.Table) -> Iterator[dk.Table]:
    """The table, whose files are as before after each test; to be changed in its files only."""
    with put_back(made):
        yield made


@pytest.fixture
def old(catalog: dk.Catalog) -> dk.Table:
    """v2 with position deletes, one file for each data file."""
    table = make(catalog, ROWS, format_version=2)
    dk.delete(table, "id in (1, 2)", mode="position-delete", granularity="file")
    return table


def in_list(change: Callable[[list[Record]], Any], metadata: Any = None) -> Change:
    """Change the rows of the manifest list: the finding is about the list or one of its manifests."""

    def damage(table: dk.Table) -> Any:
        path = edit_list(table, change, metadata)
        return path if metadata else ANY

    return damage


def row_of(content: int, **fields: Any) -> Callable[[list[Record]], None]:
    def change(rows: list[Record]) -> None:
        next(r for r in rows if r["content"] == content).update(fields)

    return change


def partitions(**fields: Any) -> Callable[[list[Record]], None]:
    def change(rows: list[Record]) -> None:
        next(r for r in rows if r["content"] == 0)["partitions"][0].update(fields)

    return change


def entry_with(**fields: Any) -> Change:
    """Change the first entry of the first data manifest. A function is asked for the value."""

    def damage(table: dk.Table) -> str:
        path = str(live_files(table, 0)[0]["file_path"])
        given = {name: value(table) if callable(value) else value for name, value in fields.items()}
        edit_manifest(table, lambda stored: stored[0].update(given))
        return path

    return damage


def file_with(content: int = 0, **fields: Any) -> Change:
    return lambda table: edit_file(table, content, **fields)


def bound(value: bytes) -> list[dict[str, Any]]:
    return [{"key": 1, "value": value}]


PARTITIONS, COUNT, SEQUENCE = "manifest-partitions", "manifest-count", "entry-sequence"
OF_ROW = frozenset({SEQUENCE})  # entries inherit the row's number, which then is not that of who added them
OF_ENTRY = frozenset({COUNT, "manifest-min-sequence", "delete-sequence"})
FIVE, FOUR = struct.pack("<i", 5), struct.pack("<i", 4)
CASES = {
    "length": Case(in_list(row_of(0, manifest_length=7)), "manifest-length", "manifest_length"),
    "newer than the snapshot": Case(
        in_list(row_of(1, sequence_number=9, min_sequence_number=9)),
        "manifest-sequence",
        "sequence_number",
        beside=OF_ROW,
    ),
    "lowest sequence": Case(
        in_list(row_of(0, min_sequence_number=0)), "manifest-min-sequence", "min_sequence_number", beside=OF_ROW
    ),
    "files": Case(in_list(row_of(1, added_files_count=9)), COUNT, "added_files_count"),
    "rows": Case(in_list(row_of(0, added_rows_count=9)), COUNT, "added_rows_count"),
    "row ids of deletes": Case(in_list(row_of(1, first_row_id=0)), "manifest-row-id", "first_row_id"),
    "no row ids": Case(
        in_list(lambda rows: [r | {"first_row_id": None} for r in rows]), "manifest-row-id", "first_row_id", number=2
    ),
    "no null": Case(in_list(partitions(contains_null=False)), PARTITIONS, "partitions.category.contains_null"),
    "low bound": Case(in_list(partitions(lower_bound=b"b")), PARTITIONS, "partitions.category.lower_bound"),
    "high bound": Case(in_list(partitions(upper_bound=b"a")), PARTITIONS, "partitions.category.upper_bound"),
    "no summaries": Case(in_list(row_of(0, partitions=[])), PARTITIONS, "partitions"),
    "list of another snapshot": Case(
        in_list(lambda _: None, {"snapshot-id": "7"}), "manifest-list-metadata", "snapshot-id", "7", severity="warning"
    ),
    "holds others": Case(
        lambda table: edit_manifest(table, lambda _: None, metadata={"content": "deletes"}),
        "manifest-content",
        ANY,
        "deletes",
        "data",
    ),
    # entries
    "sequence": Case(entry_with(sequence_number=9), SEQUENCE, "sequence_number", beside=OF_ENTRY),
    "file sequence": Case(entry_with(file_sequence_number=9), SEQUENCE, "file_sequence_number", beside=OF_ENTRY),
    "file sequence of another": Case(
        entry_with(status=0, snapshot_id=head_id, sequence_number=1, file_sequence_number=1),
        SEQUENCE,
        "file_sequence_number",
        1,
        4,
        beside=None,
    ),
    "existing inherits": Case(entry_with(status=0), SEQUENCE, "sequence_number", beside=OF_ENTRY),
    "snapshot": Case(entry_with(snapshot_id=7), "entry-snapshot", "snapshot_id", beside=OF_ENTRY),
    "counts": Case(
        file_with(value_counts=[{"key": 1, "value": 2}], null_value_counts=[{"key": 1, "value": 3}]),
        "metrics",
        "null_value_counts.1",
        3,
    ),
    "no range": Case(file_with(lower_bounds=bound(FIVE), upper_bounds=bound(FOUR)), "metrics", "lower_bounds.1"),
    "no number": Case(file_with(lower_bounds=bound(FIVE), upper_bounds=bound(b"abc")), "metrics", "lower_bounds.1"),
    **{
        f"split offsets {offsets}": Case(file_with(split_offsets=offsets), "split-offsets", ANY, offsets)
        for offsets in ([4, 4], [9, 4], [-1], [10**9])
    },
    **{f"keys {ids}": Case(file_with(1, equality_ids=ids), "equality-id", ANY, 99) for ids in ([99], [1, 99])},
}


@pytest.mark.parametrize("name", CASES)
def test_a_damage_is_found(made: dk.Table, name: str) -> None:
    CASES[name]._replace(level="metadata").check(made)


def test_looser_summaries_are_right(table: dk.Table) -> None:
    edit_list(table, partitions(contains_null=True, lower_bound=b"", upper_bound=b"zz"))
    assert findings(table) == ()


@pytest.mark.parametrize("what", ["list", "manifest"])
@pytest.mark.parametrize("damage", ["gone", "cut", "other"])
def test_lists_and_manifests_that_cannot_be_read(table: dk.Table, what: str, damage: str) -> None:
    path = head_json(table)["manifest-list"] if what == "list" else manifest_list(table)[0]["manifest_path"]
    data = stored_at(path).read_bytes()
    stored_at(path).write_bytes(data[:-5] if damage == "cut" else b"PAR1")
    if damage == "gone":
        stored_at(path).unlink()
    seen = [f for f in findings(table) if f.kind != "manifest-length"]
    assert [(f.kind, f.file) for f in seen if f.severity == "error"] == [
        ("missing-file" if damage == "gone" else "unreadable-file", path)
    ]


def test_a_manifest_of_no_spec(table: dk.Table) -> None:
    edit_list(table, row_of(1, partition_spec_id=9))
    seen = findings(table, level="metadata")
    assert {f.field for f in seen if f.kind == "manifest-spec"} == {"partition_spec_id"}


def test_a_manifest_of_another_spec(catalog: dk.Catalog) -> None:
    table = make(catalog, ROWS, format_version=2, partition_by=["category"])
    dk.add_partition_field(table, "bucket(2, id)")
    edit_list(table, row_of(0, partition_spec_id=1))
    seen = findings(table, level="metadata")
    assert {f.field for f in seen if f.kind == "manifest-spec"} == {"partition-spec-id", "partition"}


def test_data_and_deletes_in_one_manifest(table: dk.Table) -> None:
    deletes = [e["data_file"] for e in entries(table, 1)]

    def mix(stored: list[Record]) -> None:
        stored.append(stored[0] | {"data_file": deletes[-1] | {"equality_ids": [1], "content": 2}})

    edit_manifest(table, mix)
    seen = [f for f in findings(table, level="metadata") if f.severity == "error"]
    assert {f.kind for f in seen} == {"manifest-content", "manifest-count", "duplicate-file", "delete-file-field"}


def test_a_manifest_of_a_later_version(old: dk.Table) -> None:
    path = edit_manifest(old, lambda _: None, metadata={"format-version": "3"})
    assert found(findings(old), "manifest-version").file == path


# --- entries ----------------------------------------------------------------------------------------------------------


def test_a_bound_from_before_a_promotion_is_right(old: dk.Table) -> None:
    dk.update_column(old, "id", type="long")
    edit_file(old, lower_bounds=[{"key": 1, "value": struct.pack("<i", -3)}])
    assert findings(old) == ()


def test_a_vector_in_a_table_of_version_2(table: dk.Table) -> None:
    seen = findings(with_metadata(table, lambda raw: raw.update({"format-version": 2})), level="metadata")
    kinds = [f for f in seen if f.kind == "delete-kind"]
    assert {f.file for f in kinds} == {d["file_path"] for d in live_files(table, 1) if d["content"] == 1}


def test_deletes_in_a_table_of_version_1(old: dk.Table) -> None:
    seen = findings(with_metadata(old, lambda raw: raw.update({"format-version": 1})), level="metadata")
    assert {f.found for f in seen if f.kind == "delete-kind"} == {"deletes"}


def test_a_position_delete_file_added_to_version_3(old: dk.Table) -> None:
    dk.upgrade_format_version(old, 3)
    assert findings(old) == (), "older ones may stay"
    path = live_files(old, 1)[0]["file_path"]
    edit_manifest(old, lambda _: None, 1, metadata={"format-version": "3"})
    finding = found(findings(old), "delete-kind")
    assert finding.file == path


FIELD_CASES = {
    "equality ids of positions": {"equality_ids": [1]},
    "sorted positions": {"sort_order_id": 0},
    "offset without Puffin": {"content_offset": 4},
    "size without Puffin": {"content_size_in_bytes": 4},
}


@pytest.mark.parametrize("case", FIELD_CASES)
def test_fields_that_a_delete_may_not_have(catalog: dk.Catalog, old: dk.Table, case: str) -> None:
    dk.upgrade_format_version(old, 3)
    dk.delete_keys(old, [{"id": 5}])  # in a manifest that has the fields of v3
    fields = FIELD_CASES[case]
    if case.endswith("positions"):
        # The manifest of the equality deletes has these columns; its file becomes one of positions.
        path = live_files(old, 1)[0]["file_path"]
        edit_manifest(old, lambda s: s[0]["data_file"].update({"content": 1, "sort_order_id": None} | fields), 1)
        seen = {(f.file, f.field) for f in findings(old, level="metadata") if f.kind == "delete-file-field"}
        assert (path, next(iter(fields))) in seen
        return
    path = edit_file(old, 1, **fields)
    finding = found(findings(old, level="metadata"), "delete-file-field")
    assert (finding.file, finding.field) == (path, next(iter(fields)))


def test_equality_ids_in_a_list(catalog: dk.Catalog) -> None:
    import pyarrow as pa  # noqa: PLC0415

    schema = pa.schema([("id", pa.int32()), ("tags", pa.list_(pa.string()))])
    table = make(catalog, [{"id": 1, "tags": ["x"]}], schema=schema, format_version=2)
    dk.delete_keys(table, [{"id": 7}])
    edit_file(table, 1, equality_ids=[3])
    assert found(findings(table, level="metadata"), "equality-id").message == "equality id is inside a list or map"


def test_a_vector_without_its_fields_makes_the_manifest_unreadable(table: dk.Table) -> None:
    rows = manifest_list(table)
    at = [r["manifest_path"] for r in rows if r["content"] == 1]
    for path in at:
        with stored_at(path).open("rb") as source:
            if any(e["data_file"]["file_format"] == "PUFFIN" for e in fastavro.reader(source)):
                edit_avro(path, lambda stored: stored[0]["data_file"].update(referenced_data_file=None))
                break
    seen = [f for f in findings(table, level="metadata") if f.kind == "unreadable-file"]
    assert [(f.file, f.field) for f in seen] == [(path, "referenced_data_file")]


def test_one_manifest_in_many_snapshots_is_one_finding(table: dk.Table) -> None:
    row = next(r for r in manifest_list(table) if r["content"] == 0)
    edit_avro(row["manifest_path"], lambda stored: stored[0].update(snapshot_id=7))
    seen = [f for f in findings(table, snapshots="all", level="metadata") if f.kind == "entry-snapshot"]
    assert len(seen) == 1
    assert len(seen[0].snapshot_ids) == 3, "every snapshot since it was added"


def test_the_summary_against_the_files(table: dk.Table) -> None:
    assert head_of(dict(table.metadata.raw))["summary"]["total-delete-files"] == "3"

    def change(raw: Any) -> None:
        head_of(raw)["summary"] |= {"total-delete-files": "7", "added-equality-deletes": "9"}
        head_of(raw)["summary"].pop("total-records")

    broken = with_metadata(table, change)
    seen = findings(broken)
    assert {(f.kind, f.field, f.found, f.expected, f.severity, f.repair) for f in seen} == {
        ("summary-total", "total-delete-files", "7", 3, "warning", "summary-total"),
        ("summary-count", "added-equality-deletes", "9", 1, "warning", None),
    }
