"""What tests of engines share: a catalog that Spark's `local` is, too, and processes."""

import concurrent.futures
import multiprocessing
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from typing import Any

import pytest

import deletekit as dk
from tests.optional_types import SparkSession


@pytest.fixture(scope="session")
def shared(spark: SparkSession) -> Iterator[dk.Catalog]:
    """Give deletekit's view of Spark's catalog `local`."""
    catalog = dk.local_catalog(spark.conf.get("spark.sql.catalog.local.warehouse") or "")
    yield catalog
    catalog.pyiceberg.engine.dispose()  # type: ignore[attr-defined]


def ray_pool() -> Executor:
    """Give an executor on Ray, of the lines that the docstring of `engine.executor` shows."""
    ray = pytest.importorskip("ray")
    lines = (dk.engine.executor.__doc__ or "").splitlines()
    start = next(i for i, line in enumerate(lines) if "class RayExecutor" in line)
    indent = len(lines[start]) - len(lines[start].lstrip())
    names: dict[str, Any] = {"concurrent": concurrent, "ray": ray}
    exec("\n".join(line[indent:] for line in lines[start : start + 3]), names)  # noqa: S102 - our own lines
    made: Executor = names["RayExecutor"]()
    return made


# tests/engines/test_documented.py runs each of them in the second tier.
@pytest.fixture(scope="module", params=["loky", *(pytest.param(n, marks=pytest.mark.long) for n in ("dask", "ray"))])
def pool(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Executor]:
    """Give the executors of other libraries, one after the other, each with two workers."""
    folder = str(tmp_path_factory.mktemp("pool"))
    if request.param == "loky":
        executor = pytest.importorskip("loky").ProcessPoolExecutor(2)
        yield executor
        executor.shutdown()
    elif request.param == "dask":
        distributed = pytest.importorskip("distributed")
        options = {"dashboard_address": None, "local_directory": folder, "threads_per_worker": 1}
        with distributed.LocalCluster(n_workers=2, **options) as cluster, distributed.Client(cluster) as client:
            yield client.get_executor()
    else:
        executor = ray_pool()
        ray = pytest.importorskip("ray")
        ray.init(num_cpus=2, include_dashboard=False, logging_level="error")
        yield executor
        ray.shutdown()


@pytest.fixture(scope="session")
def processes() -> Iterator[Executor]:
    """Give two processes, as a user's ProcessPoolExecutor."""
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        list(pool.map(abs, range(2)))
        yield pool
