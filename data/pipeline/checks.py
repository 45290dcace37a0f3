"""Check the table against the raw files: by deletekit, by Spark with Iceberg's reader, if it has one, and by the spec.

The checks trust nothing that the run reported. A check that cannot be made counts as failed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from data.pipeline.done_steps import Progress
from data.pipeline.expected import difference, expected_rows
from data.pipeline.report import CheckReport
from data.pipeline.steps import Work
from deletekit.maintenance.verify import verify
from deletekit.spark.releases import JARS, to_arrow
from deletekit.text import without_secrets
from deletekit.verbs.scan import scan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def check(work: Work, spark_name: str, progress: Progress, steps: Sequence[str]) -> Iterator[CheckReport]:
    """Yield each check as soon as it is made.

    Parameters
    ----------
    spark_name: the table's name in Spark, with its catalog.
    """
    expected = expected_rows(work.delivery)
    right = f"{len(expected):,} rows, as pyarrow computes them from the raw files"

    def by_deletekit() -> str | None:
        return difference(scan(work.table).to_arrow(), expected)

    def by_spark() -> str | None:
        found = work.session.table(spark_name) if JARS else _by_the_data_source(work)
        return difference(to_arrow(found), expected)

    def by_rules() -> str | None:
        errors = verify(work.table, level="data", snapshots="heads").errors
        return "; ".join(map(str, errors[:3])) or None

    def by_history() -> str | None:
        twice = [name for name, snapshots in progress.snapshots.items() if len(snapshots) > 1]
        undone = steps[progress.done :] if progress.snapshots else steps
        return "; ".join([*(f"{n} is there twice" for n in twice), *(f"{n} is not there" for n in undone)]) or None

    yield _made("deletekit's scan", by_deletekit, right)
    yield _made("Spark with Iceberg's reader" if JARS else "Spark with deletekit's reader", by_spark, right)
    yield _made("the specification's rules", by_rules, "no error, every row of the live files read")
    yield _made("the history", by_history, f"no step twice in {len(progress.snapshots)} commits")


def _by_the_data_source(work: Work) -> DataFrame:
    """Return the rows as Spark reads them where Iceberg has no runtime for it."""
    catalog = work.table.catalog
    assert catalog is not None, "the pipeline's table is a catalog's"
    return work.session.read.format("deletekit").option("catalog", catalog.name).load(work.table.name)


def _made(name: str, make: Callable[[], str | None], right: str) -> CheckReport:
    try:
        wrong = make()
    except Exception as e:  # noqa: BLE001  # the report says whatever Spark raises
        wrong = f"not made: {type(e).__name__}: {' '.join(without_secrets(str(e)).split())[:300]}"
    return CheckReport(name=name, ok=wrong is None, found=wrong or right)
