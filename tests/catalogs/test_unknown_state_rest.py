"""A REST catalog that does not answer, or not truly: a commit is recognised, or called unknown, and keeps its files.

A proxy in front of Iceberg's own server loses the one request or the one answer that decides.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

import deletekit as dk
from tests.catalogs.proxies import Answer, Forward, RestFault, RestProxy, error_answer, rest_proxy
from tests.catalogs.stores import MORE, QUICK, ROWS, SCHEMA, Store, leftovers, on_disk
from tests.rest_server import RestServer
from tests.tables import expected, items, live, raises


def lose_request(forward: Forward) -> None:
    del forward


def lose_answer(forward: Forward) -> None:
    forward()


def say(status: int) -> RestFault:
    return lambda forward: error_answer(status)  # noqa: ARG005


def do_it_and_say(status: int, body: bytes | None = None) -> RestFault:
    def fault(forward: Forward) -> Answer:
        forward()
        return error_answer(status) if body is None else (status, body)

    return fault


# --- it landed --------------------------------------------------------------------------------------------------------

LANDED = {
    "no answer": lose_answer,
    **{str(status): do_it_and_say(status) for status in (408, 500, 502, 503, 504, 599)},
    "half an answer": do_it_and_say(200, b'{"metadata-location": "s3://'),
    "another answer": do_it_and_say(200, b"<html>Welcome!</html>"),
    "an empty answer": do_it_and_say(200, b""),
    "a redirect": do_it_and_say(302, b""),
}


@pytest.mark.sampled(3, tier=1)
@pytest.mark.parametrize("fault", LANDED)
def test_a_commit_that_landed_is_recognised(proxy: RestProxy, table: dk.Table, fault: str) -> None:
    proxy.faults = [LANDED[fault]]
    committed = dk.append(table, MORE)
    assert (committed.attempts, proxy.commits) == (1, 1)
    assert table.current_snapshot is not None
    assert table.current_snapshot.snapshot_id == committed.snapshot_id
    assert live(table) == expected(ROWS + MORE) == live(table.refresh())
    assert leftovers(table) == set()


def test_it_is_recognised_though_others_came_after(proxy: RestProxy, table: dk.Table, direct: dk.Catalog) -> None:

    def others_follow(forward: Forward) -> None:
        forward()
        for number in range(3):
            dk.append(dk.load_table(direct, table.name), items((100 + number, "x", 0.0)))

    proxy.faults = [others_follow]
    committed = dk.delete(table, "id = 1", mode="deletion-vector")
    assert (committed.attempts, proxy.commits) == (1, 1)
    assert {r["id"] for r in live(table)} == {2, 3, 100, 101, 102}


# --- it did not, or nobody knows --------------------------------------------------------------------------------------


@pytest.mark.sampled(3, tier=1)
@pytest.mark.parametrize("fault", ["no answer", 408, 500, 502, 503, 504, 302])
def test_a_commit_that_may_yet_land_is_unknown(proxy: RestProxy, table: dk.Table, fault: str | int) -> None:
    files = on_disk(table.location)
    proxy.faults = [lose_request if fault == "no answer" else say(int(fault))]
    with pytest.raises(dk.CommitStateUnknownError) as caught:
        dk.append(table, MORE)
    assert caught.value.__cause__ is not None
    assert proxy.commits == 1  # not tried again: that would be twice the rows, if it lands after all
    kept = on_disk(table.location) - files
    assert {Path(p).suffix for p in kept} == {".parquet", ".avro"}
    assert live(table.refresh()) == expected(ROWS)
    dk.append(table, MORE)
    assert live(table) == expected(ROWS + MORE)
    assert leftovers(table) == kept


@pytest.mark.sampled(3, tier=1)
@pytest.mark.parametrize("status", [400, 401, 403, 405, 406, 410, 418, 419, 422, 429])
def test_a_refused_commit_leaves_nothing(proxy: RestProxy, table: dk.Table, status: int) -> None:
    files = on_disk(table.location)
    proxy.faults = [say(status)] * 2  # pyiceberg renews its token after a 401 or 419, and asks once more
    with pytest.raises(dk.DeletekitError) as caught:
        dk.append(table, MORE)
    assert type(caught.value) is dk.DeletekitError
    assert caught.value.kind == "catalog-refused"
    assert "made up by a test" in str(caught.value)
    assert caught.value.__cause__ is not None
    assert on_disk(table.location) == files
    assert live(table.refresh()) == expected(ROWS)


@pytest.mark.parametrize(("status", "error"), [(404, dk.NotFoundError), (501, dk.UnsupportedError)])
def test_a_refusal_with_a_name_of_its_own(
    proxy: RestProxy, table: dk.Table, status: int, error: type[dk.DeletekitError]
) -> None:
    files = on_disk(table.location)
    proxy.faults = [say(status)]
    with pytest.raises(error):
        dk.append(table, MORE)
    assert on_disk(table.location) == files


def test_409_is_a_lost_race_and_tried_again(proxy: RestProxy, table: dk.Table) -> None:
    proxy.faults = [say(409), say(409)]
    committed = dk.append(table, MORE)
    assert (committed.attempts, proxy.commits) == (3, 3)
    assert live(table.refresh()) == expected(ROWS + MORE)
    assert leftovers(table) == set()


def test_a_400_for_a_lost_race_is_one(proxy: RestProxy, table: dk.Table, direct: dk.Catalog) -> None:
    # Servers older than Iceberg 1.8 say so when a commit on another branch took the sequence number.
    other = dk.load_table(direct, table.name)
    dk.create_branch(other, "audit")

    def other_branch_first(forward: Forward) -> Answer:
        del forward
        dk.append(other, items((9, "z", 90.0)), ref="audit")
        return error_answer(400, "Cannot add snapshot with sequence number 2 older than last sequence number 2")

    proxy.faults = [other_branch_first]
    assert dk.append(table, MORE).attempts == 2
    assert live(table.refresh()) == expected(ROWS + MORE)
    assert leftovers(table) == set()


CHANGES = {
    "properties": lambda t: dk.set_properties(t, {"a": "b", "commit.retry.num-retries": None}),
    "schema": lambda t: dk.add_column(t, "more", "string"),
    "partitioning": lambda t: dk.add_partition_field(t, "category"),
    "branch": lambda t: dk.create_branch(t, "side"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_changes_of_metadata_too(proxy: RestProxy, table: dk.Table, change: str) -> None:
    before = table.metadata_location
    proxy.faults = [lose_request]
    with pytest.raises(dk.CommitStateUnknownError):
        CHANGES[change](table)
    assert table.refresh().metadata_location == before
    proxy.faults = [lose_answer]
    CHANGES[change](table)
    assert proxy.commits == 2
    assert table.metadata_location != before
    assert table.refresh().properties.get("a") == ("b" if change == "properties" else None)
    assert [f.name for f in table.schema.fields][3:] == (["more"] if change == "schema" else [])
    assert [f.name for f in table.spec.fields] == (["category"] if change == "partitioning" else [])
    assert ("side" in table.metadata.refs) == (change == "branch")


def test_a_conflict_with_oneself_is_no_conflict(proxy: RestProxy, table: dk.Table) -> None:
    """A gateway that heard no answer sends the commit again, and then the head has moved: to this very commit."""

    def sent_twice(forward: Forward) -> Answer:
        forward()
        status, body = forward()
        assert status == 409
        return status, body

    proxy.faults = [sent_twice]
    committed = dk.append(table, MORE)
    assert (committed.attempts, proxy.commits) == (1, 1)
    assert live(table.refresh()) == expected(ROWS + MORE)
    assert leftovers(table) == set()


def test_a_table_of_which_nobody_knows_whether_it_was_made(proxy: RestProxy, tmp_path: Path) -> None:
    store = Store("rest", tmp_path, proxy.properties)
    proxy.creations = [lose_answer]
    with pytest.raises(dk.CommitStateUnknownError):
        store.create("t", SCHEMA)
    assert live(store.load("t")) == []
    proxy.creations = [say(403)]
    with raises(dk.DeletekitError, "catalog-refused"):
        store.create("u", SCHEMA)
    proxy.creations = [say(404)]
    with raises(dk.NotFoundError, "namespace-not-found"):
        store.create("u", SCHEMA)
    store.close()


# --- the server itself dies -------------------------------------------------------------------------------------------


@pytest.fixture
def own_server(java: str, rest_jars: str, tmp_path: Path) -> Iterator[RestServer]:
    server = RestServer(java, rest_jars, tmp_path / "server")
    server.start()
    yield server
    server.kill()


@pytest.mark.slow
@pytest.mark.parametrize("back", [True, False], ids=["back-at-once", "stays-away"])
@pytest.mark.parametrize("landed", [True, False], ids=["after", "before"])
def test_the_server_is_killed(own_server: RestServer, tmp_path: Path, landed: bool, back: bool) -> None:
    def die(forward: Forward) -> None:
        if landed:
            forward()
        own_server.kill()
        if back:
            own_server.start()

    with rest_proxy(own_server.port) as proxy:
        store = Store("rest", tmp_path, proxy.properties)
        table = store.create("t", SCHEMA, format_version=3, properties=QUICK)
        dk.append(table, ROWS)
        proxy.faults = [die]
        files = on_disk(table.location)
        if landed and back:
            assert dk.append(table, MORE).attempts == 1
        else:
            with pytest.raises(dk.CommitStateUnknownError):
                dk.append(table, MORE)
        assert {Path(p).suffix for p in on_disk(table.location) - files} >= {".parquet", ".avro"}
        if not back:
            with pytest.raises(dk.DeletekitError):
                table.refresh()
            own_server.start()
        assert live(table.refresh()) == expected(ROWS + MORE if landed else ROWS)
        dk.delete(table, "id = 1", mode="deletion-vector")
        assert {r["id"] for r in live(table)} == ({2, 3, 4, 5} if landed else {2, 3})
        store.close()
