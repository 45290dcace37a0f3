"""VERIFY, the live files of a snapshot together: vectors, dangling deletes, partitions, row ids."""

from collections.abc import Iterator
from typing import Any

import pytest

import deletekit as dk
from deletekit.engines.local import LocalEngine
from tests.maintenance.damage import Record, edit_file, edit_list, edit_manifest, findings, found, head_id, put_back
from tests.stored import entries, live_files
from tests.tables import items, make, new_catalog

ROWS = items((1, "a", 1.0), (2, None, 2.0), (3, "b", 3.0), (4, "a", None), (5, "b", 5.0), (6, None, 6.0))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dk.Table]:
    """v3, partitioned: three data files, each with a deletion vector."""
    with new_catalog(tmp_path_factory.mktemp("snapshots")) as catalog:
        table = make(catalog, ROWS, format_version=3, partition_by=["category"])
        dk.delete(table, "id in (1, 2, 3)", mode="deletion-vector")
        yield table


@pytest.fixture
def table(made: dk.Table) -> Iterator[dk.Table]:
    with put_back(made):
        yield made


def add_entries(table: dk.Table, content: int, *more: Record) -> None:
    """Add entries to the head's first manifest of a content, its counts in the list too."""
    edit_manifest(table, lambda stored: stored.extend(stored[0] | {"data_file": m} for m in more), content)

    def count(rows: list[Record]) -> None:
        row = next(r for r in rows if r["content"] == content)
        row["added_files_count"] += len(more)
        row["added_rows_count"] += sum(m["record_count"] for m in more)

    edit_list(table, count)


def errors(table: dk.Table) -> list[dk.results.Finding]:
    return [f for f in findings(table) if f.severity == "error"]


def test_two_vectors_of_one_data_file(table: dk.Table) -> None:
    vector = live_files(table, 1)[0]
    other = live_files(table, 1)[1]
    add_entries(
        table, 1, other | {"referenced_data_file": vector["referenced_data_file"], "partition": vector["partition"]}
    )
    seen = errors(table)
    twice = next(f for f in seen if f.kind == "duplicate-deletion-vector")
    assert twice.file == vector["referenced_data_file"]
    assert twice.found.count("@") == 2
    assert (twice.repair, twice.snapshot_ids) == ("duplicate-deletion-vector", (head_id(table),))
    # The entry that was moved is there twice now, and its footer still tells its own data file.
    assert {f.kind for f in seen} == {"duplicate-deletion-vector", "duplicate-file", "puffin-blob"}


def test_a_data_file_that_is_live_twice(table: dk.Table) -> None:
    file = live_files(table, 0)[0]
    add_entries(table, 0, file)
    seen = errors(table)
    assert {(f.kind, f.file, f.found) for f in seen if f.kind == "duplicate-file"} == {
        ("duplicate-file", file["file_path"], 2)
    }


def test_a_vector_of_no_live_file(table: dk.Table) -> None:
    vector = live_files(table, 1)[0]

    def remove(stored: list[Record]) -> list[Record]:
        return [e for e in stored if e["data_file"]["file_path"] != vector["referenced_data_file"]]

    edit_manifest(table, remove)
    finding = next(f for f in findings(table) if f.kind == "dangling-deletion-vector")
    assert (finding.severity, finding.file, finding.repair) == ("warning", vector["file_path"], finding.kind)
    assert vector["referenced_data_file"] in finding.found


@pytest.mark.parametrize("partition", [{"category": "b"}, {"category": None}])
def test_a_vector_of_another_partition(table: dk.Table, partition: dict[str, Any]) -> None:
    vector = next(d for d in live_files(table, 1) if d["partition"] == {"category": "a"})

    def move(stored: list[Record]) -> None:
        for entry in stored:
            if entry["data_file"]["referenced_data_file"] == vector["referenced_data_file"]:
                entry["data_file"]["partition"] = partition

    edit_manifest(table, move, 1)
    finding = found(findings(table), "delete-partition")
    assert (finding.file, finding.field) == (vector["file_path"], "partition")


def test_a_vector_that_is_older_than_its_data_file(table: dk.Table) -> None:
    def age(rows: list[Record]) -> None:
        for row in rows:
            if row["content"] == 1:
                row.update(sequence_number=0, min_sequence_number=0)

    edit_list(table, age)
    seen = errors(table)
    assert {f.kind for f in seen} == {"delete-sequence", "manifest-sequence", "entry-sequence"}
    assert {f.file for f in seen if f.kind == "delete-sequence"} == {d["file_path"] for d in live_files(table, 1)}


def test_more_positions_than_rows(table: dk.Table) -> None:
    path = edit_file(table, 0, record_count=0)
    finding = next(f for f in findings(table) if f.kind == "position-out-of-range" and f.field == "record_count")
    assert finding.severity == "warning"
    assert path in str(finding.expected)


def test_row_ids_of_two_data_files(table: dk.Table) -> None:
    files = entries(table, 0)
    head = files[0]["snapshot_id"]

    def overlap(stored: list[Record]) -> None:
        for entry, first in zip(stored, (0, 1, 4), strict=True):
            entry.update(status=0, snapshot_id=head, sequence_number=1, file_sequence_number=1)
            entry["data_file"]["first_row_id"] = first

    edit_manifest(table, overlap)
    seen = [f for f in findings(table, level="metadata") if f.kind == "row-id-overlap"]
    assert [(f.field, f.found) for f in seen] == [("first_row_id", 1)]


def test_row_ids_that_were_not_given_out(table: dk.Table) -> None:
    edit_list(table, lambda rows: [r | {"first_row_id": 5} if r["content"] == 0 else r for r in rows])
    seen = [f for f in findings(table, level="metadata") if f.kind == "row-id-overlap"]
    assert {f.message for f in seen} == {"data file has row ids that were not given out"}


# --- deletes that apply to nothing ------------------------------------------------------------------------------------


def dangling(table: dk.Table) -> list[tuple[str, str]]:
    return [(f.kind, str(f.file)) for f in findings(table) if f.kind.startswith("dangling")]


def only_dangling(table: dk.Table) -> list[tuple[str, str]]:
    seen = findings(table)
    assert {f.severity for f in seen} <= {"warning"}
    assert all(f.repair == f.kind for f in seen)
    return dangling(table)


def remove_data(table: dk.Table, manifests: int) -> None:
    """Take the newest data manifests out of the list, as a writer does that leaves position deletes behind."""

    def remove(rows: list[Record]) -> list[Record]:
        data = [r for r in rows if r["content"] == 0]
        return [r for r in rows if r not in data[:manifests]]

    edit_list(table, remove)


@pytest.mark.parametrize("granularity", ["file", "partition"])
def test_position_deletes_of_files_that_were_rewritten(catalog: dk.Catalog, granularity: str) -> None:
    table = make(catalog, ROWS, ROWS, format_version=2)
    dk.delete(table, "id = 1", mode="position-delete", granularity=granularity, engine=LocalEngine(1))
    assert only_dangling(table) == []
    remove_data(table, 2)
    left = [d["file_path"] for d in live_files(table, 1)]
    assert len(left) == (2 if granularity == "file" else 1)
    assert sorted(dangling(table)) == sorted(("dangling-position-delete", path) for path in left)


def test_a_position_delete_file_that_names_files_which_are_gone(catalog: dk.Catalog) -> None:
    """By sequence number it could apply to what is left; only its rows tell that it does not."""
    table = make(catalog, ROWS[4:], ROWS[:2], ROWS[:2], format_version=2)
    dk.delete(table, "id = 1", mode="position-delete", granularity="partition", engine=LocalEngine(1))
    (delete,) = live_files(table, 1)
    assert only_dangling(table) == []
    remove_data(table, 2)
    assert dangling(table) == [("dangling-position-delete", delete["file_path"])]
    assert [f for f in findings(table, level="metadata") if f.kind.startswith("dangling")] == []


def test_position_deletes_that_a_vector_supersedes(catalog: dk.Catalog) -> None:
    table = make(catalog, ROWS, format_version=2)
    dk.delete(table, "id = 1", mode="position-delete", granularity="partition", engine=LocalEngine(1))
    dk.upgrade_format_version(table, 3)
    assert only_dangling(table) == []
    dk.delete(table, "id = 2", mode="deletion-vector")
    assert [kind for kind, _ in only_dangling(table)] == ["dangling-position-delete"] * len(
        [d for d in live_files(table, 1) if d["file_format"] == "PARQUET"]
    )


@pytest.mark.parametrize("partition_by", [[], ["category"]], ids=str)
def test_equality_deletes_older_than_all_data(catalog: dk.Catalog, partition_by: list[str]) -> None:
    table = make(catalog, ROWS, format_version=2, partition_by=partition_by)
    dk.delete_keys(table, [{"id": 1, "category": "a"}], scope="partition" if partition_by else "global")
    assert only_dangling(table) == []
    path = live_files(table, 1)[0]["file_path"]
    dk.update(table, {"value": 0.0}, where="category = 'a' or category is null or category = 'b'", mode="copy-on-write")
    dk.append(table, ROWS)
    assert only_dangling(table) == [("dangling-equality-delete", path)]


def test_a_global_equality_delete_applies_across_specs(catalog: dk.Catalog) -> None:
    """Java's action looks for data files of the unpartitioned spec only, and there is none here."""
    table = make(catalog, ROWS, format_version=2, partition_by=["category"])
    dk.delete_keys(table, [{"id": 1}], scope="global")
    assert only_dangling(table) == []


def test_a_repair_is_of_branches_only(catalog: dk.Catalog) -> None:
    table = make(catalog, ROWS, format_version=2)
    dk.delete_keys(table, [{"id": 1}])
    dk.update(table, {"value": 0.0}, where="id >= 0", mode="copy-on-write")
    dangling_at = head_id(table)
    dk.create_tag(table, "kept")
    assert dk.repair(table).commit is not None
    seen = [f for f in dk.verify(table).findings if f.kind.startswith("dangling")]
    assert [(f.snapshot_ids, f.repair) for f in seen] == [((dangling_at,), None)]
