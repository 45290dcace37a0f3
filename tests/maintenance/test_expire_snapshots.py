"""Expired snapshots take along exactly the files that nothing else leads to."""

import json
from collections.abc import Callable
from typing import Any

import pytest

import deletekit as dk
from deletekit.commit.change import RowDelta
from deletekit.commit.planned_change import plan_change
from deletekit.commit.swap import commit
from deletekit.engines.local import LocalEngine
from deletekit.formats.manifest_list import ManifestContent
from deletekit.table.snapshot import SnapshotReader
from tests.invariants import check_table
from tests.maintenance.model import (
    FAR,
    between,
    edit_metadata,
    history,
    lineage,
    live_paths,
    needed,
    other,
    snapshot_ids,
    staged,
)
from tests.storage import io_properties, stored_at
from tests.stored import live_files, snapshots_json, vectors
from tests.tables import (
    VERSION_AND_MODE,
    expected,
    files_of,
    ids,
    items,
    live,
    make,
    refused,
    set_by_another_writer,
    unchanged,
)

ROWS = items((1, "a", 1.0), (2, "a", 2.0), (3, "b", 3.0), (4, "b", 4.0), (5, "c", 5.0), (6, "c", 6.0))
DELETED = ("data", "position_delete", "deletion_vector", "equality_delete", "manifest")


def removed(done: dk.results.ExpiredSnapshots) -> set[str]:
    """Every path that the report names."""
    fields = [f"deleted_{kind}_files" for kind in DELETED] + [
        "deleted_manifest_lists",
        "deleted_statistics_files",
        "deleted_key_index_files",
        "deleted_file_logs",
    ]
    paths = [path for name in fields for path in getattr(done, name)]
    assert len(set(paths)) == len(paths)
    return set(paths)


def busy(catalog: dk.Catalog, version: int, mode: str, **options: Any) -> dk.Table:
    """Some history: two files, deletes of each, an update, a file that goes as a whole."""
    table = make(catalog, ROWS[:3], ROWS[3:], format_version=version, **options)
    dk.delete(table, "id in (1, 4)", mode=mode)
    dk.update(table, {"value": 0.0}, where="id = 2", mode=mode)
    dk.append(table, items((7, "d", 7.0), (8, "d", 8.0)))
    dk.delete(table, "id >= 7", mode=mode)
    dk.delete(table, "id = 5", mode=mode)
    return table


@pytest.mark.sampled(7, tier=1)
@pytest.mark.parametrize(("version", "mode"), VERSION_AND_MODE)
@pytest.mark.parametrize("partition_by", [[], ["category"]], ids=["whole", "partitioned"])
@pytest.mark.parametrize("keep", [1, 3])
def test_what_is_left_is_what_is_reachable(
    catalog: dk.Catalog, version: int, mode: str, partition_by: list[str], keep: int
) -> None:
    table = busy(catalog, version, mode, partition_by=partition_by)
    past, before, order = history(table), files_of(table), snapshot_ids(table)
    rows = lineage(table)
    with unchanged(table):
        tried = dk.expire_snapshots(table, older_than=FAR, retain_last=keep, dry_run=True)
    done = dk.expire_snapshots(table, older_than=FAR, retain_last=keep)
    assert (done.snapshot_ids, done.refs, done.failed_files) == (tuple(order[:-keep]), (), {})
    assert files_of(table) == needed(table)
    assert removed(done) == before - files_of(table) == removed(tried)
    assert (tried.dry_run, done.dry_run, tried.snapshot_ids) == (True, False, done.snapshot_ids)
    assert history(table) == {i: past[i] for i in order[-keep:]}
    assert lineage(table) == rows
    check_table(table)
    assert dk.expire_snapshots(table, older_than=FAR, retain_last=keep) == dk.results.ExpiredSnapshots()
    # The table goes on as before.
    dk.append(table, items((9, "e", 9.0)))
    dk.delete(table, "id = 3", mode=mode)
    assert ids(table) == [2, 6, 9]
    check_table(table)


def test_kinds_of_removed_files(catalog: dk.Catalog) -> None:
    table = make(catalog, ROWS[:3], ROWS[3:], format_version=2)
    kept = set(live_paths(snapshots_json(table)[-1]))
    dk.delete(table, "id = 1", mode="position-delete")
    dk.delete(table, "id = 4", mode="equality-delete")
    _, _, position, equality = (live_paths(snapshot) for snapshot in snapshots_json(table))
    dk.append(table, items((7, "d", 7.0)))
    (added,) = live_paths(snapshots_json(table)[-1]) - equality
    dk.rollback(table, snapshot_ids(table)[1])
    done = dk.expire_snapshots(table, older_than=FAR)
    assert done.deleted_data_files == (added,)
    assert set(done.deleted_position_delete_files) == position - kept
    assert set(done.deleted_equality_delete_files) == equality - position
    assert done.deleted_deletion_vector_files == done.deleted_statistics_files == ()
    assert (len(done.deleted_manifest_lists), len(done.deleted_manifest_files)) == (4, 3)
    assert files_of(table) == needed(table)


# --- one Puffin, several vectors: Java's incremental clean-up deletes it under those that are live --------------------


def test_a_shared_puffin_stays_while_one_of_its_vectors_is_live(catalog: dk.Catalog) -> None:
    table = make(catalog, ROWS[:3], ROWS[3:], format_version=3)
    dk.delete(table, "id in (1, 4)", mode="deletion-vector", engine=LocalEngine(1))
    (shared,) = {vector["file_path"] for vector in live_files(table, 1)}
    assert len(vectors(table)) == 2
    dk.delete(table, "id = 2", mode="deletion-vector")  # replaces the vector of the first file
    assert [v["file_path"] for v in live_files(table, 1)].count(shared) == 1
    done = dk.expire_snapshots(table, older_than=FAR)
    assert len(done.snapshot_ids) == 3
    assert done.deleted_deletion_vector_files == ()
    assert stored_at(shared).exists()
    assert ids(table) == [3, 5, 6]
    assert files_of(table) == needed(table)
    dk.delete(table, "id = 5", mode="deletion-vector")  # and now the other one too
    done = dk.expire_snapshots(table, older_than=FAR)
    assert done.deleted_deletion_vector_files == (shared,)
    assert ids(table) == [3, 6]
    assert files_of(table) == needed(table)


def test_a_vector_that_only_a_tag_sees_keeps_its_puffin(catalog: dk.Catalog) -> None:
    table = make(catalog, ROWS[:3], format_version=3)
    dk.delete(table, "id = 1", mode="deletion-vector")
    dk.create_tag(table, "audited")
    dk.delete(table, "id = 2", mode="deletion-vector")
    dk.delete(table, "id = 3", mode="deletion-vector")
    dk.expire_snapshots(table, older_than=FAR)
    assert ids(table, ref="audited") == [2, 3]
    assert ids(table) == []
    assert files_of(table) == needed(table)


def test_a_file_that_was_added_again_stays(catalog: dk.Catalog) -> None:
    # apache/iceberg#17304: removed by one snapshot, live again by a later one. Rolled back and picked again.
    table = make(catalog, ROWS[:3], format_version=2)
    dk.append(table, ROWS[3:])
    later = snapshot_ids(table)[-1]
    dk.rollback(table, snapshot_ids(table)[0])
    dk.append(table, items((9, "z", 9.0)))
    dk.cherry_pick(table, later)
    dk.expire_snapshots(table, older_than=FAR)
    assert ids(table) == [1, 2, 3, 4, 5, 6, 9]
    assert files_of(table) == needed(table)


# --- refs and ages ----------------------------------------------------------------------------------------------------


def test_branches_and_tags_keep_their_snapshots(catalog: dk.Catalog) -> None:
    table = make(catalog, ROWS[:2], format_version=2)
    dk.create_tag(table, "first")
    dk.append(table, ROWS[2:4])
    dk.create_branch(table, "dev")
    dk.delete(table, "id = 1", ref="dev", mode="position-delete")
    dk.append(table, ROWS[4:])
    dk.delete(table, "id = 6")
    seen = {ref: live(table, ref=ref) for ref in ("main", "dev", "first")}
    done = dk.expire_snapshots(table, older_than=FAR)
    assert len(done.snapshot_ids) == 2
    assert {ref: live(table, ref=ref) for ref in seen} == seen
    assert files_of(table) == needed(table)
    assert len(snapshot_ids(table)) == 3


def test_young_snapshots_stay_by_default(catalog: dk.Catalog) -> None:
    table = busy(catalog, 2, "position-delete")
    staged(table, ROWS[:1])
    with unchanged(table):
        assert dk.expire_snapshots(table) == dk.results.ExpiredSnapshots()
    dk.set_properties(table, {"history.expire.max-snapshot-age-ms": "0", "history.expire.min-snapshots-to-keep": "2"})
    order = snapshot_ids(table)
    done = dk.expire_snapshots(table, older_than=None)
    assert set(order) - set(done.snapshot_ids) >= set(order[-3:-1])
    assert files_of(table) == needed(table)


def test_one_snapshot_in_the_middle(catalog: dk.Catalog) -> None:
    table = busy(catalog, 3, "deletion-vector")
    order, past = snapshot_ids(table), history(table)
    done = dk.expire_snapshots(table, snapshot_ids=[order[2]])
    assert done.snapshot_ids == (order[2],)
    assert history(table) == {i: rows for i, rows in past.items() if i != order[2]}
    assert files_of(table) == needed(table)


def test_statistics_go_with_their_snapshot(catalog: dk.Catalog) -> None:
    table = make(catalog, ROWS[:3], ROWS[3:], format_version=2)
    first, second = snapshot_ids(table)
    paths = {name: f"{table.location}/metadata/{name}.stats" for name in ("a", "b", "c", "both")}
    for path in paths.values():
        stored_at(path).write_bytes(b"statistics")

    def add(metadata: dict[str, Any]) -> None:
        def entry(snapshot_id: int, path: str) -> dict[str, Any]:
            size = {"file-size-in-bytes": 10, "file-footer-size-in-bytes": 1, "blob-metadata": []}
            return {"snapshot-id": snapshot_id, "statistics-path": path, **size}

        metadata["statistics"] = [entry(first, paths["a"]), entry(second, paths["b"])]
        metadata["partition-statistics"] = [
            entry(first, paths["c"]), entry(first, paths["both"]), entry(second, paths["both"]),
        ]  # fmt: skip

    edit_metadata(table, add)
    done = dk.expire_snapshots(table, older_than=FAR)
    assert set(done.deleted_statistics_files) == {paths["a"], paths["c"]}
    assert files_of(table) == needed(table) >= {paths["b"], paths["both"]}


# --- what is refused, and what is missing -----------------------------------------------------------------------------


def test_refusals(catalog: dk.Catalog) -> None:
    table = make(catalog, ROWS[:3], ROWS[3:], format_version=2)
    dk.create_tag(table, "t", snapshot_ids(table)[0])
    with refused(table, dk.InvalidInputError, "retain-last", found=0):
        dk.expire_snapshots(table, older_than=FAR, retain_last=0)
    with refused(table, dk.NotFoundError, "snapshot-not-found", found=12345):
        dk.expire_snapshots(table, snapshot_ids=[12345])
    for i in snapshot_ids(table):
        with refused(table, dk.InvalidInputError, "referenced-snapshot"):
            dk.expire_snapshots(table, snapshot_ids=[i])
    with refused(table, dk.InvalidInputError, "time-travel", field="older_than"):
        dk.expire_snapshots(table, older_than="yesterday")
    with refused(dk.from_metadata(table.metadata_location, **io_properties()), dk.InvalidInputError, "read-only"):
        dk.expire_snapshots(dk.from_metadata(table.metadata_location, **io_properties()), older_than=FAR)
    set_by_another_writer(table, {"history.expire.min-snapshots-to-keep": "0"})
    with refused(table, dk.InvalidInputError, "property", field="history.expire.min-snapshots-to-keep"):
        dk.expire_snapshots(table, older_than=FAR)
    dk.set_properties(table, {"gc.enabled": "false"})
    with refused(table, dk.InvalidInputError, "gc-disabled", field="gc.enabled"):
        dk.expire_snapshots(table, older_than=FAR)


def test_what_an_expired_snapshot_lost_is_not_missed(catalog: dk.Catalog) -> None:
    table = busy(catalog, 2, "copy-on-write")
    snapshots = snapshots_json(table)
    head = {*live_paths(snapshots[-1])}
    gone = [snapshots[0]["manifest-list"], *sorted(live_paths(snapshots[2]) - head)]
    for path in gone:
        stored_at(path).unlink()
    rows = live(table)
    done = dk.expire_snapshots(table, older_than=FAR)
    assert done.failed_files == {}
    assert live(table) == rows
    assert files_of(table) == needed(table)


def test_what_a_remaining_snapshot_lost_is(catalog: dk.Catalog) -> None:
    table = busy(catalog, 2, "copy-on-write")
    stored_at(snapshots_json(table)[-1]["manifest-list"]).unlink()
    with refused(table, dk.NotFoundError, "file-not-found"):
        dk.expire_snapshots(table, older_than=FAR)


def test_what_cannot_be_removed_is_said(catalog: dk.Catalog) -> None:
    table = make(catalog, ROWS[:3], format_version=2)
    dk.delete(table, "id = 1", mode="copy-on-write")
    (path,) = live_paths(snapshots_json(table)[0])
    stored_at(path).unlink()
    stored_at(path).mkdir()
    done = dk.expire_snapshots(table, older_than=FAR)
    assert list(done.failed_files) == [path]
    assert done.deleted_data_files == ()
    assert len(done.deleted_manifest_lists) == 1
    assert files_of(table) == needed(table)


# --- others at work ---------------------------------------------------------------------------------------------------


def test_a_commit_in_between_is_planned_with(catalog: dk.Catalog) -> None:
    table = busy(catalog, 3, "deletion-vector")
    them = other(table)
    with between(table, before=lambda: dk.append(them, items((20, "z", 0.0)))) as proxy:
        done = dk.expire_snapshots(table, older_than=FAR)
    assert proxy.commits == 2
    assert len(done.snapshot_ids) == 7  # the head that was is an ancestor now
    assert 20 in ids(table)
    assert files_of(table) == needed(table)


@pytest.mark.parametrize(
    ("ref", "move"),
    [
        # Every ref that was there is where it was, so no requirement of the REST catalog sees it.
        ("late", lambda them, first: dk.create_branch(them, "late", first)),
        ("main", dk.rollback),
    ],
    ids=["a new branch", "a rollback"],
)
def test_what_a_ref_got_in_between_stays(catalog: dk.Catalog, ref: str, move: Callable[..., Any]) -> None:
    table = busy(catalog, 3, "deletion-vector")
    first, them = snapshot_ids(table)[0], other(table)
    rows = live(table, snapshot_id=first)
    with between(table, before=lambda: move(them, first)) as proxy:
        done = dk.expire_snapshots(table, older_than=FAR)
    assert proxy.commits == 2
    assert first not in done.snapshot_ids
    assert live(table, ref=ref) == rows
    assert files_of(table) == needed(table)


def test_a_rollback_afterwards_is_refused(catalog: dk.Catalog) -> None:
    table = busy(catalog, 3, "deletion-vector")
    first, them = snapshot_ids(table)[0], other(table)
    with between(them, before=lambda: dk.expire_snapshots(table, older_than=FAR)), pytest.raises(dk.DeletekitError):
        dk.rollback(them, first)
    assert files_of(table) == needed(table.refresh())


def test_a_cherry_pick_in_between_keeps_what_it_picked(catalog: dk.Catalog) -> None:
    table = make(catalog, ROWS[:3], format_version=3)
    picked = staged(table, ROWS[3:])
    dk.append(table, items((9, "z", 9.0)))
    them = other(table)
    with between(table, before=lambda: dk.cherry_pick(them, picked)):
        done = dk.expire_snapshots(table, older_than=FAR)
    assert picked in done.snapshot_ids
    assert ids(table) == [1, 2, 3, 4, 5, 6, 9]
    assert files_of(table) == needed(table)


def test_a_cherry_pick_of_what_expires_meanwhile_is_refused(catalog: dk.Catalog) -> None:
    # Expiring leaves the branch where it is: nothing that the pick requires of its branch has changed.
    table = make(catalog, ROWS[:3], format_version=3)
    picked = staged(table, ROWS[3:])
    dk.append(table, items((9, "z", 9.0)))
    dk.expire_snapshots(table, older_than=FAR, dry_run=True)
    them = other(table)
    with (
        between(them, before=lambda: dk.expire_snapshots(table, older_than=FAR)),
        pytest.raises(dk.DeletekitError) as caught,
    ):
        dk.cherry_pick(them, picked)
    assert str(picked) in str(caught.value)
    assert ids(table.refresh()) == [1, 2, 3, 9]
    assert files_of(table) == needed(table)


def test_a_file_that_came_back_after_the_commit_stays(catalog: dk.Catalog) -> None:
    # Between the commit and the removal, someone adds a file again that the expired snapshots had.
    table = make(catalog, ROWS[:3], format_version=2)
    dk.delete(table, "true", mode="copy-on-write")
    them = other(table)
    (entry,) = live_entries_of(them, snapshot_ids(table)[0])
    with between(table, after=lambda: add_again(them, entry)):
        done = dk.expire_snapshots(table, older_than=FAR)
    assert done.deleted_data_files == ()
    assert live(table) == expected(ROWS[:3])
    assert files_of(table) == needed(table)


def live_entries_of(table: dk.Table, snapshot_id: int) -> list[Any]:
    snapshot = table.metadata.snapshots[snapshot_id]
    return list(SnapshotReader(table.io, table.metadata).live_entries(snapshot, ManifestContent.DATA))


def add_again(table: dk.Table, entry: Any) -> None:
    commit(plan_change(table, lambda _: RowDelta(added_data_files=(entry.data_file,))))


@pytest.mark.parametrize("landed", [True, False])
def test_an_unknown_outcome_removes_nothing(catalog: dk.Catalog, landed: bool) -> None:
    table = busy(catalog, 3, "deletion-vector")
    files, rows = files_of(table), live(table)

    def fail() -> None:
        raise dk.CommitStateUnknownError("nobody knows")

    hooks = {"after": fail} if landed else {"before": fail}
    with between(table, **hooks), pytest.raises(dk.CommitStateUnknownError):
        dk.expire_snapshots(table, older_than=FAR)
    assert files_of(table) >= files
    assert live(table.refresh()) == rows
    assert len(table.metadata.snapshots) == (1 if landed else 7)


def test_lost_races_remove_nothing(catalog: dk.Catalog) -> None:
    table = busy(catalog, 2, "position-delete", properties={"commit.retry.num-retries": "0"})
    them, past = other(table), history(table)
    with between(table, before=lambda: dk.append(them, ROWS[:1])), pytest.raises(dk.CommitConflictError):
        dk.expire_snapshots(table, older_than=FAR)
    assert past.items() <= history(table).items()
    assert files_of(table) == needed(table)


def test_the_metadata_file_is_plain_json(catalog: dk.Catalog) -> None:
    """No helper of `apply_updates` may stay in the document."""
    table = busy(catalog, 3, "deletion-vector")
    dk.expire_snapshots(table, older_than=FAR)
    assert not [key for key in json.loads(stored_at(table.metadata_location).read_text("utf-8")) if key.startswith("_")]
