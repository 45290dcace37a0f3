"""The round trip: a stream makes table A, the changes of A make table B, and B equals A after each batch."""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import deletekit as dk
from deletekit.table.sinks.batches import POSITION
from tests.commit.faults import KILLED, WHEN
from tests.interop.rows import same_rows
from tests.invariants import check_table
from tests.stream.replay import PEOPLE, State, check, random_batches, replay
from tests.stream.sources.dying import NAME, dying
from tests.tables import MAINTENANCE, MODES, make, new_catalog

SINK_MODES = ("auto", "index-only", "eq-only")
QUICK = {"commit.retry.min-wait-ms": "1", "commit.retry.max-wait-ms": "2"}


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[dk.Catalog]:
    with new_catalog(tmp_path) as opened:
        yield opened


def rows_of(table: dk.Table, **options: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = dk.scan(table.refresh(), **options).to_arrow().to_pylist()
    return rows


def copied(source: dk.Table, copy: dk.Table, mode: str = "auto", **options: Any) -> list[dk.stream.BatchProgress]:
    """Bring a copy up to date, by a sink that is opened for it, and hold that it equals the table."""
    with dk.stream.sink(copy, "copy", on="id", mode=mode, evolve="add") as sink:
        done = list(sink.run_source(dk.stream.table_changes(source, on="id", **options)))
    same_rows(rows_of(copy), rows_of(source))
    return done


def by_hand(table: dk.Table, state: State, choose: random.Random) -> State:
    """Change rows without the sink, in a mode of the format."""
    mode = choose.choice(MODES[table.refresh().format_version])
    some = [key for (key,) in state if key is not None and choose.random() < 0.4]
    where = f"id in ({', '.join(map(str, some))})" if some else "false"
    if choose.random() < 0.5:
        dk.delete(table, where, mode=mode)
        return {key: row for key, row in state.items() if key[0] not in some}
    dk.update(table, {"name": "hand"}, where=where, mode=mode)
    return {key: {**row, "name": "hand"} if key[0] in some else row for key, row in state.items()}


@pytest.mark.sampled(2, tier=1)
@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("mode", SINK_MODES)
def test_a_copy_is_equal_after_each_batch(catalog: dk.Catalog, mode: str, version: int) -> None:
    seed = SINK_MODES.index(mode) * 2 + version
    choose = random.Random(seed)
    source = make(catalog, schema=PEOPLE, format_version=version, properties=QUICK)
    copy = make(catalog, schema=PEOPLE, format_version=choose.choice([2, 3]), properties=QUICK)
    state: State = {}
    with dk.stream.sink(source, "in", on="id", mode=mode) as sink:
        for number, batch in enumerate(random_batches(seed, batches=5, rows=10, keys=9)):
            sink.write(batch, number)
            state = replay([batch], start=state)
            if choose.random() < 0.6:
                choose.choice(MAINTENANCE)(source)
            if choose.random() < 0.4:
                state = by_hand(source, state, choose)
            if number == 3 and version == 2:
                dk.upgrade_format_version(source, 3)
            done = copied(source, copy, choose.choice(SINK_MODES))
            assert done
            check(copy, state)
    assert copied(source, copy) == []
    check_table(copy, orphans=False)


@pytest.mark.slow
def test_a_process_that_is_killed_goes_on(tmp_path: Path) -> None:
    choose = random.Random(1)
    batches = list(random_batches(4, batches=7, rows=8, keys=9))
    with new_catalog(tmp_path) as catalog, dying() as processes:
        source = make(catalog, schema=PEOPLE, format_version=3, properties=QUICK)
        copy = dk.create_table(catalog, NAME, PEOPLE, format_version=3, properties=QUICK)
        killed = 0
        for number, batch in enumerate(batches):
            with dk.stream.sink(source, "in", on="id", mode=choose.choice(SINK_MODES)) as sink:
                sink.write(batch, number)
            if number == 4:
                dk.compact(source, rewrite_all=True)
            at, when = choose.randint(1, 40), choose.choice(WHEN["write"])
            killed += processes.run(tmp_path, "table", {"name": source.name}, at, when) == KILLED
            place = positions(copy)
            rows = rows_of(source, snapshot_id=place[-1]) if place else []
            same_rows(rows_of(copy), rows)
        assert processes.run(tmp_path, "table", {"name": source.name}, 0, "before") == 0
        assert killed >= 4
        same_rows(rows_of(copy), rows_of(source))
        line = [s.snapshot_id for s in source.metadata.ancestors(source.current_snapshot.snapshot_id)][::-1]
        place = positions(copy)
        assert len(set(place)) == len(place), "a snapshot was applied twice"
        assert [i for i in line if i in place] == place
        kept = {i for i in line if source.metadata.snapshots[i].operation != "replace"}
        assert kept <= set(place), "a snapshot was left out"


def positions(table: dk.Table) -> list[int]:
    """Return the snapshots of the other table that the batches of a copy end at, oldest first."""
    metadata = table.refresh().metadata
    line = metadata.ancestors(None if metadata.current_snapshot is None else metadata.current_snapshot.snapshot_id)
    found = [s.summary.get(POSITION) for s in line]
    return [json.loads(p)["snapshot"] for p in found if p is not None][::-1]
