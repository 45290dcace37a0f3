"""Staged snapshots are published once, and only where they mean the same."""

from collections.abc import Callable
from typing import Any

import pytest

import deletekit as dk
from deletekit.commit.change import Base, RowDelta
from deletekit.commit.planned_change import plan_change
from deletekit.commit.swap import commit
from deletekit.formats.manifest_list import ManifestContent
from deletekit.rows.data_file_writer import write_data_files
from deletekit.rows.input_rows import align
from deletekit.table.snapshot import SnapshotReader
from tests.invariants import check_table
from tests.maintenance.model import between, lineage, needed, other, snapshot_ids, staged
from tests.stored import head_json, live_files
from tests.tables import Row, files_of, ids, items, make, refused, unchanged

ROWS = items((1, "a", 1.0), (2, "a", 2.0), (3, "b", 3.0), (4, "b", 4.0))
NEW = items((7, "a", 7.0), (8, "c", 8.0))


@pytest.fixture(params=[1, 3])
def table(request: pytest.FixtureRequest, catalog: dk.Catalog) -> dk.Table:
    """Give a table of two files."""
    return make(catalog, ROWS[:2], ROWS[2:], format_version=request.param, partition_by=["category"])


def test_the_next_snapshot_is_fast_forwarded_to(table: dk.Table) -> None:
    source = staged(table, NEW, wap_id="w1")
    with unchanged(table):
        tried = dk.cherry_pick(table, source, dry_run=True)
    done = dk.cherry_pick(table, source)
    assert (done.fast_forward, done.current_snapshot_id, done.commit) == (True, source, None)
    assert (tried.fast_forward, tried.current_snapshot_id, tried.dry_run) == (True, source, True)
    assert head_json(table)["snapshot-id"] == source
    assert ids(table) == [1, 2, 3, 4, 7, 8]
    check_table(table)


def test_an_append_is_appended_again(table: dk.Table) -> None:
    source = staged(table, NEW, wap_id="w1")
    dk.delete(table, "id = 2")
    before = lineage(table)
    with unchanged(table):
        tried = dk.cherry_pick(table, source, dry_run=True)
    done = dk.cherry_pick(table, source)
    assert (tried.added_data_files, tried.current_snapshot_id, tried.dry_run) == (2, None, True)
    assert (done.added_data_files, done.removed_data_files, done.fast_forward) == (2, 0, False)
    assert done.current_snapshot_id == head_json(table)["snapshot-id"] != source
    summary = head_json(table)["summary"]
    assert (summary["operation"], summary["source-snapshot-id"]) == ("append", str(source))
    assert summary["published-wap-id"] == "w1"
    assert ids(table) == [1, 3, 4, 7, 8]
    assert set(before) <= set(lineage(table))
    assert set(table.metadata.refs) == {"main"}, "what pinned the source is gone"
    check_table(table)


def test_onto_a_branch(table: dk.Table) -> None:
    source = staged(table, NEW)
    dk.create_branch(table, "dev")
    dk.append(table, items((9, "z", 9.0)), ref="dev")
    dk.cherry_pick(table, source, ref="dev")
    assert ids(table, ref="dev") == [1, 2, 3, 4, 7, 8, 9]
    assert ids(table) == [1, 2, 3, 4]
    check_table(table)


def test_once_only(table: dk.Table) -> None:
    source, again = staged(table, NEW, wap_id="w1"), staged(table, NEW, wap_id="w1")
    plain = staged(table, NEW)
    dk.append(table, items((9, "z", 9.0)))
    dk.cherry_pick(table, source)
    for picked, found in ((source, "as "), (again, "w1")):
        with refused(table, dk.InvalidInputError, "cherry-pick") as refusal:
            dk.cherry_pick(table, picked)
        assert found in refusal.error.found
    for ancestor in snapshot_ids(table)[:1]:
        with refused(table, dk.InvalidInputError, "cherry-pick"):
            dk.cherry_pick(table, ancestor)
    with refused(table, dk.NotFoundError, "snapshot-not-found"):
        dk.cherry_pick(table, 5)
    dk.create_tag(table, "t")
    with refused(table, dk.InvalidInputError, "ref"):
        dk.cherry_pick(table, plain, ref="t")


def test_a_published_wap_id_is_refused_for_a_fast_forward_too(table: dk.Table) -> None:
    source = staged(table, NEW, wap_id="w1")
    dk.cherry_pick(table, source)
    again = staged(table, items((9, "z", 9.0)), wap_id="w1")
    with refused(table, dk.InvalidInputError, "cherry-pick"):
        dk.cherry_pick(table, again)


@pytest.mark.parametrize(("version", "mode"), [(2, "position-delete"), (2, "equality-delete"), (3, "deletion-vector")])
def test_deletes_are_picked_by_fast_forward_only(catalog: dk.Catalog, version: int, mode: Any) -> None:
    table = make(catalog, ROWS, format_version=version)
    dk.create_branch(table, "staging")
    source = dk.delete(table, "id = 1", mode=mode, ref="staging").snapshot_id
    dk.drop_ref(table, "staging")
    assert source is not None
    dk.append(table, NEW)
    with refused(table, dk.InvalidInputError, "cherry-pick"):
        dk.cherry_pick(table, source)
    dk.rollback(table, snapshot_ids(table)[0])
    dk.cherry_pick(table, source)
    assert ids(table) == [2, 3, 4]
    check_table(table)


def test_an_append_that_hides_deletes_is_refused(catalog: dk.Catalog) -> None:
    # Its operation says append; Java picks its data files, and loses its deletes.
    table = make(catalog, ROWS, format_version=2)
    dk.create_branch(table, "staging")
    donor = make(catalog, format_version=2)
    dk.append(donor, ROWS)
    dk.delete(donor, "id = 1", mode="equality-delete")

    def build(base: Base) -> RowDelta:
        reader = SnapshotReader(donor.io, donor.metadata)
        head = donor.metadata.current_snapshot
        assert head is not None
        (entry,) = reader.live_entries(head, ManifestContent.DELETES)
        return RowDelta(added_delete_files=(entry.data_file,), operation="append")

    source = commit(plan_change(table, build, ref="staging")).snapshot_id
    dk.drop_ref(table, "staging")
    assert source is not None
    dk.append(table, NEW)
    with refused(table, dk.InvalidInputError, "cherry-pick"):
        dk.cherry_pick(table, source)


# --- dynamic overwrite ------------------------------------------------------------------------------------------------


def replace_partitions(table: dk.Table, rows: list[Row], ref: str) -> int:
    """Replace the partitions that the rows are in, as Spark's dynamic overwrite does."""

    def build(base: Base) -> RowDelta:
        metadata = base.metadata
        added = tuple(write_data_files(base.write, align(rows, metadata.schema)))
        places = {f.partition for f in added}
        assert base.snapshot is not None
        entries = base.reader.live_entries(base.snapshot, ManifestContent.DATA)
        removed = tuple(e for e in entries if e.data_file.partition in places)
        return RowDelta(added_data_files=added, removed_data_files=removed, operation="overwrite")

    done = commit(plan_change(table, build, ref=ref, properties={"replace-partitions": "true"}))
    assert done.snapshot_id is not None
    return done.snapshot_id


@pytest.fixture
def overwritten(table: dk.Table) -> tuple[dk.Table, int]:
    """Give the table with a staged overwrite of its partition `a`."""
    if table.format_version == 3:
        dk.delete(table, "id = 1", mode="deletion-vector")
    dk.create_branch(table, "staging")
    source = replace_partitions(table, NEW[:1], "staging")
    dk.drop_ref(table, "staging")
    return table, source


def test_a_dynamic_overwrite_is_done_again(overwritten: tuple[dk.Table, int]) -> None:
    table, source = overwritten
    dk.append(table, items((9, "z", 9.0)))
    with unchanged(table):
        assert dk.cherry_pick(table, source, dry_run=True).removed_data_files == 1
    done = dk.cherry_pick(table, source)
    assert (done.added_data_files, done.removed_data_files) == (1, 1)
    assert ids(table) == [3, 4, 7, 9]
    summary = head_json(table)["summary"]
    assert (summary["operation"], summary["replace-partitions"]) == ("overwrite", "true")
    assert live_files(table, 1) == []  # a removed file takes its vector along
    check_table(table)


CHANGED: dict[str, Callable[[dk.Table], Any]] = {
    "new files": lambda table: dk.append(table, items((9, "a", 9.0))),
    "gone": lambda table: dk.delete(table, "category = 'a'", mode="copy-on-write"),
    "": lambda table: (dk.rollback(table, snapshot_ids(table)[0]), dk.append(table, items((9, "z", 9.0)))),
}
"""What was done to the branch, by words of the refusal; the last leaves it without the parent of the overwrite."""


@pytest.mark.parametrize("words", CHANGED)
def test_an_overwrite_of_what_changed_is_refused(overwritten: tuple[dk.Table, int], words: str) -> None:
    table, source = overwritten
    CHANGED[words](table)
    with refused(table, dk.InvalidInputError, "cherry-pick") as refusal:
        dk.cherry_pick(table, source)
    assert words in refusal.error.message


# --- others at work ---------------------------------------------------------------------------------------------------


def test_an_append_in_between_is_not_lost(table: dk.Table) -> None:
    source = staged(table, NEW)
    dk.append(table, items((9, "z", 9.0)))
    them = other(table)
    with between(table, before=lambda: dk.append(them, items((10, "z", 9.0)))):
        done = dk.cherry_pick(table, source)
    assert done.commit is not None
    assert done.commit.attempts == 2
    assert ids(table) == [1, 2, 3, 4, 7, 8, 9, 10]
    assert files_of(table) == needed(table)


def test_a_fast_forward_that_no_longer_is_one(table: dk.Table) -> None:
    source = staged(table, NEW)
    them = other(table)
    with between(table, before=lambda: dk.append(them, items((9, "z", 9.0)))):
        done = dk.cherry_pick(table, source)
    assert not done.fast_forward
    assert ids(table) == [1, 2, 3, 4, 7, 8, 9]


def test_two_pick_the_same(table: dk.Table) -> None:
    source = staged(table, NEW)
    dk.append(table, items((9, "z", 9.0)))
    them = other(table)
    with between(table, before=lambda: dk.cherry_pick(them, source)), pytest.raises(dk.InvalidInputError) as caught:
        dk.cherry_pick(table, source)
    assert caught.value.kind == "cherry-pick"
    assert ids(table.refresh()) == [1, 2, 3, 4, 7, 8, 9]
    assert files_of(table) == needed(table)


def test_an_overwrite_is_checked_again_on_the_new_head(overwritten: tuple[dk.Table, int]) -> None:
    table, source = overwritten
    dk.append(table, items((9, "z", 9.0)))
    them = other(table)
    with between(table, before=lambda: dk.append(them, items((10, "a", 9.0)))), pytest.raises(dk.InvalidInputError):
        dk.cherry_pick(table, source)
    assert 10 in ids(table.refresh())
    assert 7 not in ids(table)
    assert files_of(table) == needed(table)


def test_what_expired_may_have_been_the_pick(table: dk.Table) -> None:
    """The snapshot that picked is gone, and compaction has given its rows other files: they would come twice."""
    source = staged(table, NEW)
    dk.create_tag(table, "staged", source)
    dk.append(table, items((5, "a", 5.0)))
    dk.cherry_pick(table, source)
    dk.compact(table, rewrite_all=True)
    dk.expire_snapshots(table, older_than="2100-01-01T00:00:00Z", retain_last=1)
    for dry_run in (True, False):
        with unchanged(table), refused(table, dk.InvalidInputError, "cherry-pick", field="snapshot_id") as refusal:
            dk.cherry_pick(table, source, dry_run=dry_run)
        assert "expired" in str(refusal.error)
    assert ids(table) == [1, 2, 3, 4, 5, 7, 8]


def test_what_expired_before_the_source_did_not_pick_it(table: dk.Table) -> None:
    source = staged(table, NEW)
    dk.create_tag(table, "staged", source)
    dk.append(table, items((5, "a", 5.0)))
    dk.expire_snapshots(table, older_than="2100-01-01T00:00:00Z", retain_last=1)
    dk.cherry_pick(table, source)
    assert ids(table) == [1, 2, 3, 4, 5, 7, 8]
