"""An executor as an engine: tasks travel, one commit is made at home, and what fails leaves no file behind."""

import multiprocessing
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import deletekit as dk
from deletekit.engines.local import LocalEngine
from tests.invariants import check_table
from tests.tables import make, raises

FILES = [[{"id": i, "category": "a", "value": float(i)} for i in range(start, start + 5)] for start in (0, 5, 10, 15)]


@pytest.fixture
def table(catalog: dk.Catalog) -> dk.Table:
    return make(catalog, *FILES)


def stored(table: dk.Table) -> set[str]:
    return {str(f) for f in Path(table.location.removeprefix("file://")).rglob("*") if f.is_file()}


def values(table: dk.Table) -> list[float]:
    rows = dk.scan(table).to_arrow().sort_by("id")
    found: list[float] = rows["value"].to_pylist()
    return found


def test_the_work_is_done_elsewhere(processes: Executor, table: dk.Table) -> None:
    here = os.getpid()
    done = dk.update(
        table,
        {"value": lambda rows: pa.array([float(os.getpid() != here)] * len(rows))},
        where="id >= 3",
        engine=dk.engine.executor(processes, 2),
    )
    assert values(table) == [0.0, 1.0, 2.0] + [1.0] * 17
    assert len({f.file_path for f in done.added_data_files}) == len(done.added_data_files)
    assert (done.plans, done.attempts) == (1, 1)
    check_table(table)


def test_a_with_block(processes: Executor, table: dk.Table) -> None:
    with dk.engine.executor(processes, 2) as engine:
        assert dk.scan(table).engine is engine
        assert dk.scan(table, "value > 7").count() == 12
        with dk.engine.local(1) as inner:
            assert dk.scan(table).engine is inner
        assert dk.scan(table).engine is engine
    assert isinstance(dk.scan(table).engine, LocalEngine)


def test_an_engine_is_given_to_a_verb(table: dk.Table) -> None:
    engine = dk.engine.local(2)
    assert dk.scan(table, engine=engine).engine is engine
    assert dk.delete(table, "id < 2", engine=engine).snapshot_id
    assert dk.scan(table, engine=engine).count() == 18


def test_a_pool_is_taken_as_it_is(processes: Any, table: dk.Table) -> None:
    assert dk.delete(table, "value < 2", engine=processes).snapshot_id
    assert dk.scan(table, engine=processes).count() == 18


def test_files_of_a_failure_are_removed(processes: Executor, table: dk.Table) -> None:
    """The error of one task is raised as it was; what others wrote, or still write, goes."""
    before = stored(table)

    def halves(rows: pa.Table) -> Any:
        if rows["id"][0].as_py() == 10:
            raise ZeroDivisionError("ten")
        return rows["value"]

    with pytest.raises(ZeroDivisionError, match="ten"):
        dk.update(table, {"value": halves}, where="true", engine=dk.engine.executor(processes, 4))
    assert stored(table) == before


class Local:
    """An error that cannot be packed."""

    def __init__(self) -> None:
        self.lock = threading.Lock()


def test_what_cannot_be_sent_back_is_told(processes: Executor, table: dk.Table) -> None:
    before = stored(table)

    def fails(rows: pa.Table) -> Any:
        raise ValueError(Local())

    with pytest.raises(dk.UnsupportedError, match=r"cannot be sent back.*ValueError"):
        dk.update(table, {"value": fails}, where="true", engine=dk.engine.executor(processes))
    assert stored(table) == before


class PackedOnlyError(Exception):
    """An error that can be packed, and not be unpacked again."""

    def __init__(self, one: str, two: str) -> None:
        super().__init__(one + two)


def test_an_error_that_cannot_be_unpacked_is_told(table: dk.Table) -> None:
    before = stored(table)

    def fails(rows: pa.Table) -> Any:
        if rows["id"][0].as_py() == 10:
            raise PackedOnlyError("a", "b")
        return rows["value"]

    with (
        ThreadPoolExecutor(2) as pool,
        pytest.raises(dk.UnsupportedError, match=r"cannot be sent back.*PackedOnlyError\('ab'\)"),
    ):
        dk.update(table, {"value": fails}, where="true", engine=dk.engine.executor(pool, 2))
    assert stored(table) == before


class Careless(Executor):
    """Calls a task cancelled that runs on, as dask's executor and Ray do."""

    def __init__(self) -> None:
        self.threads: list[threading.Thread] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()

        def run() -> None:
            result = fn(*args, **kwargs)
            if not future.cancelled():
                future.set_result(result)

        self.threads.append(threading.Thread(target=run))
        self.threads[-1].start()
        return future


def test_files_of_tasks_that_cannot_be_cancelled_are_removed(table: dk.Table) -> None:
    before, pool = stored(table), Careless()

    def late(rows: pa.Table) -> Any:
        if rows["id"][0].as_py() != 10:  # neither the first nor the last file
            raise ZeroDivisionError("the first")
        time.sleep(0.3)
        return rows["value"]

    with pytest.raises(ZeroDivisionError, match="the first"):
        dk.update(table, {"value": late}, where="true", mode="copy-on-write", engine=dk.engine.executor(pool, 4))
    for thread in pool.threads:
        thread.join()
    assert len(pool.threads) > 1
    assert stored(table) == before


def test_what_cannot_travel_is_refused(processes: Executor, table: dk.Table) -> None:
    before, lock = stored(table), threading.Lock()

    def locked(rows: pa.Table) -> Any:
        with lock:
            return rows["value"]

    with raises(dk.UnsupportedError, "not-picklable"):
        dk.update(table, {"value": locked}, where="true", engine=dk.engine.executor(processes))
    assert stored(table) == before
    queue = multiprocessing.get_context("spawn").Queue()  # which raises RuntimeError when it is packed
    with pytest.raises(dk.UnsupportedError, match="through inheritance"):
        dk.update(
            table,
            {"value": lambda rows: queue and rows["value"]},
            where="true",
            engine=dk.engine.executor(processes),
        )


def test_a_pool_that_is_closed(table: dk.Table) -> None:
    pool = ThreadPoolExecutor(1)
    pool.shutdown()
    with pytest.raises(dk.DeletekitError, match="after shutdown") as caught:
        dk.delete(table, "value = 3", engine=dk.engine.executor(pool))
    assert caught.value.kind == "executor"


class Scripted(Executor):
    """Runs each task at once, in the way that a test says."""

    def __init__(self, run: Callable[[int, Callable[[], Any]], Any]) -> None:
        self._run = run
        self.number = 0

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(self._run(self.number, lambda: fn(*args, **kwargs)))
        except RuntimeError as e:
            future.set_exception(e)
        self.number += 1
        return future


def test_a_worker_that_dies(table: dk.Table) -> None:
    """What the others wrote is removed, and the table is as it was."""

    def run(number: int, task: Callable[[], Any]) -> Any:
        if number == 1:
            raise RuntimeError("a worker died")
        return task()

    before = stored(table)
    with pytest.raises(dk.DeletekitError, match="a worker died") as caught:
        dk.delete(table, "value >= 2", mode="copy-on-write", engine=dk.engine.executor(Scripted(run), 4))
    assert caught.value.kind == "executor"
    assert stored(table) == before


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_threads_of_one_process_never_share_a_path(table: dk.Table, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deletekit.deletes.delete_modes._LEFT_BYTES", 0)  # each thread writes what it has
    with ThreadPoolExecutor(4) as pool:
        done = dk.update(table, {"value": 0.0}, where="value != 7", mode=mode, engine=dk.engine.executor(pool, 4))
    paths = [f.file_path for f in done.added_data_files]
    assert len(paths) == len(set(paths)) > 1
    assert values(table) == [7.0 if i == 7 else 0.0 for i in range(20)]
    check_table(table)


@pytest.mark.parametrize("threads", [0, -1])
def test_less_than_one_thread_is_refused(threads: int) -> None:
    with pytest.raises(dk.InvalidInputError, match="field threads"):
        dk.engine.executor(ThreadPoolExecutor(1), threads)
    with pytest.raises(dk.InvalidInputError, match="`pool`"):
        dk.engine.executor("pool")  # type: ignore[arg-type]
