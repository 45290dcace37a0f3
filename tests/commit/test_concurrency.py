"""Several processes, and threads, on one table at once: its rows are those of the commits, one after the other.

`DELETEKIT_CONCURRENCY_SECONDS` and `DELETEKIT_CONCURRENCY_PROCESSES` make it longer and rougher.
"""

import multiprocessing
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest

import deletekit as dk
from tests.catalogs.conftest import GROUPS, make_store, params
from tests.catalogs.stores import Store
from tests.commit.processes import SHARED, Job, replay, work
from tests.invariants import check_table
from tests.stored import snapshots_json
from tests.tables import ids, items, make, new_catalog

SECONDS = float(os.environ.get("DELETEKIT_CONCURRENCY_SECONDS", "2"))
PROCESSES = int(os.environ.get("DELETEKIT_CONCURRENCY_PROCESSES", "8"))
SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("value", pa.float64())])
PROPERTIES = {
    # A metadata file that fell out of the log would look like one that was left over.
    "write.metadata.previous-versions-max": "100000",
}


@pytest.fixture(params=params(("local", "postgres", "rest")))
def shared(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """Give each kind of catalog that processes can share."""
    store = make_store(request, request.param, tmp_path)
    yield store
    store.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shared", "version"),
    [
        pytest.param(
            kind,
            version,
            # With a catalog on a server, the versions differ in what the embedded one shows too.
            marks=[*GROUPS.get(kind, ()), *([pytest.mark.long] if kind != "local" and version == 2 else [])],
        )
        for kind in ("local", "postgres", "rest")
        for version in (2, 3)
    ],
    indirect=["shared"],
)
def test_the_rows_are_those_of_the_serial_order(
    shared: Store, version: int, record_property: Callable[[str, object], None]
) -> None:
    """Of everything that was committed, the steps one after the other by their sequence numbers."""
    table = shared.create("t", SCHEMA, format_version=version, properties=PROPERTIES)
    rows = {i: float(i) for i in range(SHARED)}
    dk.append(table, [{"id": i, "value": v} for i, v in rows.items()])
    place = (shared.kind, str(shared.folder), shared.properties, shared.name, shared.namespace)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.commit.processes"])
    with ProcessPoolExecutor(PROCESSES, mp_context=context) as pool:
        jobs = [pool.submit(work, Job(*place, number, SECONDS)) for number in range(PROCESSES)]
        done = [job.result(timeout=SECONDS + 600) for job in jobs]
    counts: Counter[str] = sum((d.counts for d in done), Counter())
    steps = {number: step for d in done for number, step in d.steps.items()}
    assert len(steps) == counts["commits"] > 0, "no two commits have one sequence number"
    assert sorted(steps) == list(range(2, len(steps) + 2)), "and each number is somebody's"

    table = shared.load("t")
    left = {s["sequence-number"]: s["snapshot-id"] for s in snapshots_json(table)}
    assert table.metadata.last_sequence_number in left
    wrong = 0
    for number in sorted(steps):
        rows = replay(rows, steps[number])
        if number in left:
            found = dk.scan(table, snapshot_id=left[number]).to_arrow().to_pylist()
            there = [(r["id"], r["value"]) for r in found]
            wrong += len(set(there) ^ set(rows.items())) + len(there) - len(set(there))
    what = ", ".join(f"{name} {counts[name]}" for name in sorted(counts))
    record_property(
        "figures", f"{shared.kind}, v{version}, {PROCESSES} processes, {SECONDS:g} s: {what}; lost rows {wrong}"
    )
    assert wrong == counts["given up"] == 0
    # Java's server writes its metadata file before it loses the swap, and leaves it.
    check_table(table, orphans=shared.kind != "rest")
    assert dk.verify(table).ok


@pytest.mark.slow
def test_threads_with_handles_of_their_own(tmp_path: Path) -> None:
    with new_catalog(tmp_path) as catalog:
        table = make(catalog, items(*((i, None, 0.0) for i in range(40))), format_version=3)
        errors: list[Exception] = []

        def delete(some: range) -> None:
            try:
                mine = dk.load_table(catalog, table.name)
                for i in some:
                    dk.delete(mine, f"id = {i}", mode="deletion-vector")
            except Exception as error:  # noqa: BLE001  # shown below, in the test's own thread
                errors.append(error)

        threads = [threading.Thread(target=delete, args=(range(n, 36, 4),)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert errors == []
        assert ids(table.refresh()) == [36, 37, 38, 39]
        assert len(snapshots_json(table)) == 37
        check_table(table)
