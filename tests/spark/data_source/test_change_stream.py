"""Spark runs `readStream.format("deletekit")`: restarted from what a kill leaves, each sink has every row once."""

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import deletekit as dk
from tests.optional_types import DataFrame, SparkSession
from tests.tables import live, make
from tests.tools.test_changes_replay import bag

SCHEMA = pa.schema([("id", pa.int64()), ("grp", pa.string()), ("v", pa.int64()), ("u", pa.uuid())])
GONE = ("delete", "update_before")


def rows(*ids: int, v: int = 0) -> list[dict[str, Any]]:
    return [{"id": i, "grp": "ab"[i % 2], "v": v, "u": i.to_bytes(16)} for i in ids]


class Query:
    """A query with its checkpoint, whose last batch can be made what a killed driver leaves."""

    def __init__(self, frame: DataFrame, folder: Path, *, foreach: Any = None, **sink: str) -> None:
        self.frame, self.sink, self.checkpoint, self.foreach = frame, sink, folder / "checkpoint", foreach
        self.out = sink.pop("out", str(folder / "out"))

    def run(self) -> None:
        """Run until there is nothing more to read."""
        options = {"checkpointLocation": str(self.checkpoint), **self.sink}
        if self.foreach is not None:
            query = self.frame.writeStream.foreachBatch(self.foreach).options(**options).start()
        else:
            query = self.frame.writeStream.format(options.pop("format")).options(**options).start(self.out)
        try:
            query.processAllAvailable()
        finally:
            query.stop()

    def forget_last(self, *, of_sink: bool = False) -> None:
        """Forget that the last batch is committed, and if wanted what the sink knows of it."""
        for log in [self.checkpoint / "commits", *([Path(self.out) / "_spark_metadata"] if of_sink else [])]:
            last = max((p for p in log.iterdir() if p.name.isdigit()), key=lambda p: int(p.name))
            last.unlink()
            (log / f".{last.name}.crc").unlink(missing_ok=True)


def test_files_have_each_row_once(spark: SparkSession, catalog: dk.Catalog, tmp_path: Path) -> None:
    table = make(catalog, rows(1, 2, 3, 4), schema=SCHEMA, format_version=3)
    stream = spark.readStream.format("deletekit").option("starting", "full").option("max-snapshots-per-trigger", "1")
    query = Query(stream.load(table.name), tmp_path, format="parquet")

    def check(batches: int) -> None:
        balance: Counter[str] = Counter()
        for change in [row.asDict() for row in spark.read.parquet(query.out).collect()]:  # files have no order
            balance.update(dict.fromkeys(bag([change]), -1 if change["_change_type"] in GONE else 1))
        rows = dk.scan(table.refresh()).to_arrow().to_pylist()
        assert {k: n for k, n in balance.items() if n} == bag([{**r, "u": str(r["u"])} for r in rows])
        assert len(list((query.checkpoint / "offsets").glob("[0-9]*"))) == batches

    query.run()
    check(1)
    query.forget_last(of_sink=True)  # it was killed before the sink had the batch
    dk.delete(table, "id = 1", mode="deletion-vector")
    dk.update(table, {"v": 5}, where="id = 2")
    query.run()
    check(3)
    query.forget_last()  # it was killed when the sink had the batch
    dk.compact(table, rewrite_all=True)
    query.run()
    check(4)
    query.forget_last(of_sink=True)
    dk.rollback(table, table.refresh().metadata.current_snapshot.parent_snapshot_id)
    with pytest.raises(Exception, match="from_snapshot is after to_snapshot"):
        query.run()


def test_a_table_follows_another(spark: SparkSession, catalog: dk.Catalog, tmp_path: Path) -> None:
    table = make(catalog, rows(1, 2, 3, 4), schema=SCHEMA, format_version=2)
    copy = make(catalog, schema=SCHEMA, format_version=3)
    options = {"starting": "full", "changes-mode": "upsert", "changes-on": "id"}
    frame = spark.readStream.format("deletekit").options(**options).load(table.name)
    frame = frame.drop("_change_ordinal", "_commit_snapshot_id")
    sink = dk.stream.sink(copy, "follower", on="id")
    query = Query(frame, tmp_path, foreach=sink.foreach_batch)
    query.run()
    query.forget_last()
    dk.delete_keys(table, [{"id": 1}])
    dk.upsert(table, rows(2, 9, v=7), on=["id"], mode="position-delete")
    dk.update(table, {"v": 8}, where="id = 9")
    query.run()
    assert live(copy.refresh()) == live(table.refresh())
    query.forget_last()
    query.run()
    assert live(copy.refresh()) == live(table.refresh())
    assert len(copy.metadata.snapshots) == 2, "a batch that runs again is known"
