"""The half of `kill_loop` on Spark: a query whose driver is killed; `kill_spark JOB` is the driver."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

import deletekit as dk
from tests.stream.replay import PEOPLE

if TYPE_CHECKING:
    from tests.stream.kill_loop import Trial

ROOT = Path(__file__).parents[2]
CHANGES = pa.schema([*PEOPLE, pa.field("_change_type", pa.string()), pa.field("_at", pa.int64())])
LONGEST = 6.0
"""Seconds after the query began in which it is killed."""
PATIENCE = 300


def ask(trial: Trial, chance: random.Random) -> bool:
    """Run the query, and kill its driver. Return whether that was before the query's end."""
    write_files(trial)
    started = trial.folder / "started"
    started.unlink(missing_ok=True)
    job = {"folder": str(trial.folder), "mode": trial.mode}
    command = [sys.executable, "-m", "tests.stream.kill_spark", json.dumps(job)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable}
    with (trial.folder / "driver.log").open("wb") as log:
        # A group of its own: the driver's JVM is to die with it.
        driver = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log, start_new_session=True)
    try:
        wait_for(driver, started)
        time.sleep(chance.uniform(0, LONGEST))
        return driver.poll() is None
    finally:
        if driver.poll() is None:
            os.killpg(driver.pid, signal.SIGKILL)
            driver.wait()


def wait_for(driver: subprocess.Popen[bytes], started: Path) -> None:
    deadline = time.monotonic() + PATIENCE
    while not started.exists():
        assert driver.poll() is None, "the driver ended before its query began"
        assert time.monotonic() < deadline, "the query does not begin"
        time.sleep(0.05)


def write_files(trial: Trial) -> None:
    """Write each batch as a file, in no order, once."""
    folder, at = trial.folder / "changes", 0
    if folder.exists():
        return
    folder.mkdir()
    for number, batch in enumerate(trial.batches):
        rows = [{**row, "_at": at + place} for place, row in enumerate(batch)]
        at += len(batch)
        path = folder / f"{number:06d}.parquet"
        pq.write_table(pa.Table.from_pylist(rows[::-1], CHANGES), path)
        os.utime(path, (number + 1, number + 1))


def drive(folder: Path, mode: Any) -> None:
    """Be the driver: go on with the query until it has read every file."""
    from deletekit.spark import sessions  # noqa: PLC0415  # only where Spark is
    from tests.stream.kill_loop import NAME, SINK, note  # noqa: PLC0415

    spark = sessions.session(folder / "wh", master="local[2,4]", settings={"spark.sql.shuffle.partitions": "2"})
    table = dk.load_table(dk.local_catalog(folder / "wh"), NAME)
    schema = "id LONG, name STRING, score DOUBLE, _change_type STRING, _at LONG"
    rows = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder / "changes"))
    with dk.stream.sink(table, SINK, on=["id"], mode=mode, order="_at") as sink:

        def each(frame: Any, number: int) -> None:
            (folder / "started").touch()
            sink.foreach_batch(frame, number)
            note(str(folder), number)

        writer = rows.repartition(2).writeStream.foreachBatch(each)
        writer = writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True)
        query = writer.start()
        query.awaitTermination()
    spark.stop()


def main() -> None:
    job = json.loads(sys.argv[1])
    drive(Path(job["folder"]), job["mode"])


if __name__ == "__main__":
    main()
