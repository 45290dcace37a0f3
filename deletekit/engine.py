"""Choose where verbs run: in threads of this process, in an executor, or on the executors of a Spark session.

Each function returns an engine. It is given to a verb as `engine`, or is a `with` block for all verbs inside.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deletekit.engines.current import engine_or_default, executor, local
from deletekit.public import public

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from deletekit.spark.engine import SparkEngine

__all__ = ["engine_or_default", "executor", "local", "spark"]


@public
def spark(session: SparkSession, threads: int | None = None) -> SparkEngine:
    """Return an engine that runs tasks on the executors of a Spark session; the driver plans and commits.

    Parameters
    ----------
    session: a PySpark session, such as `deletekit.spark.session()` starts.
    threads: how many groups of files are worked on at a time; default as many as the executors have cores.

    Raises UnsupportedError for a Spark Connect session, InvalidInputError for less than one thread.
    """
    from deletekit.spark.engine import SparkEngine  # noqa: PLC0415  # pyspark is an extra

    return SparkEngine(session, threads)
