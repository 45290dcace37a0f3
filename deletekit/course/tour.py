"""Run the tour: every delete mode on real data, side by side, compared with pyarrow and with Spark and Iceberg.

The tour must not claim what it did not compare. The expected rows come from pyarrow alone. Spark reads what deletekit
wrote, and deletekit reads what Spark wrote.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from rich.console import Console
from rich.filesize import decimal
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table as RichTable
from rich.text import Text

from deletekit import datasets
from deletekit.errors import EnvironmentMissingError, FormatError, InvalidInputError
from deletekit.spark.releases import to_arrow
from deletekit.spark.sessions import running_session
from deletekit.spark.sessions import session as spark_session
from deletekit.table.catalog import Catalog
from deletekit.table.open_catalog import local_catalog
from deletekit.table.table import Table, load_table
from deletekit.tools.explain import explain
from deletekit.tools.inspect import inspect
from deletekit.verbs.append import append, create_table
from deletekit.verbs.delete import delete
from deletekit.verbs.merge import merge
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
CORRECTIONS = 5_000


@dataclass
class TourReport:
    """What the tour found: what each mode cost, as it is printed, and sentences that were checked."""

    directory: Path
    modes: list[tuple[str, ...]] = field(default_factory=list)
    proofs: list[str] = field(default_factory=list)
    left_out: str | None = None
    seconds: float = 0.0


def run_tour(directory: Path | None, console: Console, keep: bool = True) -> TourReport:
    """Delete cancelled flights, delete one aircraft's and correct delays, in every mode, and compare the results.

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
    report = TourReport(root)
    console.print(Text(f"deletekit tour: 336,776 flights, {len(MODES)} ways to delete, in {root}"))
    with _progress(console) as step:
        session, started_here = _session(root, report, step)
        try:
            _run(root, report, session, step)
        finally:
            if session is not None and started_here:
                session.stop()
    report.seconds = time.perf_counter() - started
    _print(report, console)
    if keep:
        console.print(Text(f"The tables are in {report.directory / 'tour'}."), soft_wrap=True)
        next_table = "tour.flights_v3_deletion_vector"
        console.print(Text(f"Next: deletekit inspect --warehouse {root} {next_table} --deletes"), soft_wrap=True)
    else:
        shutil.rmtree(root)
    return report


Step = Callable[[str], None]


def _run(root: Path, report: TourReport, session: SparkSession | None, step: Step) -> None:
    catalog = local_catalog(root)
    flights = datasets.flights()
    corrections = _corrections(flights)
    expected = _expected(flights, corrections)
    if session is not None:
        _register(session, root, flights, corrections)
    tables = {}
    for version, mode in MODES:
        name = f"tour.flights_v{version}_{mode.replace('-', '_')}"
        step(f"{name}: load, delete, merge")
        table = _load(catalog, name, version, flights, session)
        report.modes.append(_run_mode(table, version, mode, corrections))
        tables[name] = table
    for name, table in tables.items():
        step(f"{name}: compare with the rows Arrow expects")
        _same(scan(table).to_arrow(), expected, f"deletekit's scan of {name}")
    report.proofs.append(f"all {len(tables)} modes hold the same {len(expected):,} rows, those pyarrow computes")
    _explain_one(tables["tour.flights_v3_deletion_vector"], report)
    if session is not None:
        _prove_with_spark(session, catalog, list(tables), expected, report, step)


def _session(root: Path, report: TourReport, step: Step) -> tuple[SparkSession | None, bool]:
    """Return the session, and whether this tour started it and so must stop it."""
    step("starting Spark with Iceberg's runtime")
    try:
        running = running_session()
        return spark_session(root), running is None
    except EnvironmentMissingError as e:
        report.left_out = f"{e.message}; so loading through PySpark and the proofs with Spark are left out."
        return None, False


def _register(session: SparkSession, root: Path, flights: pa.Table, corrections: pa.Table) -> None:
    """Register the inputs with Spark as views of Parquet files."""
    for name, rows in (("flights", flights), ("corrections", corrections)):
        path = root / f"input-{name}.parquet"
        pq.write_table(rows, path)
        session.read.parquet(str(path)).createOrReplaceTempView(name)


def _load(catalog: Catalog, name: str, version: int, flights: pa.Table, session: SparkSession | None) -> Table:
    """Create a table of the flights, partitioned by month; through PySpark if there is a session."""
    if session is None:
        table = create_table(catalog, name, flights.schema, format_version=version, partition_by=["month"])
        append(table, flights)
        return table
    _spark_create(session, catalog, name, version, "copy-on-write")
    return load_table(catalog, name)


def _spark_create(session: SparkSession, catalog: Catalog, name: str, version: int, mode: str) -> None:
    session.sql(f"CREATE NAMESPACE IF NOT EXISTS {catalog.name}.tour")
    session.sql(
        f"CREATE TABLE {catalog.name}.{name} USING iceberg PARTITIONED BY (month) TBLPROPERTIES "
        f"('format-version'='{version}', 'write.delete.mode'='{mode}', 'write.merge.mode'='{mode}') "
        "AS SELECT * FROM flights"
    )


def _run_mode(table: Table, version: int, mode: str, corrections: pa.Table) -> tuple[str, ...]:
    """Commit the three changes. Return files, bytes and seconds of them, and the delete files and rows afterwards."""
    started = time.perf_counter()
    commits = [
        delete(table, "dep_time is null", mode=mode),
        delete(table, f"tailnum = '{AIRCRAFT}'", mode=mode),
        merge(table, corrections, on=["flight_id"], mode=mode),
    ]
    seconds = time.perf_counter() - started
    # Deletion vectors that share a Puffin file count once.
    files = [f for c in commits for f in (*c.added_data_files, *c.added_delete_files)]
    written = {f.file_path: f.file_size_in_bytes for f in files}
    cost = (f"{len(written):,}", decimal(sum(written.values())), f"{seconds:.2f}")
    left = (f"{len(inspect(table, deletes=True)['deletes']):,}", f"{scan(table).count():,}")
    return (f"v{version}", mode, *cost, *left)


def _corrections(flights: pa.Table) -> pa.Table:
    """Return new arrival delays for some flights that flew, and two flights that were missing."""
    flew = flights.filter(
        pc.and_kleene(pc.is_valid(flights["dep_time"]), pc.not_equal(pc.fill_null(flights["tailnum"], ""), AIRCRAFT))
    )
    every = max(len(flew) // CORRECTIONS, 1)
    chosen = flew.take(pa.array(range(0, every * CORRECTIONS, every)))
    delay = pc.add(pc.fill_null(chosen["arr_delay"], 0), pa.scalar(7, pa.int32()))
    corrected = chosen.select(["flight_id", "dep_time", "arr_delay"]).set_column(2, "arr_delay", delay)
    last = pc.max(flights["flight_id"]).as_py()
    new = pa.table(
        {
            "flight_id": pa.array([last + 1, last + 2], pa.int64()),
            "dep_time": pa.array([1200, 1300], pa.int32()),
            "arr_delay": pa.array([0, 5], pa.int32()),
        }
    )
    return pa.concat_tables([corrected.cast(new.schema), new])


def _expected(flights: pa.Table, corrections: pa.Table) -> pa.Table:
    """Return the rows after the same three changes in plain pyarrow, without deletekit's code."""
    kept = flights.filter(pc.is_valid(flights["dep_time"]))
    kept = kept.filter(pc.not_equal(pc.fill_null(kept["tailnum"], ""), AIRCRAFT))
    at = pc.index_in(kept["flight_id"], value_set=corrections["flight_id"].combine_chunks())
    arr_delay = pc.coalesce(corrections["arr_delay"].take(at), kept["arr_delay"])
    kept = kept.set_column(kept.schema.get_field_index("arr_delay"), "arr_delay", arr_delay)
    known = kept["flight_id"].combine_chunks()
    new = corrections.filter(pc.invert(pc.is_in(corrections["flight_id"], value_set=known)))
    plain = pa.schema([pa.field(f.name, f.type) for f in kept.schema])
    columns = [new[f.name] if f.name in new.column_names else pa.nulls(len(new), f.type) for f in plain]
    return pa.concat_tables([kept.cast(plain), pa.table(columns, schema=plain)]).sort_by("flight_id")


def _same(found: pa.Table, expected: pa.Table, what: str) -> None:
    """Raise FormatError if two tables differ in any row. The order of the rows does not matter."""
    rows = found.select(expected.column_names).cast(expected.schema).sort_by("flight_id").combine_chunks()
    if not rows.equals(expected.combine_chunks()):
        raise FormatError(
            f"{what} differs from the expected rows", kind="tour", found=len(found), expected=len(expected)
        )


def _explain_one(table: Table, report: TourReport) -> None:
    found = explain(table, "flight_id = 839", columns=["flight_id", "dep_time", "tailnum"])
    report.proofs += [f"flight 839 in {table.name}: {v.verdict}" for v in found]


def _prove_with_spark(
    session: SparkSession, catalog: Catalog, names: list[str], expected: pa.Table, report: TourReport, step: Step
) -> None:
    for name in names:
        step(f"{name}: read by Spark")
        _same(to_arrow(session.table(f"{catalog.name}.{name}")), expected, f"Spark's read of {name}")
    report.proofs.append(f"Spark with Iceberg's runtime reads exactly those rows from the {len(names)} tables")
    for version, mode in SPARK_MODES:
        name = f"tour.spark_v{version}_{mode.replace('-', '_')}"
        step(f"{name}: written by Spark, read by deletekit")
        _spark_writes(session, catalog, name, version, mode)
        _same(scan(load_table(catalog, name)).to_arrow(), expected, f"deletekit's scan of {name}")
    report.proofs.append(
        f"deletekit reads exactly those rows from {len(SPARK_MODES)} tables that Spark deleted from and merged into"
    )


def _spark_writes(session: SparkSession, catalog: Catalog, name: str, version: int, mode: str) -> None:
    _spark_create(session, catalog, name, version, mode)
    table = f"{catalog.name}.{name}"
    session.sql(f"DELETE FROM {table} WHERE dep_time IS NULL")
    session.sql(f"DELETE FROM {table} WHERE tailnum = '{AIRCRAFT}'")
    session.sql(
        f"MERGE INTO {table} t USING corrections s ON t.flight_id = s.flight_id "
        "WHEN MATCHED THEN UPDATE SET t.arr_delay = s.arr_delay, t.dep_time = s.dep_time "
        "WHEN NOT MATCHED THEN INSERT (flight_id, dep_time, arr_delay) VALUES (s.flight_id, s.dep_time, s.arr_delay)"
    )


@contextmanager
def _progress(console: Console) -> Iterator[Step]:
    """Show a progress bar on a terminal, nothing elsewhere."""
    total = 1 + 3 * len(MODES) + len(SPARK_MODES)
    description = TextColumn("{task.description}", markup=False)
    columns = (SpinnerColumn(), description, BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("", total=total)

        def step(text: str) -> None:
            progress.update(task, advance=1, description=text)

        yield step


def _print(report: TourReport, console: Console) -> None:
    shown = RichTable("", "mode", "files", "bytes", "seconds", "delete files", "live rows")
    shown.title = "Three commits in each mode: what they wrote, and what a reader meets"
    for cells in report.modes:
        shown.add_row(*cells)
    for column in shown.columns[2:]:
        column.justify = "right"
    console.print(shown)
    for proof in report.proofs:
        console.print(Text(f"✓ {proof}"))
    if report.left_out:
        console.print(Text(report.left_out))
    console.print(Text(f"Done in {report.seconds:.0f} s."))
