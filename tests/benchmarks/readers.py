"""How each engine loads two columns of a table as Arrow: a function per engine.

Calling the function imports the engine and starts what it needs; what it returns is timed: from the address of the
table to an Arrow table in this process. A job is {"location", "name", "folder", "paths", "warehouse", "columns"}.
"""

# ruff: noqa: PLC0415  # each engine is imported in its own process alone

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pyarrow as pa

from conformance.engines import duckdb_connection

COLUMNS = ["id", "value"]

AGGREGATES = "count(*), sum(id), sum(value)"

Job = dict[str, Any]
Facts = dict[str, Any]
Reader = Callable[[Job], pa.Table]


def deletekit() -> Reader:
    import deletekit as dk

    dk.scan, dk.from_metadata  # noqa: B018  # imported when first named
    return lambda job: dk.scan(dk.from_metadata(job["location"]), columns=job["columns"]).to_arrow()


def raw() -> Reader:
    """The data files alone, no deletes, in the way that the job names."""
    ways = raw_ways()
    return lambda job: ways[job["raw_way"]](job)


def raw_ways() -> dict[str, Reader]:
    """Ways in which pyarrow and polars load columns of Parquet files."""
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

    def by_polars(job: Job) -> pa.Table:
        import polars as pl

        return pl.read_parquet(job["paths"], columns=job["columns"]).to_arrow()

    return {
        "dataset.to_table": partial(dataset, pre_buffer=True),
        "dataset.to_table, no pre_buffer": partial(dataset, pre_buffer=False),
        "read_table": read_table,
        "read_table, no pre_buffer": partial(read_table, pre_buffer=False),
        "files in threads": by_file,
        "files in threads, pre_buffer": partial(by_file, pre_buffer=True),
        "polars.read_parquet": by_polars,
    }


def pyiceberg() -> Reader:
    from pyiceberg.table import StaticTable

    return lambda job: StaticTable.from_metadata(job["location"]).scan(selected_fields=tuple(job["columns"])).to_arrow()


def polars() -> Reader:
    import polars as pl

    return lambda job: pl.scan_iceberg(job["location"]).select(job["columns"]).collect().to_arrow()


def duckdb() -> Reader:
    query = duckdb_query()
    return lambda job: query(f"SELECT {', '.join(job['columns'])} FROM iceberg_scan('{job['location']}')")


def spark(warehouse: str) -> Reader:
    session = spark_session(warehouse)
    return lambda job: session.sql(f"SELECT {', '.join(job['columns'])} FROM local.{job['name']}").toArrow()


def spark_session(warehouse: str) -> Any:
    """deletekit's session with room for a result of this size."""
    from deletekit.spark import session

    return session(warehouse, driver_memory="6g", settings={"spark.driver.maxResultSize": "0"})


def duckdb_query() -> Callable[[str], pa.Table]:
    """DuckDB with its Iceberg extension from the package of that name."""
    connection = duckdb_connection()
    return lambda sql: connection.execute(sql).to_arrow_table()


READERS: dict[str, Callable[..., Any]] = {
    "raw": raw,
    "deletekit": deletekit,
    "polars": polars,
    "duckdb": duckdb,
    "pyiceberg": pyiceberg,
    "Spark": spark,
}
"""By the name in the report."""

PEERS = tuple(name for name in READERS if name not in ("raw", "deletekit"))


def open_reader(name: str, job: Job) -> Callable[[Job], Any]:
    """The reader of that name, in the process that will read."""
    return READERS[name](job["warehouse"]) if name.startswith("Spark") else READERS[name]()
