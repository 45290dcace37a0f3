"""Structured Streaming writes through `foreachBatch`, breaks off and goes on; Spark and Iceberg read each state."""

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import deletekit as dk
from tests.interop.rows import same_rows
from tests.optional_types import SparkSession
from tests.stream.on_executors import nothing_is_collected
from tests.stream.replay import PEOPLE, Row, State, check, random_batches, replay
from tests.tables import make, unchanged

CHANGES = pa.schema([*PEOPLE, pa.field("_change_type", pa.string()), pa.field("_at", pa.int64())])


@pytest.fixture(scope="module")
def catalog(spark: SparkSession) -> dk.Catalog:
    """The embedded catalog that the shared session has as `local`."""
    spark.sql("CREATE NAMESPACE IF NOT EXISTS local.test")
    return dk.local_catalog(Path(spark.conf.get("spark.sql.catalog.local.warehouse")))


class Source:
    """A folder of change files, each a micro-batch, and a checkpoint."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.files, self.checkpoint = spark, folder / "changes", folder / "checkpoint"
        self.files.mkdir()
        self.at = 0

    def add(self, batch: list[Row]) -> None:
        rows = []
        for row in batch:
            self.at += 1
            rows.append({**row, "_at": self.at})
        path = self.files / f"{self.at:06d}.parquet"
        pq.write_table(pa.Table.from_pylist(rows[::-1], CHANGES), path)  # in no order
        os.utime(path, (self.at, self.at))

    def run(self, sink: dk.stream.Sink) -> None:
        """Run until there is nothing more to read."""
        schema = "id LONG, name STRING, score DOUBLE, _change_type STRING, _at LONG"
        rows = self.spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(self.files))
        query = (
            rows.repartition(3)
            .writeStream.foreachBatch(sink.foreach_batch)
            .option("checkpointLocation", str(self.checkpoint))
            .trigger(availableNow=True)
        )
        with nothing_is_collected():
            query.start().awaitTermination()

    def forget_last(self) -> None:
        """What a driver leaves that ended between our commit and Spark's own."""
        last = max((p for p in (self.checkpoint / "commits").iterdir() if p.name.isdigit()), key=lambda p: int(p.name))
        last.unlink()
        (last.parent / f".{last.name}.crc").unlink(missing_ok=True)


def spark_reads(spark: SparkSession, table: dk.Table, state: State, ref: str = "main") -> None:
    name = "local." + ".".join(table.identifier)
    spark.sql(f"REFRESH TABLE {name}")
    same_rows(spark.sql(f"SELECT * FROM {name} VERSION AS OF '{ref}'").toArrow().to_pylist(), state.values())


@pytest.mark.parametrize(
    ("mode", "version"), [("auto", 3), ("eq-only", 3), pytest.param("auto", 2, marks=pytest.mark.long)]
)
def test_a_query_that_breaks_off_and_goes_on(
    spark: SparkSession, catalog: dk.Catalog, tmp_path: Path, mode: Any, version: int
) -> None:
    source = Source(spark, tmp_path)
    table = make(catalog, schema=PEOPLE, format_version=version)
    batches = list(random_batches(2, batches=4, rows=10, keys=9))

    def sink() -> dk.stream.Sink:
        return dk.stream.sink(table, "spark", on=["id"], mode=mode, order="_at")

    for number in (0, 2):
        for batch in batches[number : number + 2]:
            source.add(batch)
        with sink() as running:
            source.run(running)
            assert [p.status for p in running.recent_progress][-2:] == ["committed", "committed"]
        state = replay(batches[: number + 2])
        check(table, state)
        spark_reads(spark, table, state)
        source.forget_last()
    with sink() as again:
        source.run(again)
        assert [(p.batch_id, p.status) for p in again.recent_progress] == [(3, "skipped")]
    check(table, state)


def test_a_checkpoint_that_is_lost_and_an_order_that_is_missing(
    spark: SparkSession, catalog: dk.Catalog, tmp_path: Path
) -> None:
    source = Source(spark, tmp_path)
    table = make(catalog, schema=PEOPLE, format_version=3)
    batch = [{"id": 1, "name": n, "score": 0.0, "_change_type": "INSERT"} for n in "ab"]
    source.add(batch)
    with dk.stream.sink(table, "spark", on=["id"], order="_at") as sink:
        source.run(sink)
        source.checkpoint = tmp_path / "another"
        with pytest.raises(Exception, match="another query wrote"):
            source.run(sink)
    source.checkpoint = tmp_path / "third"
    with (
        dk.stream.sink(table, "bare", on=["id"]) as bare,
        pytest.raises(Exception, match="a column the table does not"),
    ):
        source.run(bare)
    check(table, replay([batch]))


def test_ingestion_and_promotion(spark: SparkSession, catalog: dk.Catalog, tmp_path: Path) -> None:
    source = Source(spark, tmp_path)
    table = make(catalog, [{"id": 100, "name": "start", "score": 0.0}], schema=PEOPLE, format_version=3)
    start = {(100,): {"id": 100, "name": "start", "score": 0.0}}
    dk.create_branch(table, "ingestion")
    batches = list(random_batches(4, batches=3, rows=10, keys=9))
    for batch in batches:
        source.add(batch)
    with dk.stream.sink(table, "spark", on=["id"], order="_at", mode="eq-only", ref="ingestion") as sink:
        source.run(sink)
        state = replay(batches, start=start)
        spark_reads(spark, table, state, "ingestion")
        spark_reads(spark, table, start)
        dk.stream.promote(table, "ingestion", on=["id"], reset=True)
        source.add([{"id": 100, "name": "last", "score": 1.0, "_change_type": "+U"}])
        source.run(sink)
    spark_reads(spark, table, state)
    dk.stream.promote(table, "ingestion", on=["id"])
    state[100,] = {"id": 100, "name": "last", "score": 1.0}
    for ref in ("main", "ingestion"):
        spark_reads(spark, table, state, ref)
    check(table, state)


@pytest.mark.parametrize(("mode", "version"), [("eq-only", 3), ("auto", 2)])
def test_spark_reads_what_a_sink_maintains(spark: SparkSession, catalog: dk.Catalog, mode: Any, version: int) -> None:
    """Also after a promotion, where each row has one id on both branches, and keeps it when Iceberg goes on."""
    table = make(catalog, [{"id": 100, "name": "start", "score": 0.0}], schema=PEOPLE, format_version=version)
    start = {(100,): {"id": 100, "name": "start", "score": 0.0}}
    name = "local." + ".".join(table.identifier)
    dk.create_branch(table, "ingestion")
    batches = list(random_batches(2, batches=7, rows=10, keys=9))
    policy = dk.stream.Maintain(every=3, min_small_files=2)
    with dk.stream.sink(table, "s", on=["id"], mode=mode, ref="ingestion", maintain=policy) as sink:
        done = list(sink.run(batches))
    assert sum(p.maintained.rewritten_data_files for p in done if p.maintained) > 1
    state = replay(batches, start=start)
    spark_reads(spark, table, state, "ingestion")
    dk.stream.promote(table, "ingestion", on=["id"])
    check(table, state)
    spark_reads(spark, table, state)
    if version == 2:
        return

    def row_ids(ref: str) -> dict[int, int]:
        found = spark.sql(f"SELECT id, _row_id FROM {name} VERSION AS OF '{ref}'").collect()
        return {row[0]: row[1] for row in found}

    ours = {r["id"]: r["_row_id"] for r in dk.scan(table.refresh(), columns=["id", "_row_id"]).to_arrow().to_pylist()}
    assert row_ids("main") == row_ids("ingestion") == ours
    assert len(set(ours.values())) == len(ours)
    spark.sql(f"INSERT INTO {name} VALUES (200, 'spark', 1.0)")
    spark.sql(f"CALL local.system.rewrite_manifests('{'.'.join(table.identifier)}')")
    after = row_ids("main")
    assert after.pop(200) not in ours.values()
    assert after == ours


def test_the_data_source_refuses_to_write_a_stream(spark: SparkSession, catalog: dk.Catalog, tmp_path: Path) -> None:
    table = make(catalog, schema=PEOPLE, format_version=3)
    (tmp_path / "rows").mkdir()
    pq.write_table(pa.table({"id": [1], "name": ["a"], "score": [0.5]}), tmp_path / "rows" / "one.parquet")
    rows = spark.readStream.schema("id LONG, name STRING, score DOUBLE").parquet(str(tmp_path / "rows"))
    query = rows.writeStream.format("deletekit").option("checkpointLocation", str(tmp_path / "checkpoint"))
    with unchanged(table), pytest.raises(Exception, match="foreachBatch"):
        query.trigger(availableNow=True).start(table.name).awaitTermination()
