"""Read the raw files as Spark DataFrames.

A file that does not match its schema must fail the job: no type is guessed, and no bad row is dropped.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING

from deletekit.spark.pipeline.delivery import NULL, Delivery, RawFile, raw_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_CSV = {
    "header": "true",
    # Compare the header with the schema; otherwise Spark ignores the header.
    "enforceSchema": "false",
    "mode": "FAILFAST",
    "nullValue": NULL,
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ssX",
}


def read_raw(session: SparkSession, delivery: Delivery, feed: str, files: Sequence[RawFile]) -> DataFrame:
    """Return files of one feed, or of `flights`, as one DataFrame."""
    from pyspark.sql.pandas.types import from_arrow_schema  # noqa: PLC0415  # pyspark is an extra

    schema = from_arrow_schema(raw_schema(delivery, feed))
    by_kind: dict[str, list[str]] = {}
    for file in files:
        by_kind.setdefault(file.path.rpartition(".")[2], []).append(_location(delivery.path(file)))
    frames = [
        session.read.format(kind).options(**(_CSV if kind == "csv" else {})).schema(schema).load(paths)
        for kind, paths in by_kind.items()
    ]
    return reduce(lambda one, other: one.unionByName(other), frames)


def _location(path: str) -> str:
    """Return a local path as Spark reads it: on the local file system, and not as a pattern."""
    return "file://" + re.sub(r"([\[\]{}*?\\])", r"\\\1", path)
