"""Run the tour: every delete mode on real data, side by side, compared with pyarrow and with Spark and Iceberg.

The tour must not claim what it did not compare. The expected rows come from pyarrow alone. Spark reads what deletekit
wrote, and deletekit reads what Spark wrote.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from rich.console import Console
from rich.filesize import decimal
from rich.table import Table as RichTable
from rich.text import Text

from deletekit.course import datasets
from deletekit.errors import EnvironmentMissingError, FormatError, InvalidInputError
from deletekit.spark.releases import check_release, to_arrow
from deletekit.spark.sessions import running_session, session
from deletekit.table.catalog import Catalog
from deletekit.table.open_catalog import local_catalog
from deletekit.table.table import Table, load_table
from deletekit.tools.explain import explain
from deletekit.tools.inspect import inspect
from deletekit.verbs.append import append, create_table
from deletekit.verbs.delete import delete
from deletekit.verbs.scan import scan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MODES = (
    (2, "copy-on-write"),
    (2, "equality-delete"),
    (2, "position-delete"),
    (3, "copy-on-write"),
    (3, "equality-delete"),
    (3, "deletion-vector"),
)
SPARK_MODES = ((2, "copy-on-write"), (2, "merge-on-read"), (3, "merge-on-read"))
AIRCRAFT = "N725MQ"
DELETES = ("dep_time IS NULL", f"tailnum = '{AIRCRAFT}'")
"""The flights that were cancelled, and those of one aircraft."""


def run_tour(directory: Path | None, console: Console, keep: bool = True) -> None:
    """Delete cancelled flights and those of one aircraft in every mode, compare the results, and print what it found.

    Without Java, one sentence says so and the parts that need Spark are left out.

    Parameters
    ----------
    directory: where the catalog and tables go; None makes a temporary directory.
    keep: keep the tables and print their paths; False removes them.

    Raises InvalidInputError if the directory is not empty, FormatError if two results differ that must be equal.
    """
    started = time.perf_counter()
    if directory is not None and directory.is_dir() and any(directory.iterdir()):
        raise InvalidInputError("the tour needs an empty directory", kind="tour", file=str(directory))
    root = (directory or Path(tempfile.mkdtemp(prefix="deletekit-tour-"))).absolute()
    console.print(Text(f"deletekit tour: 336,776 flights, {len(MODES)} ways to delete, in {root}"))
    running = running_session()
    spark = None
    try:
        check_release(runtime=True)
        spark = session(root)
    except EnvironmentMissingError as e:
        console.print(Text(f"{e.message}; so loading through PySpark and the proofs with Spark are left out."))
    try:
        for proof in _run(root, console, spark):
            console.print(Text(f"✓ {proof}"))
    finally:
        if spark is not None and running is None:
            spark.stop()
    console.print(Text(f"Done in {time.perf_counter() - started:.0f} s."))
    if keep:
        console.print(Text(f"The tables are in {root / 'tour'}."), soft_wrap=True)
        next_table = "tour.flights_v3_deletion_vector"
        console.print(Text(f"Next: deletekit inspect --warehouse {root} {next_table} --deletes"), soft_wrap=True)
    else:
        shutil.rmtree(root)


def _run(root: Path, console: Console, spark: SparkSession | None) -> Iterator[str]:
    """Print what each mode cost, and yield each sentence that was checked."""
    catalog, flights = local_catalog(root), datasets.flights()
    expected = flights.filter(pc.is_valid(flights["dep_time"]))
    expected = expected.filter(pc.not_equal(pc.fill_null(expected["tailnum"], ""), AIRCRAFT))
    if spark is not None:
        pq.write_table(flights, root / "flights.parquet")
        spark.read.parquet(str(root / "flights.parquet")).createOrReplaceTempView("flights")
    names = [f"tour.flights_v{version}_{mode.replace('-', '_')}" for version, mode in MODES]
    shown = RichTable("", "mode", "files", "bytes", "seconds", "delete files", "live rows")
    shown.title = "Two commits in each mode: what they wrote, and what a reader meets"
    with console.status("deleting in every mode"):
        tables = [
            _load(catalog, name, version, flights, spark) for name, (version, _) in zip(names, MODES, strict=True)
        ]
        for table, (version, mode) in zip(tables, MODES, strict=True):
            shown.add_row(f"v{version}", mode, *_deleted(table, mode))
    for column in shown.columns[2:]:
        column.justify = "right"
    console.print(shown)
    for table in tables:
        _same(scan(table).to_arrow(), expected, f"deletekit's scan of {table.name}")
    yield f"all {len(tables)} modes hold the same {len(expected):,} rows, those pyarrow computes"
    for verdict in explain(tables[-1], "flight_id = 839", columns=["flight_id", "dep_time", "tailnum"]):
        yield f"flight 839 in {tables[-1].name}: {verdict.verdict}"
    if spark is None:
        return
    for name in names:
        _same(to_arrow(spark.table(f"{catalog.name}.{name}")), expected, f"Spark's read of {name}")
    yield f"Spark with Iceberg's runtime reads exactly those rows from the {len(names)} tables"
    for version, mode in SPARK_MODES:
        name = f"tour.spark_v{version}_{mode.replace('-', '_')}"
        _spark_create(spark, catalog, name, version, mode)
        for where in DELETES:
            spark.sql(f"DELETE FROM {catalog.name}.{name} WHERE {where}")
        _same(scan(load_table(catalog, name)).to_arrow(), expected, f"deletekit's scan of {name}")
    yield f"deletekit reads exactly those rows from {len(SPARK_MODES)} tables that Spark deleted from"


def _load(catalog: Catalog, name: str, version: int, flights: pa.Table, spark: SparkSession | None) -> Table:
    """Create a table of the flights, partitioned by month; through PySpark if there is a session."""
    if spark is not None:
        _spark_create(spark, catalog, name, version, "copy-on-write")
        return load_table(catalog, name)
    table = create_table(catalog, name, flights.schema, format_version=version, partition_by=["month"])
    append(table, flights)
    return table


def _spark_create(spark: SparkSession, catalog: Catalog, name: str, version: int, mode: str) -> None:
    spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {catalog.name}.tour")
    spark.sql(
        f"CREATE TABLE {catalog.name}.{name} USING iceberg PARTITIONED BY (month) "
        f"TBLPROPERTIES ('format-version'='{version}', 'write.delete.mode'='{mode}') AS SELECT * FROM flights"
    )


def _deleted(table: Table, mode: str) -> tuple[str, ...]:
    """Commit the deletes. Return files, bytes and seconds of them, and the delete files and rows afterwards."""
    started = time.perf_counter()
    commits = [delete(table, where, mode=mode) for where in DELETES]
    seconds = time.perf_counter() - started
    # Deletion vectors that share a Puffin file count once.
    files = [f for c in commits for f in (*c.added_data_files, *c.added_delete_files)]
    written = {f.file_path: f.file_size_in_bytes for f in files}
    cost = (f"{len(written):,}", decimal(sum(written.values())), f"{seconds:.2f}")
    return (*cost, f"{len(inspect(table, deletes=True)['deletes']):,}", f"{scan(table).count():,}")


def _same(found: pa.Table, expected: pa.Table, what: str) -> None:
    """Raise FormatError if two tables differ in any row. The order of the rows does not matter."""
    plain = pa.schema([pa.field(f.name, f.type) for f in expected.schema])
    rows, wanted = (t.select(plain.names).cast(plain).sort_by("flight_id").combine_chunks() for t in (found, expected))
    if not rows.equals(wanted):
        raise FormatError(f"{what} differs from the expected rows", "tour", found=len(found), expected=len(expected))
