"""The Spark session that the tests share: deletekit's own, so that what users get is what is tested."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from deletekit import spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["spark_session"]


def spark_session(folder: Path) -> SparkSession:
    """Start Spark with the catalog `local` on `folder`/catalog.db; its log is `folder`/spark.log."""
    # Four attempts at a task, as on a cluster: with a plain local[2], Spark gives up at the first failure.
    return spark.session(folder, master="local[2,4]", settings={"spark.sql.shuffle.partitions": "2"})
