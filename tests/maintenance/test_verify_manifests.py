"""VERIFY, manifest lists and manifests: each rule is broken in the Avro files of a real table, with fastavro."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any

import fastavro
import pytest

import deletekit as dk
from tests.maintenance.damage import (
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
from tests.tables import entries, head_json, items, live_files, make, manifest_list, new_catalog

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


def row_of(content: int, **fields: Any) -> Callable[[list[Record]], None]:
    def change(rows: list[Record]) -> None:
        next(r for r in rows if r["content"] == content).update(fields)

    return change


def partitions(**fields: Any) -> Callable[[list[Record]], None]:
    def change(rows: list[Record]) -> None:
        for row in rows:
            if row["content"] == 0:
                row["partitions"][0].update(fields)
                return

    return change


ROW_CASES: dict[str, tuple[str, str, Callable[[list[Record]], Any]]] = {
    "length": ("manifest-length", "manifest_length", row_of(0, manifest_length=7)),
    "newer than the snapshot": (
        "manifest-sequence",
        "sequence_number",
        row_of(1, sequence_number=9, min_sequence_number=9),
    ),
    "lowest sequence": ("manifest-min-sequence", "min_sequence_number", row_of(0, min_sequence_number=0)),
    "files": ("manifest-count", "added_files_count", row_of(1, added_files_count=9)),
    "rows": ("manifest-count", "added_rows_count", row_of(0, added_rows_count=9)),
    "row ids of deletes": ("manifest-row-id", "first_row_id", row_of(1, first_row_id=0)),
    "no null partition": ("manifest-partitions", "partitions.category.contains_null", partitions(contains_null=False)),
    "low bound": ("manifest-partitions", "partitions.category.lower_bound", partitions(lower_bound=b"b")),
    "high bound": ("manifest-partitions", "partitions.category.upper_bound", partitions(upper_bound=b"a")),
}


@pytest.mark.parametrize("case", ROW_CASES)
def test_damaged_rows_of_a_manifest_list_are_found(table: dk.Table, case: str) -> None:
    kind, field, change = ROW_CASES[case]
    edit_list(table, change)
    # Entries inherit the manifest's sequence number, which then is not that of who added them.
    seen = [f for f in findings(table, level="metadata") if f.kind != "entry-sequence" or "sequence" not in field]
    finding = found(seen, kind)
    assert finding.field == field
    assert finding.file in {row["manifest_path"] for row in manifest_list(table)}
    assert finding.snapshot_ids == (head_id(table),)
    assert finding.repair is None


def test_a_data_manifest_without_row_ids(table: dk.Table) -> None:
    edit_list(table, lambda rows: [r | {"first_row_id": None} for r in rows])
    seen = findings(table, level="metadata")
    assert {(f.kind, f.field) for f in seen} == {("manifest-row-id", "first_row_id")}
    assert len(seen) == 2, "one for each data manifest"


def test_looser_summaries_are_right(table: dk.Table) -> None:
    edit_list(table, partitions(contains_null=True, lower_bound=b"", upper_bound=b"zz"))
    assert findings(table) == ()


def test_a_summary_of_another_number_of_fields(table: dk.Table) -> None:
    edit_list(table, row_of(0, partitions=[]))
    assert found(findings(table), "manifest-partitions").field == "partitions"


def test_a_list_of_another_snapshot_shows_in_its_metadata(table: dk.Table) -> None:
    path = edit_list(table, lambda _: None, {"snapshot-id": "7"})
    finding = found(findings(table), "manifest-list-metadata", "warning")
    assert (finding.file, finding.field, finding.found) == (path, "snapshot-id", "7")


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


def test_a_manifest_that_says_it_holds_others(table: dk.Table) -> None:
    path = edit_manifest(table, lambda _: None, metadata={"content": "deletes"})
    finding = found(findings(table), "manifest-content")
    assert (finding.file, finding.found, finding.expected) == (path, "deletes", "data")


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


def entry_with(**fields: Any) -> Callable[[list[Record]], None]:
    return lambda stored: stored[0].update(fields)


ENTRY_CASES: dict[str, tuple[str, str, Callable[[list[Record]], Any], int]] = {
    "sequence": ("entry-sequence", "sequence_number", entry_with(sequence_number=9), 0),
    "file sequence": ("entry-sequence", "file_sequence_number", entry_with(file_sequence_number=9), 0),
    "existing inherits": ("entry-sequence", "sequence_number", entry_with(status=0), 0),
    "snapshot": ("entry-snapshot", "snapshot_id", entry_with(snapshot_id=7), 0),
}


@pytest.mark.parametrize("case", ENTRY_CASES)
def test_damaged_entries_are_found(table: dk.Table, case: str) -> None:
    kind, field, change, content = ENTRY_CASES[case]
    path = live_files(table, content)[0]["file_path"]
    edit_manifest(table, change, content)
    seen = [f for f in findings(table, level="metadata") if f.severity == "error"]
    assert [(f.kind, f.field, f.file) for f in seen if f.kind == kind] == [(kind, field, path)]
    # Counts, the lowest sequence number and the age of the deletes follow from the entry.
    assert {f.kind for f in seen} <= {kind, "manifest-count", "manifest-min-sequence", "delete-sequence"}


def test_the_file_sequence_number_is_of_who_added_it(table: dk.Table) -> None:
    head = head_id(table)

    def change(stored: list[Record]) -> None:
        stored[0].update(status=0, snapshot_id=head, sequence_number=1, file_sequence_number=1)

    edit_manifest(table, change)
    seen = [f for f in findings(table, level="metadata") if f.kind == "entry-sequence"]
    assert [(f.field, f.found, f.expected) for f in seen] == [("file_sequence_number", 1, 4)]


def test_counts_that_cannot_be(table: dk.Table) -> None:
    counted = [{"key": 1, "value": 2}]
    path = edit_file(table, value_counts=counted, null_value_counts=[{"key": 1, "value": 3}])
    finding = found(findings(table, level="metadata"), "metrics")
    assert (finding.file, finding.field, finding.found) == (path, "null_value_counts.1", 3)


def test_bounds_that_are_no_range(table: dk.Table) -> None:
    path = edit_file(table, lower_bounds=[{"key": 1, "value": struct.pack("<i", 5)}])
    upper = [{"key": 1, "value": struct.pack("<i", 4)}]
    edit_file(table, upper_bounds=upper)
    finding = found(findings(table, level="metadata"), "metrics")
    assert (finding.file, finding.field) == (path, "lower_bounds.1")
    edit_file(table, upper_bounds=[{"key": 1, "value": b"abc"}])
    assert found(findings(table, level="metadata"), "metrics").file == path


def test_a_bound_from_before_a_promotion_is_right(old: dk.Table) -> None:
    dk.update_column(old, "id", type="long")
    edit_file(old, lower_bounds=[{"key": 1, "value": struct.pack("<i", -3)}])
    assert findings(old) == ()


@pytest.mark.parametrize("offsets", [[4, 4], [9, 4], [-1], [10**9]])
def test_split_offsets_that_do_not_ascend(table: dk.Table, offsets: list[int]) -> None:
    path = edit_file(table, split_offsets=offsets)
    finding = found(findings(table, level="metadata"), "split-offsets")
    assert (finding.file, finding.found) == (path, offsets)


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


@pytest.mark.parametrize("ids", [[99], [1, 99]])
def test_equality_ids_of_no_column(table: dk.Table, ids: list[int]) -> None:
    path = edit_file(table, 1, equality_ids=ids)
    finding = found(findings(table), "equality-id")
    assert (finding.file, finding.found) == (path, 99)


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
