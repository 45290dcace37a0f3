"""Part `rows`: append of a stream and its peak memory; an upsert, beside pyiceberg's for a key."""

# ruff: noqa: PLC0415  # imported in the worker alone

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

from tests.benchmarks.measure import Stopped, Worker
from tests.benchmarks.readers import Facts
from tests.benchmarks.report import megabytes, ms, table_of, verdict
from tests.benchmarks.settings import Settings

__all__ = ["open_rows", "run"]

ROW_GROUPS = 4.0
"""What "a few row groups" is taken to mean."""
TIMES_FASTER = 20
BATCH_ROWS = 100_000
FILE_ROWS = 1_000_000
PARTITIONS = 40
SECONDS = 1800
ABOUT = (
    "Rows are made batch by batch, of random numbers and letters. Each line is measured in a process of its own; the "
    "peak is what it held more than after its imports. Half of an upsert's keys are in the table. pyiceberg's upsert "
    "takes far longer for a key when there are more, so it gets fewer keys and a smaller table."
)


def run(settings: Settings) -> str:
    """Both tables of the part."""
    settings.work.mkdir(parents=True, exist_ok=True)
    return "\n\n".join([ABOUT, appends(settings), upserts(settings)])


def appends(settings: Settings) -> str:
    """Append of so many bytes from a reader, to one partition and to many."""
    lines = []
    for by in ("", "part"):
        with tempfile.TemporaryDirectory(dir=settings.work) as folder:
            took, facts, peak = _once("append", folder, bytes=int(settings.gigabytes * 1e9), by=by)
        ratio = peak / facts["row_group"] if peak is not None else None
        what = f"{megabytes(facts['bytes'])} to {PARTITIONS if by else 1} partitions"
        sizes = [f"{facts['rows']:,}", megabytes(facts["on_disk"]), f"{facts['files']:,}", ms(took), megabytes(peak)]
        judged = ["" if ratio is None else f"**{ratio:.2f}**", f"{ROW_GROUPS:.0f}", verdict(ratio, ROW_GROUPS)]
        lines.append([what, *sizes, megabytes(facts["row_group"]), *judged])
        settings.say(f"append {lines[-1]}")
    return table_of(
        ["append from a reader", "rows", "on disk", "files", "took", "peak", "row group", "ratio", "target", ""], lines
    )


def upserts(settings: Settings) -> str:
    """Upsert from a reader in two modes, and pyiceberg's, which is copy-on-write."""
    rows = settings.rows // 2
    sizes = {"copy-on-write": (rows, rows // 10), "merge-on-read": (rows, rows // 10)}
    sizes["pyiceberg"] = (max(rows // 10, 10), max(rows // 1000, 1))
    lines, by_key = [], {}
    for how, (there, keys) in reversed(sizes.items()):
        with tempfile.TemporaryDirectory(dir=settings.work) as folder:
            _once("build", folder, rows=there)
            try:
                took, _, peak = _once("upsert", folder, how=how, rows=there, keys=keys)
            except Stopped as stopped:
                lines.append([how, f"{keys:,}", f"{there:,}", f"{stopped}: {stopped.why}", *[""] * 5])
                continue
        by_key[how] = took / keys
        faster = by_key["pyiceberg"] / by_key[how] if how != "pyiceberg" and "pyiceberg" in by_key else None
        met = "met" if faster is not None and faster >= TIMES_FASTER else "MISSED"
        judged = ["", "", ""] if faster is None else [f"**{faster:.0f}**", str(TIMES_FASTER), met]
        each = f"{by_key[how] * 1e6:,.2f} µs"
        lines.append([how, f"{keys:,}", f"{there:,}", ms(took), each, megabytes(peak), *judged])
        settings.say(f"upsert {lines[-1]}")
    return table_of(["upsert", "keys", "into rows", "took", "a key", "peak", "times as fast", "target", ""], lines)


def _once(part: str, folder: str, **job: Any) -> tuple[float, Facts, int | None]:
    worker = Worker("tests.benchmarks.rows:open_rows", part, folder, seconds=SECONDS)
    try:
        return worker.run_with_memory(job)
    finally:
        worker.stop()


def open_rows(part: str, folder: str) -> Callable[[dict[str, Any]], Facts]:
    """In the worker: one part, on the catalog of a folder."""
    import pyiceberg.table.upsert_util

    import deletekit as dk

    _ = pyiceberg, dk.append, dk.upsert, dk.scan  # imported when first named
    made: dict[str, Callable[..., Facts]] = {"append": _append, "build": _build, "upsert": _upsert}
    return lambda job: made[part](dk.local_catalog(folder), **job)


def _append(catalog: Any, bytes: int, by: str) -> Facts:  # noqa: A002  # of which there are so many
    import pyarrow as pa

    import deletekit as dk
    from deletekit.table.properties import value_of

    first = next(_batches(0, BATCH_ROWS))
    count = max(1, round(bytes / first.nbytes)) * BATCH_ROWS
    table = dk.create_table(catalog, "b.t", first.schema, partition_by=[by] if by else [])
    begin = time.perf_counter()
    files = dk.append(table, pa.RecordBatchReader.from_batches(first.schema, _batches(0, count))).added_data_files
    seconds = time.perf_counter() - begin
    assert sum(f.record_count for f in files) == dk.scan(table).count() == count
    return {
        "seconds": seconds,
        "rows": count,
        "bytes": count // BATCH_ROWS * first.nbytes,
        "on_disk": sum(f.file_size_in_bytes for f in files),
        "files": len(files),
        "row_group": value_of(table.properties, "write.parquet.row-group-size-bytes"),
    }


def _build(catalog: Any, rows: int) -> Facts:
    import deletekit as dk

    table = dk.create_table(catalog, "b.t", next(_batches(0, rows)).schema, format_version=2)
    for start in range(0, rows, FILE_ROWS):
        dk.append(table, _batches(start, min(start + FILE_ROWS, rows)))
    return {}


def _upsert(catalog: Any, how: str, rows: int, keys: int) -> Facts:
    import pyarrow as pa

    import deletekit as dk

    first = rows - keys // 2
    schema, changes = next(_batches(0, 1)).schema, _batches(first, first + keys)
    table = dk.load_table(catalog, "b.t")
    begin = time.perf_counter()
    if how == "pyiceberg":
        peer = catalog.pyiceberg.load_table("b.t")
        peer.upsert(pa.Table.from_batches(changes).cast(peer.schema().as_arrow()), join_cols=["id"])
    else:
        dk.upsert(table, pa.RecordBatchReader.from_batches(schema, changes), key="id", mode=how)
    seconds = time.perf_counter() - begin
    assert dk.scan(table.refresh()).count() == first + keys
    return {"seconds": seconds}


def _batches(first: int, stop: int) -> Iterator[Any]:
    """Yield rows that hardly compress, with ids from `first` to before `stop`."""
    import numpy as np
    import pyarrow as pa

    random = np.random.default_rng(first)
    for start in range(first, stop, BATCH_ROWS):
        rows = min(BATCH_ROWS, stop - start)
        offsets, letters = np.arange(rows + 1, dtype=np.int32) * 16, random.integers(33, 127, rows * 16, dtype=np.uint8)
        columns = {
            "id": np.arange(start, start + rows),
            "part": random.integers(0, PARTITIONS, rows, dtype=np.int32),
            **{name: random.random(rows) for name in ("a", "b", "c")},
            "name": pa.StringArray.from_buffers(rows, pa.py_buffer(offsets), pa.py_buffer(letters)),
        }
        yield pa.record_batch({name: pa.array(column) for name, column in columns.items()})
