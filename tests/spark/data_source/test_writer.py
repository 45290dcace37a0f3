"""`df.write.format("deletekit")`: one commit of what successful tasks wrote, read back by Spark with Iceberg."""

import pickle
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import _parse_datatype_string

import deletekit as dk
from deletekit.spark.data_source.options import WRITE_OPTIONS, SourceOptions
from deletekit.spark.data_source.writer import TableWriter
from tests.invariants import check_table
from tests.optional_types import DataFrame, SparkSession
from tests.tables import ITEMS, expected, files_of, items, live, lose_answers, unchanged

OneFile = tuple[dk.Table, TableWriter, list[Any]]


def write(frame: DataFrame, table: str, mode: str = "append", **options: str) -> None:
    named = {k.replace("_", "-"): v for k, v in options.items()}
    frame.write.format("deletekit").options(**named).mode(mode).save(table)


def test_what_is_missing_takes_its_default(spark: SparkSession, catalog: dk.Catalog, name: str) -> None:
    table = dk.create_table(catalog, name, ITEMS)
    write(spark.range(3).selectExpr("cast(id as tinyint) id"), name)
    assert live(table.refresh()) == expected(items((0, None, None), (1, None, None), (2, None, None)))
    with unchanged(table):  # no rows are no commit
        write(spark.range(0).selectExpr("cast(id as int) id"), name)


def test_a_branch_and_the_summary(spark: SparkSession, catalog: dk.Catalog, name: str) -> None:
    table = dk.create_table(catalog, name, ITEMS)
    dk.append(table, items((1, "a", 1.0)))
    dk.create_branch(table, "side")
    frame = spark.range(5, 6).selectExpr("cast(id as int) id")
    write(frame, name, branch="side", **{"snapshot-property.why": "test"})
    assert [r["id"] for r in live(table.refresh())] == [1]
    assert sorted(r["id"] for r in live(table, ref="side")) == [1, 5]
    assert table.metadata.snapshot_of_ref("side").summary["why"] == "test"


REFUSED: list[tuple[str, dict[str, str], str]] = [
    ("id, 1 as more", {}, "column the table does not; field more"),
    ("'a' as category", {}, "lack a required column; field id"),
    ("cast(null as int) id", {}, "null in a required column; field id"),
    ("id + 3000000000 as id", {}, "does not fit the table's type"),
    ("'x' as id", {}, "does not fit the table's type"),
    ("id, timestamp'2024-01-01' as value", {}, "does not fit the table's type"),
    ("id", {"branch": "nope"}, "no such branch"),
    ("id", {"branch": "tagged"}, "a tag cannot be written to"),
    ("id", {"delete-mode": "equality-delete", "key": "id"}, "unknown option.*deletekit.upsert"),
    ("id", {"snapshot-id": "1"}, "unknown option; field snapshot-id"),
    ("id", {"snapshot-property.operation": "x"}, "operation is not the caller's"),
]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("columns", "options", "message"), REFUSED)
def test_refused(spark: SparkSession, refusing: dk.Table, columns: str, options: dict[str, str], message: str) -> None:
    frame = spark.range(0, 10, 1, 2).selectExpr("cast(id as int) id").selectExpr(*columns.split(", "))
    with unchanged(refusing), pytest.raises(Exception, match=message):
        write(frame, refusing.name, **options)


@pytest.fixture(scope="module")
def refusing(catalog: dk.Catalog) -> dk.Table:
    """Give a table for writes that are refused."""
    table = dk.create_table(catalog, "written.refusing", ITEMS)
    dk.append(table, items((1, "a", 1.0)))
    dk.create_tag(table, "tagged")
    return table


def test_overwriting_and_read_only_tables_are_refused(spark: SparkSession, refusing: dk.Table) -> None:
    frame = spark.range(3).selectExpr("cast(id as int) id")
    with unchanged(refusing):
        with pytest.raises(Exception, match="cannot be overwritten through this data source; field mode"):
            write(frame, refusing.name, "overwrite")
        with pytest.raises(Exception, match="read-only"):
            write(frame, refusing.metadata_location)


def test_a_failed_job_leaves_no_file(spark: SparkSession, catalog: dk.Catalog, name: str) -> None:
    table = dk.create_table(catalog, name, ITEMS)
    dk.append(table, items((1, "a", 1.0)))
    data = Path(table.location, "data")
    before = len(list(data.glob("*.parquet")))

    def second_fails(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch
            if batch["id"][0].as_py() >= 5:
                deadline = time.monotonic() + 60
                while len(list(data.glob("*.parquet"))) == before and time.monotonic() < deadline:
                    time.sleep(0.1)
                time.sleep(2)  # for the first task to report what it wrote
                raise RuntimeError("the second task fails")

    frame = spark.range(0, 10, 1, 2).selectExpr("cast(id as int) id").mapInArrow(second_fails, "id int")
    with unchanged(table), pytest.raises(Exception, match="the second task fails"):
        write(frame, name)


# --- the driver's side alone ------------------------------------------------------------------------------------------


@pytest.fixture
def one_file(spark: SparkSession, catalog: dk.Catalog, name: str, monkeypatch: pytest.MonkeyPatch) -> OneFile:
    """Give a table whose catalog the writer uses too, a writer, and the messages of its one task."""
    table = dk.create_table(catalog, name, ITEMS, properties={"commit.retry.num-retries": "1"})
    dk.append(table, items((1, "a", 1.0)))
    monkeypatch.setattr(SourceOptions, "open_table", lambda _: dk.load_table(catalog, name))
    options = SourceOptions({"path": name, "warehouse": "unused"}, WRITE_OPTIONS)
    writer = TableWriter(options, _parse_datatype_string("id int"), overwrite=False)
    batch = pa.record_batch({"id": pa.array([5], pa.int32())})
    return table, writer, [writer.write(iter([batch]))]


def test_files_of_unknown_commits_stay(catalog: dk.Catalog, one_file: OneFile, monkeypatch: pytest.MonkeyPatch) -> None:
    table, writer, messages = one_file
    lose_answers(catalog, monkeypatch)
    with pytest.raises(dk.CommitStateUnknownError):
        writer.commit(messages)
    writer.abort(messages)  # as Spark does after a failed commit
    assert sorted(r["id"] for r in live(table.refresh())) == [1, 5]


def test_files_of_a_refused_commit_go(catalog: dk.Catalog, one_file: OneFile, monkeypatch: pytest.MonkeyPatch) -> None:
    table, writer, messages = one_file

    def lost(*_: Any) -> None:
        raise dk.CommitConflictError("another writer was first")

    monkeypatch.setattr(type(catalog), "commit", lost)
    assert messages[0].files[0].file_path in files_of(table)
    with pytest.raises(dk.CommitConflictError):
        writer.commit(messages)
    writer.abort(messages)
    assert messages[0].files[0].file_path not in files_of(table)
    check_table(table)


def test_a_table_put_in_its_place_is_not_written_to(catalog: dk.Catalog, one_file: OneFile) -> None:
    table, writer, messages = one_file
    catalog.drop_table(table.name)
    other = dk.create_table(catalog, table.name, ITEMS, location=f"{table.location}_again")
    with pytest.raises(dk.NotFoundError, match="replaced"):
        writer.commit(messages)
    assert live(other.refresh()) == []
    assert messages[0].files[0].file_path not in files_of(table)


def test_attempts_of_a_task_share_no_file(one_file: OneFile) -> None:
    _, writer, messages = one_file
    again = pickle.loads(pickle.dumps(writer))  # noqa: S301  # as Spark ships it
    batch = pa.record_batch({"id": pa.array([5], pa.int32())})
    other = again.write(iter([batch]))
    assert other.files[0].file_path != messages[0].files[0].file_path
