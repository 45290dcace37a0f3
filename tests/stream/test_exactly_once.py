"""A batch is in the table once: replays, twins, lost answers, expired markers, rewound streams and branches."""

import pytest

import deletekit as dk
from deletekit.table.catalog import SqlStore
from tests.commit.racing import Interfering
from tests.stored import head_json
from tests.stream.replay import PEOPLE, check, opened, people, put, random_batches, replay
from tests.tables import make, refused, unchanged

BATCHES = list(random_batches(0, batches=5, rows=8, keys=9))


@pytest.mark.parametrize("mode", ["auto", "eq-only"])
def test_a_stream_that_starts_again_is_skipped_until_it_is_new(catalog: dk.Catalog, mode: str) -> None:
    table = people(catalog)
    with opened(table, mode=mode) as first:
        list(first.run(BATCHES[:3]))
        assert first.last_batch() == ("", 2)
    with opened(table, mode=mode) as second, unchanged(table):
        assert [p.status for p in second.run(BATCHES[:3])] == ["skipped"] * 3
    with opened(table, mode=mode) as third:
        assert [p.status for p in third.run(BATCHES)] == ["skipped"] * 3 + ["committed"] * 2
    check(table, replay(BATCHES))


def test_two_committers_of_one_batch(catalog: dk.Catalog) -> None:
    table = people(catalog)
    store = Interfering(catalog)

    def other() -> None:
        with opened(dk.load_table(catalog, table.name)) as twin:
            assert twin.write(BATCHES[0], 0).status == "committed"

    store.others.append(other)
    with opened(dk.load_table(store, table.name)) as slow:
        assert slow.write(BATCHES[0], 0).status == "skipped"
        assert slow.write(BATCHES[1], 1).status == "committed"
    check(table, replay(BATCHES[:2]))


class Deaf(SqlStore):
    """A catalog whose first answers are lost, after the commit landed."""

    lost = 1

    def commit(self, *args: object) -> object:
        state = super().commit(*args)
        if self.lost:
            self.lost -= 1
            raise dk.CommitStateUnknownError("no answer")
        return state


def test_a_lost_answer(catalog: dk.Catalog) -> None:
    table = people(catalog)
    with opened(dk.load_table(Deaf(catalog.pyiceberg), table.name)) as deaf:
        assert deaf.write(BATCHES[0], 0).status == "skipped", "it is in the table, though nobody said so"
        assert deaf.write(BATCHES[1], 1).status == "committed"
    check(table, replay(BATCHES[:2]))


def test_without_marker_and_tag_nothing_is_assumed(catalog: dk.Catalog) -> None:
    table = people(catalog)
    with opened(table) as first:
        list(first.run(BATCHES[:3]))
    dk.append(table, [{"id": 100, "name": "other", "score": 0.0}])
    dk.drop_ref(table, "deletekit-sink-people")
    dk.expire_snapshots(table, older_than=2**62, retain_last=1)
    with opened(table) as second, refused(table, dk.InvalidInputError, "progress-lost"):
        second.write(BATCHES[2], 2)


def test_a_stream_that_went_back(catalog: dk.Catalog) -> None:
    table = people(catalog)
    with opened(table) as first:
        list(first.run(BATCHES[:3]))
        with refused(table, dk.InvalidInputError, "batch-changed"):
            first.write(BATCHES[4], 2)
        with refused(table, dk.InvalidInputError, "batch-changed"):
            first.write(BATCHES[4], 1)
        with refused(table, dk.InvalidInputError, "query-changed"):
            first.write(BATCHES[0], 0, query_id="a checkpoint that was deleted")
    dk.expire_snapshots(table, older_than=2**62, retain_last=1)
    with opened(table) as second, unchanged(table):
        assert second.write(BATCHES[0], 0).status == "skipped", "it came before the newest one"
    with opened(table, allow_rewind=True) as third:
        assert [p.status for p in third.run(BATCHES, query_id="new")] == ["committed"] * 5
        assert third.write(BATCHES[4], 4, query_id="new").status == "skipped"
    check(table, replay(BATCHES))


def test_a_batch_that_comes_to_nothing_is_known_again(catalog: dk.Catalog) -> None:
    table = people(catalog)
    gone = [{"id": 1, "name": None, "score": None, "_change_type": "DELETE"}]
    with opened(table) as first:
        assert first.write(gone, 0).status == "committed"
        dk.append(table, [{"id": 1, "name": "other", "score": 0.0}])
        assert first.write(gone, 0).status == "skipped"
        assert first.write([], 1).status == "empty"
    check(table, {(1,): {"id": 1, "name": "other", "score": 0.0}})


def test_the_branch_that_is_meant_moves_and_no_other(catalog: dk.Catalog) -> None:
    table = people(catalog)
    dk.append(table, [{"id": 1, "name": "main", "score": 0.0}])
    dk.create_branch(table, "ingestion")
    main = head_json(table)["snapshot-id"]
    with opened(table, ref="ingestion") as first:
        done = first.write([put(1), put(2)], 0).commit
    assert head_json(table)["snapshot-id"] == main
    assert head_json(table, "ingestion")["snapshot-id"] == done.snapshot_id
    assert table.metadata.refs["deletekit-sink-people"]["snapshot-id"] == done.snapshot_id
    summary = head_json(table, "ingestion")["summary"]
    assert (summary["deletekit.sink-id"], summary["deletekit.batch-id"]) == ("people", "0")


def test_options_that_cannot_be(catalog: dk.Catalog) -> None:
    table = people(catalog)
    with refused(table, dk.InvalidInputError, "sink-mode"):
        opened(table, mode="upsert")
    for sink_id in ("", "a/b", "../x", "x" * 101, "a b"):
        with refused(table, dk.InvalidInputError, "sink-id"):
            dk.stream.sink(table, sink_id, on=["id"])
    with refused(table, dk.InvalidInputError, "equality-key"):
        dk.stream.sink(table, "people")
    with refused(table, dk.InvalidInputError, "equality-key"):
        dk.stream.sink(table, "people", on=["score"])
    old = make(catalog, schema=PEOPLE, format_version=1)
    with refused(old, dk.InvalidInputError, "delete-kind"):
        opened(old)
    for batch_id in (-1, 1.0, True, "1"):
        kind = "batch-id" if batch_id == -1 else "argument"
        with opened(table) as strict, refused(table, dk.InvalidInputError, kind, field="batch_id"):
            strict.write([put(1)], batch_id)


def test_order(catalog: dk.Catalog) -> None:
    table = people(catalog)
    rows = [{**put(1, "late"), "at": 5}, {**put(1, "early"), "at": 3}, {**put(2), "at": 1}]
    gone = {**put(2), "_change_type": "DELETE", "at": 9}
    with opened(table, order="at") as ordered:
        ordered.write([gone, *rows], 0, ordered=False)
        check(table, replay([[put(1, "late")]]))
        moved = [{**put(3), "_change_type": "+U", "at": 1}, {**put(1), "_change_type": "-U", "at": 1}]
        pair = [{**put(4, "new"), "_change_type": "+U", "at": 1}, {**put(4), "_change_type": "-U", "at": 1}]
        ordered.write([*moved, *pair], 1, ordered=False)
        check(table, replay([[put(3), put(4, "new")]]))
        with refused(table, dk.InvalidInputError, "change-order"):
            ordered.write([{**put(1, "a"), "at": 5}, {**put(1, "b"), "at": 5}], 2, ordered=False)
    with opened(table) as bare, refused(table, dk.InvalidInputError, "change-order"):
        bare.write([put(1, "a"), put(1, "b")], 2, ordered=False)
