"""Attempts of Spark tasks that fail, die or come too late: no row twice, none lost, and no file left behind.

What fails is a function that `update` runs on the rows of a data file, after the worker wrote new files for others.
"""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import deletekit as dk
from deletekit.spark.engine import SparkEngine
from tests.invariants import check_table, reachable
from tests.optional_types import SparkSession
from tests.stored import parquet
from tests.tables import expected, live, make, raises, unchanged

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("value", pa.float64())])
FILES = [[{"id": 10 * f + i, "value": 0.0} for i in range(10)] for f in range(4)]
ROWS = [row for file in FILES for row in file]
LAST = 5
"""An id in the data file that is changed last, for the newest manifest comes first: others were written before."""


def failing(marker: Path, fail: Callable[[], None], times: int = 1) -> Callable[[pa.Table], Any]:
    """An assignment that sets 1.0, but fails at the last data file so many times; `marker` counts its calls there."""

    def assign(rows: pa.Table) -> Any:
        if LAST in rows["id"].to_pylist():
            with marker.open("a") as file:
                file.write("x")
            if marker.stat().st_size <= times:
                fail()
        return [1.0] * len(rows)

    return assign


def killed() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def storage_fault() -> None:
    raise OSError("the storage is away")


def illegal() -> None:
    raise dk.InvalidInputError("no such thing", kind="test-kind", field="value", found=1, expected=2)


def bug() -> None:
    raise ZeroDivisionError("division by zero")


@pytest.fixture
def table(shared: dk.Catalog) -> dk.Table:
    """Give a table of four data files."""
    return make(shared, *FILES, schema=SCHEMA, format_version=3)


MODES = pytest.mark.parametrize("mode", ["copy-on-write", "deletion-vector"])


@pytest.mark.sampled(2)
@MODES
@pytest.mark.parametrize("fail", [killed, storage_fault])
def test_an_attempt_that_fails_after_its_files_landed(
    spark: SparkSession, table: dk.Table, tmp_path: Path, mode: str, fail: Callable[[], None]
) -> None:
    marker = tmp_path / "calls"
    dk.update(table, {"value": failing(marker, fail)}, where="true", mode=mode, engine=SparkEngine(spark, 2))
    assert marker.read_text() == "xx"
    assert live(table) == expected([{"id": row["id"], "value": 1.0} for row in ROWS])
    check_table(table)
    assert spark.table(f"local.{table.name}").where("value = 1.0").count() == len(ROWS)


def test_every_attempt_dies(spark: SparkSession, table: dk.Table, tmp_path: Path) -> None:
    """The table is as it was; what the dead had written, and only that, is left to `remove_orphan_files`."""
    before, location = live(table), table.refresh().metadata_location
    assign = failing(tmp_path / "calls", killed, times=100)
    with raises(dk.DeletekitError, "spark-job"):
        dk.update(table, {"value": assign}, where="true", mode="copy-on-write", engine=SparkEngine(spark, 2))
    assert (tmp_path / "calls").read_text() == "xxxx"
    assert (live(table), table.refresh().metadata_location) == (before, location)
    removed = dk.remove_orphan_files(table, force=True, older_than=2**62).orphan_files
    assert len(removed) == 4, "the file that each of the four attempts had written"
    check_table(table)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("fail", [illegal, bug])
def test_an_error_comes_back_as_it_is_and_is_not_tried_again(
    spark: SparkSession, table: dk.Table, tmp_path: Path, fail: Callable[[], None]
) -> None:
    marker = tmp_path / "calls"
    error = dk.InvalidInputError if fail is illegal else ZeroDivisionError
    with unchanged(table), pytest.raises(error) as caught:
        dk.update(table, {"value": failing(marker, fail)}, where="true", engine=SparkEngine(spark, 2))
    assert marker.read_text() == "x"
    if isinstance(caught.value, dk.DeletekitError):
        told = caught.value
        assert (told.kind, told.field, told.found, told.expected) == ("test-kind", "value", 1, 2)


def test_a_storage_fault_that_stays_comes_back_as_it_is(spark: SparkSession, table: dk.Table, tmp_path: Path) -> None:
    marker = tmp_path / "calls"
    assign = failing(marker, storage_fault, times=100)
    with unchanged(table), pytest.raises(OSError, match="the storage is away"):
        dk.update(table, {"value": assign}, where="true", engine=SparkEngine(spark, 2))
    assert marker.read_text() == "xxxx"


def test_a_damaged_data_file_is_named(spark: SparkSession, table: dk.Table) -> None:
    (path,) = {f for f in reachable(table) if f.endswith(".parquet") and LAST in parquet(f)["id"].to_pylist()}
    Path(path).write_bytes(b"PAR1 nothing PAR1")
    with pytest.raises(dk.FormatError) as caught:
        dk.scan(table, engine=SparkEngine(spark, 2)).to_arrow()
    assert caught.value.file == path


def test_connect_is_refused() -> None:
    class Connect:
        pass

    with raises(dk.UnsupportedError, "spark-connect"):
        SparkEngine(Connect())  # type: ignore[arg-type]


def test_less_than_one_thread_is_refused(spark: SparkSession) -> None:
    for threads in (0, -1):
        with pytest.raises(dk.InvalidInputError, match="field threads"):
            dk.engine.spark(spark, threads)


def test_a_task_that_cannot_travel_is_refused(spark: SparkSession, table: dk.Table, tmp_path: Path) -> None:
    with (tmp_path / "open").open("w") as file, unchanged(table), raises(dk.UnsupportedError, "not-picklable"):
        dk.update(table, {"value": lambda r: [float(file.fileno())] * len(r)}, where="true", engine=SparkEngine(spark))


def test_results_come_in_order_and_a_reader_may_stop(spark: SparkSession) -> None:
    engine = SparkEngine(spark, 2)
    assert list(engine.map(lambda n: n * n, range(300))) == [n * n for n in range(300)]
    large = engine.map(lambda n: bytes([n]) * (20 << 20), range(4))
    assert next(large) == bytes(20 << 20)
    large.close()
    assert list(engine.map(len, [])) == []
