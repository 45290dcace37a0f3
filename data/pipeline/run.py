"""Run the pipeline: deliver raw files, run the steps that are not done, check, report.

A run may end anywhere, even by `kill -9`. The next run continues after the last committed step. Files that a dead run
wrote and did not commit are not part of the table; `remove_orphan_files` removes them when they are old enough.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from data.pipeline.checks import check
from data.pipeline.delivery import Delivery, deliver, only_run_in
from data.pipeline.done_steps import DELIVERY, progress_of, properties_of
from data.pipeline.report import CheckReport, PipelineReport, Status, StepReport, step_report, write_report
from data.pipeline.steps import Step, Work, steps_of
from deletekit import datasets
from deletekit.errors import InvalidInputError, NotFoundError
from deletekit.spark.sessions import running_session
from deletekit.spark.sessions import session as spark_session
from deletekit.table.catalog import Catalog
from deletekit.table.open_catalog import load_catalog, local_catalog
from deletekit.table.table import Table, load_table
from deletekit.verbs.append import create_table
from deletekit.verbs.scan import scan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFAULT_TABLE = "pipeline.flights"
PARTITION_BY = ("month(time_hour)",)
FORMAT_VERSIONS = (2, 3)
DEFAULT_MASTER = "local[2]"
_SUBMITTED = "PYSPARK_GATEWAY_PORT"

Say = Callable[[str], None]


def run_pipeline(
    directory: Path,
    open_session: Callable[[], tuple[SparkSession, Catalog]],
    *,
    table: str = DEFAULT_TABLE,
    days: int = 7,
    format_version: int = 3,
    flights: pa.Table | None = None,
    say: Say = lambda text: None,  # noqa: ARG005  # says nothing
) -> PipelineReport:
    """Load raw flights into a table, apply daily corrections, cancellations and erasures, compact, and check.

    Parameters
    ----------
    directory: where the raw files and the reports are; on a cluster, a folder that its machines share. Empty, new, or
        of an earlier run.
    open_session: returns the Spark session, which has the catalog under the catalog's own name, and the catalog. It is
        called after the directory was checked.
    table: namespace and name; created if missing.
    days: of daily feeds, 1 to 30.
    format_version: 2 (position deletes) or 3 (deletion vectors).
    flights: the source system's data; default all of `datasets.flights()`. Only read if there is no delivery yet.
    say: called with a text for each step.

    A step that an earlier run committed is not done again. Raises InvalidInputError, before anything is written, for a
    directory or table of something else, or if they have another number of days or another format version; FormatError
    for raw files that changed since their delivery.
    """
    started = time.perf_counter()
    if format_version not in FORMAT_VERSIONS:
        message = "the pipeline's deletes need format version 2 or 3"
        raise InvalidInputError(message, kind="format-version", field="format_version", found=format_version)
    root = directory.absolute()
    with only_run_in(root):
        say("delivering and checking the raw files")
        delivery = deliver(root, days, datasets.flights() if flights is None else flights)
        session, catalog = open_session()
        from deletekit.spark.engine import SparkEngine  # noqa: PLC0415  # now pyspark is there

        work = Work(session=session, table=_open_table(catalog, table, delivery, format_version), delivery=delivery)
        with SparkEngine(session):
            steps = list(steps_of(delivery))
            names = [step.name for step in steps]
            done = _run_steps(work, steps, names, say)
            checks = _run_checks(work, f"{catalog.name}.{table}", names, say)
            live_rows = scan(work.table).count()
        report = PipelineReport(
            directory=str(root),
            table=table,
            master=str(session.sparkContext.master),
            format_version=format_version,
            days=days,
            delivery=delivery.identity,
            steps=tuple(done),
            checks=checks,
            live_rows=live_rows,
            seconds=round(time.perf_counter() - started, 3),
        )
        write_report(report, root)
    return report


@contextmanager
def session_opener(
    directory: Path,
    *,
    master: str | None = None,
    catalog_name: str | None = None,
    properties: Mapping[str, str] | None = None,
    settings: Mapping[str, str] | None = None,
) -> Iterator[Callable[[], tuple[SparkSession, Catalog]]]:
    """Give a function that opens a pipeline's session and catalog; both are closed at the end.

    Under `spark-submit` the session is the submitted one, with its master, memory and jars. Otherwise it is deletekit's
    own, which ends with the pipeline.

    Parameters
    ----------
    directory: the pipeline's; the embedded catalog is below it.
    master: Spark's master; default `local[2]`, or what was given to `spark-submit`.
    catalog_name, properties: a pyiceberg catalog instead of the embedded one, as `load_catalog` takes it.
    settings: further Spark properties.

    Raises InvalidInputError for a master beside that of `spark-submit`.
    """
    submitted, given = _SUBMITTED in os.environ, dict(properties or {})
    if submitted and master is not None:
        raise InvalidInputError("spark-submit has its own master", kind="spark-master", field="master", found=master)
    with ExitStack() as stack:

        def open_session() -> tuple[SparkSession, Catalog]:
            if catalog_name is None:
                warehouse = directory.absolute() / "warehouse"
                catalog = local_catalog(warehouse)
                place: dict[str, Any] = {"warehouse": warehouse}
            else:
                catalog = load_catalog(catalog_name, **given)
                # Without properties it is a catalog of pyiceberg's configuration file.
                place = {"catalog": given or dict(catalog.pyiceberg.properties), "catalog_name": catalog_name}
            stack.callback(catalog.pyiceberg.close)
            if submitted:
                from pyspark.sql import SparkSession  # noqa: PLC0415  # pyspark is an extra

                SparkSession.builder.appName("deletekit pipeline").getOrCreate()
            before = running_session()
            session = spark_session(**place, master=master or DEFAULT_MASTER, settings=settings)
            if before is None:
                stack.callback(session.stop)
            return session, catalog

        yield open_session


def _open_table(catalog: Catalog, name: str, delivery: Delivery, format_version: int) -> Table:
    try:
        table = load_table(catalog, name)
    except NotFoundError as missing:
        if missing.kind != "table-not-found":
            raise
        properties = {DELIVERY: delivery.identity}
        settings: Any = {"format_version": format_version, "partition_by": PARTITION_BY, "properties": properties}
        try:
            return create_table(catalog, name, delivery.schema, **settings)
        except InvalidInputError as e:
            if e.kind != "table-exists":
                raise
            table = load_table(catalog, name)  # another driver was first
    progress_of(table, delivery.identity, [step.name for step in steps_of(delivery)])
    if table.format_version != format_version:
        raise InvalidInputError(
            "the table has another format version",
            kind="format-version",
            field="format_version",
            found=format_version,
            expected=table.format_version,
        )
    return table


def _run_steps(work: Work, steps: Sequence[Step], names: Sequence[str], say: Say) -> list[StepReport]:
    """Run the steps that are not done. Reload the table before each step, as another driver may work on it."""
    reports = []
    for number, step in enumerate(steps):
        progress = progress_of(work.table, work.delivery.identity, names)
        if number < progress.done:
            # Without a snapshot it committed nothing, or its snapshot has expired.
            newest = progress.snapshots.get(step.name, (None,))[-1]
            reports.append(step_report(step.name, step.rows_in, "done before", newest))
            continue
        say(step.name)
        begin = time.perf_counter()
        commit = step.run(work, properties_of(work.delivery.identity, step.name, step.rows_in))
        seconds = round(time.perf_counter() - begin, 3)
        status: Status = "done" if commit.snapshot_id is not None else "nothing to do"
        reports.append(step_report(step.name, step.rows_in, status, commit, seconds))
    return reports


def _run_checks(work: Work, spark_name: str, names: Sequence[str], say: Say) -> tuple[CheckReport, ...]:
    checks = []
    for made in check(work, spark_name, progress_of(work.table, work.delivery.identity, names), names):
        say(f"checked {made.name}")
        checks.append(made)
    return tuple(checks)
