"""Other manifests, the same table: rows, deletes, lineage, numbers and partition values."""

from typing import Any

import pyarrow as pa
import pytest

import deletekit as dk
from tests.invariants import check_table
from tests.maintenance.model import FAR, between, history, lineage, needed, other, snapshot_ids
from tests.stored import entries, head_json, manifest_list
from tests.tables import VERSION_AND_MODE, files_of, ids, items, live, make, refused, set_by_another_writer, unchanged


def many(catalog: dk.Catalog, version: int, mode: str, files: int = 4, **options: Any) -> dk.Table:
    """Appends of two rows for each of four partitions; of some of these files one row is deleted."""
    options.setdefault("partition_by", ["category"])
    table = make(catalog, format_version=version, **options)
    for i in range(files):
        dk.append(table, items(*((8 * i + j, "abcd"[j % 4], float(i)) for j in range(8))))
    for i in (1, 10, 23, 27):
        dk.delete(table, f"id = {i}", mode=mode)
    return table


def facts(table: dk.Table) -> list[tuple[Any, ...]]:
    """What must stay of every live file: identity, numbers, partition, first row id."""
    found = []
    for entry in entries(table):
        if entry["status"] != 2:
            file = entry["data_file"]
            found.append(
                (
                    file["file_path"],
                    file.get("content_offset"),
                    entry["snapshot_id"],
                    entry["inherited"],
                    entry["inherited"] if (n := entry.get("file_sequence_number")) is None else n,
                    tuple(file["partition"].values()),
                    file.get("referenced_data_file"),
                    file["record_count"],
                )
            )
    return sorted(found, key=repr)


@pytest.mark.sampled(2, tier=1)
@pytest.mark.parametrize(("version", "mode"), VERSION_AND_MODE)
def test_fewer_manifests_the_same_table(catalog: dk.Catalog, version: int, mode: str) -> None:
    table = many(catalog, version, mode)
    before = {"rows": live(table), "facts": facts(table), "lineage": lineage(table), "past": history(table)}
    old = {m["manifest_path"] for m in manifest_list(table)}
    with unchanged(table):
        tried = dk.rewrite_manifests(table, dry_run=True)
    done = dk.rewrite_manifests(table, commit_properties={"why": "test"})
    groups = 2 if mode in ("position-delete", "equality-delete", "deletion-vector") else 1
    assert len(manifest_list(table)) == groups == done.added_manifests_count == tried.added_manifests_count
    assert set(tried.rewritten_manifests) == set(done.rewritten_manifests) <= old
    assert set(done.added_manifests) == {m["manifest_path"] for m in manifest_list(table)} - old
    assert (tried.added_manifests, tried.commit, tried.dry_run, done.dry_run) == ((), None, True, False)
    assert (live(table), facts(table), lineage(table)) == (before["rows"], before["facts"], before["lineage"])
    assert before["past"].items() <= history(table).items()
    assert all(entry["status"] == 0 for entry in entries(table))
    head = head_json(table)
    assert done.commit is not None
    assert done.commit.snapshot_id == head["snapshot-id"]
    assert head["summary"]["operation"] == "replace"
    assert head["summary"]["why"] == "test"
    assert head["summary"]["manifests-replaced"] == str(len(done.rewritten_manifests))
    assert head["summary"]["entries-processed"] == str(len(entries(table)))
    check_table(table)
    with unchanged(table):
        assert dk.rewrite_manifests(table) == dk.results.RewrittenManifests()
    dk.delete(table, "id in (2, 17)", mode=mode)
    dk.append(table, items((99, "a", 0.0)))
    assert ids(table) == sorted({*range(32), 99} - {1, 10, 23, 27, 2, 17})
    check_table(table)
    dk.expire_snapshots(table, older_than=FAR)
    assert files_of(table) == needed(table)
    assert ids(table) == sorted({*range(32), 99} - {1, 10, 23, 27, 2, 17})


@pytest.mark.parametrize("version", [1, 3])
def test_manifests_of_the_target_size_hold_neighbours(catalog: dk.Catalog, version: int) -> None:
    table = many(catalog, version, "copy-on-write", files=12)
    size = sum(m["manifest_length"] for m in manifest_list(table))
    dk.set_properties(table, {"commit.manifest.target-size-bytes": str(size // 4)})
    rows = lineage(table)
    done = dk.rewrite_manifests(table)
    assert 4 <= done.added_manifests_count <= 5
    seen = []
    for listed in manifest_list(table):
        values = [e["data_file"]["partition"]["category"] for e in entries(table) if e["listed"] == listed]
        assert values == sorted(values)
        seen.append((min(values), max(values)))
        # What a reader skips manifests by says the same.
        (summary,) = listed["partitions"]
        assert (summary["lower_bound"], summary["upper_bound"]) == (min(values).encode(), max(values).encode())
    assert all(a[1] <= b[0] for a, b in zip(sorted(seen), sorted(seen)[1:], strict=False))
    assert lineage(table) == rows
    check_table(table)


def test_one_large_manifest_is_split(catalog: dk.Catalog) -> None:
    table = many(catalog, 2, "copy-on-write")
    dk.rewrite_manifests(table)
    (one,) = manifest_list(table)
    dk.set_properties(table, {"commit.manifest.target-size-bytes": str(one["manifest_length"] // 2 + 1)})
    assert dk.rewrite_manifests(table).added_manifests_count == 2
    check_table(table)


def test_partition_values_of_a_dropped_column_stay(catalog: dk.Catalog) -> None:
    schema = pa.schema([("id", pa.int64()), ("day", pa.date32()), ("kind", pa.string())])
    rows = [{"id": i, "day": 20_000 + i // 2, "kind": "ab"[i % 2]} for i in range(6)]
    apart = {"commit.manifest-merge.enabled": "false"}
    table = make(catalog, schema=schema, format_version=2, partition_by=["day", "kind"], properties=apart)
    for row in rows:
        dk.append(table, pa.Table.from_pylist([row], schema=schema))
    dk.delete(table, "id = 3", mode="position-delete")
    dk.drop_partition_field(table, "kind")
    dk.drop_column(table, "kind")
    dk.append(table, pa.table({"id": [6], "day": pa.array([1], pa.date32())}))
    before, found = facts(table), live(table)
    assert {len(f[5]) for f in before} == {1, 2}
    done = dk.rewrite_manifests(table)
    assert done.commit is not None
    assert facts(table) == before
    assert live(table) == found
    assert len({m["partition_spec_id"] for m in manifest_list(table)}) == 2
    # They are still what readers go by.
    assert ids(table, "day = '2024-10-05'") == [2]
    check_table(table)


def test_one_spec_only(catalog: dk.Catalog) -> None:
    table = many(catalog, 2, "position-delete")
    old = {m["manifest_path"] for m in manifest_list(table)}
    dk.drop_partition_field(table, "category")
    for i in range(3):
        dk.append(table, items((100 + i, "a", 0.0)))
    new_spec = table.metadata.spec.spec_id
    done = dk.rewrite_manifests(table, spec_id=new_spec)
    assert len(done.rewritten_manifests) == 3
    assert not old & set(done.rewritten_manifests)
    assert sum(m["partition_spec_id"] == new_spec for m in manifest_list(table)) == 1
    with refused(table, dk.InvalidInputError, "partition-spec", field="spec_id", found=77):
        dk.rewrite_manifests(table, spec_id=77)
    check_table(table)


@pytest.mark.parametrize("mode", ["position-delete", "equality-delete"])
def test_after_an_upgrade_row_ids_are_counted_once(catalog: dk.Catalog, mode: str) -> None:
    table = many(catalog, 2, mode, files=4)
    rows = live(table)
    dk.upgrade_format_version(table, 3)
    dk.rewrite_manifests(table)
    assert live(table) == rows
    numbers = [row_id for _, row_id, _ in lineage(table)]
    assert None not in numbers
    assert len(set(numbers)) == len(numbers)
    before = lineage(table)
    for i in range(3):
        dk.append(table, items((100 + i, "a", 0.0)))
    after = lineage(table)
    assert before == after[: len(before)]
    dk.rewrite_manifests(table)
    assert lineage(table) == after
    check_table(table)


def test_on_a_branch(catalog: dk.Catalog) -> None:
    table = many(catalog, 3, "deletion-vector")
    dk.create_branch(table, "dev")
    main = manifest_list(table)
    dk.rewrite_manifests(table, ref="dev")
    assert len(manifest_list(table, "dev")) == 2
    assert manifest_list(table) == main
    assert live(table, ref="dev") == live(table)
    check_table(table)
    dk.create_tag(table, "t")
    for ref, error, kind in (("t", dk.InvalidInputError, "ref"), ("no", dk.NotFoundError, "ref-not-found")):
        with refused(table, error, kind):
            dk.rewrite_manifests(table, ref=ref)


def test_an_empty_table(catalog: dk.Catalog) -> None:
    table = make(catalog, format_version=2)
    with unchanged(table):
        assert dk.rewrite_manifests(table) == dk.results.RewrittenManifests()
        assert dk.rewrite_manifests(table, dry_run=True) == dk.results.RewrittenManifests(dry_run=True)


def test_a_bad_target_size_is_refused(catalog: dk.Catalog) -> None:
    table = many(catalog, 2, "copy-on-write")
    set_by_another_writer(table, {"commit.manifest.target-size-bytes": "0"})
    with refused(table, dk.InvalidInputError, "property"):
        dk.rewrite_manifests(table)


def test_commits_in_between_are_not_lost(catalog: dk.Catalog) -> None:
    mode = "deletion-vector"
    table = many(catalog, 3, mode)
    them = other(table)

    def meanwhile() -> None:
        dk.append(them, items((64, "a", 0.0), (65, "e", 0.0)))
        dk.delete(them, "id = 20", mode=mode)

    with between(table, before=meanwhile):
        done = dk.rewrite_manifests(table)
    assert done.commit is not None
    assert done.commit.attempts == 2
    assert ids(table) == sorted({*range(32), 64, 65} - {1, 10, 23, 27, 20})
    assert len(manifest_list(table)) <= 2
    assert history(table)[snapshot_ids(table)[-2]] == live(table)
    check_table(table)
    assert files_of(table) == needed(table)


def test_lost_races_leave_nothing(catalog: dk.Catalog) -> None:
    table = many(catalog, 2, "position-delete", properties={"commit.retry.num-retries": "0"})
    them = other(table)
    with between(table, before=lambda: dk.append(them, items((50, "a", 0.0)))), pytest.raises(dk.CommitConflictError):
        dk.rewrite_manifests(table)
    assert files_of(table) == needed(table.refresh())
