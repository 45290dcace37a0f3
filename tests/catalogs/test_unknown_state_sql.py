"""A SQL catalog that is cut off around the swap: the commit is recognised, certainly failed, or called unknown.

A proxy in front of PostgreSQL cuts the connection at the COMMIT; backends are terminated, or stopped in their tracks.
"""

import os
import signal
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

import deletekit as dk
from tests.catalogs.proxies import PostgresProxy, postgres_proxy
from tests.catalogs.stores import MORE, QUICK, ROWS, SCHEMA, Store, leftovers, on_disk
from tests.catalogs.test_races import Meanwhile, before_the_swap
from tests.postgres import Postgres
from tests.tables import expected, items, live, raises


class Behind:
    """A table behind the proxy, and the same database without it."""

    def __init__(self, proxy: PostgresProxy, server: Postgres, folder: Path) -> None:
        properties = {"type": "sql", "uri": proxy.uri, "warehouse": str(folder)}
        self.proxy, self.server = proxy, server
        self.store = Store("postgres", folder, properties, name=f"cut-{folder}")
        self.direct = Store(
            "postgres", folder, {**properties, "uri": server.uri}, self.store.name, self.store.namespace
        )
        self.table = self.store.create("t", SCHEMA, format_version=3, properties=QUICK)
        dk.append(self.table, ROWS)

    def rows(self) -> list[dict[str, Any]]:
        """Rows of the table for somebody else."""
        return live(self.direct.load("t"))

    def ids(self) -> list[int]:
        return sorted(row["id"] for row in self.rows())

    def sql(self, statement: str, **values: Any) -> Any:
        engine = sa.create_engine(self.server.uri, poolclass=sa.NullPool)
        with engine.begin() as connection:
            return connection.execute(sa.text(statement), values).fetchall()

    def terminate_others(self) -> None:
        """End every connection of this database but the one that says so."""
        others = "select pg_terminate_backend(pid, 5000) from pg_stat_activity where pid <> pg_backend_pid()"
        self.sql(f"{others} and backend_type = 'client backend'")

    def swapping_backend(self) -> int:
        """The process that holds our uncommitted swap."""
        query = "select pid from pg_stat_activity where state = 'idle in transaction' and query like 'UPDATE iceberg%'"
        ((pid,),) = self.sql(query)
        return int(pid)


@pytest.fixture
def behind(postgres: Postgres, tmp_path: Path) -> Iterator[Behind]:
    with postgres_proxy(postgres.socket) as proxy:
        made = Behind(proxy, postgres, tmp_path)
        yield made
        made.store.close()
        made.direct.close()


# --- the COMMIT -------------------------------------------------------------------------------------------------------


def test_a_commit_whose_answer_is_lost_is_recognised(behind: Behind) -> None:
    behind.proxy.faults = [lambda send: send()]
    committed = dk.append(behind.table, MORE)
    assert committed.attempts == 1
    assert behind.table.current_snapshot is not None
    assert behind.table.current_snapshot.snapshot_id == committed.snapshot_id
    assert live(behind.table) == expected(ROWS + MORE) == behind.rows()
    assert leftovers(behind.table.refresh()) == set()


def test_it_is_recognised_though_others_came_after(behind: Behind) -> None:
    def others_follow(send: Callable[..., None]) -> None:
        send()
        for number in range(3):
            dk.append(behind.direct.load("t"), items((100 + number, "x", 0.0)))

    behind.proxy.faults = [others_follow]
    assert dk.append(behind.table, MORE).attempts == 1
    assert behind.ids() == [1, 2, 3, 4, 5, 100, 101, 102]
    assert leftovers(behind.table.refresh()) == set()


def test_a_commit_that_is_lost_on_the_way_is_unknown(behind: Behind) -> None:
    files = on_disk(behind.table.location)
    behind.proxy.faults = [lambda send: None]  # noqa: ARG005
    with pytest.raises(dk.CommitStateUnknownError) as caught:
        dk.append(behind.table, MORE)
    assert isinstance(caught.value.__cause__, sa.exc.OperationalError)
    kept = on_disk(behind.table.location) - files
    assert sorted(Path(p).suffix for p in kept) == [".avro", ".avro", ".json", ".parquet"]
    assert behind.rows() == expected(ROWS)
    dk.append(behind.table, MORE)
    assert behind.rows() == expected(ROWS + MORE)
    assert leftovers(behind.table) == kept


def test_a_commit_that_lands_after_we_stopped_looking(behind: Behind) -> None:
    """Why not finding it proves nothing: the backend that has the COMMIT sleeps until everybody has looked."""
    stopped = []

    def stall(send: Callable[..., None]) -> None:
        stopped.append(behind.swapping_backend())
        os.kill(stopped[0], signal.SIGSTOP)
        send(wait=0.1)

    behind.proxy.faults = [stall]
    try:
        with pytest.raises(dk.CommitStateUnknownError):
            dk.append(behind.table, MORE)
        assert behind.rows() == expected(ROWS)
    finally:
        os.kill(stopped[0], signal.SIGCONT)
    wait_until(lambda: behind.rows() == expected(ROWS + MORE))
    assert leftovers(behind.table.refresh()) == set()  # what it needs is all there
    dk.delete(behind.table, "id = 4", mode="deletion-vector")
    assert behind.ids() == [1, 2, 3, 5]


@pytest.mark.parametrize("landed", [True, False])
def test_nobody_can_be_asked(behind: Behind, landed: bool) -> None:
    def cut_for_good(send: Callable[..., None]) -> None:
        if landed:
            send()
        behind.proxy.closed = True

    behind.proxy.faults = [cut_for_good]
    with pytest.raises(dk.CommitStateUnknownError):
        dk.append(behind.table, MORE)
    with raises(dk.DeletekitError, "catalog-failed"):
        behind.table.refresh()
    assert behind.rows() == expected(ROWS + MORE if landed else ROWS)
    behind.proxy.closed = False
    assert live(behind.table.refresh()) == behind.rows()
    unreached = {Path(p).suffix for p in leftovers(behind.table)}
    assert unreached == (set() if landed else {".avro", ".json", ".parquet"})


@pytest.mark.parametrize("landed", [True, False])
def test_making_a_table(behind: Behind, landed: bool) -> None:
    behind.proxy.faults = [lambda send: send()] if landed else [lambda send: None]  # noqa: ARG005
    # Its properties are the ones that say how long to look.
    if landed:
        made = behind.store.create("u", SCHEMA, properties=QUICK)
        assert behind.direct.load("u").metadata_location == made.metadata_location
    else:
        with pytest.raises(dk.CommitStateUnknownError):
            behind.store.create("u", SCHEMA, properties=QUICK)
        with pytest.raises(dk.NotFoundError):
            behind.direct.load("u")
    assert len(on_disk(str(behind.store.folder / behind.store.namespace / "u"))) == 1


# --- before the COMMIT ------------------------------------------------------------------------------------------------


def test_a_connection_that_died_while_it_was_idle_is_not_noticed(behind: Behind) -> None:
    behind.terminate_others()
    assert dk.append(behind.table, MORE).attempts == 1
    behind.terminate_others()
    assert live(behind.table.refresh()) == expected(ROWS + MORE)


def test_a_connection_killed_before_the_swap_is_a_certain_failure(
    behind: Behind, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = on_disk(behind.table.location)
    before_the_swap(monkeypatch, Meanwhile(behind.terminate_others))
    with pytest.raises(dk.DeletekitError) as caught:
        dk.append(behind.table, MORE)
    assert (type(caught.value), caught.value.kind) == (dk.DeletekitError, "catalog-failed")
    assert on_disk(behind.table.location) == files
    assert behind.rows() == expected(ROWS)
    assert dk.append(behind.table, MORE).attempts == 1
    assert behind.rows() == expected(ROWS + MORE)


def test_a_swap_killed_while_it_waits_for_the_row(behind: Behind) -> None:
    files = on_disk(behind.table.location)
    engine = sa.create_engine(behind.server.uri, poolclass=sa.NullPool)
    waiting = "select pg_terminate_backend(pid, 5000) from pg_stat_activity where wait_event_type = 'Lock'"
    with engine.begin() as holder:
        holder.execute(sa.text("update iceberg_tables set table_name = table_name"))
        killer = threading.Thread(target=wait_until, args=(lambda: len(behind.sql(waiting)) == 1,))
        killer.start()
        with pytest.raises(dk.DeletekitError) as caught:
            dk.append(behind.table, MORE)
        killer.join()
    assert (type(caught.value), caught.value.kind) == (dk.DeletekitError, "catalog-failed")
    assert on_disk(behind.table.location) == files
    assert behind.rows() == expected(ROWS)


def test_a_serialisation_failure_is_a_lost_race(behind: Behind) -> None:
    # A database may have a stricter isolation than PostgreSQL's own default: its swap fails where ours finds no row.
    catalog = behind.table.require_catalog()
    catalog.pyiceberg.engine = catalog.pyiceberg.engine.execution_options(isolation_level="REPEATABLE READ")
    engine = sa.create_engine(behind.server.uri, poolclass=sa.NullPool)
    released: list[int] = []

    def release(holder: sa.Connection) -> None:
        waiting = "select 1 from pg_stat_activity where wait_event_type = 'Lock'"
        wait_until(lambda: len(behind.sql(waiting)) == 1)
        released.append(1)
        holder.commit()

    with engine.connect() as holder:
        holder.execute(sa.text("update iceberg_tables set table_name = table_name"))
        thread = threading.Thread(target=release, args=(holder,))
        thread.start()
        committed = dk.append(behind.table, MORE)
        thread.join()
    assert (committed.attempts, released) == (2, [1])
    assert behind.rows() == expected(ROWS + MORE)
    assert leftovers(behind.table) == set()


# --- SQLite -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def impatient(tmp_path: Path) -> Iterator[dk.Table]:
    """Give a table of a SQLite catalog that waits for others a tenth of a second."""
    uri = f"sqlite:///{tmp_path / 'catalog.db'}?timeout=0.1"
    store = Store("sqlite", tmp_path, {"type": "sql", "uri": uri, "warehouse": str(tmp_path)})
    quick = {**QUICK, "commit.retry.num-retries": "10", "commit.retry.max-wait-ms": "20"}
    table = store.create("t", SCHEMA, format_version=3, properties=quick)
    dk.append(table, ROWS)
    yield table
    store.close()


@pytest.mark.parametrize("statement", ["begin immediate", "select * from iceberg_tables"], ids=["writing", "reading"])
def test_sqlite_is_busy(impatient: dk.Table, tmp_path: Path, statement: str) -> None:
    """Another writer fails our UPDATE, a reader our COMMIT: both certainly rolled back, and may be tried again."""
    files = on_disk(impatient.location)
    other = sqlite3.connect(tmp_path / "catalog.db", isolation_level=None, check_same_thread=False)
    cursor = other.execute("begin") if statement.startswith("select") else other.execute(statement)
    if statement.startswith("select"):
        assert cursor.execute(statement).fetchone()
    with pytest.raises(dk.CommitConflictError) as caught:
        dk.append(impatient, MORE)
    assert "locked" in str(caught.value)
    assert on_disk(impatient.location) == files
    threading.Timer(0.6, other.execute, ("rollback",)).start()  # after the first attempt, and before the last
    committed = dk.append(impatient, MORE)
    assert committed.attempts > 1
    assert live(impatient.refresh()) == expected(ROWS + MORE)
    assert leftovers(impatient) == set()
    other.close()


def test_a_disk_error_at_the_commit(impatient: dk.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither busy nor gone: nobody can tell, so the state is unknown unless the commit is found."""
    real, asked = sa.Connection.commit, []

    def failing(self: sa.Connection) -> None:
        asked.append(landed)
        if landed:
            real(self)
        raise sa.exc.OperationalError("COMMIT", {}, sqlite3.OperationalError("disk I/O error"))

    monkeypatch.setattr(sa.Connection, "commit", failing)
    landed = True
    assert dk.append(impatient, MORE).attempts == 1
    landed = False
    files = on_disk(impatient.location)
    with pytest.raises(dk.CommitStateUnknownError):
        dk.append(impatient, MORE)
    monkeypatch.undo()
    assert asked == [True, False]
    assert files < on_disk(impatient.location)
    assert live(impatient.refresh()) == expected(ROWS + MORE)


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)
