"""The index follows the table whoever writes to it, and does not do without room."""

import random
from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import deletekit as dk
from tests.commit.racing import Interfering
from tests.stored import live_files, vectors
from tests.stream.replay import PEOPLE, Row, check, random_batches, replay
from tests.tables import make

KEYS = {
    "string": (pa.string(), lambda i: f"key-{i}"),
    "date": (pa.date32(), lambda i: date(2020, 1, 1 + i)),
    "decimal": (pa.decimal128(9, 2), lambda i: Decimal(i) / 4),
    "binary": (pa.binary(), lambda i: bytes([i, 0])),
    "int": (pa.int32(), lambda i: i - 4),
}


def put(**row: Any) -> Row:
    return {**row, "_change_type": "INSERT"}


def lineage(table: dk.Table) -> dict[Any, int]:
    rows = dk.scan(table, columns=["id", "_row_id"]).to_arrow().to_pylist()
    return {r["id"]: r["_row_id"] for r in rows}


@pytest.mark.parametrize("kind", KEYS)
@pytest.mark.parametrize("two", [False, True], ids=["alone", "with another"])
def test_keys_of_every_kind(catalog: dk.Catalog, kind: str, *, two: bool) -> None:
    of_type, value = KEYS[kind]
    schema = pa.schema([("id", of_type), ("part", pa.string()), ("n", pa.int64())])
    table = make(catalog, schema=schema, format_version=3)
    chance, batches = random.Random(5), []
    for _ in range(4):
        rows = [
            {
                "id": chance.choice([None, *map(value, range(8))]),
                "part": chance.choice(["a", None]),
                "n": chance.random(),
            }
            for _ in range(12)
        ]
        kinds = [chance.choice(["INSERT", "DELETE"]) for _ in rows]
        batches.append([{**r, "n": int(r["n"] * 99), "_change_type": k} for r, k in zip(rows, kinds, strict=True)])
    key = ["id", "part"] if two else ["id"]
    with dk.stream.sink(table, "s", on=key, mode="index-only") as sink:
        list(sink.run(batches))
    check(table, replay(batches, key))


@pytest.mark.sampled(2, tier=1)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("version", [2, 3])
def test_others_write_maintain_and_roll_back(catalog: dk.Catalog, seed: int, version: int) -> None:
    chance = random.Random(seed)
    table = make(catalog, [{"id": 200, "name": "x", "score": 0.0}], schema=PEOPLE, format_version=version)
    state = {(200,): {"id": 200, "name": "x", "score": 0.0}}
    batches = iter(random_batches(2 * seed, batches=40, rows=6, keys=10))
    number = 0
    with dk.stream.sink(table, "s", on=["id"], allow_rewind=True) as sink:
        for _ in range(20):
            act = chance.choice(["batch", "batch", "append", "delete", "keys", "compact", "convert", "rollback"])
            before = table.refresh().current_snapshot.snapshot_id, dict(state)
            if act == "batch":
                batch = next(batches)
                sink.write(batch, number)
                number, state = number + 1, replay([batch], start=state)
            elif act == "append":
                row = {"id": 300 + number, "name": "other", "score": 0.0}
                if (row["id"],) not in state:
                    dk.append(table, [row])
                    state[row["id"],] = row
            elif act == "delete":
                dk.delete(table, "id < 3", mode="merge-on-read")
                state = {k: r for k, r in state.items() if r["id"] is None or r["id"] >= 3}
            elif act == "keys":
                dk.delete_keys(table, [{"id": 4}, {"id": 300}])
                state = {k: r for k, r in state.items() if r["id"] not in (4, 300)}
            elif act == "compact":
                dk.compact(table, rewrite_all=True)
            elif act == "convert":
                dk.stream.convert(sink)
                assert [f for f in live_files(table.refresh(), 1) if f["content"] == 2] == []
            elif before[0] != table.refresh().current_snapshot.parent_snapshot_id:
                batch = next(batches)
                sink.write(batch, number)
                number += 1
                dk.rollback(table, before[0])
        batch = [put(id=key, name="last", score=1.0) for key in range(10)]
        sink.write(batch, number)
        check(table, replay([batch], start=state))


def test_deletes_that_are_rolled_back_are_forgotten(catalog: dk.Catalog) -> None:
    start = [{"id": i, "name": "x", "score": 0.0} for i in range(6)]
    table = make(catalog, start, schema=PEOPLE, format_version=3)
    kept = table.current_snapshot.snapshot_id
    with dk.stream.sink(table, "s", on=["id"], allow_rewind=True) as sink:
        for number, key in enumerate((1, 2, 3)):  # the index has seen the first two
            sink.write([{"id": key, "_change_type": "DELETE"}], number)
        dk.rollback(table, kept)
        changes = [put(id=1, name="y", score=1.0)]
        assert sink.write(changes, 3).hits == 1
    check(table, replay([changes], start={(r["id"],): r for r in start}))


def test_foreign_commits_are_read_once_and_nothing_else(catalog: dk.Catalog) -> None:
    rows = [[{"id": 10 * f + i, "name": "x", "score": 0.0} for i in range(5)] for f in range(6)]
    table = make(catalog, *rows, schema=PEOPLE, format_version=3)
    with dk.stream.sink(table, "s", on=["id"]) as sink:
        assert sink.write([put(id=0, name="y", score=1.0)], 0).read_files == 6
        assert sink.write([put(id=1, name="y", score=1.0)], 1).read_files == 0
        dk.append(table, [{"id": 900, "name": "x", "score": 0.0}])
        dk.delete_keys(table, [{"id": 2}, {"id": 12}])
        dk.delete(table, "id = 20", mode="deletion-vector")
        progress = sink.write([put(id=k, name="z", score=2.0) for k in (2, 12, 20, 900)], 2)
        assert (progress.read_files, progress.hits, progress.misses) == (1, 1, 3)
        dk.compact(table, rewrite_all=True)
        assert sink.write([put(id=900, name="w", score=3.0)], 3).read_files == 1
        assert sink.index is not None
        assert sink.index.nbytes <= 25 * len(sink.index) + 64  # 16 bytes, and a row id
    assert len(dk.scan(table).to_arrow()) == 31


def test_updated_rows_keep_their_id(catalog: dk.Catalog) -> None:
    table = make(catalog, [{"id": i, "name": "x", "score": 0.0} for i in range(5)], schema=PEOPLE, format_version=3)
    before = lineage(table)
    with dk.stream.sink(table, "s", on=["id"]) as sink:
        sink.write([put(id=k, name="y", score=1.0) for k in (1, 7)], 0)
        born = lineage(table)[7]
        sink.write([put(id=k, name="z", score=2.0) for k in (7, 1, 3)], 1)
        sink.write([{"id": 3, "_change_type": "DELETE"}, put(id=3, name="new", score=3.0)], 2)
    after = lineage(table)
    assert {k: after[k] for k in (0, 1, 2, 4, 7)} == {**{k: before[k] for k in (0, 1, 2, 4)}, 7: born}
    assert after[3] not in before.values(), "a row that was deleted and inserted is another"
    assert len(set(after.values())) == len(after)


def test_one_vector_a_file_and_files_without_rows_go(catalog: dk.Catalog) -> None:
    rows = [{"id": i, "name": "x", "score": 0.0} for i in range(8)]
    table = make(catalog, rows[:4], rows[4:], schema=PEOPLE, format_version=3)
    with dk.stream.sink(table, "s", on=["id"]) as sink:
        for number, key in enumerate((0, 1, 2, 3, 4)):
            sink.write([put(id=key, name="y", score=1.0)], number)
            assert len(live_files(table, 1)) == len(vectors(table))
    assert sorted(map(len, vectors(table).values())) == [1]
    assert len(live_files(table, 0)) == 6


@pytest.mark.parametrize(("mode", "races"), [("auto", 2), ("auto", 5), ("index-only", 5), ("eq-only", 5)])
def test_others_are_always_a_little_faster(catalog: dk.Catalog, mode: Any, races: int) -> None:
    properties = {"commit.retry.num-retries": "10", "commit.retry.min-wait-ms": "1"}
    start = [{"id": i, "name": "x", "score": 0.0} for i in range(10)]
    table = make(catalog, start[:5], start[5:], schema=PEOPLE, format_version=3, properties=properties)
    batches = list(random_batches(0, batches=2, rows=10, keys=9))
    store = Interfering(catalog)
    with dk.stream.sink(dk.load_table(store, table.name), "s", on=["id"], mode=mode) as sink:
        sink.write(batches[0], 0)
        store.others += [lambda: dk.compact(dk.load_table(catalog, table.name), rewrite_all=True)] * (races - 1)
        # A key that was not there when it was looked for.
        inserted = next(r for r in batches[1] if r["id"] is not None)
        store.others.append(
            lambda: dk.append(dk.load_table(catalog, table.name), [{"id": inserted["id"], "name": "?"}])
        )
        progress = sink.write(batches[1], 1)
    assert progress.fell_back == (mode == "auto" and races > 3)
    check(table, replay(batches, start={(r["id"],): r for r in start}))


def test_a_column_changes_while_it_streams(catalog: dk.Catalog) -> None:
    schema = pa.schema([("id", pa.int32()), ("n", pa.int32())])
    table = make(catalog, [{"id": i, "n": i} for i in range(4)], schema=schema, format_version=3)
    with dk.stream.sink(table, "s", on=["id"]) as sink:
        sink.write([put(id=1, n=10)], 0)
        dk.update_column(table, "id", type="long")
        dk.add_column(table, "more", "string")
        sink.write([put(id=1, n=11, more="x"), put(id=2**40, n=1, more="y")], 1)
        assert sink.write([put(id=2**40, n=2, more="z")], 2).hits == 1
    found = dk.scan(table, columns=["id", "n"]).to_arrow().sort_by("id").to_pydict()
    assert found == {"id": [0, 1, 2, 3, 2**40], "n": [0, 11, 2, 3, 2]}
