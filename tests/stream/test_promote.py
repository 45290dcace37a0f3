"""A staging branch and main: what is promoted, once, whatever happens to main meanwhile."""

from typing import Any

import pyarrow as pa
import pytest

import deletekit as dk
from tests.commit.racing import Interfering
from tests.stored import live_files, vectors
from tests.stream.replay import PEOPLE, check, random_batches, replay
from tests.tables import live, make, refused, unchanged

STAGING = "ingestion"
START = [{"id": i, "name": "start", "score": i / 2} for i in range(12)]
START_STATE = {(r["id"],): r for r in START}


def staged(catalog: dk.Catalog, version: int = 3, **options: object) -> dk.Table:
    table = make(catalog, START[:6], START[6:], schema=PEOPLE, format_version=version, **options)
    dk.create_branch(table, STAGING)
    return table


@pytest.mark.sampled(3)
@pytest.mark.parametrize("to", ["merge-on-read", "copy-on-write"])
@pytest.mark.parametrize("mode", ["auto", "eq-only"])
@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("reset", [False, True])
def test_many_batches_arrive_in_one_commit(
    catalog: dk.Catalog, to: str, mode: str, version: int, *, reset: bool
) -> None:
    table = staged(catalog, version)
    batches = list(random_batches(4, batches=8, rows=12, keys=12))
    # Another process writes the second half: nothing of a sink is needed to go on, but its id.
    for half in (range(4), range(4, 8)):
        with dk.stream.sink(table, "people", on=["id"], mode=mode, ref=STAGING) as sink:
            for number in half:
                sink.write(batches[number], number)
                if number % 4 == 1:
                    before = table.refresh().metadata.last_sequence_number
                    promotion = dk.stream.promote(table, STAGING, on=["id"], mode=to, reset=reset)
                    assert promotion.commit is not None
                    assert table.metadata.last_sequence_number == before + 1
                    check(table, replay(batches[: number + 1], start=START_STATE))
    dk.stream.promote(table, STAGING, on=["id"], mode=to, reset=reset)
    state = replay(batches, start=START_STATE)
    check(table, state)
    check(table, state, ref=STAGING)
    deletes = live_files(table, 1)
    assert [f for f in deletes if f["content"] == 2] == []
    assert to == "merge-on-read" or deletes == []
    assert version == 2 or len(vectors(table)) == len(deletes)
    with unchanged(table):
        assert dk.stream.promote(table, STAGING, on=["id"], mode=to).commit is None


def test_a_key_that_only_main_has_goes_when_the_branch_writes_it(catalog: dk.Catalog) -> None:
    table = staged(catalog)
    dk.append(table, [{"id": 50, "name": "main", "score": 0.0}, {"id": 51, "name": "main", "score": 0.0}])
    changes = [
        {"id": 50, "name": "branch", "score": 1.0, "_change_type": "INSERT"},
        {"id": 51, "name": None, "score": None, "_change_type": "DELETE"},
    ]
    with dk.stream.sink(table, "s", on=["id"], mode="eq-only", ref=STAGING) as sink:
        sink.write(changes, 0)
    dk.stream.promote(table, STAGING, on=["id"])
    check(table, replay([changes], start=START_STATE))


def test_a_required_key_is_found_by_value(catalog: dk.Catalog) -> None:
    """Arrow calls the key of a data file required, and that of an equality delete file not."""
    required = pa.schema([pa.field("id", pa.int64(), nullable=False), ("name", pa.string())])
    table = make(catalog, [{"id": 1, "name": "old"}, {"id": 2, "name": "old"}], schema=required)
    dk.create_branch(table, STAGING)
    dk.append(table, [{"id": 3, "name": "main"}])
    dk.upsert(
        table, [{"id": 1, "name": "new"}, {"id": 3, "name": "new"}], on=["id"], mode="equality-delete", ref=STAGING
    )
    dk.stream.promote(table, STAGING, on=["id"])
    assert live(table) == [{"id": 1, "name": "new"}, {"id": 2, "name": "old"}, {"id": 3, "name": "new"}]


def test_it_is_planned_again_after_each_compaction_that_wins(catalog: dk.Catalog) -> None:
    table = staged(catalog, properties={"commit.retry.num-retries": "10", "commit.retry.min-wait-ms": "1"})
    batches = list(random_batches(6, batches=3, rows=10, keys=12))
    with dk.stream.sink(table, "s", on=["id"], ref=STAGING) as sink:
        for number, batch in enumerate(batches):
            sink.write(batch, number)
    store = Interfering(catalog)
    store.others += [lambda: dk.compact(dk.load_table(catalog, table.name), rewrite_all=True)] * 5
    dk.stream.promote(dk.load_table(store, table.name), STAGING, on=["id"])
    check(table, replay(batches, start=START_STATE))


def test_what_cannot_be_promoted_is_refused(catalog: dk.Catalog) -> None:
    table = staged(catalog)
    with refused(table, dk.NotFoundError, "ref-not-found"):
        dk.stream.promote(table, "nowhere")
    with refused(table, dk.InvalidInputError, "ref"):
        dk.stream.promote(table, "main")
    with refused(table, dk.InvalidInputError, "mode"):
        dk.stream.promote(table, STAGING, mode="equality-delete")
    dk.append(table, [{"id": 1, "name": "again", "score": 0.0}], ref=STAGING)
    dk.append(table, [{"id": 77, "name": "main", "score": 0.0}])
    with refused(table, dk.InvalidInputError, "equality-key"):
        dk.stream.promote(table, STAGING)


@pytest.mark.parametrize("to", ["merge-on-read", "copy-on-write"])
@pytest.mark.parametrize("reset", [False, True])
def test_a_row_has_one_id_on_both_branches(catalog: dk.Catalog, to: str, *, reset: bool) -> None:
    table = staged(catalog, properties={"commit.manifest.min-count-to-merge": "2"})
    ids: dict[Any, Any] = {}

    def hold(ref: str) -> None:
        for row in dk.scan(table.refresh(), columns=["id", "_row_id"], ref=ref).to_arrow().to_pylist():
            assert ids.setdefault(row["id"], row["_row_id"]) == row["_row_id"], (ref, row)
        assert len(set(ids.values())) == len(ids)

    with dk.stream.sink(table, "people", on=["id"], ref=STAGING) as sink:
        for number in range(3):
            puts = [{"id": k, "name": str(number), "score": 0.5} for k in (number, 20 + number, 20, 3)]
            sink.write([{**row, "_change_type": "UPDATE_AFTER"} for row in puts], number)
            hold(STAGING)
            if number == 1:
                dk.compact(table, ref=STAGING, rewrite_all=True)
                dk.append(table, [{"id": 50, "name": "main", "score": 0.0}])
            dk.stream.promote(table, STAGING, on=["id"], mode=to, reset=reset)
            hold("main")
            hold(STAGING)
    dk.compact(table, rewrite_all=True)
    hold("main")
    assert not [f for f in dk.verify(table).findings if f.severity == "error"]
