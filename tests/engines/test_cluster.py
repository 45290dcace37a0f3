"""A standalone cluster of two workers: the pipeline runs on it unchanged, and a lost executor costs no row.

Executors are killed in verbs and in each job of a sink, whose tasks also have speculative twins.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from deletekit.spark import JARS
from tests.engines.lossy_driver import VERBS
from tests.spark_cluster import SparkCluster

ROOT = Path(__file__).parents[2]

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def python(*arguments: object) -> subprocess.CompletedProcess[str]:
    return run(sys.executable, *arguments)


def run(*command: object) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable}
    given = [str(part) for part in command]
    return subprocess.run(given, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=1500, check=False)


def submit(master: str, *program: object) -> subprocess.CompletedProcess[str]:
    import pyspark  # noqa: PLC0415  # an extra

    options = ["--master", master, "--packages", ",".join(JARS), "--driver-memory", "512m"]
    loopback = [part for key in ("host", "bindAddress") for part in ("--conf", f"spark.driver.{key}=127.0.0.1")]
    return run(Path(pyspark.__file__).parent / "bin" / "spark-submit", *options, *loopback, *program)


@pytest.mark.long
def test_a_pipeline_killed_on_the_cluster_and_continued_by_spark_submit(
    spark_cluster: SparkCluster, tmp_path: Path
) -> None:
    directory, master = tmp_path / "run", spark_cluster.master
    first = python("-m", "tests.pipeline.killed_driver", directory, "load", "after", master)
    assert first.returncode == -signal.SIGKILL, first.stderr[-3000:]
    done = submit(master, ROOT / "data" / "pipeline" / "__main__.py", directory, "--days", 1)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    report = json.loads((directory / "report.json").read_text())
    assert report["ok"], report["checks"]
    assert report["master"] == master
    assert [step["status"] for step in report["steps"]] == ["done before", *["done"] * 5]


@pytest.mark.parametrize(
    "verbs",
    [pytest.param(["delete", "compact"], id="two"), pytest.param(list(VERBS), id="each", marks=pytest.mark.long)],
)
def test_lost_executors(spark_cluster: SparkCluster, tmp_path: Path, verbs: list[str]) -> None:
    """The executor of whoever is about to write is killed in each verb; a plain model knows the rows."""
    done = python("-m", "tests.engines.lossy_driver", spark_cluster.master, tmp_path, *verbs)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert (found["wrong"], found["errors"]) == ([], [])
    assert list(found["lost"]) == verbs
    assert len(set(found["lost"].values())) == len(verbs)


# --- a sink -----------------------------------------------------------------------------------------------------------


def driven(cluster: SparkCluster, folder: Path, *steps: str) -> dict[str, Any]:
    """Run the driver. Hold that both readers find the rows, and that the last batch is known when it comes again."""
    done = python("-m", "tests.stream.lossy_sink_driver", cluster.master, folder, *steps)
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert found["right"] == {"deletekit": True, "iceberg": True}
    assert found["errors"] == []
    assert found["again"] == "skipped"
    return found


def test_a_sink_loses_an_executor(spark_cluster: SparkCluster, tmp_path: Path) -> None:
    found = driven(spark_cluster, tmp_path, "kill=.parquet")
    assert set(found["lost"]) == {".parquet"}


@pytest.mark.long
def test_a_sink_loses_executors(spark_cluster: SparkCluster, tmp_path: Path) -> None:
    """In the job that stages rows, in that which writes the index, and in those that write data files and vectors."""
    found = driven(spark_cluster, tmp_path, *(f"kill={place}" for place in (".rows", ".run", ".parquet", ".puffin")))
    assert len(set(found["lost"].values())) == 4


@pytest.mark.long
def test_a_sink_has_stragglers_beside_their_twins(spark_cluster: SparkCluster, tmp_path: Path) -> None:
    """Each batch is committed while the first attempt to write waits, so it has the files of another attempt."""
    found = driven(spark_cluster, tmp_path, "hold=.rows", "hold=.parquet")
    assert found["held"] == {".rows": 1, ".parquet": 1}
