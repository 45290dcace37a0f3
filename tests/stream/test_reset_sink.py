"""A sink is set to a batch number by hand; the list of sinks tells age, lag and what their tags keep."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

import deletekit as dk
from tests.stored import snapshots_json
from tests.stream.replay import check, opened, people, random_batches, replay
from tests.tables import files_of, make, refused, unchanged

BATCHES = list(random_batches(0, batches=6, rows=8, keys=9))
FAR = 2**62


@pytest.mark.parametrize("query", [None, "new"])
@pytest.mark.parametrize("expired", [False, True])
def test_a_new_checkpoint_begins_again_after_a_reset(catalog: dk.Catalog, query: str | None, *, expired: bool) -> None:
    """A new query of Spark has a new id and begins with batch 0; without a reset it is refused."""
    table = people(catalog)
    with opened(table) as lost:
        list(lost.run(BATCHES[:3], query_id="lost"))
    with opened(table) as refusing, refused(table, dk.InvalidInputError, "query-changed"):
        refusing.write(BATCHES[3], 0, query_id="new")
    rows = dk.scan(table).to_arrow()
    done = dk.stream.reset_sink(table, "people", query_id=query)
    assert dk.scan(table.refresh()).to_arrow().equals(rows)
    assert table.metadata.refs["deletekit-sink-people"]["snapshot-id"] == done.snapshot_id
    [info] = dk.stream.sinks(table)
    assert (info.batch_id, info.query_id, info.key, info.is_reset) == (-1, query, ("id",), True)
    if expired:
        dk.expire_snapshots(table, older_than=FAR, retain_last=1)
    with opened(table) as again:
        with refused(table, dk.InvalidInputError, "batch-gap"):
            again.write(BATCHES[3], 1, query_id="new")
        if query is not None:
            with refused(table, dk.InvalidInputError, "query-changed"):
                again.write(BATCHES[3], 0, query_id="lost")
        assert [p.status for p in again.run(BATCHES[3:], query_id="new")] == ["committed"] * 3
    with opened(table) as restarted, unchanged(table):
        assert [p.status for p in restarted.run(BATCHES[3:], query_id="new")] == ["skipped"] * 3
        with refused(table, dk.InvalidInputError, "query-changed"):
            restarted.write(BATCHES[0], 0, query_id="lost")
    check(table, replay(BATCHES))


EVENTS = pa.schema([pa.field("id", pa.int64()), pa.field("seq", pa.int64())])


@pytest.mark.parametrize("expired", [False, True])
def test_a_reset_forgets_no_delete_and_no_index(catalog: dk.Catalog, *, expired: bool) -> None:
    """`sequence_by` goes on: an older insert does not bring a row back, and the guard is not left out."""
    table = make(catalog, schema=EVENTS, format_version=3)
    with opened(table, sequence_by="seq") as first:
        first.write([{"id": i, "seq": 5, "_change_type": "INSERT"} for i in range(3)], 0)
        first.write([{"id": 1, "seq": 9, "_change_type": "DELETE"}], 1)
    dk.stream.reset_sink(table, "people")
    if expired:
        dk.expire_snapshots(table, older_than=FAR, retain_last=1)
        dk.remove_orphan_files(table, older_than=FAR, force=True)
    with refused(table, dk.InvalidInputError, "sequence-changed"):
        opened(table)
    with opened(table, sequence_by="seq") as again:
        done = again.write([{"id": 1, "seq": 8, "_change_type": "INSERT"}], 0)
        assert (done.late, done.read_files) == (1, 0)
    check(table, {i: {"id": i, "seq": 5} for i in (0, 2)})


def test_a_reset_after_a_rollback_takes_no_delete_of_what_is_gone(catalog: dk.Catalog) -> None:
    table = make(catalog, [{"id": 0, "seq": 0}], schema=EVENTS, format_version=3)
    before = table.refresh().metadata.refs["main"]["snapshot-id"]
    with opened(table, sequence_by="seq") as first:
        first.write([{"id": 1, "seq": 9, "_change_type": "DELETE"}], 0)
    dk.rollback(table, snapshot_id=before)
    dk.stream.reset_sink(table, "people")
    with opened(table, sequence_by="seq") as again:
        assert again.write([{"id": 1, "seq": 8, "_change_type": "INSERT"}], 0).late == 0
    check(table, {0: {"id": 0, "seq": 0}, 1: {"id": 1, "seq": 8}})


@pytest.mark.parametrize("to", [1, 4])
def test_a_reset_sets_the_next_number(catalog: dk.Catalog, to: int) -> None:
    """Back, so that batches come again; and ahead. What is up to the number counts as applied."""
    table = people(catalog)
    with opened(table) as first:
        list(first.run(BATCHES[:4]))
    dk.stream.reset_sink(table, "people", batch_id=to)
    with opened(table) as second:
        with unchanged(table):
            assert [second.write(BATCHES[n % 6], n).status for n in range(to + 1)] == ["skipped"] * (to + 1)
        with refused(table, dk.InvalidInputError, "batch-gap"):
            second.write(BATCHES[5], to + 2)
        for number in range(to + 1, 6):
            assert second.write(BATCHES[number], number).status == "committed"
        with unchanged(table):
            assert [second.write(BATCHES[n], n).status for n in range(6)] == ["skipped"] * 6
    skipped = [] if to < 4 else [4]
    check(table, replay([b for n, b in enumerate(BATCHES) if n not in skipped]))


def test_a_reset_accepts_a_rollback(catalog: dk.Catalog) -> None:
    table = people(catalog)
    with opened(table) as first:
        list(first.run(BATCHES[:3]))
    dk.rollback(table, snapshots_json(table)[0]["snapshot-id"])
    with opened(table) as second:
        with refused(table, dk.InvalidInputError, "branch-rewound"):
            second.write(BATCHES[1], 1)
        dk.stream.reset_sink(table, "people", batch_id=0)
        assert [second.write(BATCHES[n], n).status for n in (0, 1, 2)] == ["skipped", "committed", "committed"]
    check(table, replay(BATCHES[:3]))


def test_what_cannot_be_reset(catalog: dk.Catalog, tmp_path: Path) -> None:
    table = people(catalog)
    dk.append(table, [{"id": 100, "name": "other", "score": 0.0}])
    dk.create_branch(table, "aside")
    (tmp_path / "0.jsonl").write_text('{"_change_type":"INSERT","id":1,"name":"a","score":1.0}\n', encoding="utf-8")
    with opened(table, "aside", ref="aside") as aside, opened(table, "files") as files:
        aside.write(BATCHES[0], 0)
        list(files.run_files([tmp_path / "0.jsonl"]))
    with refused(table, dk.NotFoundError, "sink-not-found"):
        dk.stream.reset_sink(table, "nobody", batch_id=0)
    with refused(table, dk.InvalidInputError, "sink-id"):
        dk.stream.reset_sink(table, "../x", batch_id=0)
    for number in (-2, 2**63 - 1, 2**70):
        with refused(table, dk.InvalidInputError, "batch-id"):
            dk.stream.reset_sink(table, "aside", batch_id=number, ref="aside")
    with refused(table, dk.InvalidInputError, "sink-branch", expected="aside"):
        dk.stream.reset_sink(table, "aside", batch_id=0)
    with refused(table, dk.NotFoundError, "ref-not-found"):
        dk.stream.reset_sink(table, "aside", batch_id=0, ref="gone")
    with refused(table, dk.InvalidInputError, "ref"):
        dk.stream.reset_sink(table, "aside", batch_id=0, ref="deletekit-sink-aside")
    with refused(table, dk.InvalidInputError, "sink-source"):
        dk.stream.reset_sink(table, "files", batch_id=7)
    with refused(table, dk.InvalidInputError, "read-only"):
        dk.stream.reset_sink(dk.from_metadata(table.metadata_location), "aside", batch_id=0, ref="aside")
    assert dk.stream.reset_sink(table, "aside", batch_id=0, ref="aside").snapshot_id


def test_age_lag_and_what_a_tag_keeps(catalog: dk.Catalog) -> None:
    """What is told to be free without the tag is what expiry removes once the tag is dropped."""
    table = people(catalog)
    event = datetime.now(UTC) - timedelta(hours=1)
    with opened(table, "old", order="at") as old:
        old.write([{"id": 1, "name": "a", "score": 0.0, "at": event, "_change_type": "INSERT"}], 0)
    [head] = dk.stream.sinks(table, sizes=True)
    assert (head.is_pinned, head.pinned_files, head.pinned_bytes) == (False, 0, 0)
    assert dk.stream.sinks(table)[0].pinned_files is None
    dk.append(table, [{"id": 2, "name": "b", "score": 0.0}])
    dk.delete(table, "id = 1", mode="copy-on-write")
    [info] = dk.stream.sinks(table, sizes=True)
    assert info.is_pinned
    assert 3_600_000 <= info.lag_ms < 3_600_000 + 600_000
    assert 0 <= info.age_ms < 600_000
    dk.expire_snapshots(table, older_than=FAR, retain_last=1)
    before = {p for p in files_of(table) if p.endswith(".parquet")}
    dk.stream.drop_sink(table, "old")
    dk.expire_snapshots(table, older_than=FAR, retain_last=1)
    gone = before - files_of(table)
    assert len(gone) == info.pinned_files == 1
    assert info.pinned_bytes > 0
