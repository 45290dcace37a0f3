"""One stream into many tables: each part once, a batch refused or split as a whole, and on request one transaction."""

import math
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import rest
from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.catalog.rest.response import _handle_non_200_response
from pyiceberg.exceptions import BadRequestError
from requests import HTTPError, Response

import deletekit as dk
from deletekit.stream.sources.left_out import with_marks
from deletekit.table.catalog import SqlStore
from deletekit.table.open_catalog import wrap_catalog
from deletekit.table.pyiceberg_store import PyIcebergStore
from tests.catalogs.proxies import rest_proxy
from tests.catalogs.stores import Store, leftovers
from tests.commit.racing import QUICK
from tests.rest_server import RestServer
from tests.stream.replay import PEOPLE, PUTS, Row, check
from tests.tables import refused, unchanged

NAMES = ("a", "b", "c")
KINDS = ["local", "postgres", "rest"]


@pytest.fixture
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    kind = getattr(request, "param", "local")
    properties: dict[str, str] = {}
    if kind == "postgres":
        uri = request.getfixturevalue("postgres_uri")
        properties = {"type": "sql", "uri": uri, "warehouse": str(tmp_path)}
    elif kind == "rest":
        properties = request.getfixturevalue("rest_catalog")
    made = Store(kind, tmp_path, properties)
    yield made
    made.close()


def people(store: Store, names: tuple[str, ...] = NAMES, **properties: str) -> dict[str, dk.Table]:
    made = {n: store.create(n, PEOPLE, format_version=3, properties=QUICK | properties) for n in names}
    return {store.full(n): table for n, table in made.items()}


def opened(store: Store, catalog: dk.Catalog | None = None, **options: Any) -> dk.stream.FanOut:
    options = {"on": "id", "tables": {n: store.full(n) for n in NAMES}} | options
    return dk.stream.fan_out(catalog or store.open(), options.pop("route", "_table"), "s", **options)


def put(table: str, number: int, name: str = "x") -> Row:
    return {"_table": table, "id": number, "name": name, "score": 0.5, "_change_type": "INSERT"}


def gone(table: str, number: int) -> Row:
    return {"_table": table, "id": number, "name": None, "score": None, "_change_type": "DELETE"}


def check_all(store: Store, batches: list[list[Row]]) -> None:
    """Hold that each table has what a dict has."""
    for name in NAMES:
        state: dict[int, Row] = {}
        for row in (row for batch in batches for row in batch if row["_table"] == name):
            state.pop(row["id"], None)
            if row["_change_type"] in PUTS:
                state[row["id"]] = {n: v for n, v in row.items() if not n.startswith("_")}
        check(store.load(name), state)


def random_stream(seed: int, batches: int = 6) -> list[list[Row]]:
    """Batches with rows of some tables, and one without a row."""
    draw = random.Random(seed)
    stream = [
        [
            put(table, draw.randrange(6), f"n{number}") if draw.random() < 0.7 else gone(table, draw.randrange(6))
            for table in draw.choices(NAMES[: draw.randrange(1, 4)], k=8)
        ]
        for number in range(batches)
    ]
    return [*stream[:2], [], *stream[2:]]


@pytest.mark.parametrize("store", KINDS, indirect=True)
@pytest.mark.parametrize("atomic", [False, True])
def test_every_table_is_a_dict(store: Store, atomic: bool) -> None:
    people(store)
    stream = random_stream(1)
    with opened(store, atomic=atomic) as fan:
        for number, batch in enumerate(stream):
            done = fan.write(batch, number)
            assert {p.status for p in done.values()} <= {"committed"}
            assert {*done} == {store.full(row["_table"]) for row in batch}
    with opened(store, atomic=atomic) as again:  # the stream starts anew
        for number, batch in enumerate(stream):
            assert {p.status for p in again.write(batch, number).values()} <= {"skipped"}
        again.write([put("c", 99)], len(stream))
    check_all(store, [*stream, [put("c", 99)]])


def test_ways_to_name_a_table(store: Store) -> None:
    people(store)
    rows = [put("a", 1), put("b", 1), put("a", 2)]
    full = [{**row, "_table": store.full(row["_table"])} for row in rows]
    with opened(store, tables=None) as fan:
        fan.write(full, 0)
        fan.write(pa.Table.from_pylist([{**full[0], "name": "arrow"}]), 1)
    plain = [{n: v for n, v in put("c", number).items() if n != "_table"} for number in range(2)]
    with opened(store, route=lambda rows: ["c" for _ in rows]) as fan:
        fan.write(plain, 2)
    with opened(store, route=lambda rows: pa.array(["c"] * len(rows))) as fan:
        fan.write(pa.Table.from_pylist([{**plain[0], "name": "arrow"}]), 3)
    check_all(store, [rows, [put("a", 1, "arrow"), put("c", 1), put("c", 0, "arrow")]])


def test_tables_of_other_columns(store: Store) -> None:
    """Each part leaves out the columns of other tables, and the column of the route is kept where a table has it."""
    store.create("a", pa.schema([("id", pa.int64()), ("x", pa.string())]))
    store.create("b", pa.schema([("id", pa.int64()), ("y", pa.int64()), ("_table", pa.string())]))
    rows = [
        {"_table": "a", "id": 1, "x": "x", "y": None, "_change_type": "INSERT"},
        {"_table": "b", "id": 1, "x": None, "y": 5, "_change_type": "INSERT"},
    ]
    with opened(store) as fan:
        fan.write(rows, 0)
        fan.write(pa.Table.from_pylist([{**row, "id": 2} for row in rows]), 1)
        with refused(store.load("a"), dk.InvalidInputError, "column-not-found", field="y"):
            fan.write([{**rows[0], "y": 1}], 2)
    check(store.load("a"), {n: {"id": n, "x": "x"} for n in (1, 2)})
    check(store.load("b"), {n: {"id": n, "y": 5, "_table": "b"} for n in (1, 2)})


def test_options_of_sinks_and_keys_of_tables(store: Store) -> None:
    people(store)
    keys = {store.full("a"): ["id"], store.full("b"): ["id", "name"]}
    with opened(store, on=keys, sequence_by="score", evolve="add", change_type="op") as fan:
        fan.write([{"_table": "a", "id": 1, "score": 2.0, "op": "c", "new": 1}], 0)
        assert fan.write([{"_table": "a", "id": 1, "score": 1.0, "op": "d"}], 1)[store.full("a")].late == 1
        fan.write([{"_table": "b", "id": 1, "name": n, "score": 1.0, "op": "u"} for n in "xy"], 2)
        with refused(store.load("c"), dk.InvalidInputError, "fan-out-key", found=store.full("c")):
            fan.write([{"_table": "c", "id": 1, "score": 1.0, "op": "u"}], 3)
    check(store.load("a"), {1: {"id": 1, "name": None, "score": 2.0, "new": 1}})
    check(store.load("b"), {n: {"id": 1, "name": n, "score": 1.0} for n in "xy"})


@pytest.mark.parametrize("atomic", [False, True])
def test_one_bad_part_and_nothing_is_written(store: Store, atomic: bool) -> None:
    tables = people(store, NAMES[:2])
    bad: list[tuple[list[Any], str]] = [
        ([put("a", 1), put("b", 2) | {"score": "high"}], "column-type"),
        ([put("a", 1), put("b", 2) | {"_change_type": "?"}], "change-type"),
        ([put("a", 1), put("c", 1)], "fan-out-table"),
        ([put("a", 1), put("d", 1)], "fan-out-route"),
        ([put("a", 1), put("b", 1) | {"_table": None}], "fan-out-route"),
        ([put("a", 1), {"id": 1, "_change_type": "DELETE"}], "fan-out-route"),
    ]
    with opened(store, atomic=atomic) as fan:
        for rows, kind in bad:
            with unchanged(tables[store.full("b")]), refused(tables[store.full("a")], dk.InvalidInputError, kind):
                fan.write(rows, 0)
        assert len(fan.write([put("a", 1), put("b", 1)], 0)) == 2
    with pytest.raises(dk.InvalidInputError, match="lack the column"):
        opened(store).write(pa.table({"id": [1]}), 1)
    with pytest.raises(dk.InvalidInputError, match="no such option"):
        opened(store, max_keys=3)
    with opened(store, route=lambda _: ["a"]) as fan, pytest.raises(dk.InvalidInputError, match="for each row"):
        fan.write([put("a", 1), put("b", 1)], 1)


def test_a_missing_table_is_made(store: Store) -> None:
    create = {"schema": PEOPLE, "format_version": 3, "properties": {"write.parquet.compression-codec": "zstd"}}
    with opened(store, create=create) as fan:
        fan.write([put("a", 1)], 5)
    with opened(store, create=lambda name: create | {"format_version": 2 if name.endswith("b") else 3}) as fan:
        fan.write([put("b", 1), put("a", 2)], 6)
    assert [store.load(n).format_version for n in "ab"] == [3, 2]
    check(store.load("a"), {n: {"id": n, "name": "x", "score": 0.5} for n in (1, 2)})
    for wrong in ({}, {"schema": PEOPLE, "nothing": 1}):
        with opened(store, create=wrong) as fan, refused(store.load("a"), dk.InvalidInputError, "fan-out-create"):
            fan.write([put("c", 1)], 7)


def test_a_table_whose_history_expired_before_its_first_batch(store: Store) -> None:
    """Its first batch has a high number, and nothing of the sink can be missing."""
    (table,) = people(store, ("a",)).values()
    for _ in range(3):
        dk.append(table, [{"id": 7, "name": "old", "score": 0.0}])
    dk.expire_snapshots(table, older_than=2**62, retain_last=1)
    with opened(store) as fan:
        assert fan.write([put("a", 7)], 40)[store.full("a")].status == "committed"
        assert fan.write([put("a", 7)], 40)[store.full("a")].status == "skipped"
        with refused(table, dk.InvalidInputError, "batch-changed"):
            fan.write([put("a", 8)], 40)
    check(table, {7: {"id": 7, "name": "x", "score": 0.5}})


def dying(catalog: dk.Catalog, monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    """Die in the commit of this number."""
    commit, commits = type(catalog).commit, []

    def counted(*arguments: Any) -> Any:
        commits.append(arguments)
        if len(commits) == at:
            raise KeyboardInterrupt
        return commit(*arguments)

    monkeypatch.setattr(type(catalog), "commit", counted)


def test_killed_between_two_tables(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The batch comes again: tables that have their part skip it, the others get theirs."""
    people(store)
    batches = [[put(n, 1) for n in NAMES], [gone(n, 1) for n in NAMES] + [put("b", 2)]]
    catalog = store.open()
    with opened(store, catalog) as fan:
        fan.write(batches[0], 0)
        dying(catalog, monkeypatch, at=2)
        with pytest.raises(KeyboardInterrupt):
            fan.write(batches[1], 1)
        monkeypatch.undo()
        with refused(store.load("b"), dk.InvalidInputError, "batch-gap", expected="batch 1"):
            fan.write([put("b", 3)], 2)
    with opened(store) as fan:
        done = fan.write(batches[1], 1)
        assert [done[store.full(n)].status for n in NAMES] == ["skipped", "committed", "committed"]
        with refused(store.load("b"), dk.InvalidInputError, "batch-gap", expected="batch 2"):
            fan.write([put("b", 3)], 3)
    with opened(store, atomic=True) as fan:
        assert {p.status for p in fan.write(batches[1], 1).values()} == {"skipped"}
    check_all(store, batches)


# --- one transaction --------------------------------------------------------------------------------------------------


def interfere(catalog: dk.Catalog, monkeypatch: pytest.MonkeyPatch, *others: Any) -> None:
    """Let others commit just before each of the first transactions."""
    waiting, own = list(others), type(catalog).commit_together

    def racing(self: Any, changes: Any) -> Any:
        if waiting:
            waiting.pop(0)()
        return own(self, changes)

    monkeypatch.setattr(type(catalog), "commit_together", racing)


@pytest.mark.parametrize("store", KINDS, indirect=True)
def test_a_lost_race_of_one_table_is_a_lost_race_of_all(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    people(store)
    batches = [[put("a", 1), put("b", 1)], [put("a", 1, "y"), gone("b", 1), put("b", 2)]]
    catalog = store.open()
    with opened(store, catalog, atomic=True) as fan:
        fan.write(batches[0], 0)
        before = store.load("a").metadata_location
        seen: list[str] = []

        def other() -> None:
            dk.append(store.load("b"), [{"id": 2, "name": "other", "score": 0.0}])

        def look() -> None:
            seen.append(store.load("a").metadata_location)

        interfere(catalog, monkeypatch, other, look)
        done = fan.write(batches[1], 1)
    assert seen == [before]
    assert {p.commit.attempts for p in done.values() if p.commit} == {2}
    check_all(store, batches)
    assert not leftovers(store.load("a"))


@pytest.mark.parametrize("store", KINDS, indirect=True)
def test_too_many_lost_races_leave_all_tables_as_they_were(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    people(store, **{"commit.retry.num-retries": "0"})
    catalog = store.open()
    other = [{"id": 2, "name": "other", "score": 0.0}]
    with opened(store, catalog, atomic=True) as fan:
        interfere(catalog, monkeypatch, lambda: dk.append(store.load("b"), other))
        with unchanged(store.load("a")), pytest.raises(dk.CommitConflictError):
            fan.write([put("a", 1), put("b", 1)], 0)
        check(store.load("b"), {2: other[0]})
        assert not leftovers(store.load("a"))
        assert not leftovers(store.load("b"))
        assert {p.status for p in fan.write([put("a", 1), put("b", 1)], 0).values()} == {"committed"}


def test_a_twin_that_was_faster(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """With all parts, or with one of them, as a sink that does not use transactions."""
    people(store)
    batches = [[put("a", 1), put("b", 1)], [gone("a", 1), put("b", 2)]]
    catalog = store.open()

    def whole() -> None:
        with opened(store, atomic=True) as twin:
            twin.write(batches[0], 0)

    def half() -> None:
        with dk.stream.sink(store.load("b"), "s", on="id", allow_gaps=True) as twin:
            twin.write([{n: v for n, v in put("b", 2).items() if n != "_table"}], 1)

    with opened(store, catalog, atomic=True) as fan:
        interfere(catalog, monkeypatch, whole)
        assert {p.status for p in fan.write(batches[0], 0).values()} == {"skipped"}
        monkeypatch.undo()
        interfere(catalog, monkeypatch, half)
        done = fan.write(batches[1], 1)
        assert [done[store.full(n)].status for n in "ab"] == ["committed", "skipped"]
    check_all(store, batches)
    assert not leftovers(store.load("a"))


class Deaf(SqlStore):
    """A catalog whose first answer is lost, with what happened before."""

    landed = True
    lost = 1

    def commit_together(self, changes: Any) -> Any:
        if self.lost and not self.landed:
            self.lost = 0
            raise dk.CommitStateUnknownError("no answer")
        states = super().commit_together(changes)
        if self.lost:
            self.lost = 0
            raise dk.CommitStateUnknownError("no answer")
        return states


@pytest.mark.parametrize("landed", [True, False])
def test_a_lost_answer(store: Store, landed: bool) -> None:
    people(store)
    deaf = Deaf(store.open().pyiceberg)  # type: ignore[arg-type]
    deaf.landed = landed
    batch = [put("a", 1), put("b", 1)]
    with opened(store, deaf, atomic=True) as fan:
        if landed:
            assert {p.status for p in fan.write(batch, 0).values()} == {"skipped"}
        else:
            before = store.load("a").metadata_location
            with pytest.raises(dk.CommitStateUnknownError):
                fan.write(batch, 0)
            assert store.load("a").metadata_location == before
            assert leftovers(store.load("a")), "the commit may still come, and needs its files"
            assert {p.status for p in fan.write(batch, 0).values()} == {"committed"}
    check_all(store, [batch])


@pytest.mark.sampled(3, tier=1)
@pytest.mark.parametrize("fault", ["request", "answer", "500", "page", "twice", "twice, then down"])
def test_a_lost_answer_of_a_rest_catalog(rest_server: RestServer, tmp_path: Path, fault: str) -> None:
    batch = [put("a", 1), put("b", 1)]

    def broken(forward: Any) -> Any:
        if fault == "request":
            return None
        forward()
        if fault.startswith("twice"):  # by a gateway: the answer is that to the second request
            answer = forward()
            assert answer[0] == 409
            proxy.down = math.inf if fault != "twice" else 0
            return answer
        return {"answer": None, "500": (500, b""), "page": (200, b"<html>Welcome!</html>")}[fault]

    with rest_proxy(rest_server.port) as proxy:
        store = Store("rest", tmp_path, proxy.properties)
        checks = {"commit.status-check.num-retries": "1", "commit.status-check.min-wait-ms": "20"}
        people(store, **checks)
        with opened(store, atomic=True) as fan:
            fan.write([put("a", 0), put("b", 0)], 0)
            proxy.faults = [broken]
            if fault in ("request", "twice, then down"):
                with pytest.raises(dk.CommitStateUnknownError):
                    fan.write(batch, 1)
                proxy.down = 0
                assert bool(leftovers(store.load("a"))) == (fault == "request")
                assert dk.verify(store.load("a")).ok
            again = "skipped" if fault == "twice, then down" else "committed"
            assert {p.status for p in fan.write(batch, 1).values()} == {again}
        check_all(store, [[put("a", 0), put("b", 0)], batch])
        store.close()


@pytest.mark.parametrize("store", ["rest"], indirect=True)
@pytest.mark.parametrize("first", ["a", "b"])
def test_a_rest_catalog_that_commits_a_part(store: Store, monkeypatch: pytest.MonkeyPatch, first: str) -> None:
    """It breaks its promise, and then refuses. No file of the part that landed may be removed."""
    people(store)

    def half(catalog: Any, changes: Any) -> None:
        for change in changes:
            if change[0][-1] == first:
                PyIcebergStore(catalog).commit(*change)
        refusal = BadRequestError("no")
        refusal.__cause__ = HTTPError(response=Response())
        refusal.__cause__.response.status_code = 400
        raise refusal

    with opened(store, atomic=True) as fan:
        fan.write([put("a", 0), put("b", 0)], 0)
        monkeypatch.setattr("deletekit.table.pyiceberg_store.send_rest_transaction", half)
        monkeypatch.setattr("deletekit.table.catalog_errors.BackOff.wait", lambda _: False)
        with pytest.raises(dk.CommitStateUnknownError):
            fan.write([put("a", 1), put("b", 1)], 1)
        monkeypatch.undo()
        assert dk.verify(store.load(first)).ok
        done = fan.write([put("a", 1), put("b", 1)], 1)
        assert {p.status for p in done.values()} == {"committed", "skipped"}
    check_all(store, [[put("a", 0), put("b", 0)], [put("a", 1), put("b", 1)]])


def test_a_truncation_does_not_say_of_which_table(store: Store) -> None:
    people(store)
    rows = pa.table({"_table": ["a"], "id": [1], "name": ["x"], "score": [0.5], "_change_type": ["INSERT"]})
    with opened(store) as fan:
        for batch in (rows, rows.slice(0, 0)):
            with refused(store.load("a"), dk.InvalidInputError, "fan-out-route"):
                fan.write(with_marks(batch, truncate=True), 0)


KILLED = """
import os, sys
import deletekit as dk
from deletekit.table.catalog import SqlStore
own, catalog, when = SqlStore._execute, dk.local_catalog(sys.argv[1]), sys.argv[3]
def dying(self, name, *statements):
    if len(statements) < 2:
        return own(self, name, *statements)
    if when == "in":
        with self.pyiceberg.engine.connect() as connection:
            connection.execute(statements[0])
            os._exit(9)
    own(self, name, *statements)
    os._exit(9)
SqlStore._execute = dying
row = {"name": "x", "score": 0.5, "_change_type": "INSERT"}
with dk.stream.fan_out(catalog, "_table", "s", on="id", atomic=True) as fan:
    fan.write([{"_table": f"{sys.argv[2]}.{n}", "id": 1, **row} for n in "ab"], 0)
"""


@pytest.mark.parametrize("when", ["in", "after"])
def test_a_process_that_is_killed_around_its_transaction(store: Store, when: str) -> None:
    people(store)
    command = [sys.executable, "-c", KILLED, str(store.folder), store.namespace, when]
    assert subprocess.run(command, check=False).returncode == 9
    batch = [put("a", 1), put("b", 1)]
    check_all(store, [batch] if when == "after" else [])
    with opened(store, atomic=True) as fan:
        expected = "skipped" if when == "after" else "committed"
        assert {p.status for p in fan.write(batch, 0).values()} == {expected}
    check_all(store, [batch])


def test_catalogs_without_transactions_are_refused(store: Store, rest_catalog: dict[str, str]) -> None:
    catalog = dk.load_catalog("r", **rest_catalog)
    catalog.pyiceberg._supported_endpoints = set()  # type: ignore[attr-defined]
    for other in (catalog, wrap_catalog(NoopCatalog("noop"))):
        with pytest.raises(dk.UnsupportedError, match="several tables in one transaction"):
            opened(store, other, atomic=True)
    catalog.pyiceberg.close()


def test_private_names_of_pyiceberg(rest_catalog: dict[str, str]) -> None:
    """`pyiceberg_store.py` uses them."""
    catalog = dk.load_catalog("r", **rest_catalog).pyiceberg
    assert isinstance(catalog, RestCatalog)
    assert callable(catalog._session.post)
    assert catalog._session.headers["Content-type"] == "application/json"
    assert catalog.url("transactions/commit").endswith("/v1/transactions/commit")
    assert any("/transactions/commit" in str(endpoint) for endpoint in catalog._supported_endpoints)
    assert callable(_handle_non_200_response)
    assert rest.HTTPError is HTTPError
    catalog.close()
