"""A Spark session without any jar, in a process of its own: `python -m tests.spark_source.plain_session WAREHOUSE`.

It reads and writes tables of an embedded catalog, with a task that is killed when a file of it has landed in time, and
prints what it saw as JSON.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import deletekit as dk

HALF = 200
"""Rows of a task, which come in batches of five."""
QUIET = {"spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}


def main(warehouse: str) -> None:
    builder: Any = SparkSession.builder.master("local[2,3]")  # a task has three attempts
    builder = builder.config("spark.sql.execution.arrow.maxRecordsPerBatch", "5")
    for key, value in QUIET.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()

    def read(name: str) -> list[int]:
        frame = spark.read.format("deletekit").option("warehouse", warehouse).load(name)
        return sorted(row.id for row in frame.where("id > 1").collect())

    def write(frame: Any, name: str, **options: str) -> None:
        named = {"warehouse": warehouse, **{k.replace("_", "-"): v for k, v in options.items()}}
        frame.write.format("deletekit").options(**named).mode("append").save(name)

    found: dict[str, Any] = {"jars": spark.conf.get("spark.jars", "") or spark.conf.get("spark.jars.packages", "")}
    found["read"] = read("test.read")
    write(dying_once(spark, Path(warehouse)), "test.written")
    write(
        spark.range(HALF, HALF + 10).selectExpr("id", "'new' as word"),
        "test.written",
        delete_mode="equality-delete",
        key="id",
    )
    found["written"] = read("test.written")
    try:
        dk.spark.session(warehouse)
    except dk.EnvironmentMissingError as e:
        found["session"] = str(e)
    spark.stop()
    print(json.dumps(found))


def dying_once(spark: SparkSession, warehouse: Path) -> Any:
    """Rows in two tasks, one of which is killed in its first attempt, when a file of its rows was written."""

    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        marker = warehouse / "killed"
        for batch in batches:
            yield batch
            if batch["id"][0].as_py() >= HALF and not marker.exists():
                if found := landed(warehouse):
                    marker.write_text(str(found))
                    os.kill(os.getpid(), signal.SIGKILL)
                time.sleep(0.2)

    # Spark hands rows on when it has some 64 KB of them.
    frame = spark.range(0, 2 * HALF, 1, 2).selectExpr("id", "rpad('old', 20000, ' ') as word")
    return frame.mapInArrow(rows, "id long, word string")


def landed(warehouse: Path) -> int:
    """How many files hold rows of the second task."""
    found = 0
    for file in (warehouse / "test" / "written" / "data").glob("**/*.parquet"):
        with suppress(pa.ArrowInvalid):  # one that is being written
            found += pq.read_table(file)["id"][0].as_py() >= HALF
    return found


if __name__ == "__main__":
    main(sys.argv[1])
