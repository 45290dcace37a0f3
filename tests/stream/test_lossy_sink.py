"""A sink on a cluster whose executors are killed in each of its jobs, and whose tasks have speculative twins."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.engines.test_cluster import python
from tests.spark_cluster import SparkCluster

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def driven(cluster: SparkCluster, folder: Path, *steps: str) -> dict[str, Any]:
    """Run the driver. Hold that both readers find the rows, and that the last batch is known when it comes again."""
    done = python("-m", "tests.stream.lossy_sink_driver", cluster.master, folder, *steps)
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert found["right"] == {"deletekit": True, "iceberg": True}
    assert found["errors"] == []
    assert found["again"] == "skipped"
    return found


def test_a_lost_executor(spark_cluster: SparkCluster, tmp_path: Path) -> None:
    found = driven(spark_cluster, tmp_path, "kill=.parquet")
    assert set(found["lost"]) == {".parquet"}


@pytest.mark.long
def test_lost_executors(spark_cluster: SparkCluster, tmp_path: Path) -> None:
    """In the job that stages rows, in that which writes the index, and in those that write data files and vectors."""
    found = driven(spark_cluster, tmp_path, *(f"kill={place}" for place in (".rows", ".run", ".parquet", ".puffin")))
    assert len(set(found["lost"].values())) == 4


@pytest.mark.long
def test_stragglers_beside_their_twins(spark_cluster: SparkCluster, tmp_path: Path) -> None:
    """Each batch is committed while the first attempt to write waits, so it has the files of another attempt."""
    found = driven(spark_cluster, tmp_path, "hold=.rows", "hold=.parquet")
    assert found["held"] == {".rows": 1, ".parquet": 1}
