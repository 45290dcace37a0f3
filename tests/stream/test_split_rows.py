"""Batches whose rows stay on Spark's executors: beside a dict, and beside the same batches held in this process."""

from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import deletekit as dk
from deletekit.stream import batch_delta, saved_index, split_rows
from deletekit.stream.split_rows import SplitRows
from tests.interop.rows import same_rows
from tests.optional_types import DataFrame, SparkSession
from tests.stream.on_executors import nothing_is_collected
from tests.stream.replay import PEOPLE, Row, check, random_batches, replay
from tests.tables import make, raises, unchanged

DDL = "id long, name string, score double, _change_type string, _at long"


@pytest.fixture(scope="module")
def catalog(spark: SparkSession) -> Iterator[dk.Catalog]:
    """Give the catalog that Spark has as `local`."""
    catalog = dk.local_catalog(Path(spark.conf.get("spark.sql.catalog.local.warehouse")))
    yield catalog
    catalog.pyiceberg.engine.dispose()  # type: ignore[attr-defined]


def framed(spark: SparkSession, batch: Sequence[Row], ddl: str = DDL) -> DataFrame:
    """Return changes as rows in no order."""
    rows = [{**row, "_at": at} for at, row in enumerate(batch)]
    return spark.createDataFrame(rows[::-1], ddl).repartition(3)  # type: ignore[type-var]


def sink(table: dk.Table, **options: Any) -> dk.stream.Sink:
    return dk.stream.sink(table, "split", **{"on": ["id"], "order": "_at", **options})


def left_files(table: dk.Table) -> list[Path]:
    return list(Path(table.location.removeprefix("file://")).rglob("*.rows"))


def row_ids(table: dk.Table) -> dict[Any, int]:
    rows = dk.scan(table.refresh(), columns=["id", "_row_id"]).to_arrow().to_pylist()
    return {row["id"]: row["_row_id"] for row in rows}


def check_row_ids(before: dict[Any, int], now: dict[Any, int], batch: Sequence[Row]) -> None:
    """Hold that an updated row keeps its id, and that every other row of the batch has a new one."""
    deleted = {row["id"] for row in batch if row["_change_type"] == "DELETE"}
    for key, number in now.items():
        assert (before.get(key) == number) == (key in before and key not in deleted), key
    assert len(set(now.values())) == len(now)


@pytest.mark.parametrize(("mode", "version"), [("index-only", 3), ("auto", 2), ("eq-only", 3)])
def test_beside_a_dict(
    spark: SparkSession, catalog: dk.Catalog, monkeypatch: pytest.MonkeyPatch, mode: Any, version: int
) -> None:
    monkeypatch.setattr(saved_index, "_NEW_FILES", 1)  # every old row is looked up in the index
    table = make(catalog, schema=PEOPLE, format_version=version, partition_by=["bucket(2, id)"])
    batches = list(random_batches(1, batches=3, rows=12, keys=8))  # with NULL keys
    known: dict[Any, int] = {}
    with sink(table, mode=mode) as running:
        for number, batch in enumerate(batches):
            with nothing_is_collected():
                progress = running.write(framed(spark, batch), number)
            state = replay(batches[: number + 1])
            check(table, state)
            keys = {row["id"] for row in batch}
            assert (progress.status, progress.rows, progress.keys) == ("committed", len(batch), len(keys))
            if mode == "index-only":
                assert progress.hits == len(keys & {key for (key,) in replay(batches[:number])})
                assert progress.read_files == 0
                check_row_ids(known, known := row_ids(table), batch)
            assert not left_files(table)
        # The same batch again, held in this process: the digest is the same.
        held = [{**row, "_at": at} for at, row in enumerate(batches[-1])]
        assert running.write(pa.Table.from_pylist(held), 2).status == "skipped"
        with nothing_is_collected():
            assert running.write(framed(spark, batches[-1]).coalesce(1), 2).status == "skipped"
        with unchanged(table), pytest.raises(dk.InvalidInputError, match="repeated with other data"):
            running.write(framed(spark, batches[-1][:-1]), 2)
        assert running.write(framed(spark, []), 3).status == "empty"
    assert not left_files(table)
    rows = spark.table(f"local.{table.name}").toArrow().to_pylist()
    assert sorted(rows, key=str) == sorted(state.values(), key=str)


def test_rows_without_a_column_of_their_order(spark: SparkSession, catalog: dk.Catalog) -> None:
    """Each key once, in several parts."""
    table = make(catalog, schema=PEOPLE, format_version=3)
    rows = [{"id": i, "name": "x", "score": 0.5, "_change_type": "INSERT"} for i in range(20)]
    with sink(table, order=None, engine=dk.engine.spark(spark, threads=3)) as running:
        assert running.write(spark.createDataFrame(rows, DDL.replace(", _at long", "")), 0).keys == 20
    check(table, replay([rows]))


def test_parts_and_groups(spark: SparkSession, catalog: dk.Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several parts, several groups of them, and a nested key of text and date."""
    monkeypatch.setattr(split_rows, "_GROUP_BYTES", 1)
    monkeypatch.setattr(batch_delta, "_GROUP_HITS", 1)
    monkeypatch.setattr(saved_index, "_NEW_FILES", 3)
    monkeypatch.setattr(saved_index, "_RUN_ROWS", 150)
    schema = pa.schema([("who", pa.struct([("name", pa.string()), ("born", pa.date32())])), ("v", pa.int64())])
    table = make(catalog, schema=schema, format_version=3)
    ddl = "who struct<name: string, born: date>, v long, _change_type string, _at long"

    def batch(first: int, last: int, value: int) -> list[Row]:
        who = ({"name": f"n{i % 40}", "born": date(2000, 1, 1 + i // 40)} for i in range(first, last))
        return [{"who": w, "v": value, "_change_type": "INSERT"} for w in who]

    engine = dk.engine.spark(spark, threads=3)
    with sink(table, on=["who.name", "who.born"], engine=engine) as running:
        for number, rows in enumerate((batch(0, 200, 0), batch(100, 300, 1), batch(150, 250, 2))):
            with nothing_is_collected() as sizes:
                done = running.write(framed(spark, rows, ddl), number)
            assert done.hits == (0, 100, 100)[number]
            assert max(sizes) < 50_000
    found = dk.scan(table.refresh()).to_arrow().to_pylist()
    wanted = {str(r["who"]): r["v"] for r in batch(0, 200, 0) + batch(100, 300, 1) + batch(150, 250, 2)}
    assert {str(r["who"]): r["v"] for r in found} == wanted
    assert len(found) == 300
    assert dk.verify(table, level="data").ok


def test_a_damaged_index_and_a_sink_that_holds_rows(
    spark: SparkSession, catalog: dk.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batches held in this process and batches on executors take turns with one index; damaged, it is made again."""
    monkeypatch.setattr(saved_index, "_NEW_FILES", 1)
    table = make(catalog, schema=PEOPLE, format_version=3)
    batches = list(random_batches(4, batches=6, rows=12, keys=8))
    for number, batch in enumerate(batches):
        if number in (3, 4):
            runs = sorted(Path(table.location.removeprefix("file://")).rglob("*.run"))
            assert runs
            for run in runs:
                run.write_bytes(run.read_bytes()[:-1] + b"?") if number == 3 else run.unlink()
        held = [{**row, "_at": at} for at, row in enumerate(batch)]
        with sink(table, mode="index-only") as running:
            before = {key for (key,) in replay(batches[:number])}
            progress = running.write(held if number in (0, 2) else framed(spark, batch), number)
            assert progress.hits == len({row["id"] for row in batch} & before)
        same_rows(dk.scan(table.refresh()).to_arrow().to_pylist(), replay(batches[: number + 1]).values())
        # The runs that were damaged above are found; nothing else is wrong.
        assert {f.kind for f in dk.verify(table).findings} <= ({"key-index"} if number > 2 else set())


def test_lost_races(spark: SparkSession, catalog: dk.Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others insert rows of the batch's keys while it is written: it is planned again, and by value in the end."""
    table = make(catalog, schema=PEOPLE, format_version=3)
    write, races = SplitRows.by_position, list[int]()

    def raced(self: SplitRows, base: Any) -> Any:
        done = write(self, base)
        races.append(len(races))
        dk.append(dk.load_table(catalog, table.identifier), [{"id": 1, "name": "raced", "score": 0.0}])
        return done

    monkeypatch.setattr(SplitRows, "by_position", raced)
    batch = [{"id": i, "name": "x", "score": 1.0, "_change_type": "INSERT"} for i in range(4)]
    with sink(table) as running, nothing_is_collected():
        done = running.write(framed(spark, batch), 0)
    assert done.fell_back
    assert len(races) == 3
    check(table, replay([batch]))
    assert not left_files(table)


def test_what_is_refused_leaves_nothing(spark: SparkSession, catalog: dk.Catalog) -> None:
    start = [{"id": 1, "name": "a", "score": 0.0}]
    table = make(catalog, start, schema=PEOPLE, format_version=3)
    tied = [{"id": 1, "name": n, "score": 0.0, "_change_type": "INSERT", "_at": 1} for n in "ab"]
    more = [{"id": i, "name": "x", "score": 0.0, "_change_type": "INSERT", "_at": 1} for i in range(2, 9)]
    wrong = [*more, {"id": 9, "name": "x", "score": 0.0, "_change_type": "?", "_at": 1}]
    with sink(table) as running, unchanged(table):
        for rows, kind in ((tied + more, "change-order"), (wrong, "change-type")):
            with raises(dk.InvalidInputError, kind):
                running.write(spark.createDataFrame(rows, DDL).repartition(4), 0)  # type: ignore[type-var]
        for ddl, kind in (("id long", "change-type"), ("name string", "change-type")):
            with raises(dk.InvalidInputError, kind):
                running.write(spark.createDataFrame([], ddl), 0)
        with pytest.raises(dk.InvalidInputError, match="a column the table does not"):
            running.write(spark.createDataFrame([], f"{DDL}, more long"), 0)
    assert not left_files(table)


def test_what_a_killed_driver_leaves(spark: SparkSession, catalog: dk.Catalog) -> None:
    """Parts that nobody removed are orphans, and `remove_orphan_files` removes them."""
    table = make(catalog, schema=PEOPLE, format_version=3)
    batch = [{"id": i, "name": "x", "score": 1.0, "_change_type": "INSERT"} for i in range(4)]
    with sink(table) as running:
        SplitRows(running.state, framed(spark, batch))
        left = left_files(table)
        assert left
        running.write(framed(spark, batch), 0)
    assert left_files(table) == left
    dk.remove_orphan_files(table, force=True, older_than=2**62)
    assert not left_files(table)
    check(table, replay([batch]))
