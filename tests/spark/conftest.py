"""What the tests on Spark share: the session's catalog, and names of tables that are not there yet."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import deletekit as dk
from tests.tables import new_catalog

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_numbers = count()


@pytest.fixture(scope="module")
def catalog(spark: SparkSession) -> Iterator[dk.Catalog]:
    """Give the catalog that Spark has as `local`."""
    with new_catalog(Path(spark.conf.get("spark.sql.catalog.local.warehouse"))) as catalog:
        yield catalog


@pytest.fixture
def name(spark: SparkSession) -> str:
    """Give the name of a table that is not there yet."""
    return f"source{next(_numbers)}.t"


def rows(frame: DataFrame) -> list[dict[str, Any]]:
    return [row.asDict(recursive=True) for row in frame.collect()]
