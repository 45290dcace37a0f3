"""Compaction: other files, the same rows and row lineage, whatever deletes there are and whoever commits meanwhile."""

from typing import Any

import pyarrow as pa
import pytest

import deletekit as dk
from tests.invariants import check_table
from tests.maintenance.model import between, lineage, other
from tests.stored import entries, head_json, live_files, metadata_json, parquet
from tests.tables import Row, expected, items, live, make, refused

MERGED = [(2, "evolved"), (3, "flat"), (3, "partitioned")]
"""A table of each kind, and each version that has deletes."""


def rows_of(i: int) -> list[Row]:
    """Eight rows of four categories, one of them NULL."""
    return items(*((8 * i + j, ("a", "b", "c", None)[j % 4], float(j)) for j in range(8)))


def busy(catalog: dk.Catalog, version: int, kind: str = "flat", files: int = 6) -> tuple[dk.Table, list[Row]]:
    """A table with deletes of every kind that its version takes, of files of one or two specs; and its rows."""
    table = make(catalog, format_version=version, partition_by=["category"] if kind == "partitioned" else [])
    rows: list[Row] = []
    for i in range(files):
        if kind == "evolved" and i == files // 2:
            dk.add_partition_field(table, "category")
        dk.append(table, rows_of(i))
        rows += rows_of(i)
    by_position = "deletion-vector" if version == 3 else "position-delete" if version == 2 else "copy-on-write"
    gone = {1, 10, 11, 26}
    dk.delete(table, "id in (1, 10, 11, 26)", mode=by_position, granularity="file")
    dk.delete(table, "id = 34", mode=by_position, granularity="partition")
    dk.delete(table, "id = 20", mode="copy-on-write")
    gone |= {34, 20}
    if version > 1:
        dk.delete_keys(table, [{"id": 2}, {"id": 30}], scope="global")
        dk.delete_keys(table, [{"id": 5, "category": "b"}, {"id": 13, "category": "b"}, {"id": 7, "category": None}])
        gone |= {2, 30, 5, 13, 7}
        back = items((2, "a", 0.5), (5, "b", 0.5))  # newer than the keys that delete them
        dk.append(table, back)
        return table, [r for r in rows if r["id"] not in gone] + back
    return table, [r for r in rows if r["id"] not in gone]


def clean(table: dk.Table) -> None:
    """Nothing is wrong that a specification or the tests' own invariants know of; what dangles is not an error."""
    check_table(table)
    report = dk.verify(table.refresh(), level="data")
    assert [str(f) for f in report.findings if not f.kind.startswith("dangling")] == []


@pytest.mark.parametrize(("version", "kind"), MERGED)
def test_the_new_files_need_none_of_the_old_deletes(catalog: dk.Catalog, version: int, kind: str) -> None:
    """What Parquet alone holds is what is live: every delete is in the new files, and none is applied a second time."""
    table, rows = busy(catalog, version, kind)
    dk.compact(table, rewrite_all=True)
    stored = [
        row
        for f in live_files(table, 0)
        for row in parquet(f["file_path"]).select(["id", "category", "value"]).to_pylist()
    ]
    assert expected(stored) == expected(rows)
    dk.remove_dangling_deletes(table)
    assert (live_files(table, 1), live(table)) == ([], expected(rows))


def test_deletes_between_two_sequence_numbers_are_kept(catalog: dk.Catalog) -> None:
    """Java drops the first of two equality deletes when the file they are about is rewritten with its old number."""
    for version in (2, 3):
        table = make(catalog, rows_of(0), format_version=version)
        dk.delete_keys(table, [{"id": 1}])
        stale = other(table)
        with between(stale, before=lambda table=table: dk.delete_keys(other(table), [{"id": 2}])):
            done = dk.compact(stale, rewrite_all=True)
        assert [c.attempts for c in done.commits] == [2]
        assert live(table.refresh()) == expected([r for r in rows_of(0) if r["id"] not in (1, 2)])
        dk.compact(table, rewrite_all=True)
        dk.delete_keys(table, [{"id": 3}])
        assert live(table) == expected([r for r in rows_of(0) if r["id"] not in (1, 2, 3)])
        clean(table)


def test_only_what_was_touched_is_read_again(catalog: dk.Catalog) -> None:
    """Of four partitions a vector lands in one: the files written for the others are committed as they are."""
    table, _ = busy(catalog, 3, "partitioned")
    worker = other(table)
    with between(worker, before=lambda: dk.delete(other(table), "id = 0", mode="deletion-vector")):
        dk.compact(worker, rewrite_all=True)
    live_now = [e for e in entries(table.refresh(), 0) if e["status"] != 2]
    numbers = {e["data_file"]["partition"]["category"]: e["inherited"] for e in live_now}
    last = head_json(table)["sequence-number"]
    assert numbers == {"a": last - 1, "b": last - 2, "c": last - 2, None: last - 2}
    clean(table)  # and nothing of the first try is left: every file is needed


def test_a_partition_wide_delete_of_another_file_does_no_harm(catalog: dk.Catalog) -> None:
    table = make(catalog, rows_of(0), rows_of(1), rows_of(2), format_version=2)
    worker = other(table)
    small = live_files(table, 0)[-1]["file_path"]

    def come_in() -> None:
        dk.append(other(table), rows_of(5))
        dk.append(other(table), rows_of(6))
        dk.delete(other(table), "id in (40, 48)", mode="position-delete", granularity="partition")

    with between(worker, before=come_in):
        dk.compact(worker, rewrite_all=True)
    head = head_json(table.refresh())["snapshot-id"]
    (added,) = (e for e in entries(table, 0) if e["snapshot_id"] == head and e["status"] == 1)
    assert added["inherited"] == 3
    assert small not in {f["file_path"] for f in live_files(table, 0)}
    gone = {40, 48}
    assert live(table) == expected([r for i in (0, 1, 2, 5, 6) for r in rows_of(i) if r["id"] not in gone])
    clean(table)


def test_a_moved_row_is_found_by_no_partition_delete(catalog: dk.Catalog) -> None:
    """Keys scoped to the partition of the old spec land while its files move to the new one."""
    table = make(catalog, rows_of(0), format_version=2, partition_by=["category"])
    dk.add_partition_field(table, "bucket(4, id)")
    worker = other(table)
    with between(worker, before=lambda: dk.delete_keys(other(table), [{"id": 0, "category": "a"}], scope="partition")):
        dk.compact(worker, rewrite_all=True)
    assert live(table.refresh()) == expected([r for r in rows_of(0) if r["id"] != 0])
    clean(table)


@pytest.mark.parametrize("version", [2, 3])
def test_after_an_upgrade(catalog: dk.Catalog, version: int) -> None:
    table, rows = busy(catalog, 2, "evolved")
    dk.upgrade_format_version(table, 3)
    if version == 3:
        dk.delete(table, "id = 3", mode="deletion-vector")
        rows = [r for r in rows if r["id"] != 3]
    before = lineage(table)
    dk.compact(table, rewrite_all=True)
    assert live(table) == expected(rows)
    now = lineage(table)
    assert now == before if version == 3 else len({n for _, n, _ in now if n is not None}) == len(rows)
    assert not any(f["content"] == 1 and f["file_format"] == "PUFFIN" for f in live_files(table, 1))
    clean(table)


def test_parts(catalog: dk.Catalog) -> None:
    table, rows = busy(catalog, 3, "partitioned")
    done = dk.compact(table, rewrite_all=True, partial_progress=True, max_commits=3)
    assert len(done.commits) == 2  # four groups, two for each of at most three commits
    assert done.file_groups == 4
    assert done.failed_data_files == {}
    assert live(table) == expected(rows)
    clean(table)
    assert len(dk.compact(table, rewrite_all=True, partial_progress=True, max_commits=9).commits) == 4


def test_a_part_that_fails_leaves_the_others(catalog: dk.Catalog) -> None:
    table, rows = busy(catalog, 3, "partitioned")
    dk.set_properties(table, {"commit.retry.num-retries": "0"})
    worker, changed = other(table), []
    with between(worker, before=lambda: changed.append(dk.delete(other(table), "id = 0", mode="deletion-vector"))):
        done = dk.compact(worker, rewrite_all=True, partial_progress=True, max_commits=4)
    assert len(done.commits) == 3
    assert len(done.failed_data_files) > 0
    assert not set(done.failed_data_files) & set(done.rewritten_data_files)
    assert live(table.refresh()) == expected([r for r in rows if r["id"] != 0])
    clean(table)
    worker = other(table)
    with between(worker, before=lambda: dk.append(other(table), rows_of(9))), pytest.raises(dk.CommitConflictError):
        dk.compact(worker, rewrite_all=True)
    clean(table.refresh())


def chosen(table: dk.Table, **options: Any) -> set[str]:
    return set(dk.compact(table, dry_run=True, **options).rewritten_data_files)


def test_which_files(catalog: dk.Catalog) -> None:
    table = make(catalog, *[rows_of(i) for i in range(4)], format_version=3)
    sizes = {f["file_path"]: f["file_size_in_bytes"] for f in live_files(table, 0)}
    target = max(sizes.values())
    assert chosen(table) == set()  # four are fewer than five
    assert chosen(table, min_input_files=4) == set(sizes)
    assert chosen(table, target_file_size_bytes=target, min_input_files=2) == set()  # each is of a good size
    assert chosen(table, target_file_size_bytes=4 * target) == set()
    assert chosen(table, target_file_size_bytes=2 * target) == set(sizes)  # they make up more than one
    assert chosen(table, target_file_size_bytes=target // 2) == set(sizes)  # each is too large
    assert chosen(table, rewrite_all=True) == set(sizes)
    groups = dk.compact(table, dry_run=True, rewrite_all=True, max_file_group_size_bytes=2 * target)
    assert groups.file_groups == 2
    assert chosen(table, where="id = 9", rewrite_all=True) == {f for f in sizes if has(f, 9)}


def has(path: str, number: int) -> bool:
    return number in parquet(path)["id"].to_pylist()


def test_which_files_for_their_deletes(catalog: dk.Catalog) -> None:
    """Ratio: three of eight rows are more than 0.3, two are less; rows that equality deletes hide do not count."""
    table = make(catalog, *[rows_of(i) for i in range(4)], format_version=3)
    dk.delete(table, "id in (0, 1, 2, 8, 9)", mode="deletion-vector")
    dk.delete_keys(table, [{"id": i} for i in range(16, 22)])
    sizes = {f["file_path"]: f["file_size_in_bytes"] for f in live_files(table, 0)}
    assert chosen(table, min_file_size_bytes=0) == {f for f in sizes if has(f, 0)}
    assert chosen(table) == set(sizes)  # the others are small, and go along
    assert chosen(table, min_file_size_bytes=0, delete_ratio_threshold=0.25) == {
        f for f in sizes if has(f, 0) or has(f, 8)
    }
    assert chosen(table, delete_ratio_threshold=1.0) == set()
    assert chosen(table, min_file_size_bytes=0, delete_file_threshold=1, delete_ratio_threshold=1.0) == {
        f for f in sizes if has(f, 0) or has(f, 8) or has(f, 16)
    }


def test_new_files_have_the_target_size(catalog: dk.Catalog) -> None:
    numbers = pa.table(
        {"id": pa.array(range(200_000), pa.int32()), "value": [float(i * 7 % 1013) for i in range(200_000)]}
    )
    table = make(catalog, *[numbers.slice(i * 20_000, 20_000) for i in range(10)], schema=numbers.schema)
    size = sum(f["file_size_in_bytes"] for f in live_files(table, 0))
    target = size // 4
    dk.compact(table, target_file_size_bytes=target)
    after = [f["file_size_in_bytes"] for f in live_files(table, 0)]
    assert all(0.6 * target < n < 1.8 * target for n in after), (target, after)
    assert live(table) == expected(numbers.to_pylist())


def test_a_group_of_deleted_rows_leaves_no_file(catalog: dk.Catalog) -> None:
    table = make(catalog, rows_of(0), rows_of(1), format_version=3)
    dk.delete_keys(table, [{"id": i} for i in range(16)])
    done = dk.compact(table, rewrite_all=True)
    assert (len(done.rewritten_data_files), done.added_data_files) == (2, ())
    assert live(table) == []
    clean(table)


def test_on_a_branch(catalog: dk.Catalog) -> None:
    table, rows = busy(catalog, 3)
    dk.create_branch(table, "side")
    dk.delete(table, "id = 0", mode="deletion-vector", ref="side")
    main = head_json(table)
    dk.compact(table, rewrite_all=True, ref="side")
    assert head_json(table.refresh()) == main
    assert live(table, ref="side") == expected([r for r in rows if r["id"] != 0])
    assert len(live_files(table, 0, "side")) == 1
    clean(table)


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ({"target_file_size_bytes": 0}, "rewrite-option"),
        ({"min_file_size_bytes": 10, "target_file_size_bytes": 10}, "rewrite-option"),
        ({"max_file_size_bytes": 10, "target_file_size_bytes": 10}, "rewrite-option"),
        ({"min_input_files": 0}, "rewrite-option"),
        ({"delete_ratio_threshold": 1.5}, "rewrite-option"),
        ({"max_commits": 0}, "rewrite-option"),
        ({"where": "nope = 1"}, "filter"),
        ({"ref": "v1"}, "ref"),
        ({"rewrite_everything": True}, "argument"),
    ],
)
def test_refused(catalog: dk.Catalog, options: dict[str, Any], kind: str) -> None:
    table = make(catalog, rows_of(0), format_version=2)
    dk.create_tag(table, "v1")
    with refused(table, dk.InvalidInputError, kind):
        dk.compact(table, **options)


def test_no_such_option(catalog: dk.Catalog) -> None:
    table, _ = busy(catalog, 2)
    with refused(table, dk.InvalidInputError, "argument", field="rewrite_everything"):
        dk.compact(table, rewrite_everything=True)  # type: ignore[call-arg]


def test_formats_that_cannot_be_written(catalog: dk.Catalog) -> None:
    table = make(catalog, rows_of(0), format_version=2)
    dk.set_properties(table, {"write.format.default": "orc"})
    with refused(table, dk.InvalidInputError, "file-format"):
        dk.compact(table)
    assert metadata_json(table)["properties"]["write.format.default"] == "orc"


def test_sorting_where_no_row_is_left(catalog: dk.Catalog) -> None:
    """Equality deletes hide every row, so that there is none to sort, and no file to write."""
    table = make(catalog, *(items((i, "a", 1.0)) for i in range(3)), sort_by="id")
    dk.delete_keys(table, [{"id": i} for i in range(3)])
    done = dk.compact(table, strategy="sort", min_input_files=2)
    assert (len(done.rewritten_data_files), done.added_data_files, live(table)) == (3, (), [])
