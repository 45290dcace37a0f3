"""The Spark session that the tests share: deletekit's own, so that what users get is what is tested.

Beside Iceberg it has Delta Lake, with the newest Spark only, on which tests/operations/convert_delta makes its tables.
"""

import os
from pathlib import Path

from deletekit.spark import sessions
from deletekit.spark.releases import NEWEST, RELEASE
from tests.optional_types import SparkSession

DELTA = "io.delta:delta-spark_4.1_2.13:4.4.0"
_EXTENSIONS = (
    "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    "io.delta.sql.DeltaSparkSessionExtension",
)


def spark_session(folder: Path) -> SparkSession:
    """Start Spark with the catalog `local` on `folder`/catalog.db; its log is `folder`/spark.log."""
    with_delta = RELEASE == NEWEST
    # Four attempts at a task, as on a cluster: with a plain local[2], Spark gives up at the first failure.
    settings = {
        # What C2 compiles would pay after the tests, and takes the core that the other process of tests runs on.
        "spark.driver.extraJavaOptions": "-Duser.timezone=UTC -XX:+UseSerialGC -XX:TieredStopAtLevel=1",
        "spark.sql.shuffle.partitions": "2",
        # Listing folders, which VACUUM does, takes 10,000 tasks by default.
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
        # Tests vacuum what they have just deleted.
        "spark.databricks.delta.retentionDurationCheck.enabled": "false",
        "spark.databricks.delta.snapshotPartitions": "2",
    }
    if with_delta:
        settings["spark.sql.extensions"] = ",".join(_EXTENSIONS)
        settings["spark.sql.catalog.spark_catalog"] = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
    if with_delta and sessions.JARS_FOLDER_VARIABLE not in os.environ:
        settings["spark.jars.packages"] = ",".join((*sessions.JARS, DELTA))
    return sessions.session(folder, master="local[2,4]", settings=settings)
