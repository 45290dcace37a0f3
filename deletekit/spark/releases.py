"""What differs between the releases of Spark: the jars for each, and calls that older ones lack.

Read from the packages of each release and from Maven: Iceberg builds a runtime for one minor release of Spark.
"""

from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from deletekit.errors import EnvironmentMissingError, UnsupportedError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

RUNTIMES = {
    "3.5": ("3.5_2.12", "1.12.0"),
    "4.0": ("4.0_2.13", "1.11.0"),  # the last for Spark 4.0
    "4.1": ("4.1_2.13", "1.12.0"),
}
"""By release of Spark: what the newest runtime of Iceberg for it is named by, and its version. All know version 3."""

NEWEST = "4.1"


def spark_release() -> str | None:
    """Return the minor release of the installed pyspark, such as `4.1`; None without pyspark."""
    try:
        return ".".join(version("pyspark").split(".")[:2])
    except PackageNotFoundError:
        return None


RELEASE = spark_release() or NEWEST
_BUILT_FOR, ICEBERG = RUNTIMES.get(RELEASE, RUNTIMES[NEWEST])

JARS = (
    f"org.apache.iceberg:iceberg-spark-runtime-{_BUILT_FOR}:{ICEBERG}",
    "org.xerial:sqlite-jdbc:3.50.3.0",
)
"""Maven coordinates that work together with the installed pyspark, or with the newest if there is none."""
AWS_JAR = f"org.apache.iceberg:iceberg-aws-bundle:{ICEBERG}"


def check_release() -> None:
    """Raise EnvironmentMissingError for a pyspark without a runtime of Iceberg."""
    if RELEASE not in RUNTIMES:
        message = "Iceberg has no runtime for this Spark"
        raise EnvironmentMissingError(
            message, kind="pyspark", field="pyspark", found=RELEASE, expected=" or ".join(RUNTIMES)
        )


def to_arrow(frame: "DataFrame") -> pa.Table:
    """Return all rows on the driver, as `DataFrame.toArrow` of Spark 4 does."""
    if hasattr(frame, "toArrow"):
        return frame.toArrow()
    from pyspark.sql.pandas.types import to_arrow_schema  # noqa: PLC0415  # pyspark is an extra

    old: Any = frame
    schema, batches = to_arrow_schema(old.schema), old._collect_as_arrow()  # noqa: SLF001  # as its toPandas does
    return pa.Table.from_batches(batches) if batches else schema.empty_table()


def query_of_frame(frame: Any) -> str:
    """Return the id of the query that a micro-batch of Spark belongs to.

    Raises UnsupportedError under Spark Connect, where a batch does not know its query.
    """
    try:
        query_id = frame.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
    except Exception as e:
        raise UnsupportedError(
            "the query of a batch is not known here", kind="spark-connect", found=type(e).__name__
        ) from e
    return query_id or ""
