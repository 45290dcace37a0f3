"""A Spark session without any jar, in a process of its own: `python -m tests.spark_source.plain_session WAREHOUSE`.

It reads and writes tables of an embedded catalog, with a task that is killed when its first file has landed, and prints
what it saw as JSON.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import deletekit as dk

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
        spark.range(15, 25).selectExpr("id", "'new' as word"), "test.written", delete_mode="equality-delete", key="id"
    )
    found["written"] = read("test.written")
    try:
        dk.spark.session(warehouse)
    except dk.EnvironmentMissingError as e:
        found["session"] = str(e)
    spark.stop()
    print(json.dumps(found))


def dying_once(spark: SparkSession, warehouse: Path) -> Any:
    """Twenty rows in two tasks, one of which is killed in its first attempt, after a file of its rows was written."""

    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch.slice(0, 5)
            marker = warehouse / "killed"
            if batch["id"][0].as_py() >= 10 and not marker.exists():
                deadline = time.monotonic() + 60
                while not landed(warehouse) and time.monotonic() < deadline:
                    time.sleep(0.1)
                marker.write_text(str(landed(warehouse)))
                os.kill(os.getpid(), signal.SIGKILL)
            yield batch.slice(5)

    # Spark hands rows on when it has 64 KB of them.
    frame = spark.range(0, 20, 1, 2).selectExpr("id", "rpad('old', 100000, ' ') as word")
    return frame.mapInArrow(rows, "id long, word string")


def landed(warehouse: Path) -> int:
    """How many files hold rows of the second task."""
    files = (warehouse / "test" / "written" / "data").glob("**/*.parquet")
    return sum(pq.read_table(f)["id"][0].as_py() >= 10 for f in files)


if __name__ == "__main__":
    main(sys.argv[1])
