"""Choose where verbs run inside a `with` block: in threads of this process, or on the executors of a Spark session."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from deletekit.engines.current import engine_or_default, local, running_on
from deletekit.public import public

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from deletekit.spark.engine import SparkEngine

__all__ = ["engine_or_default", "local", "spark"]


@public
@contextmanager
def spark(session: SparkSession, threads: int | None = None) -> Iterator[SparkEngine]:
    """Run the verbs inside the `with` block on the executors of a Spark session; the driver plans and commits.

    Parameters
    ----------
    session: a PySpark session, such as `deletekit.spark.session()` starts.
    threads: how many groups of files are worked on at a time; default as many as the executors have cores.

    Raises UnsupportedError for a Spark Connect session.
    """
    from deletekit.spark.engine import SparkEngine  # noqa: PLC0415  # pyspark is an extra

    engine = SparkEngine(session, threads)
    with running_on(engine):
        yield engine
