"""Eight processes are two sinks, each of which four processes try to be at once: each batch is in the table once."""

import multiprocessing
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

import deletekit as dk
from tests.catalogs.conftest import make_store, params
from tests.catalogs.stores import Store
from tests.stream.replay import PEOPLE, check, random_batches, replay

PROCESSES, BATCHES, ROWS, KEYS = 8, 5, 20, 15
SINKS = {"left": 2, "right": 4}
"""Each sink, and the seed of its batches. Both change the same keys."""
Place = tuple[str, str, dict[str, str], str, str]


@pytest.fixture(params=params(("local", "postgres")))
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    made = make_store(request, request.param, tmp_path)
    yield made
    made.close()


def batches_of(sink: str) -> list[list[dict[str, object]]]:
    return list(random_batches(SINKS[sink], BATCHES, ROWS, KEYS))


def write(place: Place, name: str) -> list[str]:
    """Be one of a sink's processes: write every batch. Return what became of each."""
    kind, folder, properties, catalog, namespace = place
    store = Store(kind, Path(folder), properties, catalog, namespace)
    statuses: list[str] = []
    with dk.stream.sink(store.load("t"), name, on=["id"]) as sink:
        for number, batch in enumerate(batches_of(name)):
            while len(statuses) == number:
                try:
                    statuses.append(sink.write(batch, number).status)
                except dk.CommitConflictError:  # lost too many races: it tries again, as a stream does
                    continue
    store.close()
    return statuses


@pytest.mark.slow
@pytest.mark.parametrize("version", [pytest.param(2, marks=pytest.mark.long), 3])
def test_each_batch_is_applied_once(store: Store, version: int, record_property: Callable[[str, object], None]) -> None:
    quick = {"commit.retry.num-retries": "50", "commit.retry.min-wait-ms": "5", "commit.retry.max-wait-ms": "200"}
    table = store.create("t", PEOPLE, format_version=version, properties=quick)
    place = (store.kind, str(store.folder), store.properties, store.name, store.namespace)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.stream.test_many_writers"])
    names = [name for name in SINKS for _ in range(PROCESSES // len(SINKS))]
    with ProcessPoolExecutor(PROCESSES, mp_context=context) as pool:
        done = [status for told in pool.map(write, [place] * PROCESSES, names, timeout=600) for status in told]

    snapshots = sorted(table.refresh().metadata.snapshots.values(), key=lambda s: s.sequence_number)
    found = [(s.summary["deletekit.sink-id"], int(s.summary["deletekit.batch-id"])) for s in snapshots]
    for name in SINKS:
        assert [number for sink, number in found if sink == name] == list(range(BATCHES))
    # The batches of both, one after the other as they were committed.
    check(table, replay([batches_of(name)[number] for name, number in found]))
    counts = Counter(done)
    assert counts["committed"] == len(found) == len(SINKS) * BATCHES
    what = ", ".join(f"{count} {status}" for status, count in sorted(counts.items()))
    record_property("figures", f"{store.kind}, v{version}, {PROCESSES} processes: {what}; none lost, none twice")
