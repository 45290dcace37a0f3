"""What tests of engines share: a catalog that Spark's `local` is, too, and processes."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
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


@pytest.fixture(scope="session")
def processes() -> Iterator[Executor]:
    """Give two processes, as a user's ProcessPoolExecutor."""
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        list(pool.map(abs, range(2)))
        yield pool
