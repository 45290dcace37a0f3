"""Tell of each batch: a line of the logger `deletekit`, and metrics if OpenTelemetry's API is installed.

Metrics: counters `deletekit.stream.batches`, `deletekit.stream.rows` and `deletekit.stream.dead_letters`, a histogram
`deletekit.stream.duration` in milliseconds, and a gauge `deletekit.stream.lag` in milliseconds, which has a value only
if the order column is a time. Each has the attributes of the table and the sink; batches also have their status.
"""

from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from importlib import import_module
from typing import Any

from deletekit.log import tell
from deletekit.stream.batch_run import BatchProgress


def report(table: str, ref: str, progress: BatchProgress) -> None:
    """Tell of a batch that was written or skipped."""
    tell(
        "batch",
        table=table,
        ref=ref,
        sink=progress.sink_id,
        query=progress.query_id or None,
        batch=progress.batch_id,
        status=progress.status,
        file=progress.file,
        rows=progress.rows,
        hits=progress.hits,
        misses=progress.misses,
        dead_letters=progress.dead_letters or None,
        duration_ms=progress.duration_ms,
        lag_ms=progress.lag_ms,
    )
    instruments = _instruments()
    if instruments is None:
        return
    named = {"db.collection.name": table, "deletekit.sink": progress.sink_id}
    instruments["batches"].add(1, {**named, "deletekit.status": progress.status})
    if progress.status == "skipped":
        return
    instruments["rows"].add(progress.rows, named)
    instruments["dead_letters"].add(progress.dead_letters, named)
    instruments["duration"].record(progress.duration_ms, named)
    if progress.lag_ms is not None:
        instruments["lag"].set(progress.lag_ms, named)


@cache
def _instruments() -> Mapping[str, Any] | None:
    """Return OpenTelemetry's instruments; None if its API is not installed."""
    with suppress(ImportError):
        meter = import_module("opentelemetry.metrics").get_meter("deletekit")
        return {
            "batches": meter.create_counter("deletekit.stream.batches", description="Batches of sinks"),
            "rows": meter.create_counter("deletekit.stream.rows", description="Change rows"),
            "dead_letters": meter.create_counter("deletekit.stream.dead_letters", description="Rows that do not fit"),
            "duration": meter.create_histogram("deletekit.stream.duration", "ms", "How long a batch took"),
            "lag": meter.create_gauge("deletekit.stream.lag", "ms", "From the newest change in a batch to now"),
        }
    return None
