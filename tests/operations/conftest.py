"""The catalog that the tests of this folder make their tables in, and the engine: `DELETEKIT_ENGINE=spark`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import deletekit as dk
from tests.tables import new_catalog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[dk.Catalog]:
    """Give an empty catalog on disk."""
    with new_catalog(tmp_path / "warehouse") as catalog:
        yield catalog


if os.environ.get("DELETEKIT_ENGINE", "local") == "spark":

    @pytest.fixture(autouse=True)
    def on_spark(spark: SparkSession) -> Iterator[None]:
        """Run the verbs of every test here on Spark, unless it names an engine."""
        with dk.engine.spark(spark, 2):
            yield
