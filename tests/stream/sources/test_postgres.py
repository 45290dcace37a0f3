"""Changes of a real server's table become its rows, whatever happens between commit and slot."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import count
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

import deletekit as dk
from deletekit.stream.batch_run import BatchProgress
from deletekit.stream.sources.postgres import postgres as postgres_source
from tests.commit.faults import KILLED
from tests.invariants import check_table
from tests.postgres import Postgres
from tests.stream.sources.dying import NAME, dying
from tests.tables import expected, live, make, new_catalog, unchanged

POSITION = "deletekit.source-position"
PEOPLE = pa.schema(
    [pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string()), pa.field("score", pa.float64())]
)
_numbers = count()


class Server:
    """A database with the table `public.t`, in the publication `p`, and the slot `slot`."""

    def __init__(self, dsn: str, slot: str) -> None:
        import psycopg2  # noqa: PLC0415

        self.dsn, self.slot = dsn, slot
        self.connection = psycopg2.connect(dsn)
        self.connection.autocommit = True
        # Decoding sees what is flushed, and the server of the tests flushes when it likes.
        self.run("SET synchronous_commit TO on")

    def run(self, *statements: str) -> list[tuple[Any, ...]]:
        """Run statements; several are one transaction."""
        with self.connection.cursor() as cursor:
            cursor.execute(";".join(statements) if len(statements) == 1 else f"BEGIN; {'; '.join(statements)}; COMMIT")
            return cursor.fetchall() if cursor.description else []

    def make(self, columns: str) -> None:
        self.run(f"CREATE TABLE t ({columns})")
        self.run("CREATE PUBLICATION p FOR TABLE t")
        self.make_slot()

    def make_slot(self) -> None:
        self.run(f"SELECT pg_create_logical_replication_slot('{self.slot}', 'pgoutput')")

    def drop_slot(self) -> None:
        self.run(f"SELECT pg_drop_replication_slot('{self.slot}')")

    def arguments(self, **more: Any) -> dict[str, Any]:
        return {"dsn": self.dsn, "table": "public.t", "slot": self.slot, "publication": "p", **more}

    def rows(self) -> list[dict[str, Any]]:
        return [
            dict(zip(("id", "name", "score"), row, strict=True)) for row in self.run("SELECT id, name, score FROM t")
        ]


@pytest.fixture
def server(postgres: Postgres) -> Iterator[Server]:
    """Give a database of its own, with the table `id, name, score`."""
    import psycopg2  # noqa: PLC0415

    name = f"source{next(_numbers)}"
    host = f"host={postgres.folder} user=postgres"
    owner = psycopg2.connect(f"{host} dbname=postgres")
    owner.autocommit = True
    with owner.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {name}")
    made = Server(f"{host} dbname={name}", f"{name}_slot")
    yield made
    for (slot,) in made.run("SELECT slot_name FROM pg_replication_slots WHERE database = current_database()"):
        made.run(f"SELECT pg_drop_replication_slot('{slot}')")
    made.connection.close()
    with owner.cursor() as cursor:
        cursor.execute(f"DROP DATABASE {name}")
    owner.close()


@pytest.fixture
def people(server: Server) -> Server:
    server.make("id bigint PRIMARY KEY, name text, score double precision")
    return server


@pytest.fixture
def table(catalog: dk.Catalog) -> dk.Table:
    return make(catalog, schema=PEOPLE)


def run(server: Server, table: dk.Table, *, key: str = "id", sink_id: str = "s", **options: Any) -> list[BatchProgress]:
    source = postgres_source(**server.arguments(**options))
    with dk.stream.sink(table.refresh(), sink_id, equality_fields=key) as sink:
        return list(sink.run_source(source))


def refused(kind: str, run: Callable[[], Any], table: dk.Table) -> dk.InvalidInputError:
    with unchanged(table), pytest.raises(dk.InvalidInputError) as caught:
        run()
    assert caught.value.kind == kind
    return caught.value


@pytest.mark.parametrize("identity", ["DEFAULT", "FULL"])
def test_changes_of_all_kinds(people: Server, table: dk.Table, identity: str) -> None:
    people.run(f"ALTER TABLE t REPLICA IDENTITY {identity}")
    people.run("INSERT INTO t SELECT n, 'n' || n, n / 4.0 FROM generate_series(1, 20) n")
    people.run("UPDATE t SET name = NULL WHERE id < 5", "DELETE FROM t WHERE id IN (2, 6)")
    [done] = run(people, table)
    assert (done.status, done.batch_id) == ("committed", 0)
    assert done.behind is not None  # in bytes: the server may write of its own accord
    assert live(table.refresh()) == expected(people.rows())
    people.run("UPDATE t SET id = id + 100 WHERE id < 9")  # the key changes
    people.run(
        "UPDATE t SET id = 1 WHERE id = 101", "UPDATE t SET id = 101 WHERE id = 103", "DELETE FROM t WHERE id = 1"
    )
    people.run("INSERT INTO t VALUES (1, 'again', 'NaN')", "UPDATE t SET score = '-Infinity' WHERE id = 1")
    [done] = run(people, table)
    assert live(table.refresh()) == expected(people.rows())
    with unchanged(table):
        assert run(people, table) == []


def test_a_batch_is_whole_transactions(people: Server, table: dk.Table) -> None:
    for number in range(5):
        people.run(f"INSERT INTO t SELECT n, 'x', 0 FROM generate_series({10 * number}, {10 * number + 3}) n")
    assert [p.rows for p in run(people, table, batch_changes=10)] == [8, 8, 4]
    assert live(table.refresh()) == expected(people.rows())


def test_all_types(server: Server, catalog: dk.Catalog) -> None:
    kinds = {
        "id": ("int PRIMARY KEY", pa.int32(), "7", 7),
        "flag": ("boolean", pa.bool_(), "true", True),
        "short": ("smallint", pa.int32(), "-3", -3),
        "single": ("real", pa.float32(), "0.25", 0.25),
        "amount": ("numeric(9, 2)", pa.decimal128(9, 2), "-12.50", Decimal("-12.50")),
        "day": ("date", pa.date32(), "'2024-02-29'", date(2024, 2, 29)),
        "at": (
            "timestamp",
            pa.timestamp("us"),
            "'1999-12-31 23:59:59.123456'",
            datetime(1999, 12, 31, 23, 59, 59, 123456),  # noqa: DTZ001
        ),
        "zoned": ("timestamptz", pa.timestamp("us", "UTC"), "'2024-01-01 02:00+02'", datetime(2024, 1, 1, tzinfo=UTC)),
        "code": ("uuid", pa.uuid(), f"'{UUID(int=5)}'", UUID(int=5)),
        "raw": ("bytea", pa.binary(), r"'\x00ff'", b"\x00\xff"),
        "note": ("varchar(20)", pa.string(), "'ü\n''\\'", "ü\n'\\"),
        "doc": ("jsonb", pa.string(), """'{"a": 1}'""", '{"a": 1}'),
    }
    server.make(", ".join(f"{name} {kind}" for name, (kind, *_) in kinds.items()))
    schema = pa.schema([pa.field(n, kind, nullable=n != "id") for n, (_, kind, *_) in kinds.items()])
    table = make(catalog, schema=schema)
    server.run("SET TimeZone TO 'Asia/Tokyo'; SET DateStyle TO 'German'")
    server.run(f"INSERT INTO t VALUES ({', '.join(text for _, _, text, _ in kinds.values())})")
    server.run("INSERT INTO t (id) VALUES (8)")
    run(server, table)
    rows = dk.scan(table.refresh()).to_arrow().to_pylist()
    assert {name: (UUID(bytes=v) if isinstance(v, bytes) and name == "code" else v) for name, v in rows[0].items()} == {
        name: value for name, (*_, value) in kinds.items()
    }
    assert rows[1] == {**dict.fromkeys(kinds), "id": 8}
    server.run("INSERT INTO t (id, day) VALUES (9, 'infinity')")
    error = refused("source-value", lambda: run(server, table), table)
    assert error.field == "day"


def test_a_large_value_that_did_not_change(people: Server, table: dk.Table) -> None:
    people.run("ALTER TABLE t ALTER name SET STORAGE EXTERNAL")
    people.run("ALTER TABLE t REPLICA IDENTITY FULL")
    people.run("INSERT INTO t VALUES (1, repeat('long', 2000), 1)", "UPDATE t SET score = 2")
    people.run("UPDATE t SET id = 5")
    run(people, table)
    assert live(table.refresh()) == expected(people.rows())
    people.run("ALTER TABLE t REPLICA IDENTITY DEFAULT")
    people.run("UPDATE t SET score = 3")
    error = refused("toast", lambda: run(people, table), table)
    assert error.field == "name"
    assert error.expected == "ALTER TABLE public.t REPLICA IDENTITY FULL"


def test_changes_that_do_not_fit_are_dead_letters_and_the_others_are_applied(
    people: Server, catalog: dk.Catalog, table: dk.Table
) -> None:
    people.run("ALTER TABLE t ALTER name SET STORAGE EXTERNAL", "ALTER TABLE t ADD COLUMN at timestamp")
    dk.add_column(table, "at", "timestamp")
    people.run("INSERT INTO t VALUES (1, repeat('long', 2000), 1, '2026-01-02')", "INSERT INTO t VALUES (2, 'b', 2)")
    people.run("INSERT INTO t VALUES (3, 'c', 3)", "INSERT INTO t VALUES (4, 'd', 4, 'infinity')")
    people.run("UPDATE t SET score = 9 WHERE id = 1", "UPDATE t SET score = 8 WHERE id = 2")
    refused("source-value", lambda: run(people, table), table)
    letters = dk.stream.create_dead_letters(catalog, "test.letters")
    for _ in range(2):
        source = postgres_source(**people.arguments())
        with dk.stream.sink(table.refresh(), "s", equality_fields="id", dead_letters=letters) as sink:
            list(sink.run_source(source))
    found = {row["id"]: (row["score"], row["at"]) for row in live(table.refresh())}
    assert found == {1: (1.0, datetime(2026, 1, 2)), 2: (8.0, None), 3: (3.0, None)}  # noqa: DTZ001  # no zone
    kept = sorted(live(letters.refresh()), key=lambda row: row["kind"])
    assert [(row["kind"], row["source"]) for row in kept] == [("source-value", "public.t"), ("toast", "public.t")]
    assert json.loads(kept[0]["row"]) == {"new": {"id": "4", "name": "d", "score": "4", "at": "infinity"}}
    assert json.loads(kept[1]["row"]) == {"new": {"id": "1", "score": "9", "at": "2026-01-02 00:00:00"}}
    assert [row["position"].rpartition(":")[2] for row in kept] == ["1", "0"], "the numbers in their transactions"
    assert all(row["position"] in row["error"].replace(", change ", ":") for row in kept)


def test_a_column_that_holds_nothing_of_the_server_is_refused(people: Server, catalog: dk.Catalog) -> None:
    table = make(catalog, schema=PEOPLE.append(pa.field("list", pa.list_(pa.int32()))))
    people.run("ALTER TABLE t ADD COLUMN list int[]", "INSERT INTO t VALUES (2, 'b', 2, '{1}')")
    letters = dk.stream.create_dead_letters(catalog, "test.letters")
    source = postgres_source(**people.arguments())
    with dk.stream.sink(table.refresh(), "s", equality_fields="id", dead_letters=letters) as sink:
        refused("source-value", lambda: list(sink.run_source(source)), table)
    assert live(letters.refresh()) == []


def test_a_truncated_table(people: Server, table: dk.Table) -> None:
    people.run("INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 2)")
    run(people, table)
    people.run("INSERT INTO t VALUES (3, 'c', 1)", "TRUNCATE t", "INSERT INTO t VALUES (2, 'again', 1)")
    refused("message-truncate", lambda: run(people, table), table)
    run(people, table, truncate="apply")
    assert live(table.refresh()) == expected(people.rows())
    people.run("TRUNCATE t")
    run(people, table, truncate="apply")
    assert live(table.refresh()) == []


def test_a_key_outside_of_the_replica_identity(people: Server, table: dk.Table) -> None:
    people.run("INSERT INTO t VALUES (1, 'a', 1)")
    run(people, table, key="name")  # rows that are only inserted need no old key
    people.run("UPDATE t SET name = 'b'")
    error = refused("message-key", lambda: run(people, table, key="name"), table)
    assert error.field == "name"


def test_columns_come_and_go(people: Server, table: dk.Table) -> None:
    people.run("INSERT INTO t VALUES (1, 'a', 1)")
    people.run("ALTER TABLE t DROP COLUMN score")
    people.run("INSERT INTO t VALUES (2, 'b')")
    assert [p.rows for p in run(people, table)] == [1, 1]
    people.run("ALTER TABLE t ADD COLUMN extra int")
    people.run("INSERT INTO t VALUES (3, 'c', 5)")
    with unchanged(table), pytest.raises(dk.DeletekitError, match="extra"):
        run(people, table)
    dk.add_column(table.refresh(), "extra", "int")
    run(people, table)
    assert sorted((r["id"], r["score"], r["extra"]) for r in live(table.refresh())) == [
        (1, 1.0, None),
        (2, None, None),
        (3, None, 5),
    ]


def test_other_tables_and_the_log_that_they_fill(people: Server, table: dk.Table) -> None:
    people.run("CREATE TABLE other (id int PRIMARY KEY)")
    people.run("ALTER PUBLICATION p ADD TABLE other")
    people.run("INSERT INTO other SELECT generate_series(1, 50)", "INSERT INTO t VALUES (1, 'a', 1)")
    assert [p.rows for p in run(people, table)] == [1]
    people.run("INSERT INTO other VALUES (60)")
    with unchanged(table):
        assert run(people, table) == []
    # A batch without rows, so that what is full does not stand in the way, and the server can free its log.
    assert [p.status for p in run(people, table, batch_changes=1)] == ["empty"]
    for number in range(61, 70):
        people.run(f"INSERT INTO other VALUES ({number})")
    people.run("INSERT INTO t VALUES (2, 'b', 1)")
    assert sum(p.rows for p in run(people, table, batch_changes=6)) == 1
    people.run("INSERT INTO other VALUES (80)")
    assert [p.status for p in run(people, table, idle_bytes=1)] == ["empty"]


def test_a_slot_that_lags_behind_the_table(people: Server, table: dk.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    people.run("INSERT INTO t VALUES (1, 'a', 1)")
    with monkeypatch.context() as patched:
        patched.setattr(dk.stream.sources.Postgres, "committed", lambda *_: None)
        patched.setattr(dk.stream.sources.Postgres, "_advance", lambda *_: None)
        assert len(run(people, table)) == 1
        with unchanged(table):
            assert run(people, table) == []
        people.run("DELETE FROM t")
        assert [p.rows for p in run(people, table)] == [1]
    assert live(table.refresh()) == []
    people.run("INSERT INTO t VALUES (2, 'b', 1)")
    assert [p.rows for p in run(people, table, batch_changes=1)] == [1]


def test_a_slot_that_went_past_the_table(people: Server, table: dk.Table) -> None:
    people.run("INSERT INTO t VALUES (1, 'a', 1)")
    run(people, table)
    people.run("INSERT INTO t VALUES (2, 'b', 1)")
    people.run(f"SELECT pg_replication_slot_advance('{people.slot}', pg_current_wal_lsn())")
    refused("source-lost", lambda: run(people, table), table)
    people.drop_slot()
    with pytest.raises(dk.NotFoundError, match="slot"):
        run(people, table)
    people.make_slot()
    refused("source-lost", lambda: run(people, table), table)


def test_a_position_of_something_else(people: Server, table: dk.Table) -> None:
    people.run("INSERT INTO t VALUES (1, 'a', 1)")
    run(people, table)
    first = people.slot
    people.slot = f"{first}_2"
    people.make_slot()
    error = refused("source-changed", lambda: run(people, table), table)
    assert error.field == "slot"
    people.run("DROP PUBLICATION p")
    with pytest.raises(dk.NotFoundError, match="publication"):
        run(people, table)


def test_a_server_that_is_not_there(table: dk.Table, people: Server) -> None:
    people.dsn = "host=/nowhere"
    with pytest.raises(dk.StorageError, match="PostgreSQL"):
        run(people, table)
    with pytest.raises(dk.InvalidInputError, match="schema"):
        postgres_source(**people.arguments(table="t"))


@pytest.mark.slow
def test_processes_that_are_killed_and_others_that_go_on(people: Server, tmp_path: Path) -> None:
    random_ = random.Random(3)
    with new_catalog(tmp_path) as catalog:
        table = dk.create_table(catalog, NAME, PEOPLE)
        arguments = [people.arguments(batch_changes=n) for n in (15, 40)]
        killed = 0
        with dying() as one, dying() as two:
            for _ in range(10):
                for _ in range(20):
                    people.run(*random_statements(random_))
                for each, argument in zip((one, two), arguments, strict=True):
                    when = random_.choice(["before", "after"])
                    each.start(tmp_path, "postgres", argument, random_.randrange(20, 120), when)
                codes = [each.wait() for each in (one, two)]
                assert set(codes) <= {0, KILLED}
                killed += codes.count(KILLED)
            assert one.run(tmp_path, "postgres", arguments[0], 0, "before") == 0
        table.refresh()
        assert live(table) == expected(people.rows())
        assert killed > 5
        check_table(table, orphans=False)
        snapshots = sorted(table.metadata.snapshots.values(), key=lambda s: s.sequence_number)
        positions = [json.loads(s.summary[POSITION])["lsn"] for s in snapshots]
        assert len(set(positions)) == len(positions)


def random_statements(random_: random.Random) -> list[str]:
    statements = []
    for _ in range(random_.randrange(2, 6)):
        number, other = random_.randrange(40), random_.randrange(40)
        statements.append(
            random_.choice(
                [
                    f"INSERT INTO t VALUES ({number}, 'n{other}', {random_.random()}) ON CONFLICT (id) DO NOTHING",
                    f"UPDATE t SET score = {random_.random()} WHERE id = {number}",
                    f"UPDATE t SET id = {other} WHERE id = {number} AND {other} NOT IN (SELECT id FROM t)",
                    f"DELETE FROM t WHERE id = {number}",
                ]
            )
        )
    return statements
