"""What the tests on Spark share: the session's catalog, and names of tables that are not there yet."""

from itertools import count
from typing import Any

import pytest

from tests.conftest import spark_catalog
from tests.optional_types import DataFrame, SparkSession

_numbers = count()


catalog = spark_catalog


@pytest.fixture
def name(spark: SparkSession) -> str:
    """Give the name of a table that is not there yet."""
    return f"source{next(_numbers)}.t"


def rows(frame: DataFrame) -> list[dict[str, Any]]:
    return [row.asDict(recursive=True) for row in frame.collect()]
