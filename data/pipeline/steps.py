"""The steps that change the table, in order: each is a function of the table and the delivery that commits once.

A step may run again on a table where it was not committed. It does not know whether it was done; `done_steps` does. A
raw file that does not match its schema fails the job: no type is guessed, and no bad row is dropped.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import TYPE_CHECKING, Any

from data.pipeline.delivery import NULL, Delivery, RawFile, raw_schema
from data.pipeline.feeds import CANCELLATIONS, CORRECTIONS, PRIVACY_REQUESTS, REVISION
from deletekit.commit.swap import Commit
from deletekit.maintenance.compact import compact
from deletekit.maintenance.remove_dangling_deletes import remove_dangling_deletes
from deletekit.table.table import Table
from deletekit.verbs.delete import delete_keys
from deletekit.verbs.merge import merge

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

KEY = "flight_id"
AIRCRAFT = "tailnum"
_CSV = {
    "header": "true",
    # Compare the header with the schema; otherwise Spark ignores the header.
    "enforceSchema": "false",
    "mode": "FAILFAST",
    "nullValue": NULL,
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ssX",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """The session, table and delivery that a step works with."""

    session: SparkSession
    table: Table
    delivery: Delivery


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A step.

    Attributes
    ----------
    name: unique among the pipeline's steps; it goes into the snapshot summary.
    rows_in: rows of its raw files.
    run: commits with these extra entries of the snapshot summary; without a snapshot when nothing had to change.
    """

    name: str
    rows_in: int
    run: Callable[[Work, Mapping[str, str]], Commit]


def steps_of(delivery: Delivery) -> Iterator[Step]:
    """Yield the load, then the feeds of each day, then maintenance."""
    yield Step(name="load", rows_in=sum(f.rows for f in delivery.flights), run=_load)
    daily = {CORRECTIONS: _correct, CANCELLATIONS: _cancel, PRIVACY_REQUESTS: _erase}
    for day in delivery.days:
        for feed, run in daily.items():
            yield Step(name=f"{day} {feed}", rows_in=delivery.feeds[day][feed].rows, run=partial(run, day))
    yield Step(name="compact", rows_in=0, run=_compact)
    yield Step(name="remove dangling deletes", rows_in=0, run=_remove_dangling_deletes)


def _load(work: Work, properties: Mapping[str, str]) -> Commit:
    """Insert by key instead of appending: if two drivers see an empty table, the second one finds its rows there."""
    rows = _read_raw(work, "flights", work.delivery.flights)
    return merge(work.table, rows, on=[KEY], when_matched=None, commit_properties=properties)


def _correct(day: str, work: Work, properties: Mapping[str, str]) -> Commit:
    """MERGE the newest correction of each flight, except flights that were cancelled or erased before."""
    rows = _newest(_feed(work, CORRECTIONS, [day]))
    before = [d for d in work.delivery.days if d < day]
    if before:
        rows = rows.join(_feed(work, CANCELLATIONS, before), KEY, "left_anti")
        rows = rows.join(_feed(work, PRIVACY_REQUESTS, before), AIRCRAFT, "left_anti")
    return merge(work.table, rows, on=[KEY], mode="merge-on-read", commit_properties=properties)


def _cancel(day: str, work: Work, properties: Mapping[str, str]) -> Commit:
    """Delete the cancelled flights by deletion vectors (position deletes in v2)."""
    rows = _feed(work, CANCELLATIONS, [day]).dropDuplicates()
    only_deletes: Any = {"when_matched": "delete", "when_not_matched": None, "mode": "merge-on-read"}
    return merge(work.table, rows, on=[KEY], commit_properties=properties, **only_deletes)


def _erase(day: str, work: Work, properties: Mapping[str, str]) -> Commit:
    """Delete every row of an aircraft, in any partition, by an equality delete: no data file is read."""
    keys = _feed(work, PRIVACY_REQUESTS, [day]).dropDuplicates()
    return delete_keys(work.table, keys, on=[AIRCRAFT], scope="global", commit_properties=properties)


def _compact(work: Work, properties: Mapping[str, str]) -> Commit:
    """Rewrite the data files that have deletes, so that no live file holds deleted rows."""
    done = compact(work.table, delete_file_threshold=1, commit_properties=properties)
    return done.commits[0] if done.commits else Commit()


def _remove_dangling_deletes(work: Work, properties: Mapping[str, str]) -> Commit:
    return remove_dangling_deletes(work.table, commit_properties=properties).commit or Commit()


def _feed(work: Work, feed: str, days: list[str]) -> DataFrame:
    return _read_raw(work, feed, [work.delivery.feeds[day][feed] for day in days])


def _read_raw(work: Work, feed: str, files: Sequence[RawFile]) -> DataFrame:
    """Return files of one feed, or of `flights`, as one DataFrame."""
    from pyspark.sql.pandas.types import from_arrow_schema  # noqa: PLC0415  # pyspark is an extra

    schema = from_arrow_schema(raw_schema(work.delivery, feed))
    by_kind: dict[str, list[str]] = {}
    for file in files:
        # As Spark reads it: on the local file system, and not as a pattern.
        location = "file://" + re.sub(r"([\[\]{}*?\\])", r"\\\1", work.delivery.path(file))
        by_kind.setdefault(file.path.rpartition(".")[2], []).append(location)
    frames = [
        work.session.read.format(kind).options(**(_CSV if kind == "csv" else {})).schema(schema).load(paths)
        for kind, paths in by_kind.items()
    ]
    return reduce(lambda one, other: one.unionByName(other), frames)


def _newest(corrections: DataFrame) -> DataFrame:
    from pyspark.sql import Window  # noqa: PLC0415  # pyspark is an extra
    from pyspark.sql import functions as f  # noqa: PLC0415

    order = Window.partitionBy(KEY).orderBy(f.col(REVISION).desc())
    return corrections.withColumn("_rank", f.row_number().over(order)).where("_rank = 1").drop("_rank", REVISION)
