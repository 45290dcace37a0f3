"""A sink that maintains its table: the rows stay those of the dict, each batch is applied once, and files stay few."""

import logging
import shutil
from pathlib import Path
from typing import Any

import pytest

import deletekit as dk
from tests.commit.crashing import Case, run
from tests.commit.faults import Faults
from tests.commit.racing import QUICK, Interfering
from tests.invariants import check_table
from tests.maintenance.model import staged
from tests.stored import live_files
from tests.stream.maintaining import NAME, POLICY, make_people, write_next
from tests.stream.replay import PEOPLE, check, put, random_batches, replay
from tests.tables import live, make, new_catalog, raises, refused

Maintain = dk.stream.Maintain
BOTH = pytest.mark.parametrize(
    ("mode", "version"),
    [
        ("auto", 3),
        ("eq-only", 2),
        *(pytest.param(*case, marks=pytest.mark.long) for case in (("auto", 2), ("eq-only", 3))),
    ],
)
"""Each mode and each version; the other pairs before a release."""


def people(table: dk.Table, mode: Any = "auto", maintain: Any = POLICY) -> dk.stream.Sink:
    return dk.stream.sink(table, "people", on=["id"], mode=mode, maintain=maintain)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("mode", ["auto", "eq-only", "index-only"])
@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("partition_by", [(), ("bucket(3, id)",), ("name",)], ids=["whole", "by key", "not by key"])
@pytest.mark.parametrize("granularity", [None, "partition"])
def test_rows_are_those_of_a_dict(
    catalog: dk.Catalog, mode: str, version: int, partition_by: tuple[str, ...], granularity: str | None
) -> None:
    """Other processes go on, and others commit in between."""
    properties = {} if granularity is None else {"write.delete.granularity": granularity}
    table = make(catalog, schema=PEOPLE, format_version=version, partition_by=partition_by, properties=properties)
    batches = list(random_batches(1, batches=12, rows=12, keys=12))
    state = replay([])
    rounds = []
    for start in (0, 5, 10):
        with people(table, mode) as sink:
            for number in range(start):
                if start - number <= 2:
                    assert sink.write(batches[number], number).status == "skipped"
            for number in range(start, min(start + 5, 12)):
                progress = sink.write(batches[number], number)
                assert progress.status == "committed"
                state = replay([batches[number]], start=state)
                rounds += [progress.maintained] if progress.maintained else []
                check(table, state)
                if progress.maintained:
                    assert progress.maintained.failed is None
                    assert not [f for f in live_files(table, 1) if f["content"] == 2]
                if number % 4 == 1:
                    dk.delete(table, "id = 3", mode="merge-on-read")
                    state.pop((3,), None)
            assert sink.last_batch() == ("", min(start + 4, 11))
    assert len(rounds) == 4
    assert sum(done.rewritten_data_files for done in rounds) > sum(done.added_data_files for done in rounds)
    assert sum(done.expired_snapshots for done in rounds) > 0
    assert [s.batch_id for s in dk.stream.sinks(table)] == [11]


def test_what_others_staged_expires_with_the_rest(catalog: dk.Catalog) -> None:
    """As in Java: no ref leads to it. What was published before stays."""
    table = make(catalog, schema=PEOPLE, format_version=3)
    rows = [[{"id": number, "name": "staged", "score": 0.0}] for number in (100, 101)]
    with people(table, maintain=Maintain(every=4, expire=2)) as sink:
        done = [sink.write([put(number)], number).maintained for number in range(3)]
        published, late = (staged(table, new) for new in rows)
        dk.cherry_pick(table, published)
        done.append(sink.write([put(3)], 3).maintained)
    assert [d.expired_snapshots > 0 for d in done if d is not None] == [True]
    assert late not in table.refresh().metadata.snapshots
    with refused(table, dk.NotFoundError, "snapshot-not-found"):
        dk.cherry_pick(table, late)
    check(table, replay([[put(number) for number in range(4)], [put(100, "staged")]]))
    check_table(table)


def test_each_process_writes_one_batch(catalog: dk.Catalog) -> None:
    """Batches are counted over processes, and a round that found nothing to do counts as one."""
    table = make(catalog, schema=PEOPLE)
    due = []
    for number in range(7):
        with people(table, maintain=3) as sink:
            due.append(sink.write([put(number)], number).maintained is not None)
    assert due[:2] == [False, False]
    assert due[2]
    with people(table, maintain=3) as sink:
        assert sink.write([put(6)], 6).maintained is None, "a batch that was skipped"


def test_whoever_always_loses_gives_up_quietly(catalog: dk.Catalog, caplog: pytest.LogCaptureFixture) -> None:
    table = make(catalog, schema=PEOPLE, properties={**QUICK, "commit.retry.num-retries": "2"})
    store = Interfering(catalog)
    with people(dk.load_table(store, table.name), maintain=Maintain(every=2, min_small_files=2)) as sink:
        sink.write([put(1)], 0)
        store.others += [lambda: None]
        store.others += [
            lambda: dk.append(dk.load_table(catalog, table.name), [{"id": 50, "name": "", "score": 0.0}])
        ] * 4
        with caplog.at_level(logging.INFO, "deletekit"):
            lost = sink.write([put(2)], 1)
        assert lost.status == "committed"
        assert lost.maintained is not None
        assert lost.maintained.failed
        events = [r.__dict__["deletekit"]["event"] for r in caplog.records]
        assert [event for event in events if event.startswith("maintenance")] == ["maintenance-failed", "maintenance"]
        store.others.clear()
        sink.write([put(3)], 2)
        later = sink.write([put(4)], 3)
        assert later.maintained is not None
        assert later.maintained.rewritten_data_files > 0


@pytest.mark.parametrize("version", [pytest.param(2, marks=pytest.mark.long), 3])
def test_a_failure_never_fails_the_batch(tmp_path: Path, version: int) -> None:
    """Every call to storage and catalog after the batch's own commit fails once."""
    home, kept = tmp_path / "warehouse", tmp_path / "kept"
    with new_catalog(home) as catalog:
        make_people(catalog, version)
    shutil.copytree(home, kept)
    seen: list[dk.stream.BatchProgress] = []
    dry = Faults()
    run(home, Case(lambda t: seen.append(write_next(t))), dry)
    with new_catalog(home) as catalog:
        expected = live(dk.load_table(catalog, NAME))
    failed = 0
    for at in range(len(dry.names), 0, -4):
        shutil.rmtree(home)
        shutil.copytree(kept, home)
        try:
            run(home, Case(lambda t: seen.append(write_next(t))), Faults(at))
        except OSError:
            break  # the batch itself
        except dk.DeletekitError:
            break
        with new_catalog(home) as catalog:
            assert live(dk.load_table(catalog, NAME)) == expected
        done = seen[-1].maintained
        failed += done is None or done.failed is not None
    assert failed > 10


@pytest.mark.parametrize(
    ("bad", "field"),
    [
        ({"every": 0}, "every"),
        ({"min_small_files": 1}, "min_small_files"),
        ({"max_deletes_ratio": 0.0}, "max_deletes_ratio"),
        ({"max_deletes_ratio": 1.5}, "max_deletes_ratio"),
        ({"expire": 0}, "expire"),
    ],
)
def test_bad_numbers_are_refused(catalog: dk.Catalog, bad: dict[str, Any], field: str) -> None:
    with raises(dk.InvalidInputError, "maintain", field=field):
        Maintain(**bad)
    table = make(catalog, schema=PEOPLE)
    with refused(table, dk.InvalidInputError, "maintain", field="every"):
        people(table, maintain=0)
