"""Spark's expiry and orphan removal beside ours, on tables of sinks: the sinks go on, or say what is missing."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import deletekit as dk
from deletekit.table.locations import local_path
from deletekit.table.sinks.files import sink_folder
from tests.interop.test_java_maintenance import FAR_MILLIS, call, java_table, read_by_spark
from tests.optional_types import SparkSession
from tests.tables import Row, live, make, order, refused

EVENTS = pa.schema([("id", pa.int64()), ("name", pa.string()), ("seq", pa.int64())])
CHANGES = pa.schema([*EVENTS, pa.field("_change_type", pa.string())])
NAMED = ("root", "run", "log", "deletes")
"""The kinds of files that snapshots of these sinks name."""


@pytest.fixture(scope="module")
def catalog(spark: SparkSession) -> dk.Catalog:
    """The embedded catalog that the shared session has as `local`."""
    spark.sql("CREATE NAMESPACE IF NOT EXISTS local.test")
    return dk.local_catalog(Path(spark.conf.get("spark.sql.catalog.local.warehouse")))


class Sinks:
    """A guarded sink on keys below 100, a sink of files on those above, and the rows that both come to."""

    def __init__(self, table: dk.Table, folder: Path) -> None:
        self.table, self.folder, self.number, self.state = table, folder, -1, dict[int, Row]()
        self.known: set[str] = set()
        folder.mkdir()

    def write(self) -> int:
        """Write a batch of each: old keys, a new one, a delete. Return how many data files the first read."""
        self.number += 1
        seq, gone = 10 * self.number, self.number % 4
        changes = [self.put(i, seq) for i in (0, 1, 2, 3, 10 + self.number) if i != gone]
        self.state.pop(gone, None)
        with dk.stream.sink(self.table, "guarded", on="id", sequence_by="seq") as sink:
            done = sink.write([*changes, {"id": gone, "name": None, "seq": seq, "_change_type": "DELETE"}], self.number)
            # Older than the delete.
            self.number += 1
            late = {"id": gone, "name": "late", "seq": seq - 1, "_change_type": "INSERT"}
            assert sink.write([late], self.number).late == 1
        path = self.folder / f"{self.number:03d}.parquet"
        pq.write_table(pa.Table.from_pylist([self.put(i, seq) for i in (100, 101 + seq)], CHANGES), path)
        with dk.stream.sink(self.table, "files", on="id") as sink:
            files = list(sink.run_files(sorted(self.folder.iterdir())))
        assert [p.status for p in files] == ["skipped"] * (len(files) - 1) + ["committed"]
        return done.read_files

    def put(self, key: int, seq: int) -> Row:
        self.state[key] = {"id": key, "name": f"n{self.number}", "seq": seq}
        return {**self.state[key], "_change_type": "INSERT"}

    def check(self, spark: SparkSession) -> None:
        """Hold that deletekit and Iceberg's Java read the rows, and that nothing is missing."""
        wanted = sorted(self.state.values(), key=order)
        assert live(self.table.refresh()) == wanted == read_by_spark(spark, self.table)
        assert {f.kind for f in dk.verify(self.table, level="data").findings} <= self.known

    def files(self) -> set[Path]:
        return set(Path(local_path(sink_folder(self.table.metadata))).iterdir())


def remove_orphans(spark: SparkSession, table: dk.Table, *, with_hidden: bool = False) -> set[str]:
    """Let Iceberg remove orphans of any age, and of hidden folders too if they are in the listing that it is given."""
    actions = spark._jvm.org.apache.iceberg.spark.actions.SparkActions.get(spark._jsparkSession)
    action = actions.deleteOrphanFiles(java_table(spark, table)).olderThan(FAR_MILLIS)
    if with_hidden:
        place = Path(local_path(table.location))
        found = [p for p in place.rglob("[!.]*") if p.is_file()]
        all_files = [(f"{table.location}/{p.relative_to(place)}",) for p in found]
        listing = spark.createDataFrame(all_files, "file_path string").selectExpr(
            "file_path", "timestamp '2020-01-01 00:00:00' AS last_modified"
        )
        action = action.compareToFileList(listing._jdf)
    return {str(path) for path in action.execute().orphanFileLocations()}


@pytest.fixture
def sinks(spark: SparkSession, catalog: dk.Catalog, tmp_path: Path) -> Sinks:
    sinks = Sinks(make(catalog, schema=EVENTS, format_version=3), tmp_path / "changes")
    for _ in range(3):
        sinks.write()
    sinks.check(spark)
    assert {p.suffix[1:] for p in sinks.files()} == set(NAMED)
    return sinks


def test_by_turns(spark: SparkSession, sinks: Sinks) -> None:
    """Spark's orphan removal leaves the folder alone. What its expiry leaves behind is removed by ours."""
    before = sinks.files()
    assert remove_orphans(spark, sinks.table) == set()
    assert sinks.files() == before
    call(spark, sinks.table, "expire_snapshots")
    assert len(sinks.table.metadata.snapshots) == 2, "the head, and what the other sink's tag keeps"
    assert remove_orphans(spark, sinks.table) == set()
    assert sinks.files() == before
    assert sinks.write() <= 1, "the batch of files before has its own index"
    sinks.check(spark)
    orphans = dk.remove_orphan_files(sinks.table, older_than=FAR_MILLIS, force=True).orphan_files
    assert {Path(local_path(path)) for path in orphans} == before - sinks.files() != set()
    sinks.check(spark)
    assert dk.expire_snapshots(sinks.table, older_than=FAR_MILLIS).snapshot_ids
    call(spark, sinks.table, "remove_orphan_files")
    assert sinks.write() <= 1
    sinks.check(spark)


def test_another_tool_removes_all_files_of_sinks(spark: SparkSession, sinks: Sinks) -> None:
    """The index is made again. What a guard has to remember, and what files were applied, is asked for by name."""
    table, files = sinks.table, sinks.files()
    call(spark, table, "expire_snapshots")
    removed = remove_orphans(spark, table, with_hidden=True)
    assert {Path(local_path(path)) for path in removed} == files
    assert sinks.files() == set()
    assert live(table) == sorted(sinks.state.values(), key=order) == read_by_spark(spark, table)
    assert {f.kind for f in dk.verify(table).findings} == {"key-index", "sequence-deletes", "file-log"}
    changes = [{"id": 0, "name": "x", "seq": 1, "_change_type": "INSERT"}]
    guarded: Any = {"on": "id", "sequence_by": "seq"}
    with dk.stream.sink(table, "guarded", **guarded) as sink, refused(table, dk.FormatError, "sequence-deletes"):
        sink.write(changes, sinks.number + 1)
    sinks.known = {"file-log"}  # until snapshots that name the logs expire
    given = sorted(sinks.folder.iterdir())
    with dk.stream.sink(table, "files", on="id") as sink, refused(table, dk.FormatError, "file-log"):
        list(sink.run_files(given))
    with dk.stream.sink(table, "files", on="id", allow_rewind=True) as sink:
        done = list(sink.run_files(given))
    assert [p.status for p in done] == ["committed"] * len(given)
    assert done[0].read_files > 1, "without an index all are read"
    with dk.stream.sink(table, "guarded", **guarded, allow_rewind=True) as sink:
        sinks.number += 1
        sink.write([sinks.put(50, 1000)], sinks.number)
    assert sinks.write() <= 1
    assert dk.expire_snapshots(table, older_than=FAR_MILLIS).snapshot_ids, "those whose files are gone"
    sinks.check(spark)
    assert sinks.write() <= 1
    sinks.check(spark)
