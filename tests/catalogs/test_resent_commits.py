"""A request that landed, was sent again and then refused, while the table cannot be read: nothing live is ever removed.

A proxy in front of Iceberg's own REST server forwards the commit twice, as a gateway does that heard no answer, gives
the second answer, and answers 503 to those who look. SQL catalogs lose their connection after the COMMIT.
"""

import math
from pathlib import Path
from typing import Any

import pytest

import deletekit as dk
from deletekit.table.metadata_file import metadata_file_bytes
from deletekit.table.metadata_update import apply_updates
from tests.catalogs.proxies import Answer, Forward, RestFault, RestProxy, error_answer
from tests.catalogs.stores import MORE, QUICK, ROWS, SCHEMA, Store, leftovers, on_disk
from tests.commit.crashing import LATER
from tests.delta.handmade import HandMade, with_vector
from tests.invariants import reachable
from tests.tables import expected, items, live, new_catalog, raises


def sent_twice(proxy: RestProxy, down: float, status: int | None = None) -> RestFault:
    """Apply the request, refuse it when it comes again, and then answer nobody who reads, for a while or for good."""

    def fault(forward: Forward) -> Answer:
        forward()
        answer = forward() if status is None else error_answer(status)
        proxy.down = down
        assert 400 <= answer[0] < 500
        return answer

    return fault


def check_whole(table: dk.Table) -> None:
    """Hold that every file that a snapshot leads to is there, and every row can be read."""
    report = dk.verify(table)
    assert report.ok, report
    assert not [path for path in reachable(table) if not Path(path).exists()]
    for snapshot_id in table.metadata.snapshots:
        dk.scan(table, snapshot_id=snapshot_id).to_arrow()


# --- a commit ---------------------------------------------------------------------------------------------------------

REFUSALS = [None, 400, 401, 403, 404, 409, 412, 422, 501]


@pytest.mark.sampled(3, tier=1)
@pytest.mark.parametrize("status", REFUSALS)
def test_a_refusal_of_what_landed_is_recognised_once_the_table_can_be_read(
    proxy: RestProxy, table: dk.Table, status: int | None
) -> None:
    again = [lambda _: error_answer(401)] if status == 401 else []  # pyiceberg renews its token, and asks once more
    proxy.faults = [sent_twice(proxy, 2, None if status == 501 else status), *again]
    assert dk.append(table, MORE).attempts == 1
    assert live(table) == expected(ROWS + MORE) == live(table.refresh())
    assert leftovers(table) == set()


@pytest.mark.parametrize("status", [None, 403])
def test_a_refusal_is_not_definite_while_the_table_cannot_be_read(
    proxy: RestProxy, table: dk.Table, status: int | None
) -> None:
    proxy.faults = [sent_twice(proxy, math.inf, status)]
    with pytest.raises(dk.CommitStateUnknownError, match="cannot be read") as caught:
        dk.append(table, MORE)
    assert caught.value.__cause__ is not None
    assert proxy.commits == 1  # tried again, the rows would be there twice
    proxy.down = 0
    assert live(table.refresh()) == expected(ROWS + MORE)
    assert leftovers(table) == set()


def test_a_refusal_that_nothing_contradicts_still_cleans_up(proxy: RestProxy, table: dk.Table) -> None:
    files = on_disk(table.location)

    def refuse(forward: Forward) -> Answer:
        del forward
        proxy.down = 1
        return error_answer(403)

    proxy.faults = [refuse]
    with raises(dk.DeletekitError, "catalog-refused"):
        dk.append(table, MORE)
    assert on_disk(table.location) == files


@pytest.mark.parametrize("version", [1, 2, 3])
def test_its_snapshot_expired_before_we_could_look(
    proxy: RestProxy, tmp_path: Path, direct: dk.Catalog, version: int
) -> None:
    store = Store("rest", tmp_path, proxy.properties)
    table = store.create("t", SCHEMA, format_version=version, properties=QUICK)
    dk.append(table, ROWS)

    def hidden(forward: Forward) -> Answer:
        forward()
        other = dk.load_table(direct, table.name)
        dk.append(other, items((100, "x", 0.0)))
        dk.expire_snapshots(other, older_than=LATER, retain_last=1)
        return forward()

    proxy.faults = [hidden]
    with pytest.raises(dk.CommitStateUnknownError):
        dk.append(table, MORE)
    assert live(table.refresh()) == expected([*ROWS, *MORE, *items((100, "x", 0.0))])
    check_whole(table)
    store.close()


def test_a_lost_race_after_which_the_winner_expired_its_base_is_still_a_lost_race(
    proxy: RestProxy, table: dk.Table, direct: dk.Catalog
) -> None:
    def overtaken(forward: Forward) -> Answer:
        other = dk.load_table(direct, table.name)
        dk.append(other, items((100, "x", 0.0)))
        dk.expire_snapshots(other, older_than=LATER, retain_last=1)
        return forward()

    proxy.faults = [overtaken]
    assert dk.append(table, MORE).attempts == 2
    assert live(table.refresh()) == expected([*ROWS, *MORE, *items((100, "x", 0.0))])
    assert leftovers(table) == set()


def test_another_table_has_its_name_by_then(proxy: RestProxy, table: dk.Table, direct: dk.Catalog) -> None:
    moved = f"{table.name}_moved"

    def replaced(forward: Forward) -> Answer:
        forward()
        direct.rename_table(table.name, moved)
        dk.create_table(direct, table.name, SCHEMA, location=f"{table.location}-other")
        return forward()

    proxy.faults = [replaced]
    with pytest.raises(dk.CommitStateUnknownError):
        dk.append(table, MORE)
    check_whole(dk.load_table(direct, moved))
    assert live(dk.load_table(direct, moved)) == expected(ROWS + MORE)


# --- tables that are made and dropped ---------------------------------------------------------------------------------


@pytest.fixture
def delta(tmp_path: Path) -> HandMade:
    """Give a Delta table with a vector, which a synced table needs a file for."""
    made = HandMade(tmp_path / "delta")
    made.commit(with_vector(made.data(range(5)), made.vector([0, 3])))
    return made


def sync(delta: HandMade, proxy: RestProxy, name: str, **options: Any) -> dk.Table:
    """Sync to a new table in a folder of its own, in one step with its rows."""
    catalog = dk.load_catalog("proxied", **proxy.properties)
    location = str(delta.path.parent / "synced")
    options = {"location": location, "properties": QUICK, **options}
    try:
        return dk.sync_delta(delta.path, catalog, name, **options).table
    finally:
        catalog.pyiceberg.close()


@pytest.mark.parametrize("down", [0, 2, math.inf])
@pytest.mark.parametrize("again", [True, False], ids=["sent-twice", "answered"])
def test_a_table_made_with_rows(
    proxy: RestProxy, direct: dk.Catalog, delta: HandMade, request: pytest.FixtureRequest, down: float, again: bool
) -> None:
    """It was made. Whether the request came twice, and whether somebody can look: its files stay."""
    name = f"made.t{abs(hash(request.node.name))}"

    def answered(forward: Forward) -> Answer:
        answer = forward()
        proxy.down = down
        return answer

    proxy.faults = [sent_twice(proxy, down) if again else answered]
    if down == math.inf:
        with pytest.raises(dk.CommitStateUnknownError):
            sync(delta, proxy, name)
    else:
        assert live(sync(delta, proxy, name)) == [{"id": 1}, {"id": 2}, {"id": 4}]
    proxy.down = 0
    table = dk.load_table(direct, name)
    assert live(table) == [{"id": 1}, {"id": 2}, {"id": 4}]
    check_whole(table)


@pytest.mark.parametrize("status", [403, 409])
def test_a_table_that_was_not_made_leaves_nothing(
    proxy: RestProxy, direct: dk.Catalog, delta: HandMade, status: int
) -> None:
    name = f"made.not{status}"
    if status == 409:  # another has the name, made between our looking and our asking
        other = str(delta.path.parent / "other")
        proxy.faults = [lambda forward: dk.create_table(direct, name, SCHEMA, location=other) and forward()]
    else:
        proxy.faults = [lambda _: error_answer(status)]
    with pytest.raises(dk.DeletekitError) as caught:
        sync(delta, proxy, name)
    assert not isinstance(caught.value, dk.CommitStateUnknownError)
    assert on_disk(str(delta.path.parent / "synced")) == set()


def test_a_table_that_is_not_dropped_keeps_its_files(proxy: RestProxy, table: dk.Table, direct: dk.Catalog) -> None:
    def lost(forward: Forward) -> Answer:
        del forward
        return error_answer(503)

    for fault in (lost, lambda _: None, lambda _: error_answer(403), lambda _: error_answer(404)):
        proxy.drops = [fault]
        with pytest.raises(dk.DeletekitError):
            dk.drop_table(table.require_catalog(), table.name, purge=True)
        assert live(dk.load_table(direct, table.name)) == expected(ROWS)
        check_whole(table)


def test_a_drop_that_came_twice_removes_no_file_by_mistake(
    proxy: RestProxy, table: dk.Table, direct: dk.Catalog
) -> None:
    """The first one dropped it, the second says that there is no such table: whose it is now, nobody knows."""
    proxy.drops = [lambda forward: forward() and forward()]
    files = on_disk(table.location)
    with pytest.raises(dk.NotFoundError):
        dk.drop_table(table.require_catalog(), table.name, purge=True)
    assert on_disk(table.location) == files
    direct.register_table(table.name, table.metadata_location)
    assert live(dk.load_table(direct, table.name)) == expected(ROWS)


# --- what may fail when it has landed ---------------------------------------------------------------------------------


def test_a_wrong_property_is_found_before_the_swap(tmp_path: Path) -> None:
    with new_catalog(tmp_path) as catalog:
        table = dk.create_table(catalog, "test.t", SCHEMA)
        dk.append(table, ROWS)
        state = table.state
        wrong = apply_updates(
            state.metadata,
            [{"action": "set-properties", "updates": {"write.metadata.delete-after-commit.enabled": "maybe"}}],
        )
        Path(table.metadata_location).write_bytes(metadata_file_bytes(wrong, table.metadata_location))
        before = table.metadata_location
        with pytest.raises(dk.InvalidInputError):
            dk.append(table.refresh(), MORE)
        assert table.refresh().metadata_location == before
        assert live(table) == expected(ROWS)
