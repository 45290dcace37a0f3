"""Make the tables of a catalog temporary views of Spark: SQL on them without an Iceberg jar."""

from __future__ import annotations

from collections import Counter
from logging import WARNING
from typing import TYPE_CHECKING

from deletekit.log import tell
from deletekit.public import public
from deletekit.spark.releases import check_classic
from deletekit.table.catalog import Catalog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@public
def register(session: SparkSession, catalog: Catalog) -> dict[str, str]:
    """Make every table of a catalog a temporary view of a Spark session; return the tables' names by those of views.

    Parameters
    ----------
    session: any session of Spark 4.0 or later; it needs no Iceberg jar.

    A view is called as its table without the namespace, or, where several tables are called so, by the whole name, in
    SQL in backquotes. It shows the table as it is now: register again to see later commits. `INSERT INTO` a view
    appends to its table. A table with a column of a type that Spark lacks is left out, and the logger `deletekit` tells
    why.

    Raises UnsupportedError for Spark Connect, EnvironmentMissingError for a Spark without data sources in Python, or if
    the executors' Python lacks this deletekit.
    """
    from deletekit.spark.engine import check_executors  # noqa: PLC0415  # pyspark is an extra

    check_classic(session, data_sources=True)
    check_executors(session)
    names = catalog.tables()
    lasts = Counter(name.rpartition(".")[2].lower() for name in names)
    properties = {f"catalog.{key}": str(value) for key, value in catalog.pyiceberg.properties.items()}
    reader = session.read.format("deletekit").options(catalog=catalog.name, **properties)
    views = {}
    for name in names:
        last = name.rpartition(".")[2]
        view = last if lasts[last.lower()] == 1 else name
        try:
            frame = reader.load(name)
        except Exception as e:
            if "deletekit.errors.UnsupportedError" not in str(e):
                raise
            why = str(e).partition("deletekit.errors.UnsupportedError: ")[2].partition("\n")[0]
            tell("no view", level=WARNING, table=name, error=why)
            continue
        frame.createOrReplaceTempView("`" + view.replace("`", "``") + "`")
        views[view] = name
    return views
