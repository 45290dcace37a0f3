"""What is done is what the history of `main` says, whoever else writes, rolls back or expires."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import deletekit as dk
from data.pipeline.done_steps import DELIVERY, Progress, progress_of, properties_of
from tests.tables import ITEMS, items, new_catalog, raises

STEPS = ("load", "first", "second", "third")
IDENTITY = "d1"
LATER = "2100-01-01"


@pytest.fixture
def table(tmp_path: Path) -> Iterator[dk.Table]:
    with new_catalog(tmp_path) as catalog:
        yield dk.create_table(catalog, "test.p", ITEMS, format_version=3, properties={DELIVERY: IDENTITY})


def step(table: dk.Table, name: str, identity: str = IDENTITY) -> dk.results.Commit:
    return dk.append(table, items((1, "a", 1.0)), commit_properties=properties_of(identity, name, 1))


def progress(table: dk.Table) -> Progress:
    return progress_of(table, IDENTITY, STEPS)


def done(table: dk.Table) -> int:
    return progress(table).done


def test_nothing_is_done_in_an_empty_table(table: dk.Table) -> None:
    assert done(table) == 0


def test_commits_of_others_count_for_nothing(table: dk.Table) -> None:
    dk.append(table, items((9, "x", 9.0)))
    assert done(table) == 0
    step(table, "load")
    dk.delete(table, "id = 9", mode="deletion-vector")
    assert done(table) == 1
    dk.append(table, items((9, "x", 9.0)), commit_properties={"deletekit.pipeline.step": "third"})
    assert done(table) == 1, "an entry without this delivery is not ours"


def test_a_step_that_had_nothing_to_do_is_behind_the_newest(table: dk.Table) -> None:
    step(table, "load")
    step(table, "second")
    assert done(table) == 3
    assert set(progress(table).snapshots) == {"load", "second"}


def test_what_another_process_did_is_seen(table: dk.Table) -> None:
    assert table.catalog is not None
    step(dk.load_table(table.catalog, "test.p"), "load")
    assert done(table) == 1


def test_a_branch_is_not_main(table: dk.Table) -> None:
    step(table, "load")
    dk.create_branch(table, "aside")
    dk.append(table, items((1, "a", 1.0)), ref="aside", commit_properties=properties_of(IDENTITY, "first", 1))
    assert done(table) == 1


def test_what_was_rolled_back_is_not_done(table: dk.Table) -> None:
    first = step(table, "load")
    step(table, "first")
    assert first.snapshot_id is not None
    dk.rollback(table, first.snapshot_id)
    assert done(table) == 1


def test_twice_is_seen(table: dk.Table) -> None:
    step(table, "load")
    step(table, "load")
    assert [len(s) for s in progress(table).snapshots.values()] == [2]


def test_the_newest_step_tells_of_those_that_expired(table: dk.Table) -> None:
    for name in STEPS[:3]:
        step(table, name)
    dk.expire_snapshots(table, older_than=LATER, retain_last=1)
    assert done(table) == 3


def test_an_expired_history_is_not_taken_for_a_new_table(table: dk.Table) -> None:
    step(table, "load")
    dk.append(table, items((9, "x", 9.0)))
    dk.expire_snapshots(table, older_than=LATER, retain_last=1)
    with raises(dk.InvalidInputError, "pipeline-history"):
        progress(table)


@pytest.mark.parametrize("found", [None, "d2"])
def test_a_table_of_something_else(tmp_path: Path, found: str | None) -> None:
    with new_catalog(tmp_path) as catalog:
        table = dk.create_table(catalog, "test.p", ITEMS, properties={DELIVERY: found} if found else {})
        with pytest.raises(dk.InvalidInputError) as refused:
            progress(table)
    assert (refused.value.kind, refused.value.field, refused.value.expected) == ("pipeline-table", DELIVERY, IDENTITY)


def test_a_step_that_this_version_does_not_know(table: dk.Table) -> None:
    step(table, "another")
    with raises(dk.InvalidInputError, "pipeline-table", found="another"):
        progress(table)
