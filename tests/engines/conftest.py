"""What tests of engines share: a catalog that Spark's `local` is, too."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

import deletekit as dk

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def shared(spark: SparkSession) -> Iterator[dk.Catalog]:
    """Give deletekit's view of Spark's catalog `local`."""
    catalog = dk.local_catalog(spark.conf.get("spark.sql.catalog.local.warehouse") or "")
    yield catalog
    catalog.pyiceberg.engine.dispose()  # type: ignore[attr-defined]
