"""The Delta tables, each made by Spark once, when the first test asks for it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

import pytest

from tests.delta.delta_tables import NEEDS, DeltaTable, build

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def delta_table(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], DeltaTable]:
    """Give a function that makes a table of `HISTORIES` by name; who changes it copies it first."""
    folder = tmp_path_factory.mktemp("delta")

    @cache
    def made(name: str) -> DeltaTable:
        for needed in NEEDS.get(name, ()):
            made(needed)
        return build(spark, folder, name)

    return made
