"""DELETE by filter: which rows go, in which files that is written down, and what becomes of files left without rows."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyiceberg.expressions import And, EqualTo, IsNull, Or

import deletekit as dk
from deletekit.engines.local import LocalEngine
from tests.invariants import check_table
from tests.storage import stored_at
from tests.stored import (
    entries,
    head_json,
    live_files,
    manifest_list,
    parquet,
    position_deletes,
    snapshots_json,
    vectors,
)
from tests.tables import MODES, VERSION_AND_MODE, expected, ids, items, live, make, refused, unchanged
from tests.verbs.three_valued import FILTERS, LOGIC, ROWS, sqlite_ids

FIVE = items((1, "a", 1.0), (2, None, 2.0), (3, "b", 3.0), (4, "a", None), (5, None, 5.0))


# --- which rows go ----------------------------------------------------------------------------------------------------


@pytest.mark.sampled(3, tier=1)
@pytest.mark.parametrize(("version", "mode"), VERSION_AND_MODE)
@pytest.mark.parametrize("partition_by", [[], ["a"]], ids=["whole", "by a"])
def test_the_rows_that_sqlite_deletes(catalog: dk.Catalog, version: int, mode: str, partition_by: list[str]) -> None:
    """Each filter on a branch of its own: one table, two data files per partition."""
    table = make(catalog, ROWS[::2], ROWS[1::2], schema=LOGIC, format_version=version, partition_by=partition_by)
    everything = {row["id"] for row in ROWS}
    for i, where in enumerate(FILTERS[VERSION_AND_MODE.index((version, mode)) :: 4]):  # all of them in some mode
        dk.create_branch(table, f"b{i}")
        done = dk.delete(table, where, mode=mode, ref=f"b{i}")
        chosen = sqlite_ids(ROWS, where)
        assert set(ids(table, ref=f"b{i}")) == everything - set(chosen), where
        assert (done.snapshot_id is not None) == bool(chosen) or mode == "equality-delete", where
    assert set(ids(table)) == everything, "main has seen none of it"


@pytest.mark.parametrize(("version", "mode"), VERSION_AND_MODE)
def test_a_filter_that_matches_nothing_commits_nothing(catalog: dk.Catalog, version: int, mode: str) -> None:
    table = make(catalog, FIVE, format_version=version)
    with unchanged(table):
        done = dk.delete(table, "id > 2 and id < 3", mode=mode)
    assert (done.snapshot_id, done.operation, done.summary) == (None, None, {})


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_delete_of_an_empty_table_commits_nothing(catalog: dk.Catalog, version: int) -> None:
    table = make(catalog, format_version=version)
    for mode in MODES[version]:
        if mode != "equality-delete":
            assert dk.delete(table, "id = 1", mode=mode).snapshot_id is None
    assert snapshots_json(table) == []


@pytest.mark.parametrize(("version", "mode"), VERSION_AND_MODE)
def test_deleting_a_row_twice_commits_once(catalog: dk.Catalog, version: int, mode: str) -> None:
    table = make(catalog, FIVE, format_version=version)
    dk.delete(table, "id = 1 and value > 0", mode=mode, **keys_for(mode))
    with unchanged(table):
        assert dk.delete(table, "id = 1 and value > 0", mode=mode, **keys_for(mode)).snapshot_id is None


def keys_for(mode: str) -> dict[str, Any]:
    return {"on": ["id"]} if mode == "equality-delete" else {}


# --- what is written --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [1, 2, 3])
def test_copy_on_write_leaves_no_delete_file(catalog: dk.Catalog, version: int) -> None:
    table = make(catalog, FIVE, FIVE[:1], items((9, "z", 9.0)), format_version=version)
    untouched = {f["file_path"] for f in live_files(table, 0) if f["record_count"] == 1 and holds(f, 9)}
    done = dk.delete(table, "id = 1", mode="copy-on-write")
    assert live_files(table, 1) == []
    assert done.operation == "overwrite"
    assert {f["file_path"] for f in live_files(table, 0)} > untouched
    assert sorted(f["record_count"] for f in live_files(table, 0)) == [1, 4], "the file of one row is gone"
    assert live(table) == expected([*FIVE[1:], *items((9, "z", 9.0))])


def holds(data_file: dict[str, Any], row_id: int) -> bool:
    return row_id in parquet(data_file["file_path"])["id"].to_pylist()


def test_copy_on_write_keeps_the_order_of_rows(catalog: dk.Catalog) -> None:
    table = make(catalog, FIVE)
    dk.delete(table, "id in (2, 4)", mode="copy-on-write")
    (file,) = live_files(table, 0)
    assert parquet(file["file_path"])["id"].to_pylist() == [1, 3, 5]


@pytest.mark.parametrize("granularity", ["file", "partition"])
def test_granularity(catalog: dk.Catalog, granularity: str) -> None:
    table = make(catalog, FIVE, FIVE, partition_by=["category"])
    dk.delete(table, "id in (1, 2)", mode="position-delete", granularity=granularity, engine=LocalEngine(1))
    written = position_deletes(table)
    # Rows 1 and 2 lie in two partitions (a and NULL), each in two data files.
    assert len(written) == (4 if granularity == "file" else 2)
    for rows in written:
        assert rows == sorted(rows)
    partitions = sorted(str(f["partition"]) for f in live_files(table, 1))
    assert set(partitions) == {"{'category': 'a'}", "{'category': None}"}
    referenced = {f["file_path"] for f in live_files(table, 0)} if granularity == "file" else {None}
    assert {f.get("referenced_data_file") for f in live_files(table, 1)} <= referenced


def test_granularity_by_property(catalog: dk.Catalog) -> None:
    table = make(catalog, FIVE, FIVE, properties={"write.delete.granularity": "file"})
    dk.delete(table, "id = 1", mode="position-delete", engine=LocalEngine(1))
    assert len(position_deletes(table)) == 2


def test_file_granularity_replaces_the_files_own_deletes(catalog: dk.Catalog) -> None:
    table = make(catalog, FIVE)
    for i in (1, 2, 3):
        dk.delete(table, f"id = {i}", mode="position-delete", granularity="file")
    (data,) = live_files(table, 0)
    assert position_deletes(table) == [[(data["file_path"], i) for i in range(3)]]
    assert head_json(table)["summary"]["removed-position-delete-files"] == "1"
    assert head_json(table)["summary"]["total-position-deletes"] == "3"


def test_partition_granularity_adds_to_what_is_there(catalog: dk.Catalog) -> None:
    table = make(catalog, FIVE)
    for i in (1, 2, 3):
        dk.delete(table, f"id = {i}", mode="position-delete")
    assert sorted(pos for rows in position_deletes(table) for _, pos in rows) == [0, 1, 2]
    assert len(position_deletes(table)) == 3


def test_the_deleted_rows_with_file_granularity_include_earlier_ones(catalog: dk.Catalog) -> None:
    table = make(catalog, FIVE)
    dk.delete(table, "id = 2", mode="position-delete", granularity="file")
    dk.delete(table, "id = 5", mode="position-delete", granularity="file", with_rows=True)
    (delete,) = live_files(table, 1)
    assert [r["row"] for r in parquet(delete["file_path"]).to_pylist()] == [FIVE[1], FIVE[4]]


# --- files that lose all their rows -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("version", "mode"), [vm for vm in VERSION_AND_MODE if vm[1] != "equality-delete"])
def test_a_file_that_loses_its_last_rows_is_dropped(catalog: dk.Catalog, version: int, mode: str) -> None:
    table = make(catalog, FIVE[:2], FIVE[2:], format_version=version)
    dk.delete(table, "id = 1", mode=mode)
    done = dk.delete(table, "id = 2", mode=mode)
    assert done.operation == "delete"
    assert done.summary["deleted-data-files"] == "1"
    assert len(live_files(table, 0)) == 1
    assert live_files(table, 1) == [], "and the deletes that were about it alone are gone with it"
    assert live(table) == expected(FIVE[2:])


def test_a_dropped_file_takes_its_vector_along(catalog: dk.Catalog) -> None:
    table = make(catalog, FIVE[:2], FIVE[2:], format_version=3)
    dk.delete(table, "id in (1, 3)", mode="deletion-vector")
    done = dk.delete(table, "id in (2, 4)", mode="deletion-vector")
    (kept,) = live_files(table, 0)
    assert vectors(table) == {kept["file_path"]: {0, 1}}
    counted = {"added-dvs": "1", "removed-dvs": "2", "deleted-data-files": "1", "total-position-deletes": "2"}
    assert {name: done.summary[name] for name in counted} == counted


def test_a_shared_position_delete_file_outlives_one_of_its_data_files(catalog: dk.Catalog) -> None:
    table = make(catalog, FIVE[:2], FIVE[2:])
    dk.delete(table, "id in (1, 3)", mode="position-delete", engine=LocalEngine(1))
    dk.delete(table, "id = 2", mode="position-delete")
    assert len(live_files(table, 0)) == 1
    assert len(position_deletes(table)) == 1
    assert ids(table) == [4, 5]


def test_shared_position_deletes_after_an_upgrade(catalog: dk.Catalog) -> None:
    """A vector takes over what they hide in its file; for the other file they still count, so they stay."""
    table = make(catalog, FIVE[:2], FIVE[2:])
    dk.delete(table, "id in (1, 3)", mode="position-delete", engine=LocalEngine(1))
    dk.upgrade_format_version(table, 3)
    small, large = [f["file_path"] for f in sorted(live_files(table, 0), key=lambda f: f["record_count"])]
    dk.delete(table, "id = 4", mode="deletion-vector")
    assert vectors(table) == {large: {0, 1}}
    assert len(position_deletes(table)) == 1
    assert ids(table) == [2, 5]
    dk.append(table, FIVE[:1])
    dk.update(table, {"value": 0.0}, where="id = 5", mode="deletion-vector")
    assert set(vectors(table)) <= {small, large}
    assert ids(table) == [1, 2, 5]
    assert dk.scan(table).count() == 3


def test_a_file_emptied_by_equality_deletes_stays_until_it_is_rewritten(catalog: dk.Catalog) -> None:
    table = make(catalog, FIVE[:2], FIVE[2:])
    dk.delete(table, "id in (1, 2)", mode="equality-delete")
    assert len(live_files(table, 0)) == 2
    assert ids(table) == [3, 4, 5]


# --- equality deletes -------------------------------------------------------------------------------------------------


def test_a_filter_of_equalities_is_written_down_without_reading_data(catalog: dk.Catalog) -> None:
    table = make(catalog, FIVE)
    (data,) = live_files(table, 0)
    stored_at(data["file_path"]).unlink()  # whoever reads it now fails
    dk.delete(
        table,
        Or(And(EqualTo("id", 1), EqualTo("category", "a")), And(EqualTo("id", 2), IsNull("category"))),
        mode="equality-delete",
    )
    (delete,) = live_files(table, 1)
    assert parquet(delete["file_path"]).to_pylist() == [{"id": 1, "category": "a"}, {"id": 2, "category": None}]


def test_any_other_filter_is_read(catalog: dk.Catalog) -> None:
    table = make(catalog, FIVE)
    dk.delete(table, "id > 1 and id < 4", mode="equality-delete")
    (delete,) = live_files(table, 1)
    assert parquet(delete["file_path"]).to_pydict() == {"id": [2, 3]}
    stored_at(live_files(table, 0)[0]["file_path"]).unlink()
    with refused(table, dk.NotFoundError, "file-not-found"):
        dk.delete(table, "id > 3", mode="equality-delete")


def test_equality_fields_name_the_key(catalog: dk.Catalog) -> None:
    table = make(catalog, FIVE)
    dk.delete(table, "value > 1.5 and category is null", mode="equality-delete", on=["id"])
    (delete,) = live_files(table, 1)
    assert delete["equality_ids"] == [1]
    assert parquet(delete["file_path"]).to_pydict() == {"id": [2, 5]}
    assert ids(table) == [1, 3, 4]


def test_keys_that_would_take_other_rows_along_are_refused(catalog: dk.Catalog) -> None:
    table = make(catalog, FIVE)
    with refused(table, dk.InvalidInputError, "equality-key-not-unique", field="category") as refusal:
        dk.delete(table, "id = 1", mode="equality-delete", on=["category"])
    assert (refusal.error.found, refusal.error.expected) == ("2 rows with these keys", "1 rows chosen")
    dk.delete(table, "category = 'a' and id > 0", mode="equality-delete", on=["category"])
    assert ids(table) == [2, 3, 5]


def test_keys_need_only_be_unique_in_their_partition(catalog: dk.Catalog) -> None:
    rows = items((1, "a", 1.0), (1, "b", 2.0), (2, "a", 3.0))
    table = make(catalog, rows, partition_by=["category"])
    dk.delete(table, "id = 1 and category = 'a' and value > 0", mode="equality-delete", on=["id"])
    assert live(table) == expected(rows[1:]), "the file's partition spares category b"
    whole = make(catalog, rows)
    with refused(whole, dk.InvalidInputError, "equality-key-not-unique"):
        dk.delete(whole, "id = 1 and category = 'a' and value > 0", mode="equality-delete", on=["id"])


# --- partitions -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("version", "mode"), [vm for vm in VERSION_AND_MODE if vm[1] != "copy-on-write"])
def test_deletes_have_the_spec_and_partition_of_their_data(catalog: dk.Catalog, version: int, mode: str) -> None:
    table = make(catalog, FIVE, format_version=version, partition_by=["category"])
    dk.add_partition_field(table, "bucket(1, id)")
    dk.append(table, FIVE)
    dk.delete(table, "id in (1, 2) and value > 0", mode=mode, **keys_for(mode))
    data = {(e["listed"]["partition_spec_id"], str(e["data_file"]["partition"])) for e in entries(table, 0)}
    found = {(e["listed"]["partition_spec_id"], str(e["data_file"]["partition"])) for e in entries(table, 1)}
    assert found <= data
    assert {spec for spec, _ in found} == {0, 1}
    assert len([m for m in manifest_list(table) if m["content"] == 1]) == 2, "a manifest for each spec"
    assert ids(table) == [3, 3, 4, 4, 5, 5]


@pytest.mark.parametrize(("version", "mode"), VERSION_AND_MODE)
def test_a_delete_prunes_partitions(catalog: dk.Catalog, version: int, mode: str) -> None:
    """Files of other partitions are not even opened: they may be missing."""
    table = make(catalog, FIVE, format_version=version, partition_by=["category"])
    for file in live_files(table, 0):
        if file["partition"]["category"] == "b":
            stored_at(file["file_path"]).unlink()
    dk.delete(
        table,
        "category = 'a' and value > 0",
        mode=mode,
        **({"on": ["id", "category"]} if mode == "equality-delete" else {}),
    )
    assert ids(table, where="category = 'a'") == [4]


@pytest.mark.parametrize(("version", "mode"), VERSION_AND_MODE)
def test_many_rows_in_row_groups_that_end_anywhere(catalog: dk.Catalog, version: int, mode: str) -> None:
    """Containers of a vector have 65,536 rows, row groups others. The second delete takes in the first one's rows."""
    rng, rows = np.random.default_rng(version), 90_000
    values = rng.choice([0.0, -0.0, 1.5, 2.5, np.nan, None], rows, p=[0.1, 0.1, 0.3, 0.3, 0.1, 0.1])  # type: ignore[arg-type]
    data = pa.table({"id": np.arange(rows), "x": pa.array(values.tolist(), pa.float64())})
    options = {"write.parquet.row-group-limit": "40001"}
    table = make(catalog, data, schema=data.schema, format_version=version, properties=options)
    kept = dict(enumerate(values.tolist()))
    if version == 3:
        first_ids = dict(zip(*row_ids(table), strict=True))
    for where, goes in (
        ("x = 1.5 and id > 30000", lambda i, x: x == 1.5 and i > 30_000),
        ("x is null or x = 0.0", lambda _, x: x is None or x == 0.0),
        ("id between 65530 and 65541", lambda i, _: 65_530 <= i <= 65_541),
    ):
        fields = {"on": "id"} if mode == "equality-delete" else {}
        dk.delete(table, where, mode=mode, **fields)  # type: ignore[arg-type]
        kept = {i: x for i, x in kept.items() if not goes(i, x)}
        found = dk.scan(table).to_arrow()
        assert found["id"].to_pylist() == list(kept)
        assert repr(found["x"].to_pylist()) == repr(list(kept.values()))
    if version == 3:
        assert all(first_ids[i] == row_id for i, row_id in zip(*row_ids(table), strict=True))
    check_table(table)


def row_ids(table: dk.Table) -> tuple[list[int], list[int]]:
    found = dk.scan(table, columns=["id", "_row_id"]).to_arrow()
    return found["id"].to_pylist(), found["_row_id"].to_pylist()
