"""Bugs that other engines had, or have, in what deletekit does too: a test for each.

Those that concern compaction and the conversion of equality deletes are with these verbs; the six that Iceberg Java
1.11 still has are in test_java_cases.

| bug | upstream | test |
|---|---|---|
| a delete of another spec or partition is applied | #16957 | deletes/test_plan.py::test_a_vector_of_another_partition_is_refused |
| every vector of a Puffin file is taken for the last | #17497 | deletes/test_plan.py::test_each_file_has_its_own_vector |
| a CRC error that does not say what it found | #17393 | formats/test_deletion_vector.py::test_crc_error_tells_both_sums |
| delete manifests missing in metadata tables | #17440, #17443 | tools/test_inspect.py::test_what_is_stored_is_shown |
| time travel by a log that is not sorted | #17360 | verbs/test_scan.py::test_the_log_of_snapshots_need_not_be_sorted |
| last updated by the file's sequence number | #17039 | commit/test_engine_bugs.py::test_last_updated_is_the_data_sequence_number |
| duplicate counting in parallel filtering | #16686 | commit/test_engine_bugs.py::test_the_summary_counts_each_file_once |
| row ids change when a manifest is rewritten | #16699, #16263 | verbs/test_lineage.py::test_kept_entries_carry_their_first_row_id |
| row ids change when manifests are rewritten | #16699 | maintenance/test_rewrite_manifests.py::test_after_an_upgrade_row_ids_are_counted_once |
| lineage of rows in ORC and Avro | #15776, #15508, #15187 | interop/test_corpus.py::test_every_read_is_row_for_row_what_spark_reads |
| v2 deletes slip into a table that was upgraded | #16146 | commit/test_swap.py::test_an_upgrade_meanwhile |
| a data file goes and its vector stays | #16078, #13222, #13245 | commit/test_validation.py::test_removing_a_data_file_removes_its_vector |
| a delete of whole files looks at the wrong branch | #15512 | commit/test_engine_bugs.py::test_whole_files_of_a_branch |
| ranges written unlike single positions | #15791 | formats/test_deletion_vector.py::test_ranges_have_what_java_deleted_by_ranges |
| conflicts looked for within the filter only | #15966, #15653 | commit/test_java_cases.py::test_3_2_5_a_filter_narrower_than_what_is_touched_hides_no_concurrent_vector |
| lists and maps in changed tables | #15726, #15632 | commit/test_engine_bugs.py::test_lists_and_maps_are_carried_on |
| keys depend on the columns that are read | #13873 | verbs/test_delete_keys.py::test_the_order_of_key_columns_does_not_matter |
| a stale sequence number ends the commit | #15126 | table/test_metadata.py::test_a_snapshot_behind_the_table_is_a_conflict |
| two vectors of one file in one commit | #15006 | commit/test_validation.py::test_two_vectors_for_one_file_in_a_commit |
| manifests are not counted | #15003 | commit/test_swap.py::test_the_summary_of_an_append |
| equality deletes of a dropped column | #15268 | verbs/test_delete_keys.py::test_a_dropped_key_column |
| equality deletes of a promoted column | #15268 | verbs/test_delete_keys.py::test_a_promoted_key_column |
| bounds of binary partitions after a rewrite | #15127 | commit/test_engine_bugs.py::test_bounds_of_binary_partitions_in_rewritten_manifests |
| keys of nanoseconds | #14974 | verbs/test_delete_keys.py::test_every_key_type |
| cleaning up after a commit removes what it wrote | #15511 | commit/test_conflicts.py::test_what_landed |
| a change that only adds data is not an append | #14581 | commit/test_validation.py::test_operations_are_named_as_java_names_them |
| metrics of delete files | #13161 | formats/test_delete_file.py::test_our_position_metrics_are_java_s |
| expiry of a table with several refs | #13614, #13568 | maintenance/test_expire_snapshots.py::test_branches_and_tags_keep_their_snapshots |
| expiry removes a file that was added again | #17304 | maintenance/test_expire_snapshots.py::test_a_file_that_was_added_again_stays |
| an empty Puffin file | #13666 | formats/test_puffin.py::test_smallest_file |
| concurrent vectors of one file | #17754 | commit/test_conflicts.py::test_the_union_of_vectors_takes_the_place_of_what_landed |
| two vectors of one file in a table | #17207 | maintenance/test_repair.py::test_two_vectors_become_one |
| keys inside structs | #15826, trino #29763 | verbs/test_delete_keys.py::test_nested_keys |
| a second delete leaves two vectors | go #1372, #1868 | commit/test_java_cases.py::test_3_2_6_a_vector_that_was_live_before_is_removed_or_the_change_refused |
| vectors of a rewrite are checked too early | go #1677 | commit/test_java_cases.py::test_3_4_2_position_deletes_become_vectors_while_a_vector_lands |
| dangling equality deletes pile up | go #946, pyiceberg #3925 | maintenance/test_repair.py::test_dangling_equality_deletes_are_removed |
"""  # noqa: E501  # a row of a table is one line

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import deletekit as dk
from tests.invariants import check_table
from tests.maintenance.damage import edit_manifest
from tests.stored import avro, manifest_list
from tests.tables import MODES, VERSION_AND_MODE, ids, items, live, make

FIRST = items((1, "a", 1.0), (2, "a", 2.0), (3, "b", 3.0))
SECOND = items((4, "b", 4.0), (5, "b", 5.0))
TESTS = Path(__file__).parents[1]


def test_every_bug_has_its_test() -> None:
    named = re.findall(r"\| (\S+\.py)::(test_\w+) \|", __doc__ or "")
    assert len(named) == (__doc__ or "").count("\n| ") - 1
    missing = [name for file, name in named if f"def {name}(" not in (TESTS / file).read_text("utf-8")]
    assert missing == []


def test_last_updated_is_the_data_sequence_number(catalog: dk.Catalog) -> None:
    """A compaction of v2 gives its file the sequence number of what it read; after an upgrade that is what counts."""
    table = make(catalog, FIRST, SECOND, format_version=2)
    dk.rewrite_manifests(table)  # every entry says its own numbers now

    def older(entries: list[dict[str, Any]]) -> None:
        for entry in entries:
            assert entry["sequence_number"] == entry["file_sequence_number"]
            entry["sequence_number"] = 1

    edit_manifest(table, older)
    dk.upgrade_format_version(table, 3)
    dk.append(table, items((9, "c", 9.0)))
    lineage = {r["id"]: r["_last_updated_sequence_number"] for r in live(table, columns=["id", LAST_UPDATED])}
    assert lineage == {1: 1, 2: 1, 3: 1, 4: 1, 5: 1, 9: 4}


LAST_UPDATED = "_last_updated_sequence_number"


@pytest.mark.parametrize("version", [2, 3])
def test_the_summary_counts_each_file_once(catalog: dk.Catalog, version: int) -> None:
    """Four workers find the same delete files in the way, in several manifests each."""
    files = [items(*((10 * f + i, "a", float(i)) for i in range(5))) for f in range(8)]
    table = make(catalog, *files, format_version=version, properties={"write.delete.granularity": "file"})
    with dk.engine.local(1):
        dk.delete(table, "value = 1", mode="merge-on-read")
    with dk.engine.local(4):
        done = dk.delete(table, "value >= 3", mode="copy-on-write")
    summary = done.summary
    assert (summary["deleted-data-files"], summary["added-data-files"]) == ("8", "8")
    assert (summary["deleted-records"], summary["added-records"]) == ("40", "16")
    assert (summary["removed-delete-files"], summary["removed-position-deletes"]) == ("8", "8")
    assert len(ids(table)) == 16
    check_table(table)


@pytest.mark.parametrize(("version", "mode"), VERSION_AND_MODE)
def test_whole_files_of_a_branch(catalog: dk.Catalog, version: int, mode: str) -> None:
    table = make(catalog, FIRST, SECOND, format_version=version)
    dk.create_branch(table, "wap")
    dk.append(table, items((6, "c", 6.0)), ref="wap")
    dk.delete(table, "id in (1, 2, 3)", mode="copy-on-write")
    keys = {"on": ["id"]} if mode == "equality-delete" else {}
    dk.delete(table, "id >= 4", mode=mode, ref="wap", **keys)
    assert ids(table, ref="wap") == [1, 2, 3]
    assert ids(table) == [4, 5]
    check_table(table)


NESTED = pa.schema(
    [
        pa.field("id", pa.int32()),
        pa.field("list", pa.list_(pa.struct([("a", pa.int32()), ("b", pa.string())]))),
        pa.field("map", pa.map_(pa.string(), pa.list_(pa.int64()))),
    ]
)


@pytest.mark.parametrize(("version", "mode"), VERSION_AND_MODE)
def test_lists_and_maps_are_carried_on(catalog: dk.Catalog, version: int, mode: str) -> None:
    rows = [
        {"id": 1, "list": [{"a": 1, "b": "x"}, {"a": None, "b": None}], "map": [("k", [1, 2]), ("l", None)]},
        {"id": 2, "list": None, "map": None},
        {"id": 3, "list": [], "map": []},
        {"id": 4, "list": [None], "map": [("", [None])]},
    ]
    new = [{"id": 3, "list": [{"a": 3, "b": "z"}], "map": [("m", [3])]}, {"id": 5, "list": [], "map": None}]
    table = make(catalog, pa.Table.from_pylist(rows, NESTED), schema=NESTED, format_version=version)
    dk.delete(table, "id = 2", mode=mode)
    dk.update(table, {"id": 10}, where="id = 1", mode=mode)
    dk.merge(table, pa.Table.from_pylist(new, NESTED), on=["id"], mode=mode)
    found = {r["id"]: r for r in live(table)}
    assert found == {10: {**rows[0], "id": 10}, 4: rows[3], 3: new[0], 5: new[1]}
    check_table(table)


@pytest.mark.parametrize("version", MODES)
def test_bounds_of_binary_partitions_in_rewritten_manifests(catalog: dk.Catalog, version: int) -> None:
    """Java kept the buffer that it read the next value into."""
    schema = pa.schema([pa.field("id", pa.int32()), pa.field("key", pa.binary())])
    values = [b"bb", b"\xff\x00", b"a", b"cc"]
    files = [pa.table({"id": [i], "key": [v]}, schema=schema) for i, v in enumerate(values)]
    table = make(catalog, *files, schema=schema, partition_by=["key"], format_version=version)
    dk.rewrite_manifests(table)
    (listed,) = manifest_list(table)
    (summary,) = listed["partitions"]
    assert (summary["lower_bound"], summary["upper_bound"]) == (b"a", b"\xff\x00")
    stored = sorted(e["data_file"]["partition"]["key"] for e in avro(listed["manifest_path"]))
    assert stored == sorted(values)
    for i, value in enumerate(values):
        dk.delete(table, f"id = {i}", mode="copy-on-write")
        assert value not in {r["key"] for r in live(table)}
    assert dk.verify(table).ok
