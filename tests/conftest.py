"""Fixtures for the parts that a machine may lack, and what holds for every test."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from dev import java_problem, java_program
from tests.spark_session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytest_plugins = ["tests.no_skips"]

SPARK_MARKS = (
    pytest.mark.spark,
    pytest.mark.xdist_group("spark"),
    # py4j leaves its sockets to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed <socket.socket:ResourceWarning"),
)


@pytest.hookimpl(tryfirst=True)  # before `-m` selects
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what uses the `spark` fixture: nobody has to remember, and no test starts a second JVM by mistake."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            for mark in SPARK_MARKS:
                item.add_marker(mark)


@pytest.fixture(scope="session")
def java() -> str:
    """Give the `java` to run, 17 or later; a test that needs it is skipped where there is none."""
    problem = java_problem()
    if problem:
        pytest.skip(problem)
    return java_program()


@pytest.fixture(scope="session")
def spark(java: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Give the one Spark session of this run, with the Iceberg catalog `local` in a folder of its own."""
    pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'deletekit[spark]'")
    session = spark_session(tmp_path_factory.mktemp("spark"))
    yield session
    session.stop()
