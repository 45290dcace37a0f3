"""Commits merge small manifests as Java's ManifestMergeManager does, and no entry changes by it."""

from typing import Any

import pytest

import deletekit as dk
from tests.invariants import check_table
from tests.maintenance.model import lineage
from tests.maintenance.test_rewrite_manifests import facts
from tests.stored import entries, manifest_list
from tests.tables import items, live, make

ENABLED, COUNT, TARGET = (
    "commit.manifest-merge.enabled",
    "commit.manifest.min-count-to-merge",
    "commit.manifest.target-size-bytes",
)


def appended(catalog: dk.Catalog, times: int, version: int = 2, **properties: str) -> tuple[dk.Table, list[int]]:
    """A table with so many appends, and how many manifests it had after each."""
    table = make(catalog, format_version=version, properties=properties)
    counts = []
    for i in range(times):
        dk.append(table, items((2 * i, "a", 1.0), (2 * i + 1, "b", 2.0)))
        counts.append(len(manifest_list(table)))
    return table, counts


def model(lengths: list[int], target: int, least: int) -> list[list[int]]:
    """Java's rule for one spec, written from its description: pack from the oldest, newest first in `lengths`."""
    bins: list[list[int]] = []
    for at in range(len(lengths) - 1, -1, -1):
        if bins and sum(lengths[i] for i in bins[-1]) + lengths[at] <= target:
            bins[-1].append(at)
        else:
            bins.append([at])
    merged = [b for b in bins if len(b) > 1 and (0 not in b or len(b) >= least)]
    return [sorted(b) for b in merged]


@pytest.mark.parametrize("version", [1, 2, 3])
def test_the_number_of_manifests_is_bounded(catalog: dk.Catalog, version: int) -> None:
    table, counts = appended(catalog, 9, version, **{COUNT: "4"})
    other, unmerged = appended(catalog, 9, version, **{COUNT: "4", ENABLED: "false"})
    assert counts == [1, 2, 3, 1, 2, 3, 1, 2, 3]
    assert unmerged == list(range(1, 10))
    assert live(table) == live(other)
    known: Any = lineage(table)
    assert len({row_id for _, row_id, _ in known}) == (18 if version == 3 else 1), "merging may skip ids, as Java does"
    for i in range(4):
        dk.append(table, items((100 + i, "a", 1.0)))
        assert set(known) < set(lineage(table))
        known = lineage(table)
    for each in (table, other):
        check_table(each)
        assert not dk.verify(each).findings
    numbers = [e["inherited"] or 0 for e in entries(table)]
    assert sorted(numbers) == ([0] * 13 if version == 1 else list(range(1, 14)))
    snapshots = {s["snapshot-id"] for s in table.metadata.raw["snapshots"]}
    assert {e["snapshot_id"] for e in entries(table)} == snapshots, "each file has the id of the snapshot that added it"


@pytest.mark.slow
def test_default_merges_the_hundredth(catalog: dk.Catalog) -> None:
    table, counts = appended(catalog, 101)
    assert counts == [*range(1, 100), 1, 2]
    assert len(live(table)) == 202


def test_merged_at_the_sizes_that_java_packs(catalog: dk.Catalog) -> None:
    table, _ = appended(catalog, 1, **{COUNT: "3"})
    size = manifest_list(table)[0]["manifest_length"]
    dk.set_properties(table, {TARGET: str(int(size * 2.5))})
    for i in range(12):
        before = [m["manifest_length"] for m in manifest_list(table)]
        done = dk.append(table, items((100 + i, "a", 1.0)))
        after = manifest_list(table)
        new = size  # the new manifest, before it is merged, is about as long as the first one
        expected = model([new, *before], int(size * 2.5), 3)
        assert len(after) == len(before) + 1 - sum(len(b) - 1 for b in expected), (before, expected)
        assert done.summary["manifests-replaced"] == str(sum(len([i for i in b if i]) for b in expected))
        assert int(done.summary["manifests-created"]) + int(done.summary["manifests-kept"]) == len(after)
    check_table(table)


@pytest.mark.parametrize("version", [2, 3])
def test_removed_files_of_the_commit_stay_listed(catalog: dk.Catalog, version: int) -> None:
    table, _ = appended(catalog, 5, version, **{COUNT: "1000"})
    dk.delete(table, "id = 1", mode="copy-on-write")
    before: Any = facts(table)
    dk.set_properties(table, {COUNT: "2"})
    done = dk.delete(table, "id in (2, 3)", mode="copy-on-write")
    (listed,) = manifest_list(table)
    found = [(e["status"], e["snapshot_id"] == done.snapshot_id) for e in entries(table)]
    assert found.count((2, True)) == 1, "what this commit removed"
    assert (2, False) not in found, "what an older one removed"
    assert listed["deleted_files_count"] == 1
    assert set(facts(table)) == {f for f in before if f[0] != done.removed_data_files[0].file_path}
    check_table(table)


def test_old_specs_and_deletes_are_merged_each_for_itself(catalog: dk.Catalog) -> None:
    table, _ = appended(catalog, 4, **{COUNT: "100"})
    for i in (0, 2, 4):
        dk.delete(table, f"id = {i}", mode="position-delete")
    dk.add_partition_field(table, "category")
    before, rows = facts(table), live(table)
    dk.append(table, items((50, "a", 1.0)))
    listed = [(m["content"], m["partition_spec_id"]) for m in manifest_list(table)]
    assert listed == [(0, 1), (0, 0), (1, 0), (1, 0), (1, 0)], "Java merges what is not with the first at once"
    assert set(before) < set(facts(table))
    assert len(live(table)) == len(rows) + 1
    check_table(table)
    assert not dk.verify(table).findings
