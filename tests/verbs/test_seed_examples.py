"""The examples of the three documents that deletekit implements, field for field.

What was written is read with json, fastavro, pyarrow and pyroaring; only `scan` and `explain` are deletekit's own.
"""

import base64
from typing import Any

import pyarrow as pa
import pytest

import deletekit as dk
from deletekit.commit.change import Base, RowDelta
from deletekit.commit.planned_change import plan_change
from deletekit.commit.swap import commit
from deletekit.deletes.merge_previous_deletes import FilePositions, write_deletion_vectors
from deletekit.engines.local import LocalEngine
from deletekit.formats.deletion_vector import PositionBitmap
from tests.storage import stored_at
from tests.stored import (
    avro,
    entries,
    head_json,
    live_files,
    manifest_list,
    metadata_json,
    parquet,
    position_deletes,
    snapshots_json,
    vectors,
)
from tests.tables import VERSION_AND_MODE, files_of, ids, live, make


def users_table(catalog: dk.Catalog, **options: Any) -> dk.Table:
    return make(catalog, dk.datasets.users(), schema=dk.datasets.users(), **options)


def animals_table(catalog: dk.Catalog, **options: Any) -> dk.Table:
    return make(catalog, dk.datasets.animals(), schema=dk.datasets.animals(), **options)


def picked(found: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any]:
    return {name: found.get(name) for name in wanted}


# --- the post: equality deletes ---------------------------------------------------------------------------------------


@pytest.fixture
def users(catalog: dk.Catalog) -> dk.Table:
    """Give the table of the post's first example: four rows, then ids 1 and 3 deleted by value."""
    table = users_table(catalog)
    dk.delete(table, "id in (1, 3)", mode="equality-delete")
    return table


def test_the_table_of_the_post(catalog: dk.Catalog) -> None:
    table = users_table(catalog)
    schema = metadata_json(table)["schemas"][0]
    assert [(f["id"], f["name"], f["type"], f["required"]) for f in schema["fields"]] == [
        (1, "id", "int", True),
        (2, "name", "string", True),
        (3, "value", "double", True),
        (4, "timestamp", "timestamp", True),
    ]
    rows = [tuple(map(str, row.values())) for row in live(table)]
    assert rows == [
        ("1", "User-1", "100.0", "2024-12-03 08:15:22"),
        ("2", "User-2", "200.0", "2024-12-07 14:32:45"),
        ("3", "User-3", "300.0", "2024-12-15 19:08:11"),
        ("4", "User-4", "400.0", "2024-12-21 23:55:30"),
    ]


def test_equality_delete_table_metadata(users: dk.Table) -> None:
    metadata = metadata_json(users)
    added, deleted = snapshots_json(users)
    assert metadata["format-version"] == 2
    assert metadata["last-sequence-number"] == 2
    assert metadata["current-snapshot-id"] == deleted["snapshot-id"]
    assert (added["sequence-number"], deleted["sequence-number"]) == (1, 2)
    append = {"operation": "append", "added-data-files": "1", "added-records": "4"}
    delete = {
        "operation": "delete",
        "added-equality-delete-files": "1",
        "added-delete-files": "1",
        "added-equality-deletes": "2",
        "total-delete-files": "1",
    }
    assert picked(added["summary"], append) == append
    assert picked(deleted["summary"], delete) == delete


def test_equality_delete_manifest_list(users: dk.Table) -> None:
    (data,) = avro(snapshots_json(users)[0]["manifest-list"])
    records = manifest_list(users)
    assert [(r["content"], r["added_rows_count"]) for r in records] == [(0, 4), (1, 2)]
    assert records[0]["manifest_path"] == data["manifest_path"], "the data manifest is the previous one"
    assert records[1]["manifest_path"] != data["manifest_path"]


def test_equality_delete_manifest_entry(users: dk.Table) -> None:
    (entry,) = entries(users, content=1)
    file = entry["data_file"]
    assert entry["status"] == 1
    assert entry["snapshot_id"] == head_json(users)["snapshot-id"]
    assert (file["content"], file["file_format"], file["equality_ids"], file["record_count"]) == (2, "PARQUET", [1], 2)
    assert file["file_path"].startswith(f"{users.location}/data/")
    assert file["file_path"].endswith(".parquet")
    bounds = [(b["key"], base64.b64encode(b["value"]).decode()) for b in file["lower_bounds"] + file["upper_bounds"]]
    assert bounds == [(1, "AQAAAA=="), (1, "AwAAAA==")]
    assert parquet(file["file_path"]).to_pydict() == {"id": [1, 3]}


def test_inspect_prints_the_entry_as_the_post_does(users: dk.Table) -> None:
    shown = dk.inspect(users, deletes=True)
    (entry,) = shown["manifests"][1]["entries"]
    assert entry["status"] == 1
    wanted = {
        "content": 2,
        "file_format": "PARQUET",
        "equality_ids": [1],
        "record_count": 2,
        "lower_bounds": [{"key": 1, "value": "AQAAAA=="}],
        "upper_bounds": [{"key": 1, "value": "AwAAAA=="}],
    }
    assert picked(entry["data_file"], wanted) == wanted
    assert [(m["content"], m["added_rows_count"]) for m in shown["manifest-list"]] == [(0, 4), (1, 2)]
    assert shown["deletes"][0]["rows"] == [{"id": 1}, {"id": 3}]


def test_equality_delete_hides_the_rows(users: dk.Table) -> None:
    assert ids(users) == [2, 4]


def test_update_with_equality_deletes(catalog: dk.Catalog) -> None:
    table = users_table(catalog)
    dk.create_branch(table, "elsewhere")
    dk.append(table, dk.datasets.users(), ref="elsewhere")  # takes sequence number 2
    done = dk.update(table, {"value": 999.0}, where="id = 1", mode="equality-delete")
    assert done.sequence_number == 3

    old, new = sorted(entries(table, content=0), key=lambda e: e["inherited"])
    (delete,) = entries(table, content=1)
    assert (old["inherited"], delete["inherited"], new["inherited"]) == (1, 3, 3)
    assert parquet(old["data_file"]["file_path"])["id"].to_pylist() == [1, 2, 3, 4]
    assert parquet(delete["data_file"]["file_path"]).to_pydict() == {"id": [1]}
    written = parquet(new["data_file"]["file_path"]).to_pydict()
    assert (written["id"], written["value"]) == ([1], [999.0])

    assert [(r["id"], r["value"]) for r in live(table)] == [(1, 999.0), (2, 200.0), (3, 300.0), (4, 400.0)]
    first, second = dk.explain(table, "id = 1")
    assert (first.live, first.sequence_number, first.row["value"]) == (False, 1, 100.0)
    assert first.hidden_by[0].sequence_number == 3
    assert "1 < 3" in first.verdict
    assert (second.live, second.sequence_number, second.row["value"]) == (True, 3, 999.0)
    assert "3 < 3 is false" in second.verdict


@pytest.mark.parametrize(
    ("mode", "operation", "data_files", "delete_files"),
    [("copy-on-write", "overwrite", 1, 0), ("merge-on-read", "delete", 1, 1)],
)
def test_delete_mode_property_is_a_hint(
    catalog: dk.Catalog, mode: str, operation: str, data_files: int, delete_files: int
) -> None:
    table = users_table(catalog, properties={"write.delete.mode": mode})
    assert dk.delete(table, "id = 1").operation == operation
    assert (len(live_files(table, 0)), len(live_files(table, 1))) == (data_files, delete_files)


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_a_call_overrides_the_delete_mode_property(catalog: dk.Catalog, mode: str) -> None:
    table = users_table(catalog, properties={"write.delete.mode": mode})
    dk.delete(table, "id = 1", mode="equality-delete")
    assert [f["content"] for f in live_files(table, 1)] == [2]
    assert ids(table) == [2, 3, 4]


# --- the post: deletion vectors ---------------------------------------------------------------------------------------


@pytest.fixture
def v3_users(catalog: dk.Catalog) -> dk.Table:
    """Give the post's second example: the same rows deleted from a v3 table that is merge-on-read."""
    table = users_table(catalog, format_version=3, properties={"write.delete.mode": "merge-on-read"})
    dk.delete(table, "id in (1, 3)")
    return table


def test_deletion_vector_table_metadata(v3_users: dk.Table) -> None:
    metadata = metadata_json(v3_users)
    added, deleted = snapshots_json(v3_users)
    assert metadata["format-version"] == 3
    assert metadata["properties"]["write.delete.mode"] == "merge-on-read"
    assert metadata["current-snapshot-id"] == deleted["snapshot-id"]
    assert (added["sequence-number"], added["summary"]["operation"]) == (1, "append")
    delete = {"operation": "delete", "added-delete-files": "1", "added-dvs": "1", "added-position-deletes": "2"}
    assert deleted["sequence-number"] == 2
    assert picked(deleted["summary"], delete) == delete


def test_deletion_vector_manifest_entry(v3_users: dk.Table) -> None:
    (data,) = live_files(v3_users, 0)
    (entry,) = entries(v3_users, content=1)
    wanted = {
        "content": 1,
        "file_format": "PUFFIN",
        "referenced_data_file": data["file_path"],
        "content_offset": 4,
        "content_size_in_bytes": 44,
        "record_count": 2,
    }
    assert picked(entry["data_file"], wanted) == wanted
    assert entry["data_file"]["file_path"].startswith(f"{v3_users.location}/data/")
    assert entry["data_file"]["file_path"].endswith(".puffin")
    assert entry["status"] == 1
    assert entry["snapshot_id"] == head_json(v3_users)["snapshot-id"]


def test_deletion_vector_reads_as_the_post_describes(v3_users: dk.Table) -> None:
    (data,) = live_files(v3_users, 0)
    deletes = [r for r in manifest_list(v3_users) if r["content"] == 1]  # step 1
    assert len(deletes) == 1
    positions = vectors(v3_users)[data["file_path"]]  # step 2
    assert positions == {0, 2}
    rows = parquet(data["file_path"])["id"].to_pylist()  # step 3
    assert [row for at, row in enumerate(rows) if at not in positions] == [2, 4] == ids(v3_users)


def thirds(worker: int) -> pa.Table:
    """Ten ids of every third number: the ranges of all three files overlap, so no file is skipped by its bounds."""
    return pa.table({"id": pa.array([3 * i + worker for i in range(10)], pa.int32())})


def test_three_workers(catalog: dk.Catalog) -> None:
    table = make(catalog, thirds(0), thirds(1), thirds(2), schema=thirds(0), format_version=3)
    a, b, _ = [e["data_file"]["file_path"] for e in sorted(entries(table, 0), key=lambda e: e["inherited"])]
    before = files_of(table)
    workers = LocalEngine(3)

    done = dk.delete(table, "id in (0, 6, 16, 28)", mode="deletion-vector", engine=workers)
    assert vectors(table) == {a: {0, 2}, b: {5, 9}}
    puffins = {f for f in files_of(table) - before if f.endswith(".puffin")}
    assert len(puffins) == 2, "the third worker writes nothing"
    assert {f["file_path"] for f in live_files(table, 1)} == puffins
    assert len(snapshots_json(table)) == 4, "one commit for all workers"
    assert done.summary["added-dvs"] == "2"

    again = dk.delete(table, "id in (3, 19)", mode="deletion-vector", engine=workers)
    assert vectors(table) == {a: {0, 1, 2}, b: {5, 6, 9}}
    counted = {"added-dvs": "2", "removed-dvs": "2", "added-position-deletes": "6", "removed-position-deletes": "4"}
    assert picked(dict(again.summary), counted) == counted
    assert head_json(table)["summary"]["total-delete-files"] == "2"
    assert len(ids(table)) == 24


# --- the note: positions ----------------------------------------------------------------------------------------------


def three_hundred() -> pa.Table:
    names = ["Alice" if i == 150 else f"name-{i}" for i in range(300)]
    return pa.table({"id": pa.array([123 if i == 150 else 1000 + i for i in range(300)], pa.int64()), "name": names})


def test_positions_100_150_200_as_deletion_vector(catalog: dk.Catalog) -> None:
    table = make(catalog, three_hundred(), schema=three_hundred(), format_version=3)
    dk.delete(table, "id in (1100, 123, 1200)", mode="deletion-vector")
    (data,) = live_files(table, 0)
    assert vectors(table) == {data["file_path"]: {100, 150, 200}}
    assert sorted(set(range(300)) - set(positions_left(table))) == [100, 150, 200]


def positions_left(table: dk.Table) -> list[int]:
    return dk.scan(table, columns=["_pos"]).to_arrow()["_pos"].to_pylist()


def test_positions_100_150_200_as_position_delete(catalog: dk.Catalog) -> None:
    table = make(catalog, three_hundred(), schema=three_hundred())
    dk.delete(table, "id in (1100, 123, 1200)", mode="position-delete")
    (data,) = live_files(table, 0)
    (delete,) = live_files(table, 1)
    assert (delete["content"], delete["file_format"], delete["record_count"]) == (1, "PARQUET", 3)
    path = data["file_path"]
    assert parquet(delete["file_path"]).to_pydict() == {"file_path": [path] * 3, "pos": [100, 150, 200]}
    assert sorted(set(range(300)) - set(positions_left(table))) == [100, 150, 200]


def test_position_delete_with_the_deleted_row(catalog: dk.Catalog) -> None:
    table = make(catalog, three_hundred(), schema=three_hundred())
    dk.delete(table, "id = 123", mode="position-delete", with_rows=True)
    (data,) = live_files(table, 0)
    (delete,) = live_files(table, 1)
    assert parquet(delete["file_path"]).to_pylist() == [
        {"file_path": data["file_path"], "pos": 150, "row": {"id": 123, "name": "Alice"}}
    ]


def commit_vector(table: dk.Table, positions: list[int]) -> None:
    """Give the table's only data file a vector of just these positions, as a writer that folds nothing in would."""

    def build(base: Base) -> RowDelta:
        (task,) = dk.scan(base.table).plan()
        chosen = FilePositions(task.data_file, PositionBitmap(positions))
        return RowDelta(added_delete_files=tuple(write_deletion_vectors(base.write, [chosen])))

    commit(plan_change(table, build))


def test_a_deletion_vector_wins_over_position_deletes(catalog: dk.Catalog) -> None:
    table = make(catalog, three_hundred(), schema=three_hundred())
    dk.delete(table, "id = 1100", mode="position-delete")
    dk.upgrade_format_version(table, 3)
    assert 1100 not in ids(table)
    commit_vector(table, [200])
    assert len(position_deletes(table)) == 1, "the position delete file is still live"
    assert 1100 in ids(table), "and ignored, because there is a deletion vector"
    assert 1200 not in ids(table)


@pytest.mark.parametrize("granularity", ["file", "partition"])
def test_upgraded_position_deletes_become_part_of_the_vector(catalog: dk.Catalog, granularity: str) -> None:
    table = make(catalog, three_hundred(), schema=three_hundred())
    dk.delete(table, "id in (1100, 1101)", mode="position-delete", granularity=granularity)
    dk.upgrade_format_version(table, 3)
    assert len(ids(table)) == 298
    dk.delete(table, "id = 1200", mode="merge-on-read")
    (data,) = live_files(table, 0)
    assert vectors(table) == {data["file_path"]: {100, 101, 200}}
    assert position_deletes(table) == [], "about this file alone, so replaced by its vector"
    assert len(ids(table)) == 297


@pytest.mark.parametrize(("version", "mode"), [vm for vm in VERSION_AND_MODE if vm[1] != "copy-on-write"])
def test_deletes_are_recorded_in_delete_manifests_only(catalog: dk.Catalog, version: int, mode: str) -> None:
    table = users_table(catalog, format_version=version)
    (before,) = manifest_list(table)
    dk.delete(table, "id in (1, 3)", mode=mode)
    data, deletes = manifest_list(table)
    assert data["manifest_path"] == before["manifest_path"]
    assert stored_at(before["manifest_path"]).read_bytes() == stored_at(data["manifest_path"]).read_bytes()
    assert (data["content"], deletes["content"]) == (0, 1)
    assert {e["data_file"]["content"] for e in entries(table, 0)} == {0}
    assert {e["data_file"]["content"] for e in entries(table, 1)} == {2 if mode == "equality-delete" else 1}


# --- the note: equality deletes with NULL -----------------------------------------------------------------------------


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize(
    ("where", "equality_ids", "values", "left"),
    [
        ("id = 3", [1], {"id": [3]}, [1, 2, 4]),
        ("id = 4 and category is null", [1, 2], {"id": [4], "category": [None]}, [1, 2, 3]),
        ("category is null", [2], {"category": [None]}, [1, 2]),
    ],
)
def test_animals(
    catalog: dk.Catalog, version: int, where: str, equality_ids: list[int], values: dict[str, Any], left: list[int]
) -> None:
    table = animals_table(catalog, format_version=version)
    dk.delete(table, where, mode="equality-delete")
    (file,) = live_files(table, 1)
    assert (file["content"], file["equality_ids"]) == (2, equality_ids)
    assert parquet(file["file_path"]).to_pydict() == values
    assert ids(table) == left


def test_an_equality_delete_covers_many_data_files(catalog: dk.Catalog) -> None:
    table = animals_table(catalog)
    for _ in range(3):
        dk.append(table, dk.datasets.animals())
    dk.delete_keys(table, [{"id": 4, "category": None}])
    (file,) = live_files(table, 1)
    assert file["record_count"] == 1
    assert ids(table) == sorted([1, 2, 3] * 4)


# --- the RFC: position deletes of Iceberg v2 --------------------------------------------------------------------------


def test_position_delete_file_of_two_data_files(catalog: dk.Catalog) -> None:
    forty = pa.table({"id": pa.array(range(40), pa.int32())})
    table = make(catalog, forty, schema=forty)
    dk.append(table, pa.table({"id": pa.array(range(100, 110), pa.int32())}))
    dk.delete(table, "id in (36, 35, 107, 109)", mode="position-delete", engine=LocalEngine(1))
    old, new = [e["data_file"]["file_path"] for e in sorted(entries(table, 0), key=lambda e: e["inherited"])]
    (rows,) = position_deletes(table)
    assert rows == sorted([(old, 35), (old, 36), (new, 7), (new, 9)])


def test_position_delete_summary(catalog: dk.Catalog) -> None:
    table = make(catalog, three_hundred(), schema=three_hundred())
    for where in ("id < 1007", "id >= 1007 and id < 1015", "id >= 1015 and id < 1027"):
        dk.delete(table, f"{where} and id > 999", mode="position-delete")
    wanted = {
        "added-position-delete-files": "1",
        "added-delete-files": "1",
        "added-position-deletes": "12",
        "total-delete-files": "3",
        "total-position-deletes": "27",
        "total-equality-deletes": "0",
    }
    assert picked(head_json(table)["summary"], wanted) == wanted
