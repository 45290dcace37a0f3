"""Several real processes, and threads, on one catalog at once: nothing that was acknowledged is lost."""

from __future__ import annotations

import multiprocessing
import threading
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

import deletekit as dk
from tests.commit.processes import work
from tests.invariants import check_table
from tests.tables import ids, items, make, new_catalog, snapshots_json

PROCESSES, ROUNDS = 8, 3


@pytest.mark.slow
def test_processes_lose_nothing(tmp_path: Path) -> None:
    directory = tmp_path / "warehouse"
    with new_catalog(directory) as catalog:
        properties = {
            "commit.retry.num-retries": "20",
            "commit.retry.min-wait-ms": "5",
            "commit.retry.max-wait-ms": "200",
        }
        table = make(catalog, format_version=3, properties=properties, partition_by=["category"])
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(PROCESSES, mp_context=context) as pool:
            jobs = [pool.submit(work, str(directory), table.name, n, ROUNDS) for n in range(PROCESSES)]
            results = [job.result(timeout=240) for job in jobs]
        table.refresh()
        inserted = set().union(*(r.inserted for r in results))
        deleted = set().union(*(r.deleted for r in results))
        assert ids(table) == sorted(inserted - deleted)
        assert len(snapshots_json(table)) == sum(r.commits for r in results)
        assert sum(r.commits for r in results) > PROCESSES * ROUNDS, "most of it got through"
        assert sum(r.attempts for r in results) > sum(r.commits for r in results), "there were races"
        check_table(table)


def test_threads_with_handles_of_their_own(tmp_path: Path) -> None:
    with new_catalog(tmp_path) as catalog:
        properties = {
            "commit.retry.num-retries": "50",
            "commit.retry.min-wait-ms": "1",
            "commit.retry.max-wait-ms": "50",
        }
        table = make(catalog, items(*((i, None, 0.0) for i in range(40))), format_version=3, properties=properties)
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
