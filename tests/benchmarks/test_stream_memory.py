"""Sums by streaming batches take at most one and a half times the memory of pyarrow's own streaming scan.

Memory, unlike time, does not depend on what else the machine does; so this target is a test.
"""

import statistics
from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import Any

import pytest

from tests.benchmarks.measure import Worker
from tests.benchmarks.read import wrong
from tests.benchmarks.readers import COLUMNS, Facts, Job
from tests.benchmarks.settings import Settings

MOST = 1.5
ROWS = 8_000_000
PROCESSES = 3


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return Settings(
        work=tmp_path_factory.mktemp("stream"),
        rows=ROWS,
        runs=1,
        peers=(),
        only_tables=("none", "dv_10", "eq_id_10"),
        seconds=120,
        small=True,
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", [pytest.param("none", marks=pytest.mark.long), "dv_10", "eq_id_10"])
def test_peak_memory_beside_pyarrow(settings: Settings, name: str) -> None:
    tables = settings.tables()

    def peak(engine: str) -> float:
        peaks = []
        for _ in range(PROCESSES):
            worker = Worker(f"{__name__}:open_stream", engine, seconds=120)
            try:
                _, facts, memory = worker.run_with_memory(asdict(tables[name]) | {"columns": COLUMNS})
            finally:
                worker.stop()
            assert wrong(asdict(tables[name if engine == "deletekit" else "none"].expected), facts) is None
            assert memory is not None
            peaks.append(memory)
        return statistics.median(peaks)

    ours, theirs = peak("deletekit"), peak("pyarrow")
    assert ours <= MOST * theirs, f"{ours / 1e6:.0f} MB, pyarrow {theirs / 1e6:.0f} MB"


def open_stream(engine: str) -> Callable[[Job], Facts]:
    """In the worker: sums over the batches that the engine streams."""
    import pyarrow.compute as pc  # noqa: PLC0415  # each engine is imported in its own process alone

    def sums(batches: Iterable[Any]) -> Facts:
        rows, ids, values = 0, 0, 0.0
        for batch in batches:
            rows += len(batch)
            ids += pc.sum(batch.column(0)).as_py() or 0
            values += pc.sum(batch.column(1)).as_py() or 0.0
        return {"rows": rows, "sum_id": ids, "sum_value": values}

    if engine == "pyarrow":
        import pyarrow.dataset as ds  # noqa: PLC0415

        return lambda job: sums(ds.dataset(job["paths"]).scanner(columns=job["columns"]).to_batches())
    import pandas  # noqa: F401, ICN001, PLC0415  # pyarrow imports it as soon as it meets it
    import polars  # noqa: F401, ICN001, PLC0415  # the keys of a scan need it

    import deletekit as dk  # noqa: PLC0415

    _ = dk.scan, dk.from_metadata  # imported when first named
    return lambda job: sums(dk.scan(dk.from_metadata(job["location"]), columns=job["columns"]).to_batches())
