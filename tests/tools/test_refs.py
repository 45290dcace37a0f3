"""Branches move to other snapshots, and to none that they may not."""

import pytest

import deletekit as dk
from tests.invariants import check_table
from tests.maintenance.model import between, history, now_ms, other, snapshot_ids, staged
from tests.stored import metadata_json, snapshots_json
from tests.tables import MODES, ids, items, live, make, refused, unchanged

ROWS = items((1, "a", 1.0), (2, "a", 2.0), (3, "b", 3.0), (4, "b", 4.0))


@pytest.fixture(params=[1, 2, 3])
def table(request: pytest.FixtureRequest, catalog: dk.Catalog) -> dk.Table:
    """Give a table of three snapshots: rows 1 to 3, without 1, with 4."""
    table = make(catalog, ROWS[:3], format_version=request.param)
    dk.delete(table, "id = 1", mode=MODES[request.param][-1] if request.param > 1 else "copy-on-write")
    dk.append(table, ROWS[3:])
    return table


# --- rollback ---------------------------------------------------------------------------------------------------------


def test_rollback_to_each_ancestor(table: dk.Table) -> None:
    past, order = history(table), snapshot_ids(table)
    number = metadata_json(table).get("last-sequence-number", 0)
    for back in (2, 1, 0):
        with unchanged(table):
            tried = dk.rollback(table, order[back], dry_run=True)
        head = metadata_json(table)["current-snapshot-id"]
        done = dk.rollback(table, order[back])
        assert (done.ref, done.previous_snapshot_id, done.snapshot_id) == ("main", head, order[back])
        assert (tried.snapshot_id, tried.dry_run, done.dry_run) == (order[back], True, False)
        assert done.moved == (head != order[back])
        assert live(table) == past[order[back]]
        assert history(table) == past
    # Numbers are not used again: what was rolled back is still there.
    dk.append(table, items((9, "z", 9.0)))
    assert ids(table) == [1, 2, 3, 9]
    assert metadata_json(table).get("last-sequence-number", 0) == (number + 1 if number else 0)
    check_table(table)


def test_rollback_to_a_time_takes_the_last_before_it(table: dk.Table) -> None:
    first, second, third = (s["timestamp-ms"] for s in metadata_json(table)["snapshots"])
    order = snapshot_ids(table)
    with refused(table, dk.NotFoundError, "snapshot-not-found", field="as_of"):
        dk.rollback(table, as_of=first)
    assert dk.rollback(table, as_of=third + 1, dry_run=True).snapshot_id == order[2]
    assert dk.rollback(table, as_of=third, dry_run=True).snapshot_id == order[1]
    assert dk.rollback(table, as_of=second).snapshot_id == order[0]
    assert ids(table) == [1, 2, 3]


def test_time_travel_sees_a_rollback_when_it_happened(table: dk.Table) -> None:
    order = snapshot_ids(table)
    before = now_ms()
    while now_ms() <= before:
        pass
    dk.rollback(table, order[0])
    log = metadata_json(table)["snapshot-log"]
    assert log[-1]["snapshot-id"] == order[0]
    assert log[-1]["timestamp-ms"] > before
    assert ids(table, as_of=before) == [2, 3, 4]
    assert ids(table, as_of=log[-1]["timestamp-ms"]) == [1, 2, 3]


def test_publishing_the_newest_snapshot_does_not_change_the_past(table: dk.Table) -> None:
    # It is the last in the list of snapshots, and was not current when it was made.
    newest = staged(table, items((9, "z", 9.0)))
    made = snapshots_json(table)[-1]["timestamp-ms"]
    while now_ms() <= made:
        pass
    dk.set_current_snapshot(table, newest)
    assert ids(table) == [2, 3, 4, 9]
    assert ids(table, as_of=made) == [2, 3, 4]


def test_rollback_only_to_an_ancestor(table: dk.Table) -> None:
    order = snapshot_ids(table)
    dk.rollback(table, order[0])
    with refused(table, dk.InvalidInputError, "not-an-ancestor", found=order[2]):
        dk.rollback(table, order[2])
    with refused(table, dk.NotFoundError, "snapshot-not-found", found=1):
        dk.rollback(table, 1)
    for arguments in ({}, {"snapshot_id": order[0], "as_of": 1}):
        with refused(table, dk.InvalidInputError, "rollback"):
            dk.rollback(table, **arguments)
    dk.create_tag(table, "t")
    with refused(table, dk.InvalidInputError, "ref"):
        dk.rollback(table, order[0], ref="t")
    with refused(table, dk.NotFoundError, "ref-not-found"):
        dk.rollback(table, order[0], ref="nobody")


def test_an_append_in_between_is_rolled_back_too(table: dk.Table) -> None:
    them = other(table)
    first = snapshot_ids(table)[0]
    with between(table, before=lambda: dk.append(them, items((9, "z", 9.0)))) as proxy:
        done = dk.rollback(table, first)
    assert proxy.commits == 2
    assert done.previous_snapshot_id == snapshot_ids(table)[-1]
    assert ids(table) == [1, 2, 3]


# --- set_current_snapshot ---------------------------------------------------------------------------------------------


def test_any_snapshot_becomes_current(table: dk.Table) -> None:
    order, past = snapshot_ids(table), history(table)
    dk.rollback(table, order[0])
    done = dk.set_current_snapshot(table, order[2])
    assert (done.previous_snapshot_id, done.snapshot_id) == (order[0], order[2])
    assert live(table) == past[order[2]]
    dk.create_tag(table, "second", order[1])
    with unchanged(table):
        dk.set_current_snapshot(table, ref="second", dry_run=True)
    dk.set_current_snapshot(table, ref="second")
    assert live(table) == past[order[1]]
    dk.create_branch(table, "dev")
    dk.set_current_snapshot(table, order[0], branch="dev")
    assert live(table, ref="dev") == past[order[0]]
    assert live(table) == past[order[1]]
    for arguments in ({}, {"snapshot_id": order[0], "ref": "dev"}):
        with refused(table, dk.InvalidInputError, "set-snapshot"):
            dk.set_current_snapshot(table, **arguments)
    with refused(table, dk.InvalidInputError, "ref"):
        dk.set_current_snapshot(table, order[0], branch="second")
    with refused(table, dk.NotFoundError, "ref-not-found"):
        dk.set_current_snapshot(table, ref="nobody")


# --- fast_forward -----------------------------------------------------------------------------------------------------


def test_fast_forward_keeps_settings_and_makes_branches(table: dk.Table) -> None:
    order = snapshot_ids(table)
    dk.create_tag(table, "t", order[1])
    done = dk.fast_forward(table, "new", "t")
    assert (done.previous_snapshot_id, done.snapshot_id) == (None, order[1])
    assert metadata_json(table)["refs"]["new"] == {"type": "branch", "snapshot-id": order[1]}
    dk.fast_forward(table, "new", "main")
    assert live(table, ref="new") == live(table)


def test_fast_forward_only_forward(table: dk.Table) -> None:
    dk.create_branch(table, "dev")
    dk.append(table, ROWS[:1], ref="dev")
    dk.append(table, ROWS[:1])
    dk.create_tag(table, "t")
    for branch, to in (("main", "dev"), ("dev", "main")):
        with refused(table, dk.InvalidInputError, "not-an-ancestor"):
            dk.fast_forward(table, branch, to)
    with refused(table, dk.InvalidInputError, "ref"):
        dk.fast_forward(table, "t", "main")
    with refused(table, dk.NotFoundError, "ref-not-found"):
        dk.fast_forward(table, "main", "nobody")


def test_fast_forward_looks_again(table: dk.Table) -> None:
    dk.create_branch(table, "dev")
    dk.append(table, items((8, "y", 8.0)), ref="dev")
    them = other(table)
    # The other branch grows meanwhile: its new head is what main gets.
    with between(table, before=lambda: dk.append(them, items((9, "z", 9.0)), ref="dev")):
        dk.fast_forward(table, "main", "dev")
    assert ids(table) == [2, 3, 4, 8, 9]
    # And main gets a snapshot of its own.
    dk.append(table, items((10, "z", 9.0)), ref="dev")
    with between(table, before=lambda: dk.append(them, items((11, "z", 9.0)))), pytest.raises(dk.InvalidInputError):
        dk.fast_forward(table, "main", "dev")
    assert ids(table.refresh()) == [2, 3, 4, 8, 9, 11]
