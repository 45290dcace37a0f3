"""A session of a Spark that Iceberg has no runtime for: it refuses Iceberg's SQL by naming the verb that does the same.

Without the class of Iceberg's catalog Spark names only the class. It refuses before a job starts, and so do we.
"""

import re
from functools import partial
from logging import WARNING
from typing import TYPE_CHECKING, Any

from deletekit.errors import UnsupportedError
from deletekit.log import tell
from deletekit.spark.releases import RELEASE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_INSTEAD = {
    "alter": "deletekit.add_column(table, name, type), set_properties and their like",
    "call": "deletekit.compact(table), expire_snapshots(table) and their like",
    "create": "deletekit.create_table(catalog, name, schema)",
    "delete": "deletekit.delete(table, filter)",
    "drop": "catalog.drop_table(name)",
    "insert": "deletekit.append(table, frame)",
    "merge": "deletekit.merge(table, frame, on=[...])",
    "update": "deletekit.update(table, {column: value}, where=filter)",
}

_NOT_HERE = "(?i)plugin.class.not.found|find catalog plugin class|not support.*deletekit|deletekit` does not support"
"""What Spark says of a catalog of Iceberg's, and of the data source that only reads and appends."""


def refusing_iceberg_sql(session: "SparkSession") -> "SparkSession":
    """Let `sql` and `table` of a session raise UnsupportedError for what only Iceberg's runtime can do; log so."""
    if "sql" not in vars(session):
        can = 'read and append by format("deletekit"), SELECT by spark.register, every verb by engine.spark'
        tell("spark", level=WARNING, release=RELEASE, iceberg="no runtime", can=can)
        for name in ("sql", "table"):
            setattr(session, name, partial(_or_refuse, getattr(session, name)))
    return session


def _or_refuse(call: Any, text: str, *arguments: Any, **named: Any) -> Any:
    try:
        return call(text, *arguments, **named)
    except Exception as e:
        said = str(e)
        if not re.search(_NOT_HERE, said):
            raise
        word = next(iter(text.split()), "").lower()
        expected = _INSTEAD.get(word, "deletekit.spark.register(session, catalog), then SELECT from its views")
        message = "Iceberg has no runtime, and so no SQL, for this Spark"
        raise UnsupportedError(message, kind="spark-sql", field=word, found=RELEASE, expected=expected) from e
