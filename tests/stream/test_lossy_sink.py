"""A sink on a cluster whose executors are killed in each of its jobs, and whose tasks have speculative twins."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.engines.test_cluster import python
from tests.spark_cluster import SparkCluster

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_lost_executors_and_stragglers(spark_cluster: SparkCluster, tmp_path: Path) -> None:
    done = python("-m", "tests.stream.lossy_sink_driver", spark_cluster.master, tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["right"] == {"deletekit": True, "iceberg": True}
    assert found["errors"] == []
    assert found["again"] == "skipped"
    assert len(set(found["lost"].values())) == 4
    assert found["waited"] == {".rows": 1, ".parquet": 1}
