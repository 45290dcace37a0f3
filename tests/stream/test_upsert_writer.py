"""Upserts through the data source, task by task without a Spark session, beside a dict; `test_writer.py` has Spark."""

from __future__ import annotations

import pickle
import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyiceberg import types as it

import deletekit as dk
from deletekit.deletes.write_context import WriteContext
from deletekit.spark.data_source.options import SourceOptions
from deletekit.spark.data_source.source import DefaultSource
from deletekit.stream import split_index, staged_keys
from deletekit.stream.staged_keys import KeyCollector, check_unique, joined_bounds, sorted_keys, stage
from deletekit.stream.upsert_plan import UpsertPlan
from deletekit.table.sink_files import FOLDER, RUN
from tests.commit.racing import QUICK, racing
from tests.interop.rows import same_rows
from tests.invariants import check_table
from tests.storage import stored_at
from tests.stream.replay import check, random_batches, replay
from tests.tables import VERSION_AND_MODE, Row, files_of, lose_answers, make, unchanged

pytest.importorskip("pyspark.sql.datasource", reason="this pyspark has no data sources in Python")
from pyspark.sql import types as st  # after the skip

NUMBERS = pa.schema([("id", pa.int64()), ("name", pa.string()), ("score", pa.float64())])
TEXTS = pa.schema([("id", pa.string()), ("name", pa.string()), ("score", pa.float64())])
_SPARK = {pa.int64(): st.LongType(), pa.string(): st.StringType(), pa.float64(): st.DoubleType()}
State = dict[tuple[Any, ...], Row]


@pytest.fixture(autouse=True)
def _opened(catalog: dk.Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SourceOptions, "open_table", lambda self: dk.load_table(catalog, self.path))


@pytest.fixture
def paths_taken(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count how commits were planned."""
    taken = Counter[str]()

    def counted(name: str, plan: Any) -> Any:
        def noted(self: Any, *arguments: Any, **more: Any) -> Any:
            taken[name] += 1
            return plan(self, *arguments, **more)

        return noted

    for name in ("by_position", "by_hash", "by_value", "by_value_again"):
        monkeypatch.setattr(UpsertPlan, name, counted(name, getattr(UpsertPlan, name)))
    return taken


class Job:
    """A write as Spark runs it: the writer and the messages are pickled from process to process."""

    def __init__(self, table: dk.Table, mode: str, schema: pa.Schema = NUMBERS, **options: str) -> None:
        named = {k.replace("_", "-"): v for k, v in options.items()}
        source = DefaultSource({"path": table.name, "delete-mode": mode, "key": "id", **named})
        columns = st.StructType([st.StructField(f.name, _SPARK[f.type]) for f in schema])
        self.schema, self.messages = schema, list[Any]()
        self.packed = pickle.dumps(source.writer(columns, overwrite=False))

    @property
    def writer(self) -> Any:
        return pickle.loads(self.packed)  # noqa: S301  # as Spark ships it

    def attempt(self, rows: Sequence[Row], batch: int = 3) -> Any:
        """Return the message of one attempt."""
        batches = pa.Table.from_pylist(list(rows), self.schema).to_batches(batch)
        return pickle.loads(pickle.dumps(self.writer.write(iter(batches))))  # noqa: S301

    def task(self, rows: Sequence[Row]) -> None:
        self.messages.append(self.attempt(rows))

    def commit(self) -> None:
        self.writer.commit(self.messages)


def row(key: Any, name: str, score: float = 0.0) -> Row:
    return {"id": key, "name": name, "score": float(score)}


def has(table: dk.Table, state: State) -> None:
    same_rows(dk.scan(table.refresh()).to_arrow().to_pylist(), state.values())
    assert dk.verify(table).ok


def staged(table: dk.Table) -> set[str]:
    return {path for path in files_of(table) if f"/{FOLDER}/" in path and path.endswith(RUN)}


# --- beside a dict ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(("version", "mode"), VERSION_AND_MODE)
def test_random_jobs_beside_a_dict(
    catalog: dk.Catalog, monkeypatch: pytest.MonkeyPatch, version: int, mode: str, seed: int
) -> None:
    """With attempts that die, twins, other writers between plan and commit, and ranges of a few keys."""
    monkeypatch.setattr(staged_keys, "_RANGE_ROWS", 4)
    monkeypatch.setattr(split_index, "_NEW_FILES", 2)
    chance = random.Random(f"{version} {mode} {seed}")
    schema = chance.choice([NUMBERS, TEXTS])
    name = {NUMBERS: lambda i: None if i == 0 else i, TEXTS: lambda i: None if i == 0 else f"k{i}"}[schema]
    parts = chance.choice([[], ["bucket(2, id)"], ["name"]])
    table = make(catalog, schema=schema, format_version=version, partition_by=parts)
    state: State = {}
    for number in range(6):
        keeps = {"key_index": "keep"} if mode != "equality-delete" and chance.random() < 0.6 else {}
        job = Job(table, mode, schema, **keeps)
        rows = [row(name(i), f"n{chance.randrange(2)}", number) for i in chance.sample(range(14), chance.randint(0, 8))]
        for at in range(0, len(rows), 3):
            job.task(rows[at : at + 3])
            if chance.random() < 0.3:
                job.attempt(rows[at : at + 3])  # a twin, or an attempt that dies after its last file
        if chance.random() < 0.6:
            interfere(table.refresh(), state, chance, name, version, number)
        job.commit()
        state |= {(r["id"],): r for r in rows}
        has(table, state)
        if chance.random() < 0.3:
            dk.compact(table, rewrite_all=True)
    check_table(table, orphans=False)
    dk.remove_orphan_files(table, older_than="2999-01-01", force=True)
    check_table(table)
    has(table, state)


def interfere(table: dk.Table, state: State, chance: random.Random, name: Any, version: int, number: int) -> None:
    """Let another writer commit."""
    what = chance.choice(["append", "delete", "upsert", "compact"])
    some = name(chance.randrange(14))
    if what == "append" and (some,) not in state:
        dk.append(table, [row(some, "other", number)])
        state[some,] = row(some, "other", number)
    elif what == "delete":
        dk.delete(table, f"score < {number - 2}")
        for key in [k for k, r in state.items() if r["score"] < number - 2]:
            del state[key]
    elif what == "upsert":
        mode = "copy-on-write" if version == 1 else "equality-delete"
        dk.upsert(table, [row(some, "other", number)], key="id", mode=mode)
        state[some,] = row(some, "other", number)
    elif what == "compact":
        dk.compact(table, rewrite_all=True)


def test_a_key_of_two_columns(catalog: dk.Catalog) -> None:
    table = make(catalog, [row(1, "a"), row(1, None), row(None, "a")], schema=NUMBERS, format_version=3)
    job = Job(table, "deletion-vector", key="id,name", key_index="keep")
    job.task([row(1, None, 5.0), row(2, "a", 5.0)])
    job.task([row(None, "a", 5.0)])
    job.commit()
    rows = [row(1, "a"), row(1, None, 5.0), row(None, "a", 5.0), row(2, "a", 5.0)]
    has(table, {(r["id"], r["name"]): r for r in rows})
    check_table(table)


# --- who looks --------------------------------------------------------------------------------------------------------


def test_tasks_find_rows_in_a_small_table_and_in_an_index(
    catalog: dk.Catalog, monkeypatch: pytest.MonkeyPatch, paths_taken: Counter[str]
) -> None:
    table = make(catalog, *([row(i, "old")] for i in range(12)), schema=NUMBERS, format_version=3)
    state: State = {(i,): row(i, "old") for i in range(12)}

    def upsert(key: int, found: str, **options: str) -> None:
        paths_taken.clear()
        job = Job(table, "deletion-vector", **options)
        job.task([row(key, "new")])
        job.commit()
        state[key,] = row(key, "new")
        has(table, state)
        assert paths_taken == {found: 1}

    upsert(1, "by_hash")  # twelve files are too many for every task
    assert not any(FOLDER in path for path in files_of(table))
    upsert(2, "by_position", key_index="keep")
    assert len(staged(table)) == 1, "the index"

    upsert(3, "by_position")  # whose tasks read one data file, and the index for the others
    assert len(staged(table)) == 1
    dk.compact(table, rewrite_all=True)
    upsert(4, "by_position")
    for i in range(20, 40):
        dk.append(table, [row(i, "old")])
        state[i,] = row(i, "old")
    upsert(5, "by_hash")  # the index has too little
    upsert(6, "by_position", key_index="keep")
    upsert(7, "by_position")
    check_table(table)


def test_it_goes_on_with_the_index_of_a_sink(catalog: dk.Catalog, paths_taken: Counter[str]) -> None:
    table = make(catalog, schema=NUMBERS, format_version=3)
    batches = list(random_batches(3, batches=3, rows=20, keys=15))
    with dk.stream.sink(table, "s", equality_fields=["id"]) as sink:
        list(sink.run(batches[:2]))
    state = replay(batches[:2])
    job = Job(table, "deletion-vector")
    assert job.writer._look_up.runs
    assert not any(task.data_file.lower_bounds for task in job.writer._look_up.tasks)
    job.task([row(k, "new") for (k,) in list(state)[:3]])
    job.commit()
    state |= {k: row(k[0], "new") for k in list(state)[:3]}
    assert paths_taken == {"by_position": 1}
    check(table, state)
    with dk.stream.sink(table, "s", equality_fields=["id"]) as sink:
        sink.write(batches[2], 2)
    check(table, replay(batches[2:], start=state))


def test_a_branch(catalog: dk.Catalog, paths_taken: Counter[str]) -> None:
    table = make(catalog, [row(1, "old")], schema=NUMBERS, format_version=3)
    dk.create_branch(table, "side")
    dk.append(table, [row(2, "main")])
    job = Job(table, "deletion-vector", branch="side")
    dk.append(table, [row(3, "side")], ref="side")
    job.task([row(1, "new")])
    job.commit()
    assert paths_taken == {"by_position": 1}
    same_rows(dk.scan(table.refresh(), ref="side").to_arrow().to_pylist(), [row(1, "new"), row(3, "side")])
    has(table, {(1,): row(1, "old"), (2,): row(2, "main")})


def test_a_head_that_moved(catalog: dk.Catalog, paths_taken: Counter[str]) -> None:
    """A commit beside the job's rows is no reason to look again; one about its keys or data files is."""
    table = make(catalog, [row(i, "old") for i in range(5)], [row(50, "old")], schema=NUMBERS, format_version=3)

    def job() -> Job:
        paths_taken.clear()
        made = Job(table, "deletion-vector")
        made.task([row(1, "new"), row(9, "new")])
        return made

    first = job()
    dk.append(table, [row(100, "far")])
    first.commit()
    assert paths_taken == {"by_position": 1}
    second = job()
    dk.append(table, [row(5, "near")])
    second.commit()
    assert paths_taken == {"by_position": 1, "by_hash": 1}
    third = job()
    dk.delete(table, "id = 9", mode="deletion-vector")
    third.commit()
    assert paths_taken == {"by_position": 1, "by_hash": 1}
    fourth = job()
    for _ in range(2):
        dk.compact(table, rewrite_all=True)
    dk.expire_snapshots(table, older_than="2999-01-01", retain_last=1)
    fourth.commit()
    assert paths_taken["by_hash"] == 1
    rows = [*(row(i, "old") for i in (0, 2, 3, 4, 50)), row(1, "new"), row(9, "new"), row(5, "near"), row(100, "far")]
    has(table, {(r["id"],): r for r in rows})
    check_table(table)


def test_a_rollback_and_a_lost_race(
    catalog: dk.Catalog, monkeypatch: pytest.MonkeyPatch, paths_taken: Counter[str]
) -> None:
    """A row that was hidden when the tasks looked is live again; and keys land just before the swap."""
    table = make(catalog, [row(i, "old") for i in range(3)], schema=NUMBERS, format_version=3, properties=QUICK)
    before = table.refresh().metadata.snapshot_of_ref("main").snapshot_id
    dk.delete(table, "id = 1", mode="deletion-vector")
    job = Job(table, "deletion-vector")
    job.task([row(1, "new"), row(7, "new")])
    dk.rollback(table, before)
    job.commit()
    assert paths_taken == {"by_position": 1, "by_hash": 1}
    state = {(i,): row(i, "new" if i in (1, 7) else "old") for i in (0, 1, 2, 7)}
    has(table, state)
    others = [lambda other: dk.append(other, [row(90, "far")]), lambda other: dk.append(other, [row(6, "near")])]
    second = Job(table, "deletion-vector")
    second.task([row(2, "new"), row(6, "new")])
    store = racing(catalog, table, *others)
    monkeypatch.setattr(SourceOptions, "open_table", lambda _: store)
    second.commit()
    assert paths_taken == {"by_position": 2, "by_hash": 2}
    has(table, state | {(k,): row(k, "new") for k in (2, 6)} | {(90,): row(90, "far")})


@pytest.mark.parametrize("parts", [[], ["name"]])
def test_equality_deletes_are_written_by_tasks_where_that_can_be(
    catalog: dk.Catalog, paths_taken: Counter[str], parts: list[str]
) -> None:
    table = make(catalog, [row(1, "old"), row(2, "old")], schema=NUMBERS, format_version=2, partition_by=parts)
    for number, way in enumerate(["by_value_again" if parts else "by_value", "by_value"]):
        paths_taken.clear()
        job = Job(table, "equality-delete")
        job.task([row(1, "new", number)])
        job.task([row(3, "new", number)])
        job.commit()
        assert paths_taken[way] == 1
        assert paths_taken["by_value_again"] == (way == "by_value_again")
        has(table, {(k,): r for k, r in enumerate([row(1, "new", number), row(2, "old"), row(3, "new", number)])})
    check_table(table)


def test_a_partition_field_that_is_added_meanwhile(catalog: dk.Catalog) -> None:
    """The keys do not determine the partition any more, and no spec has no fields."""
    table = make(catalog, [row(1, "old"), row(2, "old")], schema=NUMBERS, partition_by=["bucket(2, id)"])
    job = Job(table, "equality-delete")
    job.task([row(1, "new")])
    dk.add_partition_field(table, "name")
    dk.append(table, [row(3, "old")])
    job.commit()
    has(table, {(1,): row(1, "new"), (2,): row(2, "old"), (3,): row(3, "old")})


# --- refusals and failures --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["deletion-vector", "equality-delete", "copy-on-write"])
@pytest.mark.parametrize("tasks", [[[1, 2, 1]], [[1, 2], [3, 2]], [[None], [None]]])
def test_a_key_that_came_twice(catalog: dk.Catalog, mode: str, tasks: list[list[Any]]) -> None:
    table = make(catalog, [row(1, "old")], schema=NUMBERS, format_version=3, partition_by=["name"])
    with unchanged(table):
        job = Job(table, mode)
        for keys in tasks:
            job.task([row(key, "new") for key in keys])
        count = sum(map(len, tasks))
        with pytest.raises(dk.InvalidInputError, match=f"two rows have the same key.*{count} rows of {count - 1} keys"):
            job.commit()
        job.writer.abort(job.messages)


def test_a_job_that_fails_leaves_no_file(catalog: dk.Catalog) -> None:
    table = make(catalog, *([row(i, "old")] for i in range(9)), schema=NUMBERS, format_version=3)
    with unchanged(table):
        job = Job(table, "deletion-vector", key_index="keep")
        job.task([row(1, "new")])
        assert len(staged(table)) == 2, "the index, and the keys of the task"
        job.writer.abort([*job.messages, None])
    with unchanged(table):
        Job(table, "deletion-vector", key_index="keep").commit()


def test_an_unknown_commit_keeps_its_files(catalog: dk.Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make(catalog, *([row(i, "old")] for i in range(9)), schema=NUMBERS, format_version=3)
    job = Job(table, "deletion-vector", key_index="keep")
    job.task([row(1, "new")])
    lose_answers(catalog, monkeypatch)
    with pytest.raises(dk.CommitStateUnknownError):
        job.commit()
    has(table, {(i,): row(i, "new" if i == 1 else "old") for i in range(9)})
    check_table(table)


@pytest.mark.parametrize("when", ["before the plan", "before the task"])
def test_a_damaged_index_is_told_and_never_believed(
    catalog: dk.Catalog, paths_taken: Counter[str], when: str, caplog: pytest.LogCaptureFixture
) -> None:
    table = make(catalog, *([row(i, "old")] for i in range(9)), schema=NUMBERS, format_version=3)
    first = Job(table, "deletion-vector", key_index="keep")
    first.task([row(1, "new")])
    first.commit()
    (index,) = staged(table)

    def damage() -> None:
        path = stored_at(index)
        path.write_bytes(path.read_bytes()[:-1] if when == "before the plan" else b"x" * path.stat().st_size)

    if when == "before the plan":
        damage()
    second = Job(table, "deletion-vector")
    if when == "before the task":
        damage()
    second.task([row(2, "new")])
    second.commit()
    assert paths_taken["by_hash"] == 1
    assert "damaged" in caplog.text or "made again" in caplog.text
    third = Job(table, "deletion-vector", key_index="keep")
    third.task([row(3, "new")])
    third.commit()
    state = {(i,): row(i, "new" if i in (1, 2, 3) else "old") for i in range(9)}
    same_rows(dk.scan(table.refresh()).to_arrow().to_pylist(), state.values())


def test_a_key_that_another_writer_changed(catalog: dk.Catalog) -> None:
    ints = pa.schema([("id", pa.int32()), ("name", pa.string())])
    table = make(catalog, [{"id": 1, "name": "old"}], schema=ints, format_version=3)
    job = Job(table, "deletion-vector", pa.schema([("id", pa.int64()), ("name", pa.string())]))
    job.task([{"id": 1, "name": "new"}])
    dk.update_column(table, "id", type=it.LongType())
    with pytest.raises(dk.InvalidInputError, match="a key column was changed meanwhile"):
        job.commit()
    check_table(table.refresh())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"key-index": "x", "key": "id", "delete-mode": "deletion-vector"}, "bad option; field key-index"),
        ({"key-index": "keep", "key": "id", "delete-mode": "equality-delete"}, "equality deletes look no key up"),
        ({"key-index": "keep"}, "a key-index is for upserts"),
    ],
)
def test_refused_options(catalog: dk.Catalog, options: dict[str, str], message: str) -> None:
    table = make(catalog, schema=NUMBERS, format_version=3)
    columns = st.StructType([st.StructField("id", st.LongType())])
    with unchanged(table), pytest.raises(dk.InvalidInputError, match=message):
        DefaultSource({"path": table.name, **options}).writer(columns, overwrite=False)


# --- merging keys -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("schema", [NUMBERS, TEXTS])
@pytest.mark.parametrize("doubled", [0, 3])
def test_keys_of_many_tasks_are_merged_by_ranges(
    catalog: dk.Catalog, monkeypatch: pytest.MonkeyPatch, schema: pa.Schema, doubled: int
) -> None:
    monkeypatch.setattr(staged_keys, "_RANGE_ROWS", 50)
    table = make(catalog, schema=schema, format_version=3)
    fields = (table.schema.find_field("id"),)
    numbers = np.random.default_rng(7).permutation(3000).tolist()
    numbers += numbers[:doubled]
    keys: list[Any] = [n if schema is NUMBERS else f"{n}" for n in numbers]
    keys[5] = None
    files, every = [], []
    for start, stop in [(0, 1500), (1500, 1501), (1501, len(keys))]:
        collector = KeyCollector(fields, table.schema)
        rows = pa.Table.from_pylist([row(k, "x") for k in keys[start:stop]], schema)
        for _ in collector.of([rows.slice(0, 700), rows.slice(700)]):
            pass
        run = collector.run()
        every.append(run.low)
        files.append(stage(WriteContext(table.io, table.metadata), run, collector.bounds))
    assert joined_bounds(files).column(0).null_count
    if doubled:
        with pytest.raises(dk.InvalidInputError, match=f"{len(keys)} rows of 3000 keys"):
            check_unique(table.io, files, fields)
        return
    merged = sorted_keys(table.io, files, fields)
    assert merged.low.tolist() == np.sort(np.concatenate(every)).tolist()
    assert int(merged.is_null.sum()) == (1 if schema is NUMBERS else 0)
