"""Row lineage of v3: who keeps its `_row_id`, who gets a new one, and when a row was last updated."""

from typing import Any

import pyarrow as pa
import pytest

import deletekit as dk
from tests.stored import avro, entries, head_json, live_files, manifest_list, metadata_json, parquet, snapshots_json
from tests.tables import ITEMS, items, live, make

FIVE = items((1, "a", 1.0), (2, None, 2.0), (3, "b", 3.0), (4, "a", None), (5, None, 5.0))
Lineage = dict[int, tuple[int | None, int | None]]
KEEPING = pytest.mark.parametrize("mode", ["copy-on-write", "deletion-vector"])


def lineage(table: dk.Table, **options: Any) -> Lineage:
    """`_row_id` and `_last_updated_sequence_number` by id."""
    columns = ["id", "_row_id", "_last_updated_sequence_number"]
    rows = dk.scan(table, columns=columns, **options).to_arrow().to_pylist()
    found = {row["id"]: (row["_row_id"], row["_last_updated_sequence_number"]) for row in rows}
    assert len(found) == len(rows)
    return found


@pytest.fixture
def table(catalog: dk.Catalog) -> dk.Table:
    """Give a v3 table of two appends: rows 0 to 2 at sequence number 1, rows 3 and 4 at 2."""
    return make(catalog, FIVE[:3], FIVE[3:], format_version=3)


START: Lineage = {1: (0, 1), 2: (1, 1), 3: (2, 1), 4: (3, 2), 5: (4, 2)}


def without(*gone: int) -> Lineage:
    return {i: pair for i, pair in START.items() if i not in gone}


def test_an_update_by_equality_delete_makes_new_rows(table: dk.Table) -> None:
    dk.update(table, {"value": 0.0}, where="id in (2, 4)", mode="equality-delete")
    found = lineage(table)
    assert {i: found[i] for i in (1, 3, 5)} == without(2, 4)
    assert sorted(found[i] for i in (2, 4)) == [(5, 3), (6, 3)]


@KEEPING
def test_rewritten_files_store_their_lineage(table: dk.Table, mode: str) -> None:
    """An unchanged row keeps both; a changed one its `_row_id`, and NULL for the commit to fill."""
    dk.update(table, {"value": 0.0}, where="id = 2", mode=mode)
    newest = max(entries(table, 0), key=lambda e: e["inherited"])
    stored = parquet(newest["data_file"]["file_path"])
    ids = {f.name: int(f.metadata[b"PARQUET:field_id"]) for f in stored.schema}
    assert (ids["_row_id"], ids["_last_updated_sequence_number"]) == (2147483540, 2147483539)
    rows = {r["id"]: (r["_row_id"], r["_last_updated_sequence_number"]) for r in stored.to_pylist()}
    assert rows == ({1: (0, 1), 2: (1, None), 3: (2, 1)} if mode == "copy-on-write" else {2: (1, None)})
    assert newest["data_file"]["first_row_id"] is None


def test_appended_files_store_none(table: dk.Table) -> None:
    for file in live_files(table, 0):
        assert parquet(file["file_path"]).column_names == ITEMS.names


@KEEPING
def test_files_of_many_row_groups(catalog: dk.Catalog, mode: str) -> None:
    rows = items(*((i, None, 0.0) for i in range(50)))
    table = make(catalog, rows, format_version=3, properties={"write.parquet.row-group-limit": "7"})
    assert {i: row for i, (row, _) in lineage(table).items()} == {i: i for i in range(50)}
    dk.update(table, {"value": 1.0}, where="id >= 20 and id < 30", mode=mode)
    assert lineage(table) == {i: (i, 2 if 20 <= i < 30 else 1) for i in range(50)}


# --- counting ---------------------------------------------------------------------------------------------------------


def test_ids_are_reserved_and_never_used_twice(table: dk.Table) -> None:
    """Every data manifest without a first row id gets the next free one, in the order of the manifest list."""
    dk.delete(table, "id = 1", mode="deletion-vector")
    dk.update(table, {"value": 0.0}, where="id = 2", mode="copy-on-write")
    dk.merge(table, items((9, "y", 0.0)), on=["id"], mode="deletion-vector")
    dk.append(table, items((10, "z", 0.0)))
    free = 0
    seen: dict[str, int] = {}
    for snapshot in snapshots_json(table):
        assert snapshot["first-row-id"] == free
        for listed in avro_list(snapshot):
            if listed["content"] == 1:
                assert listed["first_row_id"] is None
            elif listed["manifest_path"] in seen:
                assert listed["first_row_id"] == seen[listed["manifest_path"]], "assigned once"
            else:
                assert listed["first_row_id"] == free
                seen[listed["manifest_path"]] = free
                free += listed["added_rows_count"] + listed["existing_rows_count"]
        assert snapshot["first-row-id"] + snapshot["added-rows"] == free
    assert metadata_json(table)["next-row-id"] == free
    assert len(set(lineage(table).values())) == len(lineage(table))


def avro_list(snapshot: dict[str, Any]) -> list[dict[str, Any]]:

    return avro(snapshot["manifest-list"])


def test_a_delete_by_vector_reserves_nothing(table: dk.Table) -> None:
    dk.delete(table, "id = 1", mode="deletion-vector")
    head = head_json(table)
    assert (head["first-row-id"], head["added-rows"], metadata_json(table)["next-row-id"]) == (5, 0, 5)


def test_kept_entries_carry_their_first_row_id(table: dk.Table) -> None:
    """A rewritten manifest inherits a new first row id, so its old entries must say their own."""
    rows = pa.Table.from_pylist(items(*((i, c, 0.0) for i in range(20, 26) for c in "xy")))
    dk.set_properties(table, {"commit.manifest-merge.enabled": "false"})
    dk.add_partition_field(table, "category")
    dk.append(table, rows)
    before = lineage_of_all(table)
    dk.delete(table, "category = 'x'", mode="copy-on-write")
    statuses = [e["status"] for e in entries(table, 0)]
    assert statuses.count(0) == 1, "the file of y was carried on"
    assert [e["data_file"]["first_row_id"] for e in entries(table, 0) if e["status"] == 0] != [None]
    assert {r: pair for r, pair in before.items() if r[1] != "x"} == lineage_of_all(table)


def lineage_of_all(table: dk.Table) -> dict[tuple[int, str | None], tuple[int, int]]:
    columns = ["id", "category", "_row_id", "_last_updated_sequence_number"]
    rows = dk.scan(table, columns=columns).to_arrow().to_pylist()
    return {(r["id"], r["category"]): (r["_row_id"], r["_last_updated_sequence_number"]) for r in rows}


# --- upgrade ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("mode", ["append", "deletion-vector", "equality-delete", "copy-on-write", "update"])
def test_an_upgraded_table(catalog: dk.Catalog, version: int, mode: str) -> None:
    """No row has an id until the first v3 commit, which gives one to every row, without rewriting old manifests."""
    old = make(catalog, FIVE[:2], FIVE[2:], format_version=version)
    before = {m["manifest_path"] for m in manifest_list(old)}
    last = old.current_snapshot
    dk.upgrade_format_version(old, 3)
    assert set(lineage(old).values()) == {(None, None)}
    assert metadata_json(old)["next-row-id"] == 0
    if mode == "append":
        dk.append(old, items((6, "f", 6.0)))
    elif mode == "update":
        dk.update(old, {"value": 0.0}, where="id = 2", mode="deletion-vector")
    else:
        dk.delete(old, "id = 2", mode=mode)
    found = lineage(old)
    row_ids = [row for row, _ in found.values()]
    assert len(set(row_ids)) == len(live(old))
    assert None not in row_ids
    head = head_json(old)
    assert (head["first-row-id"], metadata_json(old)["next-row-id"]) == (0, head["added-rows"])
    if mode != "copy-on-write":
        assert before <= {m["manifest_path"] for m in manifest_list(old)}
    assert set(lineage(old, snapshot_id=last.snapshot_id).values()) == {(None, None)}, "the past has none"
    again = dk.append(old, items((7, "g", 7.0)))
    assert {i: pair for i, pair in lineage(old).items() if i != 7} == found, "and they stay"
    assert lineage(old)[7][1] == again.sequence_number
