"""Delta tables: an empty one, and those that Spark makes once, when the first test asks for one."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from tests.delta.delta_tables import NEEDS, DeltaTable, build
from tests.delta.handmade import HandMade
from tests.optional_types import SparkSession


@pytest.fixture
def delta(tmp_path: Path) -> HandMade:
    """Give an empty Delta table that is made by hand."""
    return HandMade(tmp_path / "delta")


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
