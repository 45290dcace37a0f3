"""Options of a sink for batches on Spark's executors, beside the same batches held in this process."""

import random
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import DecimalType, FloatType, IntegerType, NestedField, StringType, StructType, UUIDType

import deletekit as dk
from deletekit.stream import saved_index, split_rows
from deletekit.stream.batch_run import BatchRun
from tests.commit.racing import racing
from tests.interop.rows import same_rows
from tests.optional_types import DataFrame, SparkSession
from tests.stream.on_executors import nothing_is_collected
from tests.stream.replay import Row
from tests.tables import make, raises, refused, unchanged

Framed = Callable[..., "DataFrame"]


@pytest.fixture(scope="module")
def catalog(spark: SparkSession) -> Iterator[dk.Catalog]:
    """Give the catalog that Spark has as `local`."""
    catalog = dk.local_catalog(str(spark.conf.get("spark.sql.catalog.local.warehouse")))
    yield catalog
    catalog.pyiceberg.engine.dispose()  # type: ignore[attr-defined]


@pytest.fixture
def framed(spark: SparkSession) -> Framed:
    """Give what makes a DataFrame of changes, with its rows in no order, in three partitions."""

    def frame(batch: Sequence[Row], ddl: str) -> DataFrame:
        return spark.createDataFrame(batch[::-1], ddl).repartition(3)

    return frame


def rows_of(table: dk.Table) -> list[Row]:
    rows: list[Row] = dk.scan(table.refresh()).to_arrow().to_pylist()
    return rows


def left_files(table: dk.Table) -> list[Path]:
    return list(Path(table.location.removeprefix("file://")).rglob("*.rows"))


# --- dead letters -----------------------------------------------------------------------------------------------------

PEOPLE = Schema(
    NestedField(1, "id", IntegerType(), required=True),
    NestedField(2, "name", StringType(), required=True),
    NestedField(3, "token", UUIDType(), required=False),
    identifier_field_ids=[1],
)
DDL = "id long, name string, token string, _change_type string, _at long"
UUID_TEXT = "00000000-0000-0000-0000-00000000000a"
BAD: tuple[Row, ...] = (
    {"id": None},
    {"id": 2**40},
    {"name": None},
    {"token": "none"},
    {"_change_type": "MERGE"},
    {"_at": None},
)


def with_bad_rows(seed: int) -> tuple[list[Row], list[Row]]:
    """Return changes of a batch, and those that do not fit among them. Some are twice."""
    random_ = random.Random(seed)
    batch: list[Row] = []
    for at in range(24):
        row = {"id": random_.randrange(9), "name": f"n{at}", "token": random_.choice([UUID_TEXT, None])}
        batch.append({**row, "_change_type": random_.choice(["INSERT", "DELETE", "+U"]), "_at": at})
    puts = [row for row in batch if row["_change_type"] != "DELETE"]
    bad = [{**random_.choice(puts), **change} for change in random_.sample(BAD, 4)]
    return random_.sample([*batch, *bad, bad[0]], 29), [*bad, bad[0]]


def letters_of(table: dk.Table) -> list[tuple[Any, ...]]:
    names = ("sink_id", "batch_id", "source", "position", "kind", "row")
    return sorted(tuple(row[name] for name in names) for row in rows_of(table))


def test_dead_letters(catalog: dk.Catalog, framed: Framed, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each once, and the same ones as of rows that are held; also if the process ends before the batch."""
    split, held = make(catalog, schema=PEOPLE, format_version=3), make(catalog, schema=PEOPLE, format_version=3)
    kept = [dk.stream.create_dead_letters(catalog, f"test.letters_{name}") for name in ("split", "held")]
    options: dict[str, Any] = {"order": "_at"}
    with (
        dk.stream.sink(split, "s", dead_letters=kept[0], **options) as sink,
        dk.stream.sink(held, "s", dead_letters=kept[1], **options) as other,
    ):
        for number in range(2):
            batch, bad = with_bad_rows(number)
            if number:
                monkeypatch.setattr(BatchRun, "_build", fails_once(BatchRun._build))
                with pytest.raises(RuntimeError), nothing_is_collected():
                    sink.write(framed(batch, DDL), number, ordered=False)
            with nothing_is_collected():
                done = sink.write(framed(batch, DDL), number, ordered=False)
            assert (done.status, done.dead_letters, done.rows) == ("committed", len(bad), len(batch) - len(bad))
            assert other.write(as_held(batch), number, ordered=False).dead_letters == len(bad)
            same_rows(rows_of(split), rows_of(held))
            assert letters_of(kept[0]) == letters_of(kept[1])
            assert sink.write(as_held(batch), number, ordered=False).status == "skipped"
            with nothing_is_collected():
                assert other.write(framed(batch, DDL), number, ordered=False).status == "skipped"
    assert len(rows_of(kept[0])) == 10
    assert not left_files(split) + left_files(held)


def fails_once(build: Any) -> Any:
    failed: list[int] = []

    def fail(*arguments: Any) -> Any:
        if not failed:
            failed.append(1)
            raise RuntimeError("the process ends")
        return build(*arguments)

    return fail


def as_held(batch: Sequence[Row]) -> list[Row]:
    """Return changes as dicts, with uuids where they are some."""
    return [{**row, "token": UUID(UUID_TEXT) if row["token"] == UUID_TEXT else row["token"]} for row in batch]


def test_too_many_dead_letters_and_columns_that_never_fit(catalog: dk.Catalog, framed: Framed) -> None:
    table = make(catalog, schema=PEOPLE, format_version=3)
    letters = dk.stream.create_dead_letters(catalog, "test.letters_few")
    (batch, bad), fit = with_bad_rows(3), "column-type"
    with (
        dk.stream.sink(table, "s", order="_at", dead_letters=letters, max_dead_letters=len(bad) - 1) as sink,
        unchanged(table),
        unchanged(letters),
    ):
        for rows, ddl, kind in (
            (batch, DDL, "dead-letters"),
            ([{"id": i, "name": "x", "_change_type": "?", "_at": 1} for i in range(30)], DDL, "dead-letters"),
            ([{"id": None, "name": "x", "_change_type": "+I", "_at": 1}] * 30, DDL, "dead-letters"),
            ([{"id": 1, "name": 2, "_change_type": "+I", "_at": 1}], DDL.replace("name string", "name int"), fit),
            ([{"id": "1", "name": "x", "_change_type": "+I", "_at": 1}], DDL.replace("id long", "id string"), fit),
            ([{"id": 1, "_change_type": "+I", "_at": 1}], "id long, _change_type string, _at long", "column-not-found"),
            ([{"id": 1, "name": "x", "_at": 1}], "id long, name string, _at long", "change-type"),
        ):  # fmt: skip
            with pytest.raises(dk.InvalidInputError) as refused, nothing_is_collected():
                sink.write(framed(rows, ddl), 0)
            assert refused.value.kind == kind, refused.value
    assert not left_files(table)


# --- evolve -----------------------------------------------------------------------------------------------------------

GROWING = Schema(
    NestedField(1, "id", IntegerType(), required=True),
    NestedField(2, "n", FloatType(), required=False),
    NestedField(3, "cost", DecimalType(5, 2), required=False),
    NestedField(4, "who", StructType(NestedField(5, "a", IntegerType(), required=False)), required=False),
    identifier_field_ids=[1],
)
TYPES = "id long, n double, cost decimal(9, 2), who struct<a: long>"
GROWS: list[tuple[str, Row, str | None]] = [
    (TYPES, {"id": 10, "n": 0.25, "cost": Decimal("999.99"), "who": {"a": 7}}, None),
    (TYPES, {"n": 0.1}, "n"),
    (f"{TYPES}, city string, none void", {"city": "Oslo", "none": None}, "city"),
    (TYPES, {"cost": Decimal("12345.67")}, "cost"),
    ("id long, who struct<a: long, b: string, c: void>", {"who": {"a": 2**40, "b": "x", "c": None}}, "who"),
    (TYPES, {"id": 2**40}, "id"),
]


@pytest.mark.parametrize("evolve", ["add", "widen"])
def test_evolve(catalog: dk.Catalog, framed: Framed, evolve: Any) -> None:
    """The table gets the schema that it gets from rows that are held, and the same rows."""
    tables = [make(catalog, schema=GROWING, format_version=3) for _ in range(2)]
    split, held = (dk.stream.sink(t, "s", change_type=None, evolve=evolve) for t in tables)
    with split, held:
        number = 0
        for ddl, change, grown in GROWS:
            names = [part.split()[0] for part in re.split(r",\s*(?![^<(]*[>)])", ddl)]
            plain = [{"id": i, "n": 0.5, "cost": Decimal("1.25"), "who": {"a": i}} for i in range(9)]
            frame = framed([{n: r.get(n) for n in names} for r in (*plain, {"id": 9, **change})], ddl)
            rows, before = frame.toArrow(), tables[0].refresh().schema
            if evolve == "add" and grown in {"cost", "who", "id"}:
                with unchanged(tables[0]), pytest.raises(dk.InvalidInputError, match=r"fit|large") as refused:
                    split.write(frame, number)
                assert str(refused.value.field).startswith(str(grown))
                continue
            with nothing_is_collected():
                assert split.write(frame, number).status == "committed"
            held.write(rows, number)
            assert tables[0].refresh().schema == tables[1].refresh().schema
            assert (tables[0].schema != before) == (grown is not None and (evolve, grown) != ("add", "n")), ddl
            same_rows(rows_of(tables[0]), rows_of(tables[1]))
            with nothing_is_collected():
                assert held.write(frame, number).status == "skipped"
            number += 1
    assert number == (3 if evolve == "add" else len(GROWS))
    assert not left_files(tables[0])


def test_others_add_a_column_at_the_same_time(catalog: dk.Catalog, framed: Framed) -> None:
    """The digest, which tasks have made, would not be that of the same batch when it comes again."""
    made = make(catalog, schema=GROWING, format_version=3)
    table = racing(catalog, made, lambda other: dk.add_column(other, "theirs", "string"))
    frame = framed([{"id": 1, "city": "Oslo"}], "id long, city string")
    with dk.stream.sink(table, "s", change_type=None, evolve="add") as sink:
        with pytest.raises(dk.CommitConflictError, match="write it again"):
            sink.write(frame, 0)
        assert rows_of(table) == []
        assert sink.write(frame, 0).status == "committed"
        assert sink.write(frame, 0).status == "skipped"
    assert not left_files(table)


# --- fan_out ----------------------------------------------------------------------------------------------------------

WIDE = "to string, id long, name string, age int, _change_type string, _at long"


def fan_batches(seed: int, names: Sequence[str]) -> Iterator[list[Row]]:
    """Changes of tables that have different columns."""
    random_, at = random.Random(seed), 0
    for _ in range(3):
        batch = []
        for to in random_.choices(names, k=20):
            value = {"name": f"n{at}", "age": None} if to == names[0] else {"name": None, "age": at}
            kind = random_.choice(["INSERT", "+U", "DELETE"])
            batch.append({"to": to, "id": random_.randrange(6), **value, "_change_type": kind, "_at": at})
            at += 1
        yield batch


@pytest.mark.parametrize("atomic", [False, True])
def test_fan_out(catalog: dk.Catalog, framed: Framed, monkeypatch: pytest.MonkeyPatch, atomic: bool) -> None:
    """By a column, by a function, and by a transaction whose call fails after its answer."""
    columns = ({"id": pa.int64(), "name": pa.string()}, {"id": pa.int64(), "age": pa.int32()})
    tables = [make(catalog, schema=pa.schema(list(c.items())), format_version=3) for c in columns]
    names = [t.name for t in tables]
    by: Any = (lambda rows: [names[n is None] for n in rows.column("name").to_pylist()]) if atomic else "to"
    options: dict[str, Any] = {"order": "_at", "on": "id", "atomic": atomic}
    expected: dict[str, dict[int, Row]] = {name: {} for name in names}
    with dk.stream.fan_out(catalog, by, "fan", **options) as fan:
        for number, batch in enumerate(fan_batches(1, names)):
            for row in batch:
                expected[row["to"]].pop(row["id"], None)
                if row["_change_type"] != "DELETE":
                    expected[row["to"]][row["id"]] = row
            frame = framed(batch, WIDE).drop(*(["to"] if atomic else []))
            if number == 1:
                monkeypatch.setattr(type(catalog), "commit_together", fails_after(type(catalog).commit_together))
            with nothing_is_collected():
                done = fan.write(frame, number, ordered=False)
            assert {p.status for p in done.values()} == {"skipped" if atomic and number == 1 else "committed"}
            assert sum(p.rows for p in done.values()) == len(batch)
            for table, kept in zip(tables, columns, strict=True):
                wanted = [{n: row[n] for n in kept} for row in expected[table.name].values()]
                same_rows(rows_of(table), wanted)
            assert not any(left_files(t) for t in tables)
            assert not frame.is_cached
            assert {p.status for p in fan.write(frame.toArrow(), number, ordered=False).values()} == {"skipped"}
        if atomic:
            return
        with nothing_is_collected(), unchanged(tables[0]), unchanged(tables[1]):
            for change, kind in (
                ({"to": None}, "fan-out-route"),
                ({"to": "test.none"}, "fan-out-table"),
                ({"name": "x", "age": 1}, "column-not-found"),
            ):
                with raises(dk.InvalidInputError, kind):
                    fan.write(framed([{**batch[0], **change}, *batch[1:]], WIDE), 3, ordered=False)
    assert not any(left_files(t) for t in tables)


def fails_after(commit: Any) -> Any:
    failed: list[int] = []

    def fail(*arguments: Any) -> Any:
        states = commit(*arguments)
        if not failed:
            failed.append(1)
            raise RuntimeError("after the answer")
        return states

    return fail


def test_a_frame_that_changes_is_refused(
    spark: SparkSession, catalog: dk.Catalog, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Spark lost what it kept, and the source gives other rows: no table gets a part of them."""
    table, mark = make(catalog, schema=pa.schema([("id", pa.int64())]), format_version=3), tmp_path / "read"
    name = table.name

    def rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            count = 3 if mark.exists() else 5
            mark.touch()
            yield pa.RecordBatch.from_pylist([{"to": name, "id": i} for i in range(count)])

    frame = spark.range(1).coalesce(1).mapInArrow(rows, "to string, id long")
    monkeypatch.setattr(type(frame), "persist", lambda self: self)
    fan_out = dk.stream.fan_out(catalog, "to", "fan", on="id", change_type=None)
    with fan_out as fan, refused(table, dk.InvalidInputError, "fan-out-rows", found=3):
        fan.write(frame, 0)
    assert not left_files(table)


# --- sequence_by ------------------------------------------------------------------------------------------------------

EVENTS = "id long, name string, seq long, _change_type string"


@pytest.mark.sampled(2)
@pytest.mark.parametrize("new_files", [1, 99])
def test_sequence_by(catalog: dk.Catalog, framed: Framed, monkeypatch: pytest.MonkeyPatch, new_files: int) -> None:
    """Late changes and deletes, rows of others, and batches that are held in between: as a dict, and as if all were."""
    monkeypatch.setattr(saved_index, "_NEW_FILES", new_files)  # old rows are looked up in the index, or read
    monkeypatch.setattr(split_rows, "_GROUP_BYTES", 1)
    schema, random_ = pa.schema([("id", pa.int64()), ("name", pa.string()), ("seq", pa.int64())]), random.Random(2)
    split, held = (make(catalog, schema=schema, format_version=2 + (new_files == 1)) for _ in range(2))
    events: list[Row] = [{"id": random_.randrange(12), "name": f"n{n}", "seq": n} for n in range(60)]
    history = [{**e, "_change_type": random_.choice(["INSERT", "+U", "DELETE"])} for e in events]
    arrivals = random_.sample([*history, *history[:12]], 72)
    highest: dict[int, Row] = {}
    late = 0
    options: dict[str, Any] = {"on": "id", "sequence_by": "seq"}
    with dk.stream.sink(split, "s", **options) as sink, dk.stream.sink(held, "s", **options) as other:
        for number in range(4):
            once = {e["seq"]: e for e in arrivals[18 * number : 18 * number + 18]}
            batch = list(once.values())
            for event in batch:
                if event["id"] not in highest or event["seq"] >= highest[event["id"]]["seq"]:
                    highest[event["id"]] = event
            if number == 2:  # another writer adds a key twice: one row is newer than all
                foreign = [{"id": 3, "name": "old", "seq": 0}, {"id": 3, "name": "foreign", "seq": 99}]
                for table in (split, held):
                    dk.append(table.refresh(), foreign)
                    dk.append(table.refresh(), foreign[:1])
            done = other.write(batch, number, ordered=False)
            if number == 1:
                assert sink.write(batch, number, ordered=False).late == done.late
            else:
                with nothing_is_collected():
                    assert sink.write(framed(batch, EVENTS), number).late == done.late
                    assert sink.write(framed(batch, EVENTS), number).status == "skipped"
            late += done.late
            same_rows(rows_of(split), rows_of(held))
        assert late
        wanted = [e for e in highest.values() if e["_change_type"] != "DELETE" and e["id"] != 3]
        same_rows([r for r in rows_of(split) if r["id"] != 3], [{n: e[n] for n in schema.names} for e in wanted])
        assert {r["name"] for r in rows_of(split) if r["id"] == 3} >= {"foreign"}
        with nothing_is_collected():  # all of it is late
            old = [{"id": number, "name": "old", "seq": -1, "_change_type": "INSERT"} for number in highest]
            again = sink.write(framed(old, EVENTS), 4)
        assert (again.late, again.status) == (again.keys, "committed")
        same_rows(rows_of(split), rows_of(held))
    assert not left_files(split)
