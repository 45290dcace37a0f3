"""How each engine loads two columns of a table as Arrow: a function per engine.

Calling the function imports the engine and starts what it needs; what it returns is timed: from the address of the
table to an Arrow table in this process. A job is {"location", "name", "folder", "paths", "warehouse", "columns"}.
"""

# ruff: noqa: PLC0415  # each engine is imported in its own process alone

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pyarrow as pa

from conformance.engines import duckdb_connection, sail_query

COLUMNS = ["id", "value"]

AGGREGATES = "count(*), sum(id), sum(value)"

Job = dict[str, Any]
Facts = dict[str, Any]
Reader = Callable[[Job], pa.Table]


def deletekit() -> Reader:
    import deletekit as dk

    dk.scan, dk.from_metadata  # noqa: B018  # imported when first named
    return lambda job: dk.scan(dk.from_metadata(job["location"]), columns=job["columns"]).to_arrow()


def raw(job: Job) -> Reader:
    """The data files alone, by the fastest way of pyarrow that checks the pages; more columns if the job says so."""
    import pyarrow.parquet as pq

    columns, checked = job.get("raw_columns", job["columns"]), partial(pq.ParquetFile, page_checksum_verification=True)

    def read_table(*, pre_buffer: bool) -> pa.Table:
        return pq.read_table(job["paths"], columns=columns, page_checksum_verification=True, pre_buffer=pre_buffer)

    def by_file(*, use_threads: bool) -> pa.Table:
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            read = pool.map(lambda path: checked(path).read(columns=columns, use_threads=use_threads), job["paths"])
            return pa.concat_tables(read)

    def seconds(way: Callable[[], pa.Table]) -> float:
        begin = time.perf_counter()
        way()
        return time.perf_counter() - begin

    ways = [partial(read_table, pre_buffer=b) for b in (False, True)]
    ways += [partial(by_file, use_threads=b) for b in (False, True)]
    fastest = min(ways, key=lambda way: min(seconds(way) for _ in range(3)))
    return lambda _: fastest()


def files_alone() -> Callable[[Job], Any]:
    import polars as pl

    return lambda job: pl.scan_parquet(job["paths"]).select(job["columns"]).collect()


def scan_polars() -> Callable[[Job], Any]:
    import deletekit as dk

    dk.scan_polars, dk.from_metadata  # noqa: B018  # as above
    return lambda job: dk.scan_polars(dk.from_metadata(job["location"])).select(job["columns"]).collect()


def without_deletes() -> Reader:
    read = deletekit()
    return lambda job: read(job | {"location": job["plain"]})


def pyiceberg() -> Reader:
    from pyiceberg.table import StaticTable

    return lambda job: StaticTable.from_metadata(job["location"]).scan(selected_fields=tuple(job["columns"])).to_arrow()


def polars() -> Reader:
    import polars as pl

    return lambda job: pl.scan_iceberg(job["location"]).select(job["columns"]).collect().to_arrow()


def duckdb() -> Reader:
    query = duckdb_query()
    return lambda job: query(f"SELECT {', '.join(job['columns'])} FROM iceberg_scan('{job['location']}')")


def spark(job: Job) -> Reader:
    session = spark_session(job["warehouse"])
    return lambda job: session.sql(f"SELECT {', '.join(job['columns'])} FROM local.{job['name']}").toArrow()


def spark_session(warehouse: str) -> Any:
    """deletekit's session with room for a result of this size."""
    from deletekit.spark import session

    return session(warehouse, driver_memory="6g", settings={"spark.driver.maxResultSize": "0"})


def duckdb_query() -> Callable[[str], pa.Table]:
    """DuckDB with its Iceberg extension from the package of that name."""
    connection = duckdb_connection()
    return lambda sql: connection.execute(sql).to_arrow_table()


def sail() -> Reader:
    query = sail_query()
    return lambda job: query(f"SELECT {', '.join(job['columns'])} FROM iceberg.`{job['folder']}`")


def daft() -> Reader:
    import daft  # type: ignore[import-not-found]

    return lambda job: daft.read_iceberg(job["location"]).select(*job["columns"]).to_arrow()


OWN: dict[str, Callable[..., Any]] = {
    "pyarrow": raw,
    "polars, files alone": files_alone,
    "deletekit": deletekit,
    "deletekit, no deletes": without_deletes,
    "scan_polars": scan_polars,
}
READERS: dict[str, Callable[..., Any]] = {
    "polars": polars,
    "duckdb": duckdb,
    "pyiceberg": pyiceberg,
    "Sail": sail,
    "Daft": daft,
    "Spark": spark,
}
"""By the name in the report."""

PEERS = tuple(READERS)


def open_reader(name: str, job: Job) -> Callable[[Job], Any]:
    """The reader of that name, in the process that will read."""
    opened = (OWN | READERS)[name]
    found: Callable[[Job], Any] = opened(job) if name in ("pyarrow", "Spark") else opened()
    return found
