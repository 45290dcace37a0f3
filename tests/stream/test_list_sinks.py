"""The sinks of a table are listed and dropped; expiry and rollback make none of them wrong."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import deletekit as dk
from deletekit.stream.applied_batches import summary_of
from tests.stream.replay import check, opened, people, random_batches, replay
from tests.tables import files_of, refused, unchanged

BATCHES = list(random_batches(0, batches=6, rows=8, keys=9))
FAR = 2**62


def other(table: dk.Table, number: int) -> None:
    dk.append(table, [{"id": number, "name": "other", "score": 0.0}])


def test_sinks_are_listed_and_dropped_and_pin_nothing_then(catalog: dk.Catalog) -> None:
    table = people(catalog)
    assert dk.stream.sinks(table) == ()
    begun = datetime.now(UTC)
    with opened(table, "dead") as dead, opened(table, "live") as live:
        dead.write(BATCHES[0], 0)
        live.write(BATCHES[1], 0, query_id="q")
        pinned = table.metadata.refs["deletekit-sink-dead"]["snapshot-id"]
        live.write(BATCHES[2], 1, query_id="q")
    newest, oldest = dk.stream.sinks(table)
    assert (newest.sink_id, newest.query_id, newest.batch_id, newest.key) == ("live", "q", 1, ("id",))
    assert (oldest.sink_id, oldest.batch_id, oldest.snapshot_id, oldest.file) == ("dead", 0, pinned, None)
    assert begun.replace(microsecond=0) <= oldest.committed_at <= newest.committed_at
    dk.expire_snapshots(table, older_than=FAR, retain_last=1)
    assert pinned in table.refresh().metadata.snapshots
    dk.stream.drop_sink(table, "dead")
    assert [s.sink_id for s in dk.stream.sinks(table)] == ["live"]
    dk.expire_snapshots(table, older_than=FAR, retain_last=1)
    assert pinned not in table.refresh().metadata.snapshots
    with refused(table, dk.NotFoundError, "sink-not-found", expected="live"):
        dk.stream.drop_sink(table, "dead")
    with refused(table, dk.InvalidInputError, "sink-id"):
        dk.stream.drop_sink(table, "../x")
    check(table, replay(BATCHES[:3]))


@pytest.mark.parametrize("retain", [1, 2])
@pytest.mark.parametrize("kept", [0, 1])
def test_a_rollback_is_remembered_when_its_history_expires(catalog: dk.Catalog, retain: int, kept: int) -> None:
    """The batch that was rolled back from is not taken for one that is in the table, however long ago that was."""
    table = people(catalog)
    other(table, 100)
    heads = [table.current_snapshot.snapshot_id]
    with opened(table) as first:
        for number in range(2):
            first.write(BATCHES[number], number)
            heads.append(table.refresh().current_snapshot.snapshot_id)
    dk.rollback(table, heads[kept])
    for number in range(101, 104):
        other(table, number)
    dk.expire_snapshots(table, older_than=FAR, retain_last=retain)
    other(table, 104)
    dk.expire_snapshots(table, older_than=FAR, retain_last=retain)
    with opened(table) as second:
        for number in (1, 2):
            with refused(table, dk.InvalidInputError, "branch-rewound"):
                second.write(BATCHES[number], number)
    with opened(table, allow_rewind=True) as third:
        for number in range(kept, 3):
            assert third.write(BATCHES[number], number).status == "committed"
    with opened(table) as fourth:
        assert fourth.write(BATCHES[3], 3).status == "committed"
    others = {(n,): {"id": n, "name": "other", "score": 0.0} for n in range(100, 105)}
    check(table, {**replay(BATCHES[:4]), **others})


def test_expiry_of_a_branch_that_was_not_rolled_back_stops_no_sink(catalog: dk.Catalog) -> None:
    table = people(catalog)
    dk.append(table, [{"id": 100, "name": "other", "score": 0.0}])
    dk.create_branch(table, "ingestion")
    with opened(table, "a") as a, opened(table, "b", ref="ingestion") as b:
        a.write(BATCHES[0], 0)
        b.write(BATCHES[0], 0)
        for number in range(1, 4):
            for ref in ("main", "ingestion"):
                dk.append(table, [{"id": 100 + number, "name": "other", "score": 0.0}], ref=ref)
            dk.expire_snapshots(table, older_than=FAR, retain_last=1)
        with unchanged(table):
            assert [s.write(BATCHES[0], 0).status for s in (a, b)] == ["skipped"] * 2
        assert [s.write(BATCHES[1], 1).status for s in (a, b)] == ["committed"] * 2


def test_a_copy_of_a_table_under_another_uuid_is_another_table(
    catalog: dk.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = people(catalog)

    def of_another(*of_batch: Any) -> dict[str, str]:
        return {**summary_of(*of_batch), "deletekit.table-uuid": "00000000-0000-0000-0000-000000000000"}

    with monkeypatch.context() as elsewhere, opened(table) as first:
        elsewhere.setattr("deletekit.stream.batch_run.summary_of", of_another)
        first.write(BATCHES[0], 0)
    with refused(table, dk.InvalidInputError, "table-changed"):
        opened(table)
    with opened(table, "another") as second:
        assert second.write(BATCHES[1], 0).status == "committed"


def test_the_logs_of_files_go_with_their_sink_and_not_before(catalog: dk.Catalog, tmp_path: Path) -> None:
    """Expiry and orphan removal keep what a sink's tag leads to, and remove what nothing leads to."""
    table = people(catalog)
    files = []
    for number in range(5):
        files.append(tmp_path / f"{number}.jsonl")
        files[-1].write_text(f'{{"_change_type":"INSERT","id":{number},"name":"a","score":1.0}}\n', encoding="utf-8")
    with opened(table, "files") as running:
        list(running.run_files(files))

    def logs() -> set[str]:
        return {path for path in files_of(table) if path.endswith(".log")}

    assert len(logs()) == 5
    dk.append(table, [{"id": 100, "name": "other", "score": 0.0}])
    done = dk.expire_snapshots(table, older_than=FAR, retain_last=1)
    assert len(logs()) == 2, "of four files and of one"
    assert len(done.deleted_file_logs) == 3
    dk.remove_orphan_files(table, older_than=FAR, force=True)
    with opened(table, "files") as running, unchanged(table):
        assert [p.status for p in running.run_files(files[::-1], as_given=True)] == ["skipped"] * 5
    dk.stream.drop_sink(table, "files")
    dk.expire_snapshots(table, older_than=FAR, retain_last=1)
    assert logs() == set()
