"""The raw files as Spark DataFrames.

Law: a file that does not hold what its schema says fails the job; nothing is guessed, and no bad row is dropped.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from deletekit.errors import UnsupportedError
from deletekit.spark.pipeline.delivery import NULL, Delivery, RawFile, raw_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["read_raw"]

_CSV = {
    "header": "true",
    # Compares the header with the schema, which Spark else takes for true whatever the file says.
    "enforceSchema": "false",
    "mode": "FAILFAST",
    "nullValue": NULL,
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ssX",
}


def read_raw(session: SparkSession, delivery: Delivery, feed: str, files: Sequence[RawFile]) -> DataFrame:
    """Files of one feed, or of `flights`, as one DataFrame."""
    schema = ", ".join(f"`{f.name}` {_spark_type(f.type)}" for f in raw_schema(delivery, feed))
    by_kind: dict[str, list[str]] = {}
    for file in files:
        by_kind.setdefault(file.path.rpartition(".")[2], []).append(_location(delivery.path(file)))
    frames = [
        session.read.format(kind).options(**(_CSV if kind == "csv" else {})).schema(schema).load(paths)
        for kind, paths in by_kind.items()
    ]
    whole = frames[0]
    for frame in frames[1:]:
        whole = whole.unionByName(frame)
    return whole


def _location(path: str) -> str:
    """A local path as Spark reads it: not of another default file system, and no pattern."""
    return "file://" + re.sub(r"([\[\]{}*?\\])", r"\\\1", path)


def _spark_type(kind: pa.DataType) -> str:
    names = {"int32": "int", "int64": "bigint", "string": "string", "timestamp[us, tz=UTC]": "timestamp"}
    if str(kind) not in names:
        raise UnsupportedError(
            "no raw file holds this type", kind="pipeline-type", found=str(kind), expected=", ".join(names)
        )
    return names[str(kind)]
