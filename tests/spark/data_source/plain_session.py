"""A Spark session without any jar, in a process of its own.

Run it as `python -m tests.spark.data_source.plain_session WAREHOUSE`.

It reads and writes tables of an embedded catalog, with tasks that are killed when a file of them has landed in time,
and prints what it saw as JSON.
"""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from pyiceberg.io import OutputFile
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyspark.sql import SparkSession

import deletekit as dk

HALF = 200
"""Rows of a task, which come in batches of five."""
MARKER = "test.marker"
QUIET = {"spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}


def main(warehouse: str) -> None:
    builder: Any = SparkSession.builder.master("local[2,3]")  # a task has three attempts
    builder = builder.config("spark.sql.execution.arrow.maxRecordsPerBatch", "5")
    spark = builder.config(map=QUIET).getOrCreate()

    def read(name: str) -> list[int]:
        frame = spark.read.format("deletekit").option("warehouse", warehouse).load(name)
        return sorted(row.id for row in frame.where("id > 1").collect())

    def write(frame: Any, name: str, **options: str) -> None:
        frame.write.format("deletekit").options(**{"warehouse": warehouse, **options}).mode("append").save(name)

    found: dict[str, Any] = {"jars": spark.conf.get("spark.jars", "") or spark.conf.get("spark.jars.packages", "")}
    found["read"] = read("test.read")
    old = spark.range(0, 2 * HALF, 1, 2).selectExpr("id", "'old' as word")

    def dying(killed: str) -> dict[str, str]:
        return {
            "type": "sql",
            "uri": f"sqlite:///{warehouse}/catalog.db",
            "catalog.py-io-impl": "tests.spark.data_source.plain_session.KillingIO",
            f"catalog.{MARKER}": f"{warehouse}/{killed}",
        }

    write(old, "test.written", **dying("killed"))
    found["landed"] = Path(Path(warehouse, "killed").read_text()).is_file()
    found["written"] = read("test.written")
    try:
        dk.spark.session(warehouse)
    except dk.EnvironmentMissingError as e:
        found["session"] = str(e)
    spark.stop()
    print(json.dumps(found))


class KillingIO(PyArrowFileIO):
    """Kills the first process that begins a second data file: its first one has landed, and its task has not ended."""

    def new_output(self, location: str) -> OutputFile:
        marker = Path(self.properties[MARKER])
        if "/data/" in location and not marker.exists():
            mine = marker.with_name(f"{marker.name} {os.getpid()}")
            if mine.exists():
                marker.write_text(mine.read_text())
                os.kill(os.getpid(), signal.SIGKILL)
            mine.write_text(location)
        return super().new_output(location)


if __name__ == "__main__":
    main(sys.argv[1])
