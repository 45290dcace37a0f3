"""Open the Spark session of a pipeline, and the catalog that both deletekit and Spark with Iceberg use.

Under `spark-submit` the session is the submitted one, with its master, memory and jars. Otherwise it is deletekit's
own, which ends with the pipeline.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deletekit.errors import InvalidInputError
from deletekit.spark.sessions import running_session
from deletekit.spark.sessions import session as spark_session
from deletekit.table.catalog import Catalog, load_catalog, local_catalog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFAULT_MASTER = "local[2]"
_SUBMITTED = "PYSPARK_GATEWAY_PORT"


@contextmanager
def session_opener(
    directory: Path,
    *,
    master: str | None = None,
    catalog_name: str | None = None,
    properties: Mapping[str, str] | None = None,
    settings: Mapping[str, str] | None = None,
) -> Iterator[Callable[[], tuple[SparkSession, Catalog]]]:
    """Give a function that opens a pipeline's session and catalog; both are closed at the end.

    Parameters
    ----------
    directory: the pipeline's; the embedded catalog is below it.
    master: Spark's master; default `local[2]`, or what was given to `spark-submit`.
    catalog_name, properties: a pyiceberg catalog instead of the embedded one, as `load_catalog` takes it.
    settings: further Spark properties.

    Raises InvalidInputError for a master beside that of `spark-submit`.
    """
    submitted, given = _SUBMITTED in os.environ, dict(properties or {})
    if submitted and master is not None:
        raise InvalidInputError("spark-submit has its own master", kind="spark-master", field="master", found=master)
    with ExitStack() as stack:

        def open_session() -> tuple[SparkSession, Catalog]:
            if catalog_name is None:
                warehouse = directory.absolute() / "warehouse"
                catalog = local_catalog(warehouse)
                place: dict[str, Any] = {"warehouse": warehouse}
            else:
                catalog = load_catalog(catalog_name, **given)
                # Without properties it is a catalog of pyiceberg's configuration file.
                place = {"catalog": given or dict(catalog.pyiceberg.properties), "catalog_name": catalog_name}
            stack.callback(catalog.pyiceberg.close)
            if submitted:
                _submitted_session()
            before = running_session()
            session = spark_session(**place, master=master or DEFAULT_MASTER, settings=settings)
            if before is None:
                stack.callback(session.stop)
            return session, catalog

        yield open_session


def _submitted_session() -> None:
    from pyspark.sql import SparkSession  # noqa: PLC0415  # pyspark is an extra

    SparkSession.builder.appName("deletekit pipeline").getOrCreate()
