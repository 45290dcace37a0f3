"""The index in the table: a new process goes on with it, and whatever happens to its files, the rows are right."""

import json
import logging
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import deletekit as dk
from deletekit.commit.planned_change import read_base
from deletekit.stream.saved_index import SavedIndex, load_index
from deletekit.table.sinks.files import KEY_INDEX, sink_path
from deletekit.table.sinks.index_files import ROOT_MAGIC, _digest
from tests.commit.racing import Interfering
from tests.interop.rows import same_rows
from tests.invariants import check_table
from tests.storage import stored_at
from tests.stream.replay import PEOPLE, Row, State, check, put, random_batches, replay
from tests.tables import files_of, make

TEXTS = pa.schema([("id", pa.string()), ("name", pa.string()), ("score", pa.float64())])


def write(table: dk.Table, changes: list[Row], number: int, **options: Any) -> Any:
    """Write a batch as a process that knows nothing."""
    with dk.stream.sink(table, "s", on=["id"], **options) as sink:
        return sink.write(changes, number)


def index_of(table: dk.Table, ref: str = "main") -> SavedIndex:
    metadata = table.refresh().metadata
    found = load_index(table.io, metadata, metadata.snapshot_of_ref(ref), [metadata.schema.find_field("id")])
    assert found is not None
    return found


def rows_are(table: dk.Table, state: State) -> None:
    """Hold that a table has the rows of the dict, and that only its indexes may be damaged."""
    same_rows(dk.scan(table.refresh()).to_arrow().to_pylist(), state.values())
    assert {f.kind for f in dk.verify(table).findings} <= {"key-index"}


def index_files(table: dk.Table) -> list[Path]:
    return [stored_at(path) for path in index_of(table).paths]


@pytest.mark.parametrize(
    ("schema", "version"),
    [
        pytest.param(PEOPLE, 3, id="numbers-3"),
        pytest.param(TEXTS, 2, id="texts-2"),
        pytest.param(PEOPLE, 2, id="numbers-2", marks=pytest.mark.long),
        pytest.param(TEXTS, 3, id="texts-3", marks=pytest.mark.long),
    ],
)
def test_every_batch_is_of_another_process(catalog: dk.Catalog, version: int, schema: pa.Schema) -> None:
    table = make(catalog, schema=schema, format_version=version)
    chance, batches = random.Random(version), []
    made = list(random_batches(1, batches=14, rows=12, keys=25))
    if schema is TEXTS:
        made = [[{**r, "id": None if r["id"] is None else f"key-{r['id']}"} for r in batch] for batch in made]
    for number, batch in enumerate(made):
        batches.append(batch)
        act = chance.choice(["", "", "compact", "keys", "append"])
        if act == "compact":
            dk.compact(table, rewrite_all=True)
        elif act == "keys":
            dk.delete_keys(table, [{"id": batch[0]["id"]}])
            batches.insert(-1, [{"id": batch[0]["id"], "_change_type": "DELETE"}])
        elif act == "append":
            other = 1000 + number if schema is PEOPLE else f"other-{number}"
            dk.append(table, [{"id": other, "name": "o", "score": 1.0}])
            batches.insert(-1, [put(other, "o") | {"score": 1.0}])
        progress = write(table, batch, number)
        assert progress.read_files <= {"append": 1, "compact": 1}.get(act, 0) or number == 0
        check(table, replay(batches))
    check_table(table)


def test_a_restart_loads_what_it_looks_for_and_no_more(catalog: dk.Catalog) -> None:
    keys = pa.table({"id": np.arange(40_000), "name": ["x"] * 40_000, "score": np.zeros(40_000)})
    table = make(catalog, keys, schema=PEOPLE, format_version=3)
    assert write(table, [put(5)], 0).read_files == 1
    progress = write(table, [put(7), put(50_000)], 1)
    assert (progress.read_files, progress.hits, progress.misses) == (0, 1, 1)
    assert progress.index_rows == 40_003, "its own rows too"
    assert progress.index_bytes < 20_000
    saved = index_of(table)
    assert [run.rows for run in saved.root.runs] == [40_000, 3]
    assert sum(stored_at(path).stat().st_size for path in saved.paths) < 17 * 40_003


# --- what is not saved, and what is named -----------------------------------------------------------------------------


def test_the_mode_without_an_index_saves_nothing(catalog: dk.Catalog) -> None:
    table = make(catalog, schema=PEOPLE, format_version=3)
    write(table, [put(1)], 0, mode="eq-only")
    assert not [path for path in files_of(table) if "_deletekit" in path]


def test_batches_without_new_rows_name_the_index_too(catalog: dk.Catalog) -> None:
    table = make(catalog, [{"id": i, "name": "x", "score": 0.0} for i in range(6)], schema=PEOPLE, format_version=3)
    write(table, [put(1)], 0)
    write(table, [{"id": 2, "_change_type": "DELETE"}], 1)
    write(table, [], 2)
    named = {s.summary.get(KEY_INDEX) for s in table.refresh().metadata.snapshots.values()}
    assert len(named - {None}) == 1
    dk.append(table, [{"id": 9, "name": "x", "score": 0.0}])
    dk.expire_snapshots(table, older_than=2**50)
    assert write(table, [put(9)], 3).read_files == 1
    check(table, replay([[put(k) for k in (0, 1, 3, 4, 5, 9)]]))


def test_branches_and_other_keys_have_their_own(catalog: dk.Catalog) -> None:
    table = make(catalog, [{"id": i, "name": str(i), "score": 0.0} for i in range(6)], schema=PEOPLE, format_version=3)
    write(table, [put(1)], 0)
    dk.create_branch(table, "b")
    with dk.stream.sink(table, "b", on=["id"], ref="b") as sink:
        assert sink.write([put(1, "branch"), put(8)], 0).read_files == 0
    with dk.stream.sink(table, "by-name", on=["name"]) as sink:
        sink.write([{"id": 70, "name": "3", "score": 0.0, "_change_type": "INSERT"}], 0)
    progress = write(table, [put(1, "main"), put(8), put(70)], 1)
    assert (progress.read_files, progress.hits, progress.misses) == (1, 2, 1)
    assert index_of(table).name != index_of(table, "b").name
    check_table(table)


def test_a_lost_race_leaves_a_whole_index(catalog: dk.Catalog) -> None:
    table = make(catalog, [{"id": i, "name": "x", "score": 0.0} for i in range(6)], schema=PEOPLE, format_version=3)
    for number, other in enumerate((lambda t: dk.delete(t, "id = 5"), lambda t: dk.append(t, [{"id": 9}]))):
        store = Interfering(catalog)
        with dk.stream.sink(dk.load_table(store, table.name), "s", on=["id"]) as sink:
            store.others.append(lambda act=other: act(dk.load_table(catalog, table.name)))
            sink.write([put(1), put(20 + number)], 2 * number)
            assert index_of(table).files
            sink.write([put(2), put(20 + number)], 2 * number + 1)
        check_table(table.refresh())
        assert write(table, [put(20 + number)], 2 * number + 2).hits == 1 if number else True
    check(
        table, {(k,): {"id": k, "name": None if k == 9 else "x", "score": None if k == 9 else 0.0} for k in KEYS_LEFT}
    )


KEYS_LEFT = (0, 1, 2, 3, 4, 9, 20, 21)


# --- damage -----------------------------------------------------------------------------------------------------------


def flip(path: Path, chance: random.Random) -> None:
    data = bytearray(path.read_bytes())
    data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    path.write_bytes(data)


def cut(path: Path, chance: random.Random) -> None:
    path.write_bytes(path.read_bytes()[: chance.randrange(path.stat().st_size)])


def remove(path: Path, chance: random.Random) -> None:
    del chance
    path.unlink()


def overwrite(path: Path, chance: random.Random) -> None:
    path.write_bytes(chance.randbytes(path.stat().st_size))


@pytest.mark.parametrize("damage", [flip, cut, remove, overwrite])
def test_damage_is_found_and_the_rows_are_right(
    catalog: dk.Catalog, damage: Callable[[Path, random.Random], None], caplog: pytest.LogCaptureFixture
) -> None:
    table = make(catalog, schema=TEXTS, format_version=3)
    chance, state, rebuilt = random.Random(damage.__name__), dict[Any, Row](), 0
    for number, batch in enumerate(random_batches(2, batches=12 if damage is flip else 5, rows=30, keys=60)):
        changes = [{**row, "id": f"key-{row['id']}"} for row in batch]
        if number:
            damage(chance.choice(index_files(table)), chance)
            caplog.clear()
        with caplog.at_level(logging.WARNING, "deletekit"):
            progress = write(table, changes, number)
        state = replay([changes], start=state)
        rows_are(table, state)
        if number:
            assert ("key-index" in caplog.text) == (progress.read_files > 0)
            rebuilt += progress.read_files > 0
    assert rebuilt > number // 2
    assert write(table, [put("last")], number + 1).read_files == 0


def test_damage_while_a_sink_is_open(catalog: dk.Catalog) -> None:
    """Blocks that were not asked for until now are damaged; nothing of the first attempt stays."""
    keys = pa.table({"id": np.arange(5000), "name": ["x"] * 5000, "score": np.zeros(5000)})
    table = make(catalog, keys, schema=PEOPLE, format_version=3)
    write(table, [put(1)], 0)
    with dk.stream.sink(table, "s", on=["id"]) as sink:
        sink.write([put(2)], 1)
        for path in index_files(table):
            path.unlink()
        changes = [put(k, "y") for k in range(0, 5000, 7)]
        assert sink.write(changes, 2).hits == len(changes)
        assert write(table, [put(3)], 3).read_files == 0
    assert len(dk.scan(table).to_arrow()) == 5000
    assert len(dk.scan(table, where="name = 'y'").to_arrow()) == len(changes)


def test_the_index_of_another_table_is_not_used(catalog: dk.Catalog) -> None:
    """Its files lie under the names of this one's, as in a copied folder."""
    tables = [make(catalog, [{"id": i, "name": "x", "score": 0.0}], schema=PEOPLE, format_version=3) for i in (1, 2)]
    for table in tables:
        write(table, [put(3)], 0)
    mine, other = map(index_of, tables)
    for path in other.paths:
        shutil.copy(stored_at(path), stored_at(sink_path(mine.metadata, path.rpartition("/")[2])))
    shutil.copy(stored_at(other.paths[0]), stored_at(mine.paths[0]))
    assert write(tables[0], [put(1, "y"), put(2)], 1).hits == 1
    rows_are(tables[0], replay([[put(1, "y"), put(2), put(3)]]))


@pytest.mark.parametrize(
    "lie",
    [
        {"rows": 10**15},
        {"rows": -1},
        {"bits": 60},
        {"tail": 2**49},
        {"name": "../../../x.run"},
        {"wide": True},
        {"ids": True},
        {"name": 7},
    ],
    ids=str,
)
def test_a_root_that_lies(catalog: dk.Catalog, lie: Any) -> None:
    table = make(catalog, [{"id": 1, "name": "x", "score": 0.0}], schema=PEOPLE, format_version=3)
    write(table, [put(3)], 0)
    saved = index_of(table)
    values = json.loads(stored_at(saved.paths[0]).read_bytes()[len(ROOT_MAGIC) :])
    values["runs"][0] |= lie
    data = ROOT_MAGIC + json.dumps(values).encode()
    name = f"lie-{_digest(data)}.root"
    stored_at(sink_path(saved.metadata, name)).write_bytes(data)
    dk.append(table, [{"id": 4, "name": "x", "score": 0.0}], commit_properties={KEY_INDEX: name})
    assert write(table, [put(1, "y"), put(3, "y"), put(4, "y")], 1).hits == 3
    rows_are(table, replay([[put(k, "y") for k in (1, 3, 4)]]))


# --- maintenance ------------------------------------------------------------------------------------------------------


def of_sinks(table: dk.Table) -> set[str]:
    return {path for path in files_of(table) if "_deletekit" in path}


def test_expiry_and_orphans(catalog: dk.Catalog) -> None:
    table = make(catalog, [{"id": i, "name": "x", "score": 0.0} for i in range(6)], schema=PEOPLE, format_version=3)
    for number in range(5):
        write(table, [put(number, "y")], number)
    before, needed = of_sinks(table), set(index_of(table).paths)
    assert needed < before
    done = dk.expire_snapshots(table, older_than=2**50)
    assert set(done.deleted_key_index_files) == before - needed
    assert of_sinks(table) == needed
    check_table(table)
    orphan, other = (sink_path(table.metadata, name) for name in ("left.run", "note.txt"))
    for path in (orphan, other):
        table.io.write(path, b"left")
    assert dk.remove_orphan_files(table).orphan_files == (), "a running commit may need it"
    assert dk.remove_orphan_files(table, older_than=2**50, force=True).orphan_files == (orphan,)
    assert of_sinks(table) == needed | {other}
    assert write(table, [put(2)], 5).read_files == 0


@pytest.mark.parametrize("keeps_sink", [False, True])
def test_the_index_goes_on_if_snapshots_between_the_batch_and_the_head_expired(
    catalog: dk.Catalog, *, keeps_sink: bool
) -> None:
    """The sink's tag keeps the snapshot that names the root; only files that came later are read."""
    table = make(catalog, [{"id": i, "name": "x", "score": 0.0} for i in range(6)], schema=PEOPLE, format_version=3)
    sink = dk.stream.sink(table, "s", on="id")
    state: State = {}
    for number in range(4):
        changes = [put(number, "y"), put(10 + number)]
        progress = sink.write([] if number == 2 else changes, number)
        state = replay([] if number == 2 else [changes], start=state)
        assert progress.read_files == [1, 2, 0, 4][number], "the empty batch looks nothing up"
        known = of_sinks(table)
        for extra in (100, 200):
            dk.append(table, [{"id": extra + number, "name": "x", "score": 0.0}])
        dk.expire_snapshots(table, older_than=2**50, retain_last=1)
        assert len(table.refresh().metadata.snapshots) == 2
        assert of_sinks(table) <= known
        if not keeps_sink:
            sink = dk.stream.sink(table, "s", on="id")
    assert len(of_sinks(table)) < 8, "the runs are not written again for each batch"
    check_table(table)
    others = [put(i) for i in (4, 5, *range(100, 104), *range(200, 204))]
    start = replay([[put(i) for i in range(4)]])
    check(table, {**start, **state, **replay([others])})


def test_a_sink_whose_index_files_expired_saves_them_again(catalog: dk.Catalog) -> None:
    """Two processes of one sink take turns, and each has an index of its own. Then no snapshot names the first's."""
    table = make(catalog, schema=PEOPLE, format_version=3)
    twin_table = dk.load_table(catalog, table.name)
    with dk.stream.sink(table, "s", on="id") as one:
        one.write([put(n) for n in range(900)], 0)
        one.state.with_index(read_base(one.state.table), lambda _: None)  # it knows that the commit happened
        with dk.stream.sink(twin_table, "s", on="id") as twin:
            for number in range(1, 3):  # it merges its runs, and the other will not
                twin.write([put(n, "y") for n in range(300)], number)
        dk.expire_snapshots(table, older_than=2**50, retain_last=1)
        assert one.write([put(1, "z")], 3).hits == 1
    check_table(table)
    assert not dk.verify(table).findings
    done = write(table, [put(2, "z")], 4)
    assert (done.hits, done.read_files) == (1, 0)


def test_nothing_is_left_of_a_table_that_is_dropped(catalog: dk.Catalog) -> None:
    table = make(catalog, schema=PEOPLE, format_version=3)
    for number in range(3):
        write(table, [put(number)], number)
    dk.drop_table(catalog, table.name, purge=True)
    assert files_of(table) == set()


def test_erased_keys_are_in_no_index(catalog: dk.Catalog) -> None:
    table = make(catalog, schema=PEOPLE, format_version=3)
    with dk.stream.sink(table, "s", on=["id"]) as sink:
        for number in range(4):
            sink.write([put(number), put(10 + number)], number)
        done = dk.erase(table, "id = 11")
        assert (done.failed_sink_files, of_sinks(table)) == ({}, set())
        assert len(done.removed_sink_files) > 1
        sink.write([put(0, "y"), put(50)], 4)
    write(table, [put(1, "y")], 5)
    assert write(table, [put(2, "y")], 6).read_files == 0
    keys = sorted(dk.scan(table, columns=["id"]).to_arrow().column("id").to_pylist())
    assert keys == [0, 1, 2, 3, 10, 12, 13, 50]
