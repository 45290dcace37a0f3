"""What differs between the releases of Spark: the jars for each, and calls that older ones lack.

Read from the packages of each release and from Maven: Iceberg builds a runtime for one minor release of Spark.
"""

from importlib.metadata import PackageNotFoundError, version
from inspect import signature
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from deletekit.errors import EnvironmentMissingError, UnsupportedError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

RUNTIMES = {
    "3.5": ("3.5_2.12", "1.12.0"),
    "4.0": ("4.0_2.13", "1.11.0"),  # the last for Spark 4.0
    "4.1": ("4.1_2.13", "1.12.0"),
}
"""By release of Spark: what the newest runtime of Iceberg for it is named by, and its version. All know version 3."""

WITHOUT_RUNTIME = ("4.2", "4.3")
"""Releases that Iceberg has no runtime for. The data source and the engine need none."""
NEWEST = "4.1"
"""The newest that has one."""


def spark_release() -> str | None:
    """Return the minor release of the installed pyspark, such as `4.1`; None without pyspark."""
    try:
        return ".".join(version("pyspark").split(".")[:2])
    except PackageNotFoundError:
        return None


RELEASE = spark_release() or NEWEST
_BUILT_FOR, ICEBERG = RUNTIMES.get(RELEASE, RUNTIMES[NEWEST])

JARS: tuple[str, ...] = (
    f"org.apache.iceberg:iceberg-spark-runtime-{_BUILT_FOR}:{ICEBERG}",
    "org.xerial:sqlite-jdbc:3.50.3.0",
)
"""Maven coordinates that work together with the installed pyspark, or with the newest if there is none."""
if RELEASE in WITHOUT_RUNTIME:
    JARS = ()
AWS_JAR = f"org.apache.iceberg:iceberg-aws-bundle:{ICEBERG}"


def check_release(*, runtime: bool = False, without: str = "") -> None:
    """Raise EnvironmentMissingError for a pyspark that was never tried, is `without`, or has no runtime of Iceberg."""
    known = [name for name in (*RUNTIMES, *(() if runtime else WITHOUT_RUNTIME)) if name != without]
    if RELEASE not in known:
        message = "Iceberg has no runtime for this Spark" if runtime else "deletekit does not work on this Spark"
        raise EnvironmentMissingError(message, "pyspark", "pyspark", RELEASE, " or ".join(known))


def check_classic(session: object, *, data_sources: bool = False) -> None:
    """Raise UnsupportedError for a session of Spark Connect, EnvironmentMissingError for a Spark that is not known.

    Parameters
    ----------
    data_sources: it also needs data sources in Python, which Spark 3.5 lacks.
    """
    check_release(without="3.5" if data_sources else "")
    from pyspark.sql import SparkSession  # noqa: PLC0415  # pyspark is an extra

    if not isinstance(session, SparkSession):  # Connect's is another class
        found = f"{type(session).__module__}.{type(session).__name__}"
        raise UnsupportedError("this needs a classic session", kind="spark-connect", field="session", found=found)


def arrow_schema_of(schema: "StructType") -> pa.Schema:
    """Return the Arrow columns that Spark takes for a schema: since 4.2 it asks for exactly these types."""
    from pyspark.sql.pandas.types import to_arrow_schema  # noqa: PLC0415  # pyspark is an extra

    zone: Any = {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {}
    return to_arrow_schema(schema, **zone)


def to_arrow(frame: "DataFrame") -> pa.Table:
    """Return all rows on the driver, as `DataFrame.toArrow` of Spark 4 does."""
    if hasattr(frame, "toArrow"):
        return frame.toArrow()
    old: Any = frame
    schema, batches = arrow_schema_of(old.schema), old._collect_as_arrow()  # noqa: SLF001  # as its toPandas does
    return pa.Table.from_batches(batches) if batches else schema.empty_table()


def query_of_frame(frame: Any) -> str:
    """Return the id of the query that a micro-batch of Spark belongs to.

    Raises UnsupportedError under Spark Connect, where a batch does not know its query.
    """
    try:
        query_id = frame.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
    except Exception as e:
        message = "the query of a batch is not known here"
        raise UnsupportedError(message, kind="spark-connect", found=type(e).__name__) from e
    return query_id or ""
