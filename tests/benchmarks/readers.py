"""How each engine loads two columns of a table as Arrow: a function per engine.

Calling the function imports the engine and starts what it needs; what it returns is timed: from the address of the
table to an Arrow table in this process. A job is {"location", "name", "folder", "paths", "warehouse", "columns"}.
"""

# ruff: noqa: PLC0415  # each engine is imported in its own process alone

from __future__ import annotations

import importlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

__all__ = ["COLUMNS", "PEERS", "READERS", "Job", "Reader", "open_reader", "raw_ways"]

COLUMNS = ["id", "value"]

Job = dict[str, Any]
Reader = Callable[[Job], pa.Table]


def deletekit() -> Reader:
    import deletekit as dk

    dk.scan, dk.from_metadata  # noqa: B018  # imported when first named
    return lambda job: dk.scan(dk.from_metadata(job["location"]), columns=job["columns"]).to_arrow()


def raw(way: str | None = None) -> Reader:
    """pyarrow on the data files alone, no deletes: the fastest of its ways, or the one that is named."""
    ways = raw_ways()
    return ways[way] if way else lambda job: ways[job["raw_way"]](job)


def raw_ways() -> dict[str, Reader]:
    """Every way in which pyarrow loads columns of Parquet files."""
    import pyarrow.dataset as ds
    import pyarrow.parquet as pq

    def dataset(job: Job, *, pre_buffer: bool) -> pa.Table:
        scan = ds.ParquetFragmentScanOptions(pre_buffer=pre_buffer)
        files = ds.dataset(job["paths"], format="parquet")
        return files.to_table(columns=job["columns"], fragment_scan_options=scan)

    def read_table(job: Job, **options: bool) -> pa.Table:
        return pq.read_table(job["paths"], columns=job["columns"], **options)

    def by_file(job: Job, **options: bool) -> pa.Table:
        def read(path: str) -> pa.Table:
            with pq.ParquetFile(path, **options) as file:
                return file.read(columns=job["columns"], use_threads=False)

        with ThreadPoolExecutor() as pool:
            return pa.concat_tables(pool.map(read, job["paths"]))

    def by_row_group(job: Job, **options: bool) -> pa.Table:
        def read(task: tuple[str, int]) -> pa.Table:
            with pq.ParquetFile(task[0], **options) as file:
                return file.read_row_group(task[1], columns=job["columns"], use_threads=False)

        tasks = [(path, i) for path in job["paths"] for i in range(pq.read_metadata(path).num_row_groups)]
        with ThreadPoolExecutor() as pool:
            return pa.concat_tables(pool.map(read, tasks))

    return {
        "dataset.to_table": partial(dataset, pre_buffer=True),
        "dataset.to_table, no pre_buffer": partial(dataset, pre_buffer=False),
        "read_table": read_table,
        "read_table, no pre_buffer": partial(read_table, pre_buffer=False),
        "read_table, memory_map": partial(read_table, memory_map=True),
        "files in threads": by_file,
        "files in threads, pre_buffer": partial(by_file, pre_buffer=True),
        "files in threads, memory_map": partial(by_file, memory_map=True),
        "row groups in threads": by_row_group,
        "row groups in threads, memory_map": partial(by_row_group, memory_map=True),
    }


def pyiceberg() -> Reader:
    from pyiceberg.table import StaticTable

    return lambda job: StaticTable.from_metadata(job["location"]).scan(selected_fields=tuple(job["columns"])).to_arrow()


def polars() -> Reader:
    import polars as pl

    return lambda job: pl.scan_iceberg(job["location"]).select(job["columns"]).collect().to_arrow()


def duckdb() -> Reader:
    import duckdb as db

    connection = db.connect(config={"allow_unsigned_extensions": "true"})
    for name in ("avro", "httpfs", "iceberg"):
        package = Path(str(importlib.import_module(f"duckdb_extension_{name}").__file__)).parent
        connection.execute(f"LOAD '{next(package.glob('extensions/*/*.duckdb_extension'))}'")

    def read(job: Job) -> pa.Table:
        columns = ", ".join(job["columns"])
        return connection.execute(f"SELECT {columns} FROM iceberg_scan('{job['location']}')").to_arrow_table()

    return read


READERS: dict[str, Callable[[], Reader]] = {
    "raw pyarrow": raw,
    "deletekit": deletekit,
    "polars": polars,
    "duckdb": duckdb,
    "pyiceberg": pyiceberg,
}
"""By the name in the report."""

PEERS = tuple(name for name in READERS if name not in ("raw pyarrow", "deletekit"))


def open_reader(name: str, job: Job) -> Reader:
    """The reader of that name, in the process that will read."""
    del job
    return READERS[name]()
