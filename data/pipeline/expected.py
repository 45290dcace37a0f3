"""Compute the rows that the pipeline must end with from the raw files, by pyarrow alone.

This must use none of deletekit's code for tables and none of Spark's, so that an error in either is found.
"""

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from data.pipeline.delivery import NULL, Delivery, RawFile, raw_schema
from data.pipeline.feeds import CANCELLATIONS, CORRECTIONS, PRIVACY_REQUESTS, REVISION


def expected_rows(delivery: Delivery) -> pa.Table:
    """Return the flights after every feed, sorted by `flight_id`."""
    rows = pa.concat_tables(_read(delivery, "flights", file) for file in delivery.flights)
    cancelled = pa.array([], pa.int64())
    erased = pa.array([], pa.string())
    for day in delivery.days:
        feeds = delivery.feeds[day]
        corrections = _read(delivery, CORRECTIONS, feeds[CORRECTIONS])
        newest = corrections.group_by("flight_id").aggregate([(REVISION, "max")])
        holds = corrections.join(
            newest.rename_columns(["flight_id", REVISION]), keys=["flight_id", REVISION], join_type="left semi"
        ).drop_columns([REVISION])
        holds = _without(_without(holds, "flight_id", cancelled), "tailnum", erased)
        rows = pa.concat_tables([_without(rows, "flight_id", holds["flight_id"]), holds.select(rows.column_names)])
        today = _read(delivery, CANCELLATIONS, feeds[CANCELLATIONS])["flight_id"]
        requests = _read(delivery, PRIVACY_REQUESTS, feeds[PRIVACY_REQUESTS])["tailnum"]
        cancelled = pa.chunked_array([cancelled, *today.chunks], pa.int64()).combine_chunks()
        erased = pa.chunked_array([erased, *requests.chunks], pa.string()).combine_chunks()
        rows = _without(_without(rows, "flight_id", cancelled), "tailnum", erased)
    return rows.sort_by("flight_id").combine_chunks()


def difference(found: pa.Table, expected: pa.Table) -> str | None:
    """Say how rows, in any order, differ from those expected. Return None if they are equal."""
    missing = set(expected.column_names) ^ set(found.column_names)
    if missing:
        return f"columns {', '.join(sorted(missing))}"
    rows = found.select(expected.column_names).cast(expected.schema).sort_by("flight_id").combine_chunks()
    if len(rows) != len(expected):
        return f"{len(rows):,} rows instead of {len(expected):,}"
    for name in expected.column_names:
        if not rows[name].equals(expected[name]):
            return f"column {name} has other values"
    return None


def _without(rows: pa.Table, column: str, gone: pa.Array | pa.ChunkedArray) -> pa.Table:
    return rows.filter(pc.invert(pc.is_in(rows[column], value_set=gone)))


def _read(delivery: Delivery, feed: str, file: RawFile) -> pa.Table:
    schema = raw_schema(delivery, feed)
    if file.path.endswith(".parquet"):
        return pq.read_table(delivery.path(file), partitioning=None).cast(schema)
    return pyarrow.csv.read_csv(
        delivery.path(file),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types={f.name: f.type for f in schema},
            null_values=[NULL],
            strings_can_be_null=True,
        ),
    ).select(schema.names)
